import PandoTree

/// A location and its new value. A path that ends in `.priority` means only the node's priority.
package struct Change: Sendable, Equatable {
    package var path: Path
    package var node: Node

    package init(path: Path, node: Node) {
        self.path = path
        self.node = node
    }

    /// Moves both parts out, so that no reference is counted.
    fileprivate consuming func split() -> (Path, Node) {
        (exchange(&path, with: Path()), exchange(&node, with: .empty))
    }
}

extension Path {
    /// The last key of a path that names a priority (§5.1, §9.7). No real key begins with a dot.
    package static let priorityKey: Key = ".priority"

    /// Whether the path names a priority and not a node.
    package var namesPriority: Bool {
        ends(with: Self.priorityKey)
    }
}

extension Node {
    /// Does a change on this tree. O(depth × log n).
    package mutating func apply(_ change: consuming Change) {
        let (path, node) = change.split()
        if path.namesPriority { set(priority: Priority(node), at: path.parent) } else { set(node, at: path) }
    }

    /// Does a change on this tree, and finds out whether it changes anything. O(depth × log n).
    /// - Parameter replaced: Set to the previous value, if it differs.
    /// - Returns: false when the tree holds the value already; for a priority always true.
    mutating func update(with change: consuming Change, replaced: inout Node) -> Bool {
        let (path, node) = change.split()
        guard path.namesPriority else { return update(node, at: path, replaced: &replaced) }
        set(priority: Priority(node), at: path.parent)
        return true
    }

    /// Does a change that names no priority. O(depth × log n).
    /// - Returns: The previous value at the change's path.
    mutating func exchange(_ change: consuming Change) -> Node {
        let (path, node) = change.split()
        precondition(!path.namesPriority)
        return set(node, at: path)
    }

    /// The tree after all of the changes. O(changes × depth × log n).
    func applying(_ changes: [Change]) -> Node {
        var node = self
        for change in changes { node.apply(change) }
        return node
    }

    /// The value at the path of a change, which may name a priority. O(depth × log n).
    package func value(at path: Path) -> Node {
        path.namesPriority ? self[path.parent].priority?.node ?? .empty : self[path]
    }
}
