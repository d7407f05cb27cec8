// Reading all children, or all from somewhere; comparing two objects; what a tree of pages promises.

extension Children {
    /// Visits children in key order, from `start` on (included) when it is given, until `body` says false.
    /// - Returns: false when `body` stopped the walk.
    /// - Complexity: O(log n + visited).
    @discardableResult
    package func forEach<Failure: Error>(
        from start: Key? = nil, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        try root.forEach(from: start, body)
    }

    /// Visits children in key order, a page at a time, until `body` says false: what looks at every child of
    /// a large tree, and copies none.
    /// - Parameter start: Pages before the one that holds this key, or would, are left out.
    /// - Returns: false when `body` stopped the walk.
    /// - Complexity: O(log n + visited).
    @discardableResult
    package func forEachPage(from start: Key? = nil, _ body: (Span<Entry>) -> Bool) -> Bool {
        root.forEachPage(from: start, body)
    }

    /// Visits children against key order, from `start` on (included) when it is given, until `body` says
    /// false.
    @discardableResult
    package func forEachReversed<Failure: Error>(
        from start: Key? = nil, _ body: (Key, Node) throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        try root.forEachReversed(from: start, body)
    }

    /// True when some child carries a priority: then hash order is not key order. O(n).
    package var hasPriorities: Bool {
        !forEach { _, node in node.priority == nil }
    }

    /// Every child, in key order. O(n).
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
        case .limbs(let limbs):
            let first = start.map { limbs.index(holding: $0) } ?? 0
            for index in first..<limbs.count {
                guard try limbs[index].page.forEach(from: index == first ? start : nil, body) else {
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
        case .limbs(let limbs):
            let first = start.map { limbs.index(holding: $0) } ?? 0
            for index in first..<limbs.count {
                guard limbs[index].page.forEachPage(from: index == first ? start : nil, body) else {
                    return false
                }
            }
            return true
        }
    }

    /// Looks at the pages of the children that are objects, and at the pages of their children. Those that
    /// did not come in key order lie anywhere in memory, and a processor that is asked for all of them at
    /// once waits about as long as for one: so step by step, as far as it is known without waiting where they
    /// are.
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
        // Something must come of it, or the compiler leaves it out.
        precondition(count >= 0)
    }

    /// Entries of the page of a small object.
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
        case .limbs(let limbs):
            let last = start.map { limbs.index(holding: $0) } ?? limbs.count &- 1
            for index in stride(from: last, through: 0, by: -1) {
                guard try limbs[index].page.forEachReversed(from: index == last ? start : nil, body)
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
        // Where pages are cut elsewhere, child by child.
        return left.root.matches(right.root) ?? left.forEach { key, node in right[key] == node }
    }

    /// True when both are the same page in memory: equal without looking.
    package func sharesStorage(with other: Children) -> Bool {
        root.isSame(as: other.root)
    }

    /// Everything the type promises, for tests. O(n).
    package func checkInvariants() {
        precondition(
            root.checkInvariants(isRoot: true).depths.count <= 1, "pages of one level differ in depth")
        var previous: Key?
        forEach { key, node in
            precondition(!node.isEmpty, "an empty child was kept")
            if let previous { precondition(previous < key, "keys do not ascend") }
            previous = key
            return true
        }
    }
}

extension Children.Page {
    /// True when both are the same array in memory.
    func isSame(as other: Children.Page) -> Bool {
        switch (self, other) {
        case (.entries(let a), .entries(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in
                    unsafe x.baseAddress == y.baseAddress && x.count == y.count
                }
            }
        case (.limbs(let a), .limbs(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in
                    unsafe x.baseAddress == y.baseAddress && x.count == y.count
                }
            }
        default: false
        }
    }

    /// Whether both hold the same children; nil when their pages are cut at different places.
    func matches(_ other: Children.Page) -> Bool? {
        if isSame(as: other) { return true }
        switch (self, other) {
        case (.entries(let a), .entries(let b)):
            guard a.count == b.count else { return nil }
            return zip(a, b).allSatisfy { $0.key == $1.key && $0.node == $1.node }
        case (.limbs(let a), .limbs(let b)):
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
        case .limbs(let limbs): limbs.first?.page.lowestKey
        }
    }

    private var highestKey: Key? {
        switch self {
        case .entries(let entries): entries.last?.key
        case .limbs(let limbs): limbs.last?.page.highestKey
        }
    }

    func checkInvariants(isRoot: Bool) -> (count: Int, depths: Set<Int>) {
        switch self {
        case .entries(let entries):
            precondition(isRoot || !entries.isEmpty, "an empty page was kept")
            precondition(entries.count <= Children.pageCapacity)
            return (entries.count, [0])
        case .limbs(let limbs):
            precondition(!isRoot || limbs.count > 1, "a root with one limb was kept")
            precondition(!limbs.isEmpty && limbs.count <= Children.pageCapacity)
            var depths: Set<Int> = []
            var total = 0
            for (index, limb) in limbs.enumerated() {
                let below = limb.page.checkInvariants(isRoot: false)
                precondition(below.count == limb.count, "a limb's count is off")
                if index > 0, let lowest = limb.page.lowestKey, let before = limbs[index - 1].page.highestKey
                {
                    precondition(limb.first <= lowest, "a limb's first key is after its page")
                    precondition(
                        before < limb.first, "a limb's first key is before the end of the page before")
                }
                depths.formUnion(below.depths.map { $0 + 1 })
                total += below.count
            }
            return (total, depths)
        }
    }
}
