import PandoTree

// A write is stored as it was decided, but not always pushed that way. Clients apply the entries of a merge
// one after the other, in an order of their own. The result of two kinds of change depends on that order:
//
//  * a priority: if its node does not exist yet, the client ignores it;
//  * a removal that leaves a node without children for a moment, while other entries add new ones: in one
//    order the node keeps its priority; in the other it vanishes with its priority and comes back without.
//
// For both, the whole node is pushed (§5.1: a whole-node push is safer).

extension Node {
    /// The locations to push whole when these changes are done to this tree. Nil when the changes can be
    /// pushed as they are, which is nearly always.
    /// - Parameter changes: More than one, or none. None at or below another.
    /// - Returns: In ascending order; none at or below another. Every change is at or below one of them.
    /// - Complexity: Without priorities O(depth) for each removal; with priorities O(n log n).
    func locationsToPush(of changes: [Change]) -> [Path]? {
        var wholes: [Path] = []
        for change in changes where change.path.namesPriority { wholes.append(change.path.parent) }
        if hasPriority(above: changes) { wholes += fragileNodes(in: changes) }
        if wholes.isEmpty { return nil }
        for change in changes where !change.path.namesPriority { wholes.append(change.path) }
        // In this order an ancestor comes right before the locations below it.
        wholes.sort()
        var kept: [Path] = []
        for path in wholes where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }

    /// Whether a removal has a node with a priority above it. Only such a priority can be lost.
    private func hasPriority(above changes: [Change]) -> Bool {
        for change in changes where change.node.isEmpty && !change.path.namesPriority {
            var node = self
            for key in change.path.keys {
                if node.priority != nil { return true }
                node = node[key]
            }
        }
        return false
    }

    /// The topmost nodes that the removals alone would remove together with their priority, and that the
    /// whole write keeps.
    private func fragileNodes(in changes: [Change]) -> [Path] {
        var (bare, after) = (self, self)
        for change in changes where !change.path.namesPriority {
            if change.node.isEmpty { bare.apply(change) }
            after.apply(change)
        }
        var found: [Path] = []
        for change in changes where change.node.isEmpty && !change.path.namesPriority {
            var (before, without, with) = (self, bare, after)
            for (depth, key) in change.path.keys.enumerated() {
                if before.priority != nil, without.isEmpty, !with.isEmpty {
                    found.append(Path(Array(change.path.keys[..<depth])))
                    break
                }
                (before, without, with) = (before[key], without[key], with[key])
            }
        }
        return found
    }
}
