import PandoTree

/// Locations of a tree that a decision depends on, as a tree of their keys:
///
///     read        users/ann: whether it exists     config/open: all          users has too many: all of it
///     tree        ─┬─ users ─── ann (existence)
///                  └─ config ── open (all)
///
/// While they are the same in a later snapshot, the decision is the same. There is a limit of locations.
/// Beyond it, parents are noted instead of the locations below them: those with the most first.
package struct ReadLocations: Sendable {
    /// What of a location was read.
    package enum Part: UInt8, Comparable, Sendable {
        /// Nothing but what was read of locations below it.
        case nothing
        /// Whether there is data.
        case existence
        case all

        package static func < (left: Part, right: Part) -> Bool { left.rawValue < right.rawValue }
    }

    private var root = Place()
    /// Places below the root.
    private var placeCount = 0
    private let limit: Int

    /// Places below the root, if no other limit is given: some 20 MB.
    package static let standardLimit = 1 << 18
    /// Children and locations that a comparison visits at most: a few milliseconds.
    package static let visitLimit = 4096

    /// None.
    package init(limit: Int = standardLimit) { self.limit = limit }

    /// Locations and parents of them that are noted, without the root.
    package var count: Int { placeCount }

    /// Notes a location. O(depth), mostly.
    package mutating func insert(_ keys: ArraySlice<Key>, _ part: Part = .all) {
        placeCount += root.insert(keys, part)
        if placeCount > limit { collapse() }
    }

    /// Notes the locations of another decision, too. O(their number).
    package mutating func formUnion(_ other: ReadLocations) {
        placeCount += root.formUnion(other.root)
        if placeCount > limit { collapse() }
    }

    /// What is noted of a location, or of one that it is in; nil where the location is above no noted one
    /// either.
    func part(of keys: ArraySlice<Key>) -> Part? { root.part(of: keys) }

    /// Whether all of it is the same in two snapshots. Where there is too much to compare: false.
    /// - Parameter visitLimit: Children and locations that are visited at most.
    /// - Complexity: O(children that differ × log n), bounded, however many locations there are.
    package func areUnchanged(
        from before: Node, to now: Node, visitingAtMost visitLimit: Int = visitLimit
    ) -> Bool {
        var left = visitLimit
        return root.isUnchanged(before, now, &left)
    }

    /// Notes parents until at most half of the places are left, so that this is seldom done.
    private mutating func collapse() {
        var width = limit / 8
        while placeCount > limit / 2, width > 0 {
            placeCount = root.collapseBelow(moreThan: width)
            width /= 4
        }
        if placeCount > limit / 2 { placeCount = root.collapseBelow(moreThan: 0) }
        if placeCount > limit / 2 { placeCount += root.insert([], .all) }
        assert(placeCount <= limit / 2)
    }

    /// A location, and those below it.
    private struct Place {
        var part = Part.nothing
        /// None where ``part`` is ``Part/all``.
        var below: [Key: Place] = [:]

        /// As many locations are compared one by one. Of more only those are that have changed.
        static let fewCount = 64

        /// - Returns: Places that are new, less those that are no longer needed.
        mutating func insert(_ keys: ArraySlice<Key>, _ new: Part) -> Int {
            if part == .all { return 0 }
            guard let key = keys.first else {
                part = max(part, new)
                return part == .all ? -removeBelow() : 0
            }
            let known = below.count
            let added = below[key, default: Place()].insert(keys.dropFirst(), new)
            return added + below.count - known
        }

        /// - Returns: Places that are new, less those that are no longer needed.
        mutating func formUnion(_ other: Place) -> Int {
            if part == .all { return 0 }
            part = max(part, other.part)
            if part == .all { return -removeBelow() }
            var added = 0
            for (key, place) in other.below {
                let known = below.count
                added += below[key, default: Place()].formUnion(place) + below.count - known
            }
            return added
        }

        private mutating func removeBelow() -> Int {
            let count = countBelow
            below = [:]
            return count
        }

        private var countBelow: Int { below.values.reduce(below.count) { $0 + $1.countBelow } }

        func part(of keys: ArraySlice<Key>) -> Part? {
            guard part != .all, let key = keys.first else { return part }
            return below[key]?.part(of: keys.dropFirst())
        }

        /// Notes the places below this one that have more than `width` directly below them, as a whole.
        /// - Returns: Places below this one that are left.
        mutating func collapseBelow(moreThan width: Int) -> Int {
            var count = below.count
            var index = below.startIndex
            while index < below.endIndex {
                count += below.values[index].collapse(moreThan: width)
                below.formIndex(after: &index)
            }
            return count
        }

        private mutating func collapse(moreThan width: Int) -> Int {
            if below.isEmpty { return 0 }
            let count = collapseBelow(moreThan: width)
            guard below.count > width else { return count }
            part = .all
            below = [:]
            return 0
        }

        func isUnchanged(_ old: Node, _ new: Node, _ left: inout Int) -> Bool {
            if old.isSameSnapshot(as: new) { return true }
            switch part {
            case .all: return old.isLeaf && old == new
            case .existence where old.isEmpty != new.isEmpty: return false
            case .existence, .nothing: break
            }
            if below.count <= Self.fewCount {
                left -= below.count
                guard left >= 0 else { return false }
                return below.allSatisfy { key, place in place.isUnchanged(old[key], new[key], &left) }
            }
            guard let differences = new.children.differences(from: old.children, atMost: left) else {
                return false
            }
            left -= differences.count
            guard left >= 0 else { return false }
            return differences.allSatisfy { difference in
                below[difference.key]?.isUnchanged(difference.old, difference.new, &left) ?? true
            }
        }
    }
}
