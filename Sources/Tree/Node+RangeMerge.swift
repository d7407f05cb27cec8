import PandoBytes

// The parts of a node that a client's cache does not have (realtime §9.7).
//
// A client applies an entry by removing the leaves of its range and inserting those of the entry. In some
// cases priorities make it wrong to send only the range that differs; then its neighbours are sent, too, or
// several ranges as one entry:
//
//  * `{".priority": p}` without a child is read as nothing, so a priority is sent together with a child of
//    its object.
//  * An object that loses its last child while entries are applied loses its priority, too. So unless one of
//    its leaves is not sent, all of it is sent in one entry.
//  * A hidden priority (RangeHasher.swift) is in no hash, so it is sent whenever anything is, together with
//    the last child before it.
//  * A hidden priority that the client has and this node has not is in no hash either. So wherever the
//    client may have one, it is removed: by an entry without leaves, which reaches from the last leaf of the
//    object to its priority, or with its range, where a range has many such places.
//
// The last case is the usual one: an object whose keys are all push ids or integers has such a place, and
// most lists have no other. It is cheap where ranges are larger than the objects.

extension Node {
    /// What to send to a client whose cache has this compound hash, so that it then has this node.
    ///
    /// - Parameter clientHash: Relative to this node; as the client sent it.
    /// - Returns: Entries in range order, each with start before end; none when no range differs; nil when
    ///   the hash is unusable, and all of the node must be sent. If there are none, but the simple hashes
    ///   differ, all of the node must be sent, too: a hidden priority is in no range's hash.
    /// - Complexity: O(size + ranges × depth × log n). The entries share the node's pages.
    package func rangeMerges(against clientHash: CompoundHash) -> [RangeMerge]? {
        guard clientHash.isUsable else { return nil }
        let hasher = RangeHasher(self, against: clientHash)
        guard hasher.differs.contains(true) else { return [] }
        var plan = RangePlan(hasher)
        plan.complete()
        return plan.entries.map { entry -> RangeMerge in
            switch entry {
            case .leaves(let ranges): merge(of: ranges, clientHash)
            case .removal(let place, let range): removal(ofPriorityAt: place, in: range, clientHash)
            }
        }
    }

    private func merge(of ranges: ClosedRange<Int>, _ clientHash: CompoundHash) -> RangeMerge {
        let start = ranges.lowerBound > 0 ? self.start(behind: clientHash.paths[ranges.lowerBound - 1]) : nil
        let end = ranges.upperBound < clientHash.paths.count ? clientHash.paths[ranges.upperBound] : nil
        return RangeMerge(
            start: start, end: end, node: leaves(after: start?.keys[...], through: end?.keys[...]))
    }

    /// An entry that removes the client's hidden priorities between a leaf and `place`, and nothing else: in
    /// a range that does not differ, the client has no leaf there, as this node has none.
    /// - Parameter place: One of the range's ``RangeHasher/hiddenPlaces``.
    private func removal(ofPriorityAt place: Path, in range: Int, _ clientHash: CompoundHash) -> RangeMerge {
        var leaf = place.parent
        var node = self[leaf]
        while case .object(let children) = node.withoutPriority, let last = children.last {
            leaf.keys.append(last.key)
            node = last.node
        }
        // The leaf may be in an earlier range.
        let cut = range > 0 ? max(leaf, clientHash.paths[range - 1]) : leaf
        return RangeMerge(start: start(behind: cut), end: place, node: .empty)
    }

    /// The start of the range behind a path. For a leaf with a priority it is behind the priority: clients
    /// treat that as a child of the leaf, which would be inside the range, and would remove it.
    private func start(behind cut: Path) -> Path {
        let node = self[cut]
        return node.isLeaf && node.priority != nil ? cut.appending(.priority) : cut
    }

