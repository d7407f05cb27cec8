import PandoTree

/// A location above listens that was changed, before and after.
package struct Alteration: Sendable {
    package let path: Path
    /// What it held before; nil where that does not matter, and every listen below gets its value.
    let old: Node?
    package let new: Node
}

/// Locations that were changed, none at or below another.
package struct Alterations: Sendable {
    /// In ascending order of locations.
    package let all: [Alteration]
    /// The lowest location that is at or above all of them.
    package let commonAncestor: Path
    /// What it takes to search them one by one for one listen (``ListenCost/visits(ofKeyBytes:)``); nil where
    /// they are too many for that.
    private let visitsOneByOne: Int?

    /// Alterations that are searched one by one rather than by their order.
    private static let searchedCount = 4

    init(_ all: [Alteration]) {
        let isAscending = zip(all, all.dropFirst()).allSatisfy { $0.path < $1.path }
        self.all = isAscending ? all : all.sorted { $0.path < $1.path }
        let first = all.first?.path ?? .root
        let depth = all.reduce(first.count) { min($0, first.sharedDepth(with: $1.path)) }
        commonAncestor = Path(Array(first.keys[..<depth]))
        visitsOneByOne =
            all.count > Self.searchedCount
            ? nil : ListenCost.visits(ofKeyBytes: all.reduce(0) { $0 + $1.path.keyByteCount })
    }

    /// The alteration strictly above a location; nil for none. O(log alterations × bytes of the keys).
    func above(_ path: Path) -> Alteration? {
        if visitsOneByOne != nil { return all.first { $0.path.count < path.count && $0.path.contains(path) } }
        // None is below another. So the one above a location is the last one before it.
        var (low, high) = (0, all.count)
        while low < high {
            let middle = (low + high) / 2
            if all[middle].path < path { low = middle + 1 } else { high = middle }
        }
        return low > 0 && all[low - 1].path.contains(path) ? all[low - 1] : nil
    }

    /// About how long it takes to call ``above(_:)`` for each default listen of a session, in listens at
    /// short paths; nothing where there are few alterations, and these at short paths. O(1).
    func visits(searchingFor listens: SessionListens) -> Int {
        visitsOneByOne.map { $0 * listens.defaults.count } ?? listens.defaultVisits
    }
}

/// The pushes of one session for a write above many of its listens, not computed yet: ``forEach(_:)`` gives
/// the new value of each listen whose value differs. Another thread calls it, over snapshots, since it takes
/// a microsecond or two for each listen.
///
///     write ──▶ few listens below it ──▶ one push for each
///           └─▶ many ──▶ sessions within ``ListenRegistry/Limits``: one push for each listen
///                    └─▶ all other sessions: one ``ChangedListens``, made in O(1)
package struct ChangedListens: Sendable {
    /// The default listens of the session, wherever they are. Shares storage with the engine.
    let listens: [Path]
    package let alterations: Alterations

    /// Calls `body` for each of the listens below the alterations whose value differs, in the order of paths.
    /// A listen below another one of the session is left out: that one gets the change. Where equal values
    /// are large they are not compared to the end, and count as different.
    /// - Complexity: O(bytes of the listens' keys + listens that differ × log).
    package func forEach(_ body: (Path, Node) -> Void) {
        var differing: [(path: Path, node: Node)] = []
        var left = max(Node.comparedNodeLimit, Self.comparedNodesPerListen * listens.count)
        for path in listens {
            guard let alteration = alterations.above(path) else { continue }
            let relative = alteration.path.relative(path)
            let node = alteration.new[relative]
            if let old = alteration.old, old[relative].isEqual(to: node, visiting: &left) { continue }
            differing.append((path, node))
        }
        guard !differing.isEmpty else { return }
        var positions = Dictionary<Int, Int>(minimumCapacity: listens.count)
        for (index, path) in listens.enumerated() { positions[path.prefixHash] = index }
        differing.sort { $0.path < $1.path }
        for (path, node) in differing where !isCovered(path, positions) { body(path, node) }
    }

    private static let comparedNodesPerListen = 4

    /// Whether ``forEach(_:)``, and printing its values, takes longer than printing so many bytes, or than
    /// visiting so many children, about.
    /// - Complexity: O(`byteLimit` + the changes), at most.
    package func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        var left = byteLimit
        guard listens.count > Self.weighedListenCount else {
            return listens.contains { path in
                guard let alteration = alterations.above(path) else { return false }
                return alteration.new[alteration.path.relative(path)].weigh(&left)
            }
        }
        return listens.count * Self.costRelativeToChild > childLimit
            || alterations.all.contains { $0.new.weigh(&left) }
    }

    /// The values of so many listens are weighed one by one; those of more listens as all that has changed.
    private static let weighedListenCount = 64
    /// A listen takes about as long as so many children that a query visits.
    private static let costRelativeToChild = 16

    /// Whether there is a listen strictly above a path.
    /// - Parameter positions: The indexes of the listens by ``Path/prefixHash``. (Should two have the same
    ///   hash, a listen that is covered gets its push, too.)
    private func isCovered(_ path: Path, _ positions: [Int: Int]) -> Bool {
        var isCovered = false
        path.forEachPrefixHash { depth, hash in
            guard depth < path.count else { return false }
            guard let index = positions[hash], listens[index].count == depth, listens[index].contains(path)
            else { return true }
            isCovered = true
            return false
        }
        return isCovered
    }
}
