/// The children of one object, in key order: a persistent B+tree.
///
///     few children    page   [ (key, node) (key, node) … ]                      one array, exactly as long as needed
///     many            limbs  [ (first key, count, page) … ]                     up to 32 a level
///                              └─ page [ … ]   └─ page [ … ]
///
/// A copy is a reference: whoever keeps one (a checkpoint, a large read) keeps a snapshot, and the writer
/// copies the pages it touches, one per level. Without a snapshot everything changes in place.
///
/// Always true: keys ascend, no node is `.empty`, no page but the root is empty, and a limb's `count` is the
/// sum of its page's entries. A limb's `first` is greater than all keys before it and at most the first one
/// in its page; the `first` of a page's own first limb may be greater, and nobody looks at it: what is before
/// the second goes there.
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
    struct ChildRef: Sendable {
        var first: Key
        var count: Int
        var page: Page
    }

    enum Page: Sendable {
        case entries(ContiguousArray<Entry>)
        case limbs(ContiguousArray<ChildRef>)
    }

    /// Entries or limbs in one page. Larger ones make a write under a snapshot copy more, smaller ones make
    /// the tree higher; between 16 and 128 nothing else tells them apart (the commit that chose 32 has the
    /// numbers).
    static let pageCapacity = 32

    var root: Page

    package init() {
        root = .entries([])
    }

    /// Takes entries that are already in strictly ascending key order and not `.empty`. O(n).
    package init(ascending entries: some RandomAccessCollection<Entry>) {
        self.init(adopting: ContiguousArray(entries))
    }

    /// The same; an array of one page becomes that page, so it should have room for no more than it holds.
    package init(adopting entries: consuming ContiguousArray<Entry>) {
        guard entries.count <= Self.pageCapacity else {
            self.init(taking: &entries, from: 0)
            return
        }
        self.init()
        root = .entries(entries)
    }

    /// Cuts entries off the end of an array, which are in strictly ascending key order and not `.empty`. They
    /// are moved, not copied, so that nothing is retained. O(n).
    package init(taking entries: inout ContiguousArray<Entry>, from first: Int) {
        if entries.count - first <= Self.pageCapacity {
            root = .entries(Self.take(&entries, from: first))
            return
        }
        var limbs = Self.takeLimbs(&entries, from: first)
        limbs.reverse()
        while limbs.count > Self.pageCapacity {
            var parents: ContiguousArray<ChildRef> = []
            for start in stride(from: 0, to: limbs.count, by: Self.pageCapacity) {
                let page = ContiguousArray(limbs[start..<Swift.min(start + Self.pageCapacity, limbs.count)])
                parents.append(
                    ChildRef(
                        first: page[0].first, count: page.reduce(0) { $0 + $1.count }, page: .limbs(page)))
            }
            limbs = parents
        }
        root = .limbs(limbs)
    }

    /// Cuts entries off the end of an array as pages, the last one first: all are full but that.
    static func takeLimbs(_ entries: inout ContiguousArray<Entry>, from first: Int) -> ContiguousArray<
        ChildRef
    > {
        var limbs: ContiguousArray<ChildRef> = []
        limbs.reserveCapacity((entries.count - first) / pageCapacity + 1)
        while entries.count > first {
            let page = take(&entries, from: first + (entries.count - first - 1) / pageCapacity * pageCapacity)
            limbs.append(ChildRef(first: page[0].key, count: page.count, page: .entries(page)))
        }
        return limbs
    }

    /// Moves the entries from `first` on to an array of their own.
    static func take(_ entries: inout ContiguousArray<Entry>, from first: Int) -> ContiguousArray<Entry> {
        let count = entries.count - first
        // Not `init(unsafeUninitializedCapacity:)`, which looks for the array's type each time.
        var page = ContiguousArray<Entry>()
        page.reserveCapacity(count)
        page.append(addingCapacity: count) { output in
            unsafe output.withUnsafeMutableBufferPointer { places, initializedCount in
                // Each place is filled once, from the last to the first.
                for index in stride(from: count - 1, through: 0, by: -1) {
                    unsafe places.initializeElement(at: index, to: entries.removeLast())
                }
                initializedCount = count
            }
        }
        return page
    }

    package var isEmpty: Bool {
        if case .entries(let entries) = root { entries.isEmpty } else { false }
    }

    /// How many children; O(1) for practical purposes (at most 32 additions).
    package var count: Int { root.count }

    /// The child of that name, or `.empty`. O(log n).
    package subscript(key: Key) -> Node { root[key] }

    /// Changes the child of that name in place; it is `.empty` when there is none, and leaving it `.empty`
    /// removes it.
    /// - Parameters:
    ///   - context: What `body` works with, handed down: what a closure captures would be counted anew on
    ///     every level.
    /// - Complexity: O(log n), plus one page copy a level while a snapshot shares it.
    package mutating func update<Context>(
        _ key: Key, with context: inout Context, _ body: (inout Node, inout Context) -> Void
    ) {
        var growth = 0
        let split = root.update(key, with: &context, growth: &growth, body)
        if let split {
            let left = root
            root = .limbs([ChildRef(first: left.firstKey, count: left.count, page: left), split])
        } else if growth < 0 {
            // A root with a single limb is a level too many.
            while case .limbs(let limbs) = root, limbs.count == 1 { root = limbs[0].page }
        }
    }
}

