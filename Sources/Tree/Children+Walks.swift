// Visiting children in order, comparing two objects, and the invariants of the pages.

extension Children {
    /// Calls `body` for each child in key order, from `start` on (inclusive) if it is given, until `body`
    /// returns false.
    /// - Returns: false when `body` has returned false.
    /// - Throws: What `body` throws.
    /// - Complexity: O(log n + visited).
    @discardableResult
    package func forEach<Failure: Error>(
        from start: Key? = nil, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        try root.forEach(from: start, body)
    }

    /// Calls `body` for each page of children in key order, until `body` returns false. For visiting every
    /// child of a large tree without copies.
    /// - Parameter start: The first page is the one that has this key, or would have it.
    /// - Returns: false when `body` has returned false.
    /// - Complexity: O(log n + visited).
    @discardableResult
    package func forEachPage(from start: Key? = nil, _ body: (Span<Entry>) -> Bool) -> Bool {
        root.forEachPage(from: start, body)
    }

    /// Calls `body` for each child in reverse key order, from `start` on (inclusive) if it is given, until
    /// `body` returns false.
    /// - Returns: false when `body` has returned false.
    /// - Throws: What `body` throws.
    /// - Complexity: O(log n + visited).
    @discardableResult
    package func forEachReversed<Failure: Error>(
        from start: Key? = nil, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        try root.forEachReversed(from: start, body)
    }

    /// Whether some child has a priority: then hash order is not key order. O(n).
    package var hasPriorities: Bool {
        !forEach { _, node in node.priority == nil }
    }

    /// The last child in key order; nil where there is none. O(log n).
    package var last: Entry? { root.last }

    /// All children, in key order. O(n).
    package var entries: [Entry] {
        var all: [Entry] = []
        all.reserveCapacity(count)
        forEach { key, node in
            all.append(Entry(key: key, node: node))
            return true
        }
        return all
    }
}

extension Children.Page {
    /// The last entry below the page.
    fileprivate var last: Entry? {
        switch self {
        case .entries(let entries): entries.last
        case .refs(let refs): refs.last?.page.last
        }
    }

    func forEach<Failure: Error>(
        from start: Key?, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        switch self {
        case .entries(let entries):
            var index = start.map { entries.firstIndex(notBefore: $0) } ?? 0
            while index < entries.count {
                guard try body(entries[index].key, entries[index].node) else { return false }
                index &+= 1
            }
        case .refs(let refs):
            let first = start.map { refs.index(holding: $0) } ?? 0
            for index in first..<refs.count {
                guard try refs[index].page.forEach(from: index == first ? start : nil, body) else {
                    return false
                }
            }
        }
        return true
    }

    func forEachPage(from start: Key?, _ body: (Span<Entry>) -> Bool) -> Bool {
        switch self {
        case .entries(let entries):
            Self.fetchPages(below: entries.span)
            return body(entries.span)
        case .refs(let refs):
            let first = start.map { refs.index(holding: $0) } ?? 0
            for index in first..<refs.count {
                guard refs[index].page.forEachPage(from: index == first ? start : nil, body) else {
                    return false
                }
            }
            return true
        }
    }

    /// Accesses the pages of the children that are objects, and then the pages of their children, so that the
    /// processor fetches them in parallel. Objects that were not written in key order are anywhere in memory,
    /// and fetching many pages at once takes about as long as fetching one.
    private static func fetchPages(below entries: Span<Entry>) {
        var count = 0
        for index in entries.indices { count &+= pageCount(of: entries[index]) }
        guard count > 0 else { return }
        count = 0
        for index in entries.indices {
            guard case .object(let children) = entries[index].node, case .entries(let page) = children.root
            else {
                continue
            }
            for place in page.indices { count &+= pageCount(of: page[place]) }
        }
        // Uses the result: the compiler would remove the loop otherwise.
        precondition(count >= 0)
    }

    /// How many entries the page of a small object has; 0 for other nodes.
    @inline(__always)
    private static func pageCount(of entry: borrowing Entry) -> Int {
        if case .object(let children) = entry.node, case .entries(let page) = children.root {
            page.count
        } else {
            0
        }
    }

