/// The children of one object, in key order: a persistent B+tree.
///
///     few children    page   [ (key, node) (key, node) … ]                      one array, exactly as long as needed
///     many            limbs  [ (first key, count, page) … ]                     up to 32 a level
///                              └─ page [ … ]   └─ page [ … ]
///
/// A copy is a reference: whoever keeps one (a checkpoint, a large read) keeps a snapshot, and the writer copies the
/// pages it touches, one per level. Without a snapshot everything changes in place.
///
/// Always true: keys ascend, no node is `.empty`, no page but the root is empty, and a limb's `count` is the sum of its
/// page's entries. A limb's `first` is greater than all keys before it and at most the first one in its page; the
/// `first` of a page's own first limb may be greater, and nobody looks at it: what is before the second goes there.
package struct Children: Sendable {
    package struct Entry: Sendable {
        package let key: Key
        package var node: Node

        package init(key: Key, node: Node) {
            self.key = key
            self.node = node
        }
    }

    fileprivate struct Limb: Sendable {
        var first: Key
        var count: Int
        var page: Page
    }

    fileprivate enum Page: Sendable {
        case entries(ContiguousArray<Entry>)
        case limbs(ContiguousArray<Limb>)
    }

    /// Entries or limbs in one page. Larger ones make a write under a snapshot copy more, smaller ones make the tree
    /// higher; between 16 and 128 nothing else tells them apart (the commit that chose 32 has the numbers).
    fileprivate static let pageCapacity = 32

    fileprivate var root: Page

    package init() {
        root = .entries([])
    }

    /// Takes entries that are already in strictly ascending key order and not `.empty`. O(n).
    package init(ascending entries: some RandomAccessCollection<Entry>) {
        var entries = ContiguousArray(entries)
        self.init(taking: &entries, from: 0)
    }

    /// Cuts entries off the end of an array, which are in strictly ascending key order and not `.empty`. They are moved,
    /// not copied, so that nothing is retained. O(n).
    init(taking entries: inout ContiguousArray<Entry>, from first: Int) {
        func takePage(from start: Int) -> ContiguousArray<Entry> {
            var page: ContiguousArray<Entry> = []
            page.reserveCapacity(entries.count - start)
            while entries.count > start { page.append(entries.removeLast()) }
            page.reverse()
            return page
        }
        if entries.count - first <= Self.pageCapacity {
            root = .entries(takePage(from: first))
            return
        }
        var limbs: ContiguousArray<Limb> = []
        while entries.count > first {
            // All pages are full but the last, which is taken first.
            let page = takePage(from: first + (entries.count - first - 1) / Self.pageCapacity * Self.pageCapacity)
            limbs.append(Limb(first: page[0].key, count: page.count, page: .entries(page)))
        }
        limbs.reverse()
        while limbs.count > Self.pageCapacity {
            var parents: ContiguousArray<Limb> = []
            for start in stride(from: 0, to: limbs.count, by: Self.pageCapacity) {
                let page = ContiguousArray(limbs[start..<Swift.min(start + Self.pageCapacity, limbs.count)])
                parents.append(Limb(first: page[0].first, count: page.reduce(0) { $0 + $1.count }, page: .limbs(page)))
            }
            limbs = parents
        }
        root = .limbs(limbs)
    }

    package var isEmpty: Bool {
        if case .entries(let entries) = root { entries.isEmpty } else { false }
    }

    /// How many children; O(1) for practical purposes (at most 32 additions).
    package var count: Int { root.count }

    /// The child of that name, or `.empty`. O(log n).
    package subscript(key: Key) -> Node {
        var page = root
        while true {
            switch page {
            case .entries(let entries):
                let index = entries.firstIndex(notBefore: key)
                return index < entries.count && entries[index].key == key ? entries[index].node : .empty
            case .limbs(let limbs):
                page = limbs[limbs.index(holding: key)].page
            }
        }
    }

    /// Changes the child of that name in place; it is `.empty` when there is none, and leaving it `.empty` removes it.
    /// - Complexity: O(log n), plus one page copy a level while a snapshot shares it.
    package mutating func update<Result>(_ key: Key, _ body: (inout Node) -> Result) -> Result {
        let (result, split) = root.update(key, body)
        if let split {
            let left = root
            root = .limbs([Limb(first: left.firstKey, count: left.count, page: left), split])
        }
        // A root with a single limb is a level too many.
        while case .limbs(let limbs) = root, limbs.count == 1 { root = limbs[0].page }
        return result
    }
}

