/// The children of one object, in key order: a persistent B+tree.
///
///     few children    page   [ (key, node) (key, node) … ]                      one array, with no unused capacity
///     many            refs   [ (first key, count, page) … ]                     up to 32 on each level
///                              └─ page [ … ]   └─ page [ … ]
///
/// A copy is one reference, and is a snapshot (for a checkpoint, a large read). While there is a snapshot, a
/// writer copies the pages that it changes, one per level; otherwise everything changes in place.
///
/// Always true: keys ascend, no node is `.empty`, no page but the root is empty, and a ref's `count` is the
/// number of all entries below it. A ref's `first` is greater than all keys before it and at most the first
/// key of its page. The `first` of a page's first ref may be greater than that, since it is not read: keys
/// before the second ref belong to the first.
package struct Children: Sendable {
    /// One child.
    package struct Entry: Sendable {
        package let key: Key
        package var node: Node

        package init(key: Key, node: Node) {
            self.key = key
            self.node = node
        }
    }

    /// A reference to a page on the next level.
    struct ChildRef: Sendable {
        var first: Key
        var count: Int
        var page: Page
    }

    enum Page: Sendable {
        case entries(ContiguousArray<Entry>)
        case refs(ContiguousArray<ChildRef>)
    }

    /// Most entries or refs of one page. With larger pages a write copies more while there is a snapshot,
    /// with smaller ones the tree is higher; between 16 and 128 there is no other difference (the commit that
    /// chose 32 has the measurements).
    static let pageCapacity = 32

    var root: Page

    /// No children.
    package init() {
        root = .entries([])
    }

    /// - Parameter entries: In strictly ascending key order, and not `.empty`.
    /// - Complexity: O(n).
    package init(ascending entries: some RandomAccessCollection<Entry>) {
        self.init(adopting: ContiguousArray(entries))
    }

    /// As ``init(ascending:)``. An array of at most ``pageCapacity`` entries becomes the page itself, so it
    /// should have no unused capacity.
    package init(adopting entries: consuming ContiguousArray<Entry>) {
        guard entries.count <= Self.pageCapacity else {
            self.init(taking: &entries, from: 0)
            return
        }
        self.init()
        root = .entries(entries)
    }

    /// Moves the entries from `first` on out of an array; no reference is counted.
    /// - Parameter entries: In strictly ascending key order from `first` on, and not `.empty`.
    /// - Complexity: O(n).
    package init(taking entries: inout ContiguousArray<Entry>, from first: Int) {
        if entries.count - first <= Self.pageCapacity {
            root = .entries(Self.take(&entries, from: first))
            return
        }
        var refs = Self.takePages(&entries, from: first)
        refs.reverse()
        while refs.count > Self.pageCapacity {
            var parents: ContiguousArray<ChildRef> = []
            for start in stride(from: 0, to: refs.count, by: Self.pageCapacity) {
                let page = ContiguousArray(refs[start..<Swift.min(start + Self.pageCapacity, refs.count)])
                parents.append(
                    ChildRef(
                        first: page[0].first, count: page.reduce(0) { $0 + $1.count }, page: .refs(page)))
            }
            refs = parents
        }
        root = .refs(refs)
    }

    /// Moves the entries from `first` on out of an array, as pages, the last one first. All but the last are
    /// full.
    static func takePages(_ entries: inout ContiguousArray<Entry>, from first: Int) -> ContiguousArray<
        ChildRef
    > {
        var refs: ContiguousArray<ChildRef> = []
        refs.reserveCapacity((entries.count - first) / pageCapacity + 1)
        while entries.count > first {
            let page = take(&entries, from: first + (entries.count - first - 1) / pageCapacity * pageCapacity)
            refs.append(ChildRef(first: page[0].key, count: page.count, page: .entries(page)))
        }
        return refs
    }

    /// Moves the entries from `first` on to an array of their own.
    static func take(_ entries: inout ContiguousArray<Entry>, from first: Int) -> ContiguousArray<Entry> {
        let count = entries.count - first
        // Not `init(unsafeUninitializedCapacity:)`, which looks up type metadata at each call.
        var page = ContiguousArray<Entry>()
        page.reserveCapacity(count)
        page.append(addingCapacity: count) { output in
            unsafe output.withUnsafeMutableBufferPointer { places, initializedCount in
                // Each element is initialised once, from the last to the first.
                for index in stride(from: count - 1, through: 0, by: -1) {
                    unsafe places.initializeElement(at: index, to: entries.removeLast())
                }
                initializedCount = count
            }
        }
        return page
    }

    /// Whether there are no children. O(1).
    package var isEmpty: Bool {
        if case .entries(let entries) = root { entries.isEmpty } else { false }
    }

    /// How many children there are: at most 32 additions.
    package var count: Int { root.count }

    /// About the bytes of memory of all entries, without what is below the children: what a list takes whose
    /// children are another's, too. At most 32 additions.
    package var entryByteCount: Int { count * MemoryLayout<Entry>.stride }

    /// The child with this key, or `.empty`. O(log n).
    package subscript(key: Key) -> Node { root[key] }

    /// Changes the child with this key in place.
    /// - Parameters:
    ///   - context: Passed to `body`. A closure's captures would be retained on every level.
    ///   - body: Gets the child, `.empty` if there is none. A child that it leaves `.empty` is removed.
    /// - Complexity: O(log n), and one page copy on each level that a snapshot shares.
    package mutating func update<Context>(
        _ key: Key, with context: inout Context, _ body: (inout Node, inout Context) -> Void
    ) {
        var growth = 0
        let split = root.update(key, with: &context, growth: &growth, body)
        if let split {
            let left = root
            root = .refs([ChildRef(first: left.firstKey, count: left.count, page: left), split])
        } else if growth < 0 {
            // A root with a single ref is an unneeded level.
            while case .refs(let refs) = root, refs.count == 1 { root = refs[0].page }
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
        case .refs(let refs): refs.reduce(0) { $0 &+ $1.count }
        }
    }

    var firstKey: Key {
        switch self {
        case .entries(let entries): entries[0].key
        case .refs(let refs): refs[0].first
        }
    }

    subscript(key: Key) -> Node {
        switch self {
        case .entries(let entries):
            let index = entries.firstIndex(notBefore: key)
            return index < entries.count && entries[index].key == key ? entries[index].node : .empty
        case .refs(let refs): return refs[refs.index(holding: key)].page[key]
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
        case .refs(let refs):
            return refs[refs.index(holding: keys[depth])].page.withNode(
                at: keys, from: depth, context, body)
        }
    }

    /// Updates a child below this page.
    /// - Parameter growth: Set to the change of the number of children, both halves together: 1, 0 or -1.
    ///   Callers need not count again.
    /// - Returns: The right half, when this page had to split.
    mutating func update<Context>(
        _ key: Key, with context: inout Context, growth: inout Int,
        _ body: (inout Node, inout Context) -> Void
    ) -> ChildRef? {
        unsafe withUnsafeMutablePointer(to: &self) { place in
            // The array is moved out of the enum while it changes, so that there is one reference to it, and
            // moved back on every path.
            switch unsafe place.move() {
            case .entries(var entries):
                let before = entries.count
                let split = Self.update(&entries, key, with: &context, body)
                growth = entries.count + (split?.count ?? 0) - before
                unsafe place.initialize(to: .entries(entries))
                return split.map { ChildRef(first: $0[0].key, count: $0.count, page: .entries($0)) }
            case .refs(var refs):
                let index = refs.index(holding: key)
                let split = refs[index].page.update(key, with: &context, growth: &growth, body)
                var right: ChildRef?
                if let split {
                    refs[index].count += growth - split.count
                    right = Self.insert(split, at: index + 1, into: &refs)
                } else if growth != 0 {
                    refs[index].count += growth
                    if growth < 0 { Self.rebalance(&refs, around: index) }
                }
                unsafe place.initialize(to: .refs(refs))
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
        // Push ids are appended in ascending order: a page that is filled at its end stays full.
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

    /// Inserts a ref.
    /// - Returns: The right half, when the page had to split.
    static func insert(_ ref: ChildRef, at index: Int, into refs: inout ContiguousArray<ChildRef>)
        -> ChildRef?
    {
        guard refs.count >= Children.pageCapacity else {
            refs.insert(ref, at: index)
            return nil
        }
        var right: ContiguousArray<ChildRef>
        if index == refs.count {
            right = [ref]
        } else {
            let middle = refs.count / 2
            right = ContiguousArray(refs[middle...])
            refs = ContiguousArray(refs[..<middle])
            if index <= middle {
                refs.insert(ref, at: index)
            } else {
                right.insert(ref, at: index - middle)
            }
        }
        return ChildRef(first: right[0].first, count: right.reduce(0) { $0 &+ $1.count }, page: .refs(right))
    }

    /// Removes an empty page, and joins a small one with its neighbour, so that removals free memory.
    private static func rebalance(_ refs: inout ContiguousArray<ChildRef>, around index: Int) {
        let count = refs[index].page.slotCount
        if count == 0 {
            refs.remove(at: index)
            return
        }
        guard count < Children.pageCapacity / 4, refs.count > 1 else { return }
        let left = index > 0 ? index - 1 : index
        guard refs[left].page.slotCount + refs[left + 1].page.slotCount <= Children.pageCapacity * 3 / 4
        else { return }
        let right = refs.remove(at: left + 1)
        refs[left].page.join(right.page, startingAt: right.first)
        refs[left].count &+= right.count
    }

    private var slotCount: Int {
        switch self {
        case .entries(let entries): entries.count
        case .refs(let refs): refs.count
        }
    }

    /// Appends a sibling, which is on the same level.
    /// - Parameter first: The sibling's `first`. That of its own first ref may be greater than the keys below
    ///   it: allowed in the first ref of a page, where it is not read, but not behind others.
    private mutating func join(_ other: Children.Page, startingAt first: Key) {
        switch (exchange(&self, with: .entries([])), other) {
        case (.entries(var entries), .entries(let more)):
            entries.append(contentsOf: more)
            self = .entries(entries)
        case (.refs(var refs), .refs(let more)):
            let joint = refs.count
            refs.append(contentsOf: more)
            refs[joint].first = first
            self = .refs(refs)
        default: preconditionFailure("siblings are on different levels")
        }
    }
}

extension ContiguousArray<Children.Entry> {
    /// The index of the first entry whose key is not before `key`; `count` when there is none. O(log n).
    @inline(__always)
    func firstIndex(notBefore key: Key) -> Int {
        var (low, high) = (0, count)
        // Keys that are inserted in ascending order need no search.
        if high > 0, self[high &- 1].key < key { return high }
        while low < high {
            let middle = (low &+ high) / 2
            if self[middle].key < key { low = middle &+ 1 } else { high = middle }
        }
        return low
    }
}

extension ContiguousArray<Children.ChildRef> {
    /// The index of the ref whose page has `key`, or would have it. O(log n).
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
