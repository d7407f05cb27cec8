extension Node {
    /// Replaces the node at `path`, its priority included (wire-protocol §8.4).
    ///
    /// Missing ancestors appear; a leaf on the way becomes an object and keeps its priority; ancestors left without
    /// children vanish with theirs; `.empty` below a leaf or a missing node changes nothing.
    /// - Returns: What was there.
    /// - Complexity: O(depth × log n), and a copy of each page on the way that a snapshot still holds.
    @discardableResult
    package mutating func set(_ new: Node, at path: Path) -> Node {
        // The keys are lent for the call, in which nobody can change them.
        unsafe path.keys.withUnsafeBufferPointer { keys in
            var replacement = unsafe Replacement(node: new, isRemoval: new.isEmpty, keys: keys)
            replace(&replacement)
            return replacement.hasArrived ? replacement.node : .empty
        }
    }

    /// A node on its way down to its place; what was there comes back in it.
    @safe
    private struct Replacement {
        var node: Node
        let isRemoval: Bool
        /// Borrowed: an array would be counted anew on every level.
        private let keys: UnsafeBufferPointer<Key>
        private(set) var depth = 0
        var hasArrived = false

        /// - Parameter keys: They stay until this is gone.
        @unsafe init(node: Node, isRemoval: Bool, keys: UnsafeBufferPointer<Key>) {
            self.node = node
            self.isRemoval = isRemoval
            unsafe self.keys = unsafe keys
        }

        var isThere: Bool { unsafe depth == keys.count }

        /// The next key on the way.
        mutating func step() -> Key {
            precondition(!isThere)
            defer { depth += 1 }
            // In bounds: checked.
            return unsafe keys[depth]
        }
    }

    private mutating func replace(_ replacement: inout Replacement) {
        if replacement.isThere {
            replacement.hasArrived = true
            return swap(&replacement.node, &self)
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
            if children.isEmpty, replacement.isRemoval { return self = .prioritized(box) }
        case let leaf:
            if replacement.isRemoval { return self = leaf }
            children = Children()
            priority = nil
        }
        let key = replacement.step()
        children.update(key, with: &replacement) { child, replacement in child.replace(&replacement) }
        // With something new below it, it cannot be empty.
        self = replacement.isRemoval ? .children(consume children) : .object(consume children)
        if let priority { self = with(priority: priority) }
    }

    /// Sets or clears only the priority of the node at `path`. A missing node stays missing.
    package mutating func set(priority: Priority?, at path: Path) {
        set(self[path].with(priority: priority), at: path)
    }
}