    func forEachReversed<Failure: Error>(
        from start: Key?, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        switch self {
        case .entries(let entries):
            var index = entries.count
            if let start {
                index = entries.firstIndex(notBefore: start)
                if index < entries.count, entries[index].key == start { index &+= 1 }
            }
            while index > 0 {
                index &-= 1
                guard try body(entries[index].key, entries[index].node) else { return false }
            }
        case .refs(let refs):
            let last = start.map { refs.index(holding: $0) } ?? refs.count &- 1
            for index in stride(from: last, through: 0, by: -1) {
                guard try refs[index].page.forEachReversed(from: index == last ? start : nil, body)
                else { return false }
            }
        }
        return true
    }
}

// MARK: - Equality and invariants

extension Children: Equatable {
    package static func == (left: Children, right: Children) -> Bool {
        if left.sharesStorage(with: right) { return true }
        guard left.count == right.count else { return false }
        // Child by child where the pages are cut at different places.
        return left.root.matches(right.root) ?? left.forEach { key, node in right[key] == node }
    }

    /// Whether both have the same root page in memory: then they are equal. O(1).
    package func sharesStorage(with other: Children) -> Bool {
        root.isSame(as: other.root)
    }

    /// Checks all invariants of the type, for tests. Traps if one is violated. O(n).
    package func checkInvariants() {
        precondition(
            root.checkInvariants(isRoot: true).depths.count <= 1, "pages of one level differ in depth")
        var previous: Key?
        forEach { key, node in
            precondition(!node.isEmpty, "there is an empty child")
            if let previous { precondition(previous < key, "keys do not ascend") }
            previous = key
            return true
        }
    }
}

extension Children.Page {
    /// Whether both are the same array in memory.
    func isSame(as other: Children.Page) -> Bool {
        switch (self, other) {
        case (.entries(let a), .entries(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in
                    unsafe x.baseAddress == y.baseAddress && x.count == y.count
                }
            }
        case (.refs(let a), .refs(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in
                    unsafe x.baseAddress == y.baseAddress && x.count == y.count
                }
            }
        default: false
        }
    }

    /// Whether both have the same children; nil when their pages are cut at different places.
    func matches(_ other: Children.Page) -> Bool? {
        if isSame(as: other) { return true }
        switch (self, other) {
        case (.entries(let a), .entries(let b)):
            guard a.count == b.count else { return nil }
            return zip(a, b).allSatisfy { $0.key == $1.key && $0.node == $1.node }
        case (.refs(let a), .refs(let b)):
            guard a.count == b.count, zip(a, b).allSatisfy({ $0.count == $1.count }) else { return nil }
            for (x, y) in zip(a, b) {
                guard let matches = x.page.matches(y.page) else { return nil }
                if !matches { return false }
            }
            return true
        default: return nil
        }
    }
}

extension Children.Page {
    private var lowestKey: Key? {
        switch self {
        case .entries(let entries): entries.first?.key
        case .refs(let refs): refs.first?.page.lowestKey
        }
    }

    func checkInvariants(isRoot: Bool) -> (count: Int, depths: Set<Int>) {
        switch self {
        case .entries(let entries):
            precondition(isRoot || !entries.isEmpty, "there is an empty page")
            precondition(entries.count <= Children.pageCapacity)
            return (entries.count, [0])
        case .refs(let refs):
            precondition(!isRoot || refs.count > 1, "the root has a single ref")
            precondition(!refs.isEmpty && refs.count <= Children.pageCapacity)
            var depths: Set<Int> = []
            var total = 0
            for (index, ref) in refs.enumerated() {
                let below = ref.page.checkInvariants(isRoot: false)
                precondition(below.count == ref.count, "a ref's count is wrong")
                if index > 0, let lowest = ref.page.lowestKey, let before = refs[index - 1].page.last?.key {
                    precondition(ref.first <= lowest, "a ref's first key is after its page")
                    precondition(
                        before < ref.first, "a ref's first key is not after the previous page")
                }
                depths.formUnion(below.depths.map { $0 + 1 })
                total += below.count
            }
            return (total, depths)
        }
    }
}
