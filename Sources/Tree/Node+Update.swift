extension Node {
    /// Replaces the node at `path`, its priority included (wire-protocol §8.4).
    ///
    /// Missing ancestors appear; a leaf on the way becomes an object and keeps its priority; ancestors left without
    /// children vanish with theirs; `.empty` below a leaf or a missing node changes nothing.
    /// - Returns: What was there.
    /// - Complexity: O(depth × log n), and a copy of each page on the way that a snapshot still holds.
    @discardableResult
    package mutating func set(_ new: Node, at path: Path) -> Node {
        set(new, at: path.keys, from: 0)
    }

    private mutating func set(_ new: Node, at keys: [Key], from depth: Int) -> Node {
        if depth == keys.count {
            let old = self
            self = new
            return old
        }
        // The payload leaves the enum while it changes, so that its storage has one owner and is changed in place.
        var taken = Node.empty
        swap(&taken, &self)
        let priority: Priority?
        var children: Children
        switch consume taken {
        case .object(let held):
            children = held
            priority = nil
        case .prioritized(let box):
            // The box goes with this case, and the children have one owner again, unless a snapshot holds it too.
            children = box.node.children
            priority = box.priority
            if children.isEmpty, new.isEmpty {
                self = .prioritized(box)
                return .empty
            }
        case let leaf:
            if new.isEmpty {
                self = leaf
                return .empty
            }
            children = Children()
            priority = nil
        }
        let old = children.update(keys[depth]) { child in child.set(new, at: keys, from: depth + 1) }
        self = .children(children)
        if let priority { self = with(priority: priority) }
        return old
    }

    /// Sets or clears only the priority of the node at `path`. A missing node stays missing.
    package mutating func set(priority: Priority?, at path: Path) {
        set(self[path].with(priority: priority), at: path)
    }
}
