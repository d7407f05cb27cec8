// The weight of a node: about how many bytes its JSON has, found without printing it and without visiting all
// of it.

extension Node {
    /// Whether the node's JSON has more than about `byteLimit` bytes. O(`byteLimit`), however large the node
    /// is.
    package func isHeavier(than byteLimit: Int) -> Bool {
        var left = byteLimit
        return weigh(&left)
    }

    /// About how many bytes the node's JSON has; counted only until `limit` is exceeded. O(`limit`).
    package func weight(upTo limit: Int) -> Int {
        var left = limit
        _ = weigh(&left)
        return limit - left
    }

    /// Subtracts from `left` about how many bytes the node's JSON has. Stops when `left` is negative.
    /// - Returns: Whether it is negative.
    package func weigh(_ left: inout Int) -> Bool {
        switch self {
        case .object(let children):
            return !children.forEach { key, child in
                left -= key.utf8Count + 4
                return left >= 0 && !child.weigh(&left)
            }
        case .prioritized(let box):
            left -= box.priority.weight
            return left < 0 || box.node.weigh(&left)
        case .string(let text): left -= text.utf8Count + 2
        case .empty, .boolean, .integer, .double: left -= 8
        }
        return left < 0
    }

    /// Adds the node, and all nodes below it, to a count. O(nodes).
    /// - Parameter goesOn: Asked after each ``countedAtOnce`` nodes: false gives the count up.
    /// - Returns: Whether all were counted.
    @discardableResult
    package func count(into size: inout TreeSize, while goesOn: () -> Bool = { true }) -> Bool {
        guard !isEmpty else { return true }
        size.nodeCount += 1
        if size.nodeCount % Self.countedAtOnce == 0, !goesOn() { return false }
        if case .prioritized(let box) = self { size.byteCount += box.priority.weight }
        switch withoutPriority {
        case .object(let children):
            return children.forEach { key, child in
                size.byteCount += key.utf8Count + 4
                return child.count(into: &size, while: goesOn)
            }
        case .string(let text): size.byteCount += text.utf8Count + 2
        default: size.byteCount += 8
        }
        return true
    }
}

extension Priority {
    /// About how many bytes its JSON has, with its name.
    var weight: Int {
        switch self {
        case .number: 24
        // A client may send as much text as for a value.
        case .string(let text): 16 + text.utf8Count
        }
    }
}

extension Node {
    /// Nodes that are counted without a question whether to go on: some microseconds.
    private static let countedAtOnce = 1024
}

/// How large trees are.
package struct TreeSize: Equatable, Sendable {
    /// Locations that have data: leaves and objects. An empty tree has none.
    package var nodeCount = 0
    /// About how many bytes their JSON has.
    package var byteCount = 0

    package init() {}
}
