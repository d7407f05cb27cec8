extension Node {
    /// Replaces the node at `path`, its priority included (realtime §8.4).
    ///
    /// Missing ancestors are created. A leaf above the path becomes an object and keeps its priority.
    /// Ancestors without children are removed, with their priorities. `.empty` below a leaf or a missing node
    /// changes nothing.
    /// - Returns: The node that was replaced.
    /// - Complexity: O(depth × log n), and a copy of each page above the path that a snapshot shares.
    @discardableResult
    package mutating func set(_ new: consuming Node, at path: Path) -> Node {
        var replacement = Replacement(new, isCompared: false)
        replace(&replacement, at: path)
        return replacement.hasArrived ? replacement.node : .empty
    }

    /// As ``set(_:at:)``, with a comparison.
    /// - Returns: false when the node at `path` is equal (``Node/isEqualWithinLimit(to:)``); then nothing was
    ///   changed.
    /// - Complexity: That of ``set(_:at:)``, also when nothing is changed, and that of the comparison.
    package mutating func update(_ new: consuming Node, at path: Path) -> Bool {
        var replaced = Node.empty
        return update(new, at: path, replaced: &replaced)
    }

    /// As ``update(_:at:)``, for a caller that frees the replaced node itself.
    /// - Parameter replaced: Set to the node that was replaced, if the result is true.
    package mutating func update(_ new: consuming Node, at path: Path, replaced: inout Node) -> Bool {
        var replacement = Replacement(new, isCompared: true)
        replace(&replacement, at: path)
        guard replacement.hasArrived, !replacement.isUnchanged else { return false }
        swap(&replacement.node, &replaced)
        return true
    }

    private mutating func replace(_ replacement: inout Replacement, at path: Path) {
        // The pointer is used only during the call, in which the keys do not change.
        unsafe path.keys.withUnsafeBufferPointer { keys in
            unsafe replacement.begin(keys)
            replace(&replacement)
            unsafe replacement.begin(UnsafeBufferPointer(start: nil, count: 0))
        }
    }

    /// A node that is passed down to its path. There it is exchanged for the node that it replaces.
    @safe
    private struct Replacement {
        var node: Node
        let isRemoval: Bool
        /// Whether it is compared with the node that it replaces.
        let isCompared: Bool
        /// Borrowed: an array would be retained on every level.
        private var keys = unsafe UnsafeBufferPointer<Key>(start: nil, count: 0)
        private(set) var depth = 0
        /// Whether it was exchanged, or was found equal.
        var hasArrived = false
        /// Whether it was found equal.
        var isUnchanged = false

        init(_ node: consuming Node, isCompared: Bool) {
            isRemoval = node.isEmpty
            self.isCompared = isCompared
            self.node = node
        }

        /// - Parameter keys: Must be valid until the next call.
        @unsafe mutating func begin(_ keys: UnsafeBufferPointer<Key>) {
            unsafe self.keys = unsafe keys
        }

        var isAtPath: Bool { unsafe depth == keys.count }

        /// The next key of the path.
        mutating func step() -> Key {
            precondition(!isAtPath)
            defer { depth += 1 }
            // In bounds: checked.
            return unsafe keys[depth]
        }
    }

    private mutating func replace(_ replacement: inout Replacement) {
        if replacement.isAtPath {
            replacement.hasArrived = true
            if replacement.isCompared, replacement.node.isEqualWithinLimit(to: self) {
                return replacement.isUnchanged = true
            }
            return swap(&replacement.node, &self)
        }
        // The payload is moved out of the enum while it changes, so that there is one reference to its
        // storage and it changes in place.
        let priority: Priority?
        var children: Children
        switch exchange(&self, with: .empty) {
        case .object(let held):
            children = held
            priority = nil
        case .prioritized(let box):
            // The box is released at the end of this case: then there is one reference to the children,
            // unless a snapshot has one, too.
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
        // An object below which a node was set is not empty.
        self = replacement.isRemoval ? .children(consume children) : .object(consume children)
        if let priority { self = with(priority: priority) }
    }

    /// Sets or removes the priority of the node at `path`. A missing node stays missing.
    package mutating func set(priority: Priority?, at path: Path) {
        set(self[path].with(priority: priority), at: path)
    }
}
