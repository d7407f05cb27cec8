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

    /// A page and what is known of it from outside.
    struct Limb: Sendable {
        var first: Key
        var count: Int
        var page: Page
    }

    enum Page: Sendable {
        case entries(ContiguousArray<Entry>)
        case limbs(ContiguousArray<Limb>)
    }

    /// Entries or limbs in one page. Larger ones make a write under a snapshot copy more, smaller ones make the tree
    /// higher; between 16 and 128 nothing else tells them apart (the commit that chose 32 has the numbers).
    static let pageCapacity = 32

    var root: Page

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
    package init(taking entries: inout ContiguousArray<Entry>, from first: Int) {
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
            let page = takePage(
                from: first + (entries.count - first - 1) / Self.pageCapacity * Self.pageCapacity)
            limbs.append(Limb(first: page[0].key, count: page.count, page: .entries(page)))
        }
        limbs.reverse()
        while limbs.count > Self.pageCapacity {
            var parents: ContiguousArray<Limb> = []
            for start in stride(from: 0, to: limbs.count, by: Self.pageCapacity) {
                let page = ContiguousArray(limbs[start..<Swift.min(start + Self.pageCapacity, limbs.count)])
                parents.append(
                    Limb(first: page[0].first, count: page.reduce(0) { $0 + $1.count }, page: .limbs(page)))
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
    typealias Entry = Children.Entry
    typealias Limb = Children.Limb

    var count: Int {
        switch self {
        case .entries(let entries): entries.count
        case .limbs(let limbs): limbs.reduce(0) { $0 &+ $1.count }
        }
    }

    var firstKey: Key {
        switch self {
        case .entries(let entries): entries[0].key
        case .limbs(let limbs): limbs[0].first
        }
    }

    /// Updates below this page; gives the right half when the page had to split.
    mutating func update<Result>(
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
        if index <= middle {
            entries.insert(entry, at: index)
        } else {
            right.insert(entry, at: index - middle)
        }
        return (result, right)
    }

    /// Inserts a limb; gives the right half when the page had to split.
    static func insert(_ limb: Limb, at index: Int, into limbs: inout ContiguousArray<Limb>) -> Limb?
    {
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
            if index <= middle {
                limbs.insert(limb, at: index)
            } else {
                right.insert(limb, at: index - middle)
            }
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
    func firstIndex(notBefore key: Key) -> Int {
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
    func index(holding key: Key) -> Int {
        var (low, high) = (1, count)
        while low < high {
            let middle = (low &+ high) / 2
            if Key.compare(self[middle].first, key) <= 0 { low = middle &+ 1 } else { high = middle }
        }
        return low &- 1
    }
}
