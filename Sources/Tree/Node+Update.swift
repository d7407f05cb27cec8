extension Node {
    /// Replaces the node at `path`, its priority included (realtime §8.4).
    ///
    /// Missing ancestors appear; a leaf on the way becomes an object and keeps its priority; ancestors left
    /// without children vanish with theirs; `.empty` below a leaf or a missing node changes nothing.
    /// - Returns: What was there.
    /// - Complexity: O(depth × log n), and a copy of each page on the way that a snapshot still holds.
    @discardableResult
    package mutating func set(_ new: consuming Node, at path: Path) -> Node {
        var replacement = Replacement(new, isCompared: false)
        replace(&replacement, at: path)
        return replacement.hasArrived ? replacement.node : .empty
    }

    /// As ``set(_:at:)``, for who asks whether anything changes.
    /// - Returns: false when the node at `path` is found equal (``Node/isFoundEqual(to:)``).
    /// - Complexity: As there, also when nothing changes (pages that a snapshot holds are copied on the way
    ///   to see it), and the comparison.
    package mutating func update(_ new: consuming Node, at path: Path) -> Bool {
        var replaced = Node.empty
        return update(new, at: path, replaced: &replaced)
    }

    /// The same, for a caller that frees what was there itself.
    /// - Parameter replaced: Set to what was there, if anything changes.
    package mutating func update(_ new: consuming Node, at path: Path, replaced: inout Node) -> Bool {
        var replacement = Replacement(new, isCompared: true)
        replace(&replacement, at: path)
        guard replacement.hasArrived, !replacement.isThereAlready else { return false }
        swap(&replacement.node, &replaced)
        return true
    }

    private mutating func replace(_ replacement: inout Replacement, at path: Path) {
        // The keys are lent for the call, in which nobody can change them.
        unsafe path.keys.withUnsafeBufferPointer { keys in
            unsafe replacement.begin(keys)
            replace(&replacement)
            unsafe replacement.begin(UnsafeBufferPointer(start: nil, count: 0))
        }
    }

    /// A node on its way down to its place; what was there comes back in it.
    @safe
    private struct Replacement {
        var node: Node
        let isRemoval: Bool
        /// Whether to look if it changes anything.
        let isCompared: Bool
        /// Borrowed: an array would be counted anew on every level.
        private var keys = unsafe UnsafeBufferPointer<Key>(start: nil, count: 0)
        private(set) var depth = 0
        var hasArrived = false
        var isThereAlready = false

        init(_ node: consuming Node, isCompared: Bool) {
            isRemoval = node.isEmpty
            self.isCompared = isCompared
            self.node = node
        }

        /// - Parameter keys: They stay until others are given.
        @unsafe mutating func begin(_ keys: UnsafeBufferPointer<Key>) {
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
            if replacement.isCompared, replacement.node.isFoundEqual(to: self) {
                return replacement.isThereAlready = true
            }
            return swap(&replacement.node, &self)
        }
        // The payload leaves the enum while it changes, so that its storage has one owner and is changed in
        // place.
        var taken = Node.empty
        swap(&taken, &self)
        let priority: Priority?
        var children: Children
        switch consume taken {
        case .object(let held):
            children = held
            priority = nil
        case .prioritized(let box):
            // The box goes with this case, and the children have one owner again, unless a snapshot holds it
            // too.
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