// MARK: - Pages

extension Children.Page {
    fileprivate typealias Entry = Children.Entry
    fileprivate typealias Limb = Children.Limb

    fileprivate var count: Int {
        switch self {
        case .entries(let entries): entries.count
        case .limbs(let limbs): limbs.reduce(0) { $0 &+ $1.count }
        }
    }

    fileprivate var firstKey: Key {
        switch self {
        case .entries(let entries): entries[0].key
        case .limbs(let limbs): limbs[0].first
        }
    }

    /// Updates below this page; gives the right half when the page had to split.
    fileprivate mutating func update<Result>(
        _ key: Key, _ body: (inout Node) -> Result
    ) -> (Result, Limb?) {
        // The array leaves the enum while it changes, so that it has one owner. (An empty array owns nothing.)
        var taken = Children.Page.entries([])
        swap(&taken, &self)
        switch consume taken {
        case .entries(var entries):
            let (result, split) = Self.update(&entries, key, body)
            self = .entries(entries)
            return (result, split.map { Limb(first: $0[0].key, count: $0.count, page: .entries($0)) })
        case .limbs(var limbs):
            let index = limbs.index(holding: key)
            let (result, split) = limbs[index].page.update(key, body)
            limbs[index].count = limbs[index].page.count
            var right: Limb?
            if let split {
                right = Self.insert(split, at: index + 1, into: &limbs)
            } else {
                Self.rebalance(&limbs, around: index)
            }
            self = .limbs(limbs)
            return (result, right)
        }
    }

    private static func update<Result>(
        _ entries: inout ContiguousArray<Entry>, _ key: Key, _ body: (inout Node) -> Result
    ) -> (Result, ContiguousArray<Entry>?) {
        let index = entries.firstIndex(notBefore: key)
        if index < entries.count, entries[index].key == key {
            let result = body(&entries[index].node)
            if entries[index].node.isEmpty { entries.remove(at: index) }
            return (result, nil)
        }
        var node = Node.empty
        let result = body(&node)
        guard !node.isEmpty else { return (result, nil) }
        let entry = Entry(key: key, node: node)
        guard entries.count >= Children.pageCapacity else {
            entries.insert(entry, at: index)
            return (result, nil)
        }
        // Push ids arrive in ascending order: a page that fills at its end stays full.
        if index == entries.count { return (result, [entry]) }
        let middle = entries.count / 2
        var right = ContiguousArray(entries[middle...])
        entries = ContiguousArray(entries[..<middle])
        if index <= middle { entries.insert(entry, at: index) } else { right.insert(entry, at: index - middle) }
        return (result, right)
    }

    /// Inserts a limb; gives the right half when the page had to split.
    private static func insert(_ limb: Limb, at index: Int, into limbs: inout ContiguousArray<Limb>) -> Limb? {
        guard limbs.count >= Children.pageCapacity else {
            limbs.insert(limb, at: index)
            return nil
        }
        var right: ContiguousArray<Limb>
        if index == limbs.count {
            right = [limb]
        } else {
            let middle = limbs.count / 2
            right = ContiguousArray(limbs[middle...])
            limbs = ContiguousArray(limbs[..<middle])
            if index <= middle { limbs.insert(limb, at: index) } else { right.insert(limb, at: index - middle) }
        }
        return Limb(first: right[0].first, count: right.reduce(0) { $0 &+ $1.count }, page: .limbs(right))
    }

