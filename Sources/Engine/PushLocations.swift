import PandoTree

// A write is stored as it was decided, but not always told that way. Clients take the entries of a merge one
// after the other, in an order of their own, and two kinds of change come out differently in different
// orders:
//
//  * a priority, when its node does not exist yet at that moment: the client drops it;
//  * a removal that leaves a node without children for a moment, when other entries bring it new ones: in one
//    order the node keeps its priority, in the other it vanishes with it and comes back without.
//
// Both are told as the whole node, which has no order (§5.1: a whole-node push is safer).

extension Node {
    /// The locations to tell whole when these changes, which lie beside one another, are done to this tree;
    /// nil when the changes can be told as they are, which is nearly always.
    /// - Parameter changes: More than one, or none.
    ///
    /// - Returns: Ascending; none at or below another. Every change is at or below one of them.
    /// - Complexity: O(depth) a removal and nothing else without priorities; O(n log n) with.
    func locationsToTell(of changes: [Change]) -> [Path]? {
        var wholes: [Path] = []
        for change in changes where change.path.namesPriority { wholes.append(change.path.parent) }
        if hasPriority(above: changes) { wholes += fragileNodes(in: changes) }
        if wholes.isEmpty { return nil }
        for change in changes where !change.path.namesPriority { wholes.append(change.path) }
        // An ancestor stands right before what lies below it.
        wholes.sort()
        var kept: [Path] = []
        for path in wholes where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }

    /// True when a removal has a node with a priority above it: only then is there anything to lose.
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

    /// Topmost nodes that the removals among the changes would take away together with their priority, and
    /// that the whole write keeps.
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
