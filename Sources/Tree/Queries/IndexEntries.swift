/// The entries of one page of an ``OrderedIndex``, in order.
///
///     packed   base   [ (6: distance of the word from the base, 16: key) … ]     22 bytes for each
///     plain           [ (8: word, 16: key) … ]                                   24 bytes for each
///
/// Packed are pages whose words are close to each other, as those of large indexes mostly are, and whose keys
/// have nothing on the heap. A packed page holds no references, so copying it counts none.
///
/// A page's capacity grows and shrinks by a few slots, and is not doubled. Where entries are inserted and
/// removed in random places, a page is about two thirds full. With a doubled capacity the unused third would
/// waste memory.
enum IndexEntries: Sendable {
    case packed(base: UInt64, ContiguousArray<PackedEntry>)
    case plain(ContiguousArray<IndexEntry>)

    /// Packed, if these can be. O(entries).
    init(_ entries: some BidirectionalCollection<IndexEntry>) {
        self = Self.packed(entries) ?? .plain(ContiguousArray(entries))
    }

    private static func packed(_ entries: some BidirectionalCollection<IndexEntry>) -> IndexEntries? {
        guard let first = entries.first, let last = entries.last else { return nil }
        let base = PackedEntry.base(for: first.word)
        guard PackedEntry.reaches(last.word, from: base) else { return nil }
        var slots: ContiguousArray<PackedEntry> = []
        slots.reserveCapacity(entries.count)
        for entry in entries {
            guard let slot = PackedEntry(entry, base: base) else { return nil }
            slots.append(slot)
        }
        return .packed(base: base, slots)
    }

    // MARK: Changing

    /// O(entries).
    mutating func insert(_ entry: IndexEntry, at index: Int) {
        // The array is moved out of the enum while it changes, so that there is one reference to it.
        switch exchange(&self, with: .plain([])) {
        case .packed(let base, var slots):
            if let slot = PackedEntry(entry, base: base) {
                slots.insertTightly(slot, at: index)
                self = .packed(base: base, slots)
            } else {
                var entries = ContiguousArray(slots.lazy.map { $0.entry(base: base) })
                entries.insertTightly(entry, at: index)
                self = .plain(entries)
            }
        case .plain(var entries):
            entries.insertTightly(entry, at: index)
            self = .plain(entries)
        }
    }

    /// O(entries).
    mutating func remove(at index: Int) {
        switch exchange(&self, with: .plain([])) {
        case .packed(let base, var slots):
            slots.removeTightly(at: index)
            self = .packed(base: base, slots)
        case .plain(var entries):
            entries.removeTightly(at: index)
            self = .plain(entries)
        }
    }

    /// Bytes of memory, with those of the allocator.
    var byteCount: Int {
        switch self {
        case .packed(_, let slots): slots.allocatedByteCount
        case .plain(let entries): entries.allocatedByteCount
        }
    }
}

extension IndexEntries: RandomAccessCollection {
    var startIndex: Int { 0 }

    var endIndex: Int {
        switch self {
        case .packed(_, let slots): slots.count
        case .plain(let entries): entries.count
        }
    }

    subscript(index: Int) -> IndexEntry {
        switch self {
        case .packed(let base, let slots): slots[index].entry(base: base)
        case .plain(let entries): entries[index]
        }
    }
}

/// An entry whose key has nothing on the heap. 22 bytes: its fields are aligned to two.
struct PackedEntry: Sendable {
    private let low: UInt16
    private let middle: UInt16
    private let high: UInt16
    private let head: Quarters
    private let tail: Quarters

    /// A number of 64 bits.
    private struct Quarters {
        let first: UInt16
        let second: UInt16
        let third: UInt16
        let fourth: UInt16

        init(_ number: UInt64) {
            first = UInt16(truncatingIfNeeded: number)
            second = UInt16(truncatingIfNeeded: number >> 16)
            third = UInt16(truncatingIfNeeded: number >> 32)
            fourth = UInt16(truncatingIfNeeded: number >> 48)
        }

        var number: UInt64 {
            UInt64(first) | UInt64(second) << 16 | UInt64(third) << 32 | UInt64(fourth) << 48
        }
    }

    /// The base of a page that begins with this word. Some that come before it later can be reached, too.
    static func base(for word: OrderWord) -> UInt64 { word.bits - min(word.bits, 1 << 45) }

    static func reaches(_ word: OrderWord, from base: UInt64) -> Bool {
        word.bits >= base && word.bits &- base < 1 << 48
    }

    /// Nil for an entry that cannot be packed in a page with this base.
    init?(_ entry: IndexEntry, base: UInt64) {
        let key = entry.key.words
        guard Self.reaches(entry.word, from: base), key.tail < Key.Kind.long else { return nil }
        let distance = entry.word.bits &- base
        low = UInt16(truncatingIfNeeded: distance)
        middle = UInt16(truncatingIfNeeded: distance >> 16)
        high = UInt16(truncatingIfNeeded: distance >> 32)
        head = Quarters(key.head)
        tail = Quarters(key.tail)
    }

    func entry(base: UInt64) -> IndexEntry {
        let distance = UInt64(low) | UInt64(middle) << 16 | UInt64(high) << 32
        return IndexEntry(
            word: OrderWord(bits: base &+ distance), key: Key(head: head.number, tail: tail.number))
    }
}

extension ContiguousArray {
    /// Slots by which a page of an index grows.
    private static var capacityStep: Int { 4 }

    /// Inserts an element in a page that is not full; an array without free slots grows by a few.
    mutating func insertTightly(_ element: Element, at index: Int) {
        if count == capacity {
            reserveCapacity(Swift.min(count + Self.capacityStep, IndexPage.capacity))
        }
        insert(element, at: index)
    }

    /// Removes an element; an array with many free slots gives some back.
    mutating func removeTightly(at index: Int) {
        remove(at: index)
        guard capacity - count > 2 * Self.capacityStep else { return }
        var smaller = ContiguousArray()
        smaller.reserveCapacity(count + Self.capacityStep)
        smaller.append(contentsOf: self)
        self = smaller
    }

    /// Bytes of the array's memory: its head, its slots, and what an allocator adds.
    var allocatedByteCount: Int {
        let (head, unit) = (40, 16)
        return (head + capacity * MemoryLayout<Element>.stride + unit - 1) / unit * unit
    }
}