    /// Exactly the leaves of a range. Pages that are completely inside are shared.
    /// - Parameters:
    ///   - start: Exclusive, relative to this node; nil when all of this node is after it.
    ///   - end: Inclusive; nil when all of this node is before it.
    /// - Complexity: O(depth × log n + children that are inside, of the nodes above either end).
    func leaves(after start: ArraySlice<Key>?, through end: ArraySlice<Key>?) -> Node {
        if start == nil, end == nil { return self }
        guard case .object(let children) = withoutPriority else { return start == nil ? self : .empty }
        // What is below the end is after it.
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

/// The ranges to send, and which of them are one entry.
private struct RangePlan {
    enum Entry {
        /// All leaves of these ranges.
        case leaves(of: ClosedRange<Int>)
        /// None: the client's priority at this path is removed. The range is not sent.
        case removal(ofPriorityAt: Path, in: Int)
    }

    private var isSent: [Bool]
    /// For each range, whether it is in one entry with the range before it.
    private var isJoined: [Bool]
    private let hasher: RangeHasher
    private let clearsHiddenPlaces: Bool

    init(_ hasher: RangeHasher) {
        self.hasher = hasher
        clearsHiddenPlaces = hasher.clearsHiddenPlaces
        isSent = hasher.differs
        isJoined = Array(repeating: false, count: isSent.count)
    }

    /// The entries, in range order.
    var entries: [Entry] {
        var entries: [Entry] = []
        for range in isSent.indices {
            if !isSent[range], !clearsHiddenPlaces { continue }
            if !isSent[range] {
                entries += hasher.hiddenPlaces[range].map { Entry.removal(ofPriorityAt: $0, in: range) }
            } else if isJoined[range], case .leaves(let ranges)? = entries.last {
                entries[entries.count - 1] = .leaves(of: ranges.lowerBound...range)
            } else {
                entries.append(.leaves(of: range...range))
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

    /// Adds the ranges that must be sent, too. Each step only adds ranges, and depends on those of the
    /// earlier steps.
    mutating func complete() {
        for ranges in hasher.coveredLeaves { join(ranges.lowerBound...(ranges.upperBound - 1)) }
        for object in hasher.objects where object.isHidden {
            join(object.lastLeaf...max(object.lastLeaf, object.position))
        }
        if clearsHiddenPlaces {
            for range in isSent.indices
            where hasher.hiddenPlaces[range].count > RangeHasher.hiddenPlaceLimit { isSent[range] = true }
        }
        // In ascending order: an object adds only ranges behind it.
        for object in hasher.objects where !object.isHidden && isSent[object.position] {
            guard object.leafBefore != object.position, let after = object.leafAfter else { continue }
            join(object.position...after)
        }
        // In descending order: an object may add ranges that had unsent leaves of earlier ones.
        var unsent = UnsentLeaves(isSent.indices.map { !isSent[$0] && hasher.hasLeaf[$0] })
        for object in hasher.objects.sorted(by: { $0.firstLeaf > $1.firstLeaf })
        where !unsent.hasAny(in: object.firstLeaf...object.lastLeaf) {
            let ranges = min(object.firstLeaf, object.position)...max(object.lastLeaf, object.position)
            join(ranges)
            for range in ranges { unsent.remove(range) }
        }
    }
}

/// The ranges that are not sent and have a leaf: a set with a search for the next member (union-find with
/// path halving). Amortised, both functions take nearly O(1).
private struct UnsentLeaves {
    /// For a member its own number, else a number on the path to the next member; the last one means
    /// "none".
    private var next: [Int]

    init(_ isMember: [Bool]) {
        next = isMember.enumerated().map { $1 ? $0 : $0 + 1 } + [isMember.count]
    }

    mutating func hasAny(in ranges: ClosedRange<Int>) -> Bool {
        var range = ranges.lowerBound
        while next[range] != range {
            // Halves the path for later searches.
            next[range] = next[next[range]]
            range = next[range]
        }
        return range <= ranges.upperBound
    }

    mutating func remove(_ range: Int) {
        if next[range] == range { next[range] = range + 1 }
    }
}