    /// Drops an emptied page, and joins a small one with its neighbour, so that removals give memory back.
    private static func rebalance(_ limbs: inout ContiguousArray<Limb>, around index: Int) {
        let count = limbs[index].page.slotCount
        if count == 0 {
            limbs.remove(at: index)
            return
        }
        guard count < Children.pageCapacity / 4, limbs.count > 1 else { return }
        let left = index > 0 ? index - 1 : index
        guard limbs[left].page.slotCount + limbs[left + 1].page.slotCount <= Children.pageCapacity * 3 / 4
        else { return }
        let right = limbs.remove(at: left + 1)
        limbs[left].page.join(right.page, startingAt: right.first)
        limbs[left].count &+= right.count
    }

    private var slotCount: Int {
        switch self {
        case .entries(let entries): entries.count
        case .limbs(let limbs): limbs.count
        }
    }

    /// Both pages are of one level: siblings always are.
    /// - Parameter first: What separates the two. The other page's own first limb may claim to begin later than keys
    ///   that went into it as its page's lowest: harmless at the head of a page, where nobody looks, but not here.
    private mutating func join(_ other: Children.Page, startingAt first: Key) {
        var taken = Children.Page.entries([])
        swap(&taken, &self)
        switch (consume taken, other) {
        case (.entries(var entries), .entries(let more)):
            entries.append(contentsOf: more)
            self = .entries(entries)
        case (.limbs(var limbs), .limbs(let more)):
            let seam = limbs.count
            limbs.append(contentsOf: more)
            limbs[seam].first = first
            self = .limbs(limbs)
        default: preconditionFailure("siblings of different levels")
        }
    }
}

extension ContiguousArray<Children.Entry> {
    /// The first entry whose key is `key` or comes after it; `count` when there is none.
    fileprivate func firstIndex(notBefore key: Key) -> Int {
        var (low, high) = (0, count)
        // Ascending inserts end here at once.
        if let last, Key.compare(last.key, key) < 0 { return count }
        while low < high {
            let middle = (low &+ high) / 2
            if Key.compare(self[middle].key, key) < 0 { low = middle &+ 1 } else { high = middle }
        }
        return low
    }
}

extension ContiguousArray<Children.Limb> {
    /// The limb that holds `key` or would hold it.
    fileprivate func index(holding key: Key) -> Int {
        var (low, high) = (1, count)
        while low < high {
            let middle = (low &+ high) / 2
            if Key.compare(self[middle].first, key) <= 0 { low = middle &+ 1 } else { high = middle }
        }
        return low &- 1
    }
}

// MARK: - Walks

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

    /// Visits children against key order, from `start` on (included) when it is given, until `body` says false.
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
    fileprivate func forEach<Failure: Error>(
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
                guard try limbs[index].page.forEach(from: index == first ? start : nil, body) else { return false }
            }
        }
        return true
    }

    fileprivate func forEachReversed<Failure: Error>(
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
        precondition(root.checkInvariants(isRoot: true).depths.count <= 1, "pages of one level differ in depth")
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
    fileprivate func isSame(as other: Children.Page) -> Bool {
        switch (self, other) {
        case (.entries(let a), .entries(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in unsafe x.baseAddress == y.baseAddress && x.count == y.count }
            }
        case (.limbs(let a), .limbs(let b)):
            unsafe a.withUnsafeBufferPointer { x in
                unsafe b.withUnsafeBufferPointer { y in unsafe x.baseAddress == y.baseAddress && x.count == y.count }
            }
        default: false
        }
    }

    /// Whether both hold the same children; nil when their pages are cut at different places.
    fileprivate func matches(_ other: Children.Page) -> Bool? {
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

    fileprivate func checkInvariants(isRoot: Bool) -> (count: Int, depths: Set<Int>) {
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
                if index > 0, let lowest = limb.page.lowestKey, let before = limbs[index - 1].page.highestKey {
                    precondition(limb.first <= lowest, "a limb's first key is after its page")
                    precondition(before < limb.first, "a limb's first key is before the end of the page before")
                }
                depths.formUnion(below.depths.map { $0 + 1 })
                total += below.count
            }
            return (total, depths)
        }
    }
}
