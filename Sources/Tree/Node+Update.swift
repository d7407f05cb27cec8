extension Node {
    /// Replaces the node at `path`, its priority included (wire-protocol §8.4).
    ///
    /// Missing ancestors appear; a leaf on the way becomes an object and keeps its priority; ancestors left without
    /// children vanish with theirs; `.empty` below a leaf or a missing node changes nothing.
    /// - Returns: What was there.
    /// - Complexity: O(depth × log n), and a copy of each page on the way that a snapshot still holds.
    @discardableResult
    package mutating func set(_ new: Node, at path: Path) -> Node {
        set(new, at: path.keys[...])
    }

    private mutating func set(_ new: Node, at keys: ArraySlice<Key>) -> Node {
        guard let key = keys.first else {
            let old = self
            self = new
            return old
        }
        let priority: Priority?
        var children: Children
        // The payload leaves the enum while it changes, so that its storage has one owner and is changed in place.
        switch self {
        case .object(let held):
            children = held
            priority = nil
        case .prioritized(let box):
            children = box.node.children
            priority = box.priority
        case .empty, .boolean, .integer, .double, .string:
            children = Children()
            priority = nil
        }
        if children.isEmpty, new.isEmpty { return .empty }
        self = .empty
        let old = children.update(key) { child in child.set(new, at: keys.dropFirst()) }
        self = .children(children)
        if let priority { self = with(priority: priority) }
        return old
    }

    /// Sets or clears only the priority of the node at `path`. A missing node stays missing.
    package mutating func set(priority: Priority?, at path: Path) {
        set(self[path].with(priority: priority), at: path)
    }
}
