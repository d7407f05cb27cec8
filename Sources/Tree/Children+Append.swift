// Trees that are read back come in key order: whole pages go to the right edge, and nothing is searched for.

extension Children {
    /// Adds the entries from `first` on, which are cut off the end of the array, behind all there are: moved,
    /// so that nothing is retained. They are in strictly ascending key order and not `.empty`.
    /// - Returns: false when the first of them does not come after the last child; then nothing was done.
    /// - Complexity: O(entries + pages × log n).
    package mutating func append(taking entries: inout ContiguousArray<Entry>, from first: Int = 0) -> Bool {
        guard first < entries.count else { return true }
        if let last = root.lastKey, last >= entries[first].key { return false }
        if case .entries(let held) = root {
            if held.isEmpty {
                self = Children(taking: &entries, from: first)
            } else {
                var all = held + entries[first...]
                entries.removeSubrange(first...)
                self = Children(taking: &all, from: 0)
            }
            return true
        }
        var limbs = Self.takeLimbs(&entries, from: first)
        while let limb = limbs.popLast() {
            if let split = root.append(limb) {
                let left = root
                root = .limbs([ChildRef(first: left.firstKey, count: left.count, page: left), split])
            }
        }
        return true
    }
}

extension Children.Page {
    /// Nil when there is none.
    fileprivate var lastKey: Key? {
        switch self {
        case .entries(let entries): entries.last?.key
        case .limbs(let limbs): limbs.last?.page.lastKey
        }
    }

    /// Puts a page of entries at the right edge; gives the right half when this page had to split.
    fileprivate mutating func append(_ limb: ChildRef) -> ChildRef? {
        var taken = Children.Page.entries([])
        swap(&taken, &self)
        guard case .limbs(var limbs) = consume taken else {
            preconditionFailure("a page of entries takes no page")
        }
        let last = limbs.count - 1
        var right: ChildRef?
        if case .entries = limbs[last].page {
            right = Self.insert(limb, at: limbs.count, into: &limbs)
        } else {
            let split = limbs[last].page.append(limb)
            limbs[last].count = limbs[last].page.count
            if let split { right = Self.insert(split, at: limbs.count, into: &limbs) }
        }
        self = .limbs(limbs)
        return right
    }
}

extension Node {
    /// Adds children behind those that the object at `path` has; makes it, and the objects above it, when it
    /// is missing.
    /// - Returns: false when the path leads through a leaf or a node with a priority, or the children would
    ///   not come last; then nothing was done.
    package mutating func append(_ entries: inout ContiguousArray<Children.Entry>, at path: Path) -> Bool {
        var addition = Addition(entries: [], keys: path.keys)
        swap(&addition.entries, &entries)
        append(&addition)
        swap(&addition.entries, &entries)
        return addition.isDone
    }

    /// Children on their way down to their object.
    private struct Addition {
        var entries: ContiguousArray<Children.Entry>
        let keys: [Key]
        var depth = 0
        var isDone = false
    }

    private mutating func append(_ addition: inout Addition) {
        var taken = Node.empty
        swap(&taken, &self)
        var children: Children
        switch consume taken {
        case .empty: children = Children()
        case .object(let held): children = held
        case let other: return self = other
        }
        if addition.depth < addition.keys.count {
            let key = addition.keys[addition.depth]
            addition.depth += 1
            children.update(key, with: &addition) { child, addition in child.append(&addition) }
        } else {
            addition.isDone = children.append(taking: &addition.entries)
        }
        self = .children(children)
    }
}
