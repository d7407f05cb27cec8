import PandoTree

/// How many indexes a database has, and the memory that those on demand take.
struct IndexAccounts {
    /// Most indexes that the rules declare, of all locations: a write may look at all of them.
    static let declaredLimit = 4096
    /// Most indexes on demand of a location: each write to a child may move it in all of them.
    static let onDemandLimitPerLocation = 16
    /// Most indexes on demand of all locations.
    static let onDemandLimit = 512
    /// Bytes that an index takes for each child when it is built, at most: 24 for one that is not packed, and
    /// its part of the pages' heads and of the pages above. Counted when the index is ready.
    private static let builtEntryByteCount = 28
    /// Bytes that a node of the trie takes at most, with its path and a slot.
    static let locationByteCount = 1024
    /// The most bytes that one more entry adds in a page of entries, and some more: a full page splits, and
    /// one half grows again and is not packed any more.
    private static let addedEntryByteCount = 384
    /// Entries of a full page.
    private static let entriesPerPage = 64
    /// The part of an index by which pages above those of entries may grow before its bytes are counted
    /// again.
    private static let slackPart = 8
    /// The caller compares the indexes with its limit after they have grown by as much.
    private static let reportedGrowthByteCount = 64 << 10

    private(set) var declaredCount = 0
    private(set) var onDemandCount = 0
    /// Bytes that all indexes on demand may take together.
    var onDemandByteLimit = 256 << 20
    /// Bytes of all indexes on demand, ready or being built.
    private(set) var onDemandByteCount = 0
    /// ``onDemandByteCount`` at the last report to the caller.
    private var reportedByteCount = 0

    var isBeyondLimit: Bool { onDemandByteCount > onDemandByteLimit }

    /// Whether the caller is to compare the indexes with its limit.
    var hasGrown: Bool { onDemandByteCount - reportedByteCount >= Self.reportedGrowthByteCount }

    /// The caller compares them now.
    mutating func report() { reportedByteCount = onDemandByteCount }

    /// Whether there is memory for an index on demand of so many children.
    func mayHold(childCount: Int, overheadByteCount: Int = 0) -> Bool {
        childCount * Self.builtEntryByteCount + overheadByteCount <= onDemandByteLimit
    }

    /// Counts a slot that was made, and the bytes that its index will take.
    mutating func add(_ slot: inout IndexSlot, childCount: Int) {
        if slot.isDeclared { declaredCount += 1 } else { onDemandCount += 1 }
        charge(&slot, childCount * Self.builtEntryByteCount + slot.overheadByteCount)
    }

    /// A slot was removed.
    mutating func remove(_ slot: consuming IndexSlot) {
        if slot.isDeclared { declaredCount -= 1 } else { onDemandCount -= 1 }
        charge(&slot, 0)
    }

    /// Charges the bytes that an index takes, as they were counted.
    mutating func charge(_ slot: inout IndexSlot, counted byteCount: Int) {
        slot.uncountedChangeCount = 0
        charge(&slot, slot.overheadByteCount + byteCount + byteCount / Self.slackPart)
    }

    /// After a write: charges what it can have added, and counts the bytes anew after some changes.
    /// - Complexity: O(1), and O(pages) once for so many changes as there are pages.
    mutating func recharge(_ slot: inout IndexSlot, _ index: KeptIndex, changeCount: Int) {
        guard !slot.isDeclared else { return }
        slot.uncountedChangeCount += changeCount
        if slot.uncountedChangeCount > index.count / Self.entriesPerPage {
            charge(&slot, counted: index.byteCount)
        } else {
            charge(&slot, slot.chargedByteCount + changeCount * Self.addedEntryByteCount)
        }
    }

    /// Sets the bytes that an index on demand counts for. Nothing is counted for a declared one.
    private mutating func charge(_ slot: inout IndexSlot, _ byteCount: Int) {
        guard !slot.isDeclared else { return }
        onDemandByteCount += byteCount - slot.chargedByteCount
        slot.chargedByteCount = byteCount
    }
}

/// Orders that queries have asked for once, the oldest first: an index is built the second time.
struct RequestedOrders {
    private static let limit = 64

    private var orders: [(path: Path, order: ChildOrder, measure: ChildOrder?)] = []

    /// - Returns: Whether it was asked for before; then that is forgotten.
    mutating func ask(for order: ChildOrder, measuring measure: ChildOrder?, at path: Path) -> Bool {
        if let found = orders.firstIndex(where: {
            $0.order == order && $0.measure == measure && $0.path == path
        }) {
            orders.remove(at: found)
            return true
        }
        if orders.count == Self.limit { orders.removeFirst() }
        orders.append((path, order, measure))
        return false
    }
}
