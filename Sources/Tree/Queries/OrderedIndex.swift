import PandoBytes

/// The children of one object in the order of an index (realtime §7.3): a persistent B+tree beside the
/// object's ``Children``.
///
///     few children    page   [ (word, key) (word, key) … ]                   22 or 24 bytes for each child
///     many            refs   [ (first word, key and value, count, page) … ]  up to 64 on each level
///                              └─ page [ … ]   └─ page [ … ]
///
/// An entry has the first 64 bits of its value's order (``OrderWord``), and the key. The value itself is in
/// the object: it is looked up where two words are equal and not exact. So the index takes little memory, and
/// every call gets the children that it belongs to.
///
/// A *measured* index also has, for each page, a summary of the numbers that its children have at a field
/// (`OrderedIndex+Summaries.swift`).
///
/// A copy is one reference, and is a snapshot; a writer then copies one page on each level, and none without.
///
/// Always true: there is one entry for each child, entries ascend by (value, key), no page but the root is
/// empty, and a ref's `count` is the number of all entries below it. A ref's `first` is after all entries
/// before it and not after the first entry of its page; that of a page's first ref is not read. A ref holds
/// its value, so that a search looks up values only in the last page, and the removal of an entry looks up
/// none.
package struct OrderedIndex: Sendable {
    /// A place in the order, which a page begins with.
    struct Separator: Sendable {
        let word: OrderWord
        /// `.empty` where the word is exact.
        let value: Node
        let key: Key
    }

    /// A reference to a page on the next level.
    struct Ref: Sendable {
        var first: Separator
        var count: Int
        var page: Page
        /// Of the numbers below; nil in an index without a measure, and while it is not repaired after a
        /// change.
        var summary: PageSummary?
    }

    enum Page: Sendable {
        case entries(IndexEntries)
        case refs(ContiguousArray<Ref>)

        /// Without an entry.
        static var empty: Page { .entries(.plain([])) }
    }

    /// By what it orders.
    package let order: ChildOrder
    /// The field whose numbers are summarised; nil for none.
    package let measure: ChildOrder?
    var root: Page

    init(order: ChildOrder, measure: ChildOrder? = nil, root: Page) {
        self.order = order
        self.measure = measure
        self.root = root
    }

    /// How many children there are: at most 64 additions.
    package var count: Int { root.count }

    /// Adds a child.
    /// - Parameters:
    ///   - value: By what it is ordered (``ChildOrder/value(of:)``).
    ///   - key: Must not be in the index.
    ///   - children: The object with this child. All other entries must be ordered by what it has.
    /// - Complexity: O(log n), and up to six values looked up in `children` where words are not exact.
    package mutating func insert(_ value: Node, _ key: Key, in children: Children) {
        let place = IndexPlace(value, .key(key))
        let values = ChildValues(order: order, children: children)
        guard let right = root.insert(IndexEntry(word: place.word, key: key), place, values) else { return }
        let left = root
        // The first ref of a page is not read.
        let first = Separator(word: .nothing, value: .empty, key: key)
        root = .refs([Ref(first: first, count: left.count, page: left), right])
    }

    /// Removes a child.
    /// - Parameter value: By what it was ordered when it was added.
    /// - Returns: false when it is not there: then the value is wrong.
    /// - Complexity: O(log n); nothing is looked up.
    package mutating func remove(_ value: Node, _ key: Key) -> Bool {
        let place = IndexPlace(value, .key(key))
        guard root.remove(place, key) else { return false }
        while case .refs(let refs) = root, refs.count == 1 { root = refs[0].page }
        return true
    }
}

/// The values by which an index orders the children of an object.
struct ChildValues {
    let order: ChildOrder
    let children: Children

    subscript(key: Key) -> Node { order.value(of: children[key]) }
}

// MARK: - Searching

extension IndexEntries {
    /// How many entries are before a place. O(log n).
    /// - Parameter includesEqual: Whether one that is at the place is counted.
    func countBefore(_ place: IndexPlace, orAt includesEqual: Bool, _ values: ChildValues) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low &+ high) / 2
            let order = place.compare(self[middle], values)
            if order < 0 || (order == 0 && includesEqual) { low = middle &+ 1 } else { high = middle }
        }
        return low
    }
}

extension ContiguousArray<OrderedIndex.Ref> {
    /// The index of the ref whose page has a place, or would have it. O(log n).
    func index(holding place: IndexPlace) -> Int {
        var (low, high) = (1, count)
        while low < high {
            let middle = (low &+ high) / 2
            if place.compare(self[middle].first) <= 0 { low = middle &+ 1 } else { high = middle }
        }
        return low &- 1
    }
}

// MARK: - Pages

extension OrderedIndex.Page {
    typealias Ref = OrderedIndex.Ref

    var count: Int {
        switch self {
        case .entries(let entries): entries.count
        case .refs(let refs): refs.reduce(0) { $0 &+ $1.count }
        }
    }

    var slotCount: Int {
        switch self {
        case .entries(let entries): entries.count
        case .refs(let refs): refs.count
        }
    }

