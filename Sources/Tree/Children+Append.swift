// Appending children in key order, as trees are read from disk: complete pages are added at the right edge,
// without a search.

extension Children {
    /// Moves the entries from `first` on to the end of the children. They are moved, so that no reference is
    /// counted.
    /// - Parameters:
    ///   - entries: In strictly ascending key order from `first` on, and not `.empty`.
    ///   - first: The index of the first entry that is moved.
    /// - Returns: false when that entry does not come after the last child; then nothing was done.
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
        var refs = Self.takePages(&entries, from: first)
        while let ref = refs.popLast() {
            if let split = root.append(ref) {
                let left = root
                root = .refs([ChildRef(first: left.firstKey, count: left.count, page: left), split])
            }
        }
        return true
    }
}

extension Children.Page {
    /// nil for an empty page.
    fileprivate var lastKey: Key? {
        switch self {
        case .entries(let entries): entries.last?.key
        case .refs(let refs): refs.last?.page.lastKey
        }
    }

    /// Adds a page of entries at the right edge.
    /// - Returns: The right half, when this page had to split.
    fileprivate mutating func append(_ ref: ChildRef) -> ChildRef? {
        guard case .refs(var refs) = exchange(&self, with: .entries([])) else {
            preconditionFailure("a page was appended to a page of entries")
        }
        let last = refs.count - 1
        var right: ChildRef?
        if case .entries = refs[last].page {
            right = Self.insert(ref, at: refs.count, into: &refs)
        } else {
            let split = refs[last].page.append(ref)
            refs[last].count = refs[last].page.count
            if let split { right = Self.insert(split, at: refs.count, into: &refs) }
        }
        self = .refs(refs)
        return right
    }
}

extension Node {
    /// Moves children to the end of the object at `path`. A missing object is created, as are its ancestors.
    /// - Parameter entries: In strictly ascending key order, and not `.empty`. Empty afterwards if they were
    ///   moved.
    /// - Returns: false when there is a leaf or a node with a priority at the path or above it, or the
    ///   children do not come last; then nothing was done.
    package mutating func append(_ entries: inout ContiguousArray<Children.Entry>, at path: Path) -> Bool {
        var addition = Addition(entries: exchange(&entries, with: []), keys: path.keys)
        append(&addition)
        swap(&addition.entries, &entries)
        return addition.isDone
    }

    /// Children that are passed down to their object.
    private struct Addition {
        var entries: ContiguousArray<Children.Entry>
        let keys: [Key]
        var depth = 0
        var isDone = false
    }

    private mutating func append(_ addition: inout Addition) {
        var children: Children
        switch exchange(&self, with: .empty) {
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
