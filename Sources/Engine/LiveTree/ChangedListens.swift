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
    package private(set) var all: [Alteration]
    /// The lowest location that is at or above all of them.
    package let commonAncestor: Path
    /// The index of each in ``all``. Empty up to ``searchedCount``.
    private var positions: [Path: Int] = [:]

    /// Alterations that are searched one by one rather than through an index.
    private static let searchedCount = 4

    init(_ all: [Alteration]) {
        self.all = all
        let first = all.first?.path ?? .root
        let depth = all.reduce(first.count) { min($0, first.sharedDepth(with: $1.path)) }
        commonAncestor = Path(Array(first.keys[..<depth]))
        if all.count > Self.searchedCount {
            for (index, alteration) in all.enumerated() { positions[alteration.path] = index }
        }
    }

    /// The alteration strictly above a location; nil for none. O(depth).
    func above(_ path: Path) -> Alteration? {
        if positions.isEmpty { return all.first { $0.path.count < path.count && $0.path.contains(path) } }
        var prefix = path
        while !prefix.isRoot {
            prefix.keys.removeLast()
            if let index = positions[prefix] { return all[index] }
        }
        return nil
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
    /// - Complexity: O(listens of the session × depth + listens that differ × log).
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
        let own = Set(listens)
        differing.sort { $0.path < $1.path }
        for (path, node) in differing where !Self.isCovered(path, own) { body(path, node) }
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

    private static func isCovered(_ path: Path, _ listens: Set<Path>) -> Bool {
        var prefix = path
        while !prefix.isRoot {
            prefix.keys.removeLast()
            if listens.contains(prefix) { return true }
        }
        return false
    }
}
