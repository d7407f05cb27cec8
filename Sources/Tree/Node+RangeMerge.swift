import PandoBytes

// Which parts of a node a client lacks, and those parts cut out (realtime §9.7).
//
// A client applies an entry by clearing the leaves of its range and grafting the entry's own. Three things
// about priorities make a range that differs too little to send alone; all are rare, and all are answered by
// sending neighbours along, or several ranges as one entry:
//
//  * `{".priority": p}` without a child reads back as nothing, so a priority travels with a child of its
//    object.
//  * An object that loses its last child on the way loses its priority, so unless one of its leaves stays
//    where it is, all of it travels in one entry.
//  * A hidden priority is in no hash, so it travels whenever anything does, and with the last child before
//    it.

extension Node {
    /// What a client whose cache has this compound hash must be sent to hold this node.
    ///
    /// - Parameter claim: The client's, relative to this node; anything that was on the wire.
    /// - Returns: Entries in range order, each with start before end; none when no range differs; nil when
    ///   the claim is unusable, and the whole node is the only answer. A caller that knows the simple hashes
    ///   to differ must answer *none* with the whole node too: a hidden priority is in no range's hash.
    /// - Complexity: O(size + claim), and the entries share the node's pages.
    package func rangeMerges(against claim: CompoundHash) -> [RangeMerge]? {
        guard claim.isUsable else { return nil }
        let hasher = RangeHasher(self, against: claim)
        guard hasher.differs.contains(true) else { return [] }
        var plan = RangePlan(hasher)
        plan.complete()
        return plan.entries.map { ranges in
            let start = ranges.lowerBound > 0 ? self.start(behind: claim.paths[ranges.lowerBound - 1]) : nil
            let end = ranges.upperBound < claim.paths.count ? claim.paths[ranges.upperBound] : nil
            return RangeMerge(
                start: start, end: end, node: leaves(after: start?.keys[...], through: end?.keys[...]))
        }
    }

    /// Where a range begins that follows a cut. Behind a leaf with a priority that is behind the priority as
    /// well: clients would take it for a child of the leaf, inside the range, and clear it.
    private func start(behind cut: Path) -> Path {
        let node = self[cut]
        return node.isLeaf && node.priority != nil ? cut.appending(.priority) : cut
    }

    /// Exactly the leaves in a range, sharing every page that lies wholly inside.
    /// - Parameters:
    ///   - start: Exclusive, relative to this node; nil when all of this node is after it.
    ///   - end: Inclusive; nil when all of this node is before it.
    /// - Complexity: O(depth × log n + children of the nodes on the way to either end that are inside).
    func leaves(after start: ArraySlice<Key>?, through end: ArraySlice<Key>?) -> Node {
        if start == nil, end == nil { return self }
        guard case .object(let children) = withoutPriority else { return start == nil ? self : .empty }
        // What lies below the end is after it.
        if let end, end.isEmpty { return .empty }
        var inside: [Children.Entry] = []
        let (first, last) = (start?.first, end?.first)
        children.forEach(from: first) { key, child in
            if let last, Key.compare(key, last) > 0 { return false }
            let child = child.leaves(
                after: key == first ? start?.dropFirst() : nil, through: key == last ? end?.dropFirst() : nil)
            if !child.isEmpty { inside.append(Children.Entry(key: key, node: child)) }
            return true
        }
        let startsBefore = first.map { Key.compare($0, .priority) < 0 } ?? true
        let endsAfter = last.map { Key.compare(.priority, $0) <= 0 } ?? true
        return Node.children(Children(ascending: inside)).with(
            priority: startsBefore && endsAfter ? priority : nil)
    }
}

/// The ranges to send, and which of them as one entry.
private struct RangePlan {
    private var isSent: [Bool]
    /// True when a range goes in one entry with the range before it.
    private var isJoined: [Bool]
    private let hasher: RangeHasher

    init(_ hasher: RangeHasher) {
        self.hasher = hasher
        isSent = hasher.differs
        isJoined = Array(repeating: false, count: isSent.count)
    }

    /// The entries: closed ranges of ranges.
    var entries: [ClosedRange<Int>] {
        var entries: [ClosedRange<Int>] = []
        for range in isSent.indices where isSent[range] {
            if isJoined[range], let last = entries.last {
                entries[entries.count - 1] = last.lowerBound...range
            } else {
                entries.append(range...range)
            }
        }
        return entries
    }

    private mutating func join(_ ranges: ClosedRange<Int>) {
        for range in ranges {
            isSent[range] = true
            if range > ranges.lowerBound { isJoined[range] = true }
        }
    }

    /// Adds what cannot be left out. Each step only adds, and the later ones look at what the earlier added.
    mutating func complete() {
        for ranges in hasher.coveredLeaves { join(ranges.lowerBound...(ranges.upperBound - 1)) }
        for object in hasher.objects where object.isHidden {
            join(object.lastLeaf...max(object.lastLeaf, object.position))
        }
        // In the order of their places: what one adds lies ahead of it.
        for object in hasher.objects where !object.isHidden && isSent[object.position] {
            guard object.leafBefore != object.position, let after = object.leafAfter else { continue }
            join(object.position...after)
        }
        // From the last one on: what one adds may be where the leaves of an earlier one stay.
        var anchors = Anchors(isSent.indices.map { !isSent[$0] && hasher.hasLeaf[$0] })
        for object in hasher.objects.sorted(by: { $0.firstLeaf > $1.firstLeaf })
        where !anchors.hasAny(in: object.firstLeaf...object.lastLeaf) {
            let ranges = min(object.firstLeaf, object.position)...max(object.lastLeaf, object.position)
            join(ranges)
            for range in ranges { anchors.remove(range) }
        }
    }
}

/// The ranges with a leaf that stays where it is. Removing and asking cost O(1) for practical purposes.
private struct Anchors {
    /// For each range a later one, up to the first that is an anchor, which names itself; one more for
    /// "none".
    private var next: [Int]

    init(_ isAnchor: [Bool]) {
        next = isAnchor.enumerated().map { $1 ? $0 : $0 + 1 } + [isAnchor.count]
    }

    mutating func hasAny(in ranges: ClosedRange<Int>) -> Bool {
        var range = ranges.lowerBound
        while next[range] != range {
            // Halves the way for whoever comes next.
            next[range] = next[next[range]]
            range = next[range]
        }
        return range <= ranges.upperBound
    }

    mutating func remove(_ range: Int) {
        if next[range] == range { next[range] = range + 1 }
    }
}