// MARK: - Pages

extension Children.Page {
    typealias Entry = Children.Entry
    typealias ChildRef = Children.ChildRef

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

    subscript(key: Key) -> Node {
        switch self {
        case .entries(let entries):
            let index = entries.firstIndex(notBefore: key)
            return index < entries.count && entries[index].key == key ? entries[index].node : .empty
        case .limbs(let limbs): return limbs[limbs.index(holding: key)].page[key]
        }
    }

    /// As ``Node/withNode(at:from:_:_:)``, of children.
    func withNode<Context, Result>(
        at keys: Span<Key>, from depth: Int, _ context: Context, _ body: (Node, Context) -> Result
    ) -> Result {
        switch self {
        case .entries(let entries):
            let index = entries.firstIndex(notBefore: keys[depth])
            guard index < entries.count, entries[index].key == keys[depth] else {
                return body(.empty, context)
            }
            return entries[index].node.withNode(at: keys, from: depth &+ 1, context, body)
        case .limbs(let limbs):
            return limbs[limbs.index(holding: keys[depth])].page.withNode(
                at: keys, from: depth, context, body)
        }
    }

    /// Updates below this page; gives the right half when the page had to split.
    /// - Parameter growth: What it adds to the number of children, both halves together: 1, 0 or -1. Handed
    ///   up, so that no page is looked at again for it.
    mutating func update<Context>(
        _ key: Key, with context: inout Context, growth: inout Int,
        _ body: (inout Node, inout Context) -> Void
    ) -> ChildRef? {
        unsafe withUnsafeMutablePointer(to: &self) { place in
            // The array leaves the enum while it changes, so that it has one owner, and comes back on every
            // way out.
            switch unsafe place.move() {
            case .entries(var entries):
                let before = entries.count
                let split = Self.update(&entries, key, with: &context, body)
                growth = entries.count + (split?.count ?? 0) - before
                unsafe place.initialize(to: .entries(entries))
                return split.map { ChildRef(first: $0[0].key, count: $0.count, page: .entries($0)) }
            case .limbs(var limbs):
                let index = limbs.index(holding: key)
                let split = limbs[index].page.update(key, with: &context, growth: &growth, body)
                var right: ChildRef?
                if let split {
                    limbs[index].count += growth - split.count
                    right = Self.insert(split, at: index + 1, into: &limbs)
                } else if growth != 0 {
                    limbs[index].count += growth
                    if growth < 0 { Self.rebalance(&limbs, around: index) }
                }
                unsafe place.initialize(to: .limbs(limbs))
                return right
            }
        }
    }

    private static func update<Context>(
        _ entries: inout ContiguousArray<Entry>, _ key: Key, with context: inout Context,
        _ body: (inout Node, inout Context) -> Void
    ) -> ContiguousArray<Entry>? {
        let index = entries.firstIndex(notBefore: key)
        if index < entries.count, entries[index].key == key {
            body(&entries[index].node, &context)
            if entries[index].node.isEmpty { entries.remove(at: index) }
            return nil
        }
        var node = Node.empty
        body(&node, &context)
        guard !node.isEmpty else { return nil }
        let entry = Entry(key: key, node: node)
        guard entries.count >= Children.pageCapacity else {
            entries.insert(entry, at: index)
            return nil
        }
        // Push ids arrive in ascending order: a page that fills at its end stays full.
        if index == entries.count { return [entry] }
        let middle = entries.count / 2
        var right = Children.take(&entries, from: middle)
        if index <= middle {
            entries.insert(entry, at: index)
        } else {
            right.insert(entry, at: index - middle)
        }
        return right
    }

    /// Inserts a limb; gives the right half when the page had to split.
    static func insert(_ limb: ChildRef, at index: Int, into limbs: inout ContiguousArray<ChildRef>)
        -> ChildRef?
    {
        guard limbs.count >= Children.pageCapacity else {
            limbs.insert(limb, at: index)
            return nil
        }
        var right: ContiguousArray<ChildRef>
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
        return ChildRef(first: right[0].first, count: right.reduce(0) { $0 &+ $1.count }, page: .limbs(right))
    }

    /// Drops an emptied page, and joins a small one with its neighbour, so that removals give memory back.
    private static func rebalance(_ limbs: inout ContiguousArray<ChildRef>, around index: Int) {
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
    /// - Parameter first: What separates the two. The other page's own first limb may claim to begin later
    ///   than keys that went into it as its page's lowest: harmless at the head of a page, where nobody
    ///   looks, but not here.
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
    @inline(__always)
    func firstIndex(notBefore key: Key) -> Int {
        var (low, high) = (0, count)
        // Ascending inserts end here at once.
        if high > 0, self[high &- 1].key < key { return high }
        while low < high {
            let middle = (low &+ high) / 2
            if self[middle].key < key { low = middle &+ 1 } else { high = middle }
        }
        return low
    }
}

extension ContiguousArray<Children.ChildRef> {
    /// The limb that holds `key` or would hold it.
    @inline(__always)
    func index(holding key: Key) -> Int {
        var (low, high) = (1, count)
        while low < high {
            let middle = (low &+ high) / 2
            if key < self[middle].first { high = middle } else { low = middle &+ 1 }
        }
        return low &- 1
    }
}