    /// Inserts an entry below this page.
    /// - Returns: The right half, when this page had to split.
    mutating func insert(_ entry: IndexEntry, _ place: IndexPlace, _ values: ChildValues) -> Ref? {
        // The array is moved out of the enum while it changes, so that there is one reference to it.
        switch exchange(&self, with: .empty) {
        case .entries(var entries):
            let index = entries.countBefore(place, orAt: false, values)
            let right = entries.insertOrSplit(entry, at: index)
            self = .entries(entries)
            guard let right else { return nil }
            let value = right[0].word.isExact ? .empty : values[right[0].key]
            return Ref(
                first: OrderedIndex.Separator(word: right[0].word, value: value, key: right[0].key),
                count: right.count, page: .entries(right))
        case .refs(var refs):
            let index = refs.index(holding: place)
            let split = refs[index].page.insert(entry, place, values)
            refs[index].count &+= 1 &- (split?.count ?? 0)
            refs[index].summary = nil
            let right = split.flatMap { refs.insertOrSplit($0, at: index + 1) }
            self = .refs(refs)
            return right.map {
                Ref(first: $0[0].first, count: $0.reduce(0) { $0 &+ $1.count }, page: .refs($0))
            }
        }
    }

    /// Removes an entry below this page.
    /// - Returns: false when it is not there.
    mutating func remove(_ place: IndexPlace, _ key: Key) -> Bool {
        switch exchange(&self, with: .empty) {
        case .entries(var entries):
            let index = entries.firstIndex { $0.word == place.word && $0.key == key }
            if let index { entries.remove(at: index) }
            self = .entries(entries)
            return index != nil
        case .refs(var refs):
            let index = refs.index(holding: place)
            let isRemoved = refs[index].page.remove(place, key)
            if isRemoved {
                refs[index].count &-= 1
                refs[index].summary = nil
                Self.rebalance(&refs, around: index)
            }
            self = .refs(refs)
            return isRemoved
        }
    }

    /// Removes an empty page, and joins a small one with its neighbour, so that removals free memory.
    private static func rebalance(_ refs: inout ContiguousArray<Ref>, around index: Int) {
        let count = refs[index].page.slotCount
        if count == 0 {
            refs.removeTightly(at: index)
            return
        }
        guard count < IndexPage.capacity / 4, refs.count > 1 else { return }
        let left = index > 0 ? index - 1 : index
        guard
            refs[left].page.slotCount + refs[left + 1].page.slotCount <= IndexPage.capacity * 3 / 4
        else { return }
        let right = refs[left + 1]
        refs.removeTightly(at: left + 1)
        refs[left].page.append(right.page, startingAt: right.first)
        refs[left].count &+= right.count
        refs[left].summary = nil
    }

    /// Appends the slots of a sibling, which is on the same level.
    /// - Parameter first: The sibling's `first`: that of its own first ref is not read there, but is here.
    private mutating func append(_ sibling: OrderedIndex.Page, startingAt first: OrderedIndex.Separator) {
        switch (exchange(&self, with: .empty), sibling) {
        case (.entries(let entries), .entries(let more)):
            self = .entries(IndexEntries(Array(entries) + more))
        case (.refs(var refs), .refs(let more)):
            let joint = refs.count
            refs += more
            refs[joint].first = first
            self = .refs(refs)
        default: preconditionFailure("siblings are on different levels")
        }
    }
}

extension IndexEntries {
    /// Inserts an entry.
    /// - Returns: The right half, when the page had to split.
    fileprivate mutating func insertOrSplit(_ entry: IndexEntry, at index: Int) -> IndexEntries? {
        switch OrderedIndex.Split(slotCount: count, at: index) {
        case .unneeded:
            insert(entry, at: index)
            return nil
        case .behindAll: return IndexEntries(CollectionOfOne(entry))
        case .inTheMiddle(let middle):
            var right = IndexEntries(self[middle...])
            self = IndexEntries(self[..<middle])
            if index <= middle { insert(entry, at: index) } else { right.insert(entry, at: index - middle) }
            return right
        }
    }
}

extension ContiguousArray<OrderedIndex.Ref> {
    /// As ``IndexEntries/insertOrSplit(_:at:)``.
    fileprivate mutating func insertOrSplit(_ ref: OrderedIndex.Ref, at index: Int) -> ContiguousArray? {
        switch OrderedIndex.Split(slotCount: count, at: index) {
        case .unneeded:
            insertTightly(ref, at: index)
            return nil
        case .behindAll: return [ref]
        case .inTheMiddle(let middle):
            var right = ContiguousArray(self[middle...])
            self = ContiguousArray(self[..<middle])
            if index <= middle {
                insertTightly(ref, at: index)
            } else {
                right.insertTightly(ref, at: index - middle)
            }
            return right
        }
    }
}

extension OrderedIndex {
    /// Where a page splits before a slot is inserted.
    fileprivate enum Split {
        case unneeded
        /// Values that are times ascend: a page that is filled at its end stays full.
        case behindAll
        case inTheMiddle(Int)

        init(slotCount: Int, at index: Int) {
            self =
                slotCount < IndexPage.capacity
                ? .unneeded : index == slotCount ? .behindAll : .inTheMiddle(slotCount / 2)
        }
    }
}
