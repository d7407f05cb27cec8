import PandoRules
import PandoTree

/// The indexes that a database keeps: a trie of the locations that have some.
///
///     root ─ "scores" ─   .child(n)   ready: changes with the location's children, in the same commit
///                         .value      being built on a snapshot, by another thread; not used until then
///
/// Indexes save time and change no result: without one a query visits all children.
///
/// There are two kinds. Those that the rules declare are built for every location with many children, and kept
/// while the rules name them. The others are built when queries ask for their order, and the one that was not used
/// for the longest time is dropped where all of them would take more than ``onDemandByteLimit``. (The host has one
/// limit for all databases, and drops the one that no query has used for the longest time in any of them.)
///
/// Always true: a ready index is that of its location's children as they are in the tree, between any two commands.
/// A location in the trie has an index, or some location below it has; except for the root.
///
/// What clients ask for is bounded: in number, for a location and for a database, and in bytes, each index with the
/// trie's nodes on its way. They never keep an index out that the rules declare.
///
/// `@unchecked Sendable`: owned by one ``LiveTree`` and never handed out. A tree belongs to one thread and cannot be
/// copied, so no two threads use it at the same time.
final class IndexCatalog: @unchecked Sendable {
    /// Children of a location up to which all are visited: some ten microseconds. It gets no indexes.
    var unindexedChildCount = defaultUnindexedChildCount
    static let defaultUnindexedChildCount = 256
    /// Children of a location up to which all are visited, in the same step, for a window that lacks some.
    var visitedChildCount = LiveTree.inlineWindowChildCount
    /// Children that the windows of one location visit or move in one write, about: some ten milliseconds. Windows for
    /// which nothing is left fall behind (``ListenerTable/QueryView/isBehind``): one client may have a thousand over a
    /// large location.
    var updatedChildLimit = 1 << 18
    /// A location with fewer children loses its indexes. Fewer, so that they are not built again and again.
    var keptChildCount: Int { max(1, unindexedChildCount / 4) }
    /// Most indexes that the rules declare, of all locations: a write may look at all of them.
    static let declaredLimit = 4096
    /// Most indexes on demand of a location: each write to a child may move it in all of them.
    static let onDemandLimitPerLocation = 16
    /// Most indexes on demand of all locations.
    static let onDemandLimit = 512
    /// An index on demand that a query has used within this time gives way to no other one, so that many orders in
    /// turn do not make indexes that are dropped before they are used: milliseconds.
    static let leastStay: Int64 = 10_000

    /// One location.
    final class Location {
        let path: Path
        var children: [Key: Location] = [:]
        var slots: [Slot] = []
        /// Whether it is among ``touched``.
        var isTouched = false

        init(path: Path) {
            self.path = path
        }
    }

    /// One index of a location.
    struct Slot {
        let order: Index
        /// The field whose numbers it summarises, for aggregates; nil for none.
        let measure: Index?
        /// Distinguishes it from an earlier one of the same order.
        let number: Int
        /// Whether the rules declare it.
        var isDeclared: Bool
        /// Nil while it is not ready.
        var index: KeptIndex?
        /// Bytes of the slot and of the trie's nodes on its way, at most.
        let overheadByteCount: Int
        /// Bytes that count against the limit: none of a declared one. At least as many as the index takes, and
        /// ``overheadByteCount``.
        var chargedByteCount = 0
        /// Entries that were added or removed since its bytes were counted.
        var uncountedChangeCount = 0
        /// When a query used it last: milliseconds since 1970.
        var lastUse: Int64
        /// The children that the write in progress is about to change, with their values before it; nil for none.
        var olds: [(key: Key, value: Node?, number: Node)] = []
    }

    let root = Location(path: .root)
    /// What the rules declare; nil for nothing.
    var declarations: IndexDeclarations?
    /// Indexes that are ready. While there are none, a write has nothing to do here.
    var readyCount = 0
    var locationCount = 0
    private(set) var declaredCount = 0
    private(set) var onDemandCount = 0
    private var lastNumber = 0
    /// The number of the last scan.
    var lastScan = 0
    /// Of a query: milliseconds since 1970.
    private var lastTime: Int64 = 0

    /// Bytes that all indexes on demand may take together.
    var onDemandByteLimit = 256 << 20
    /// Bytes that an index takes for each child when it is built: 24, and its part of the pages' heads and of the pages
    /// above. Counted when the index is ready.
    static let builtEntryByteCount = 28
    /// Bytes that a node of the trie takes at most, with its path and a slot.
    static let locationByteCount = 1024
    /// The most bytes that one more entry adds in a page of entries: a full page splits, and one half grows again.
    static let addedEntryByteCount = 864
    /// The part of an index by which pages above those of entries may grow before its bytes are counted again.
    static let slackPart = 8
    /// Bytes of all indexes on demand, ready or being built.
    private(set) var onDemandByteCount = 0
    /// ``onDemandByteCount`` when the host last took the work.
    private var reportedByteCount = 0
    /// The host compares the indexes with its limit after they have grown by as much.
    private static let reportedGrowthByteCount = 64 << 10

    /// What the host is to do: see ``IndexWork``.
    var work = IndexWork()
    /// Orders that were asked for once, the oldest first: an index is built the second time.
    private var askedOnce: [(path: Path, order: Index, measure: Index?)] = []
    private static let askedOnceLimit = 64
    /// Locations that the write in progress changes the children of.
    var touched: [Location] = []
    /// Indexes of data that the next write brings; none mostly.
    var prepared: [PreparedIndex] = []
    /// Writes so far: one in some is looked at for locations that have grown.
    var writeCount = 0
    static let growthCheckMask = 31

    /// Whether any location has an index, ready or not.
    var hasIndexes: Bool { locationCount > 0 || !root.slots.isEmpty }

    /// Whether a write has nothing to do here.
    var ignoresWrites: Bool { declarations == nil && !hasIndexes }

    // MARK: Finding

    /// The index of a location in this order; nil where there is none that is ready. O(depth).
    func index(_ order: Index, measuring measure: Index? = nil, at path: Path) -> KeptIndex? {
        guard readyCount > 0, let location = location(at: path) else { return nil }
        return location.slots.first { $0.order == order && $0.measure == measure }?.index
    }

    /// Whether there is an index of a location in this order, ready or not. O(depth).
    func hasSlot(_ order: Index, measuring measure: Index? = nil, at path: Path) -> Bool {
        location(at: path)?.slots.contains { $0.order == order && $0.measure == measure } ?? false
    }

    func location(at path: Path) -> Location? {
        var location = root
        for key in path.keys {
            guard let next = location.children[key] else { return nil }
            location = next
        }
        return location
    }

    // MARK: Asking

    /// Notes that a query has used, or would have used, an index, and has it built where there is none yet.
    /// - Parameters:
    ///   - measure: The field whose numbers it summarises; nil for none.
    ///   - isLasting: Whether it will be used again: a listen.
    ///   - node: The location's data.
    ///   - time: Milliseconds since 1970.
    /// - Complexity: O(depth + locations with indexes), mostly O(depth).
    func noteUse(
        of order: Index, measuring measure: Index? = nil, at path: Path, over node: Node, isLasting: Bool,
        at time: Int64
    ) {
        lastTime = max(lastTime, time)
        if let location = location(at: path),
            let number = location.slots.firstIndex(where: { $0.order == order && $0.measure == measure })
        {
            location.slots[number].lastUse = time
            return
        }
        guard node.children.count > unindexedChildCount else { return }
        let isDeclared = measure == nil && declarations?[path]?.orders.contains(order) ?? false
        // The default order needs no declaration.
        guard isDeclared || isLasting || order == .priority || wasAskedFor(order, measure, at: path) else {
            return
        }
        request(
            order, measuring: measure, at: path, childCount: node.children.count, isDeclared: isDeclared,
            at: time)
    }

    /// Notes that the indexes of a query were used, or would have been (``noteUse(of:measuring:at:over:isLasting:at:)``).
    /// - Parameter time: Milliseconds since 1970; nil for that of the last query.
    func noteUse(of query: Query, at path: Path, over node: Node, isLasting: Bool, at time: Int64? = nil) {
        let time = time ?? lastTime
        let isSmall = query.limit.map { $0.count <= unindexedChildCount } ?? false
        // Of few children the numbers are looked up.
        for field in isSmall ? [] : query.aggregatedFields {
            noteUse(of: query.index, measuring: field, at: path, over: node, isLasting: isLasting, at: time)
        }
        guard isSmall || query.aggregatedFields.isEmpty, query.index != .key else { return }
        noteUse(of: query.index, at: path, over: node, isLasting: isLasting, at: time)
    }

    /// The query with the indexes that are ready. O(depth).
    func indexed(_ query: Query, at path: Path) -> IndexedQuery {
        IndexedQuery(
            query, by: index(query.index, at: path),
            measured: query.aggregates.isEmpty
                ? [] : query.aggregatedFields.map { index(query.index, measuring: $0, at: path) })
    }

    /// The index by which a window finds its next children, of a location's data after a write. It is built where
    /// there is none, unless there are few children.
    func indexForWindow(_ order: Index, at path: Path, over node: Node) -> KeptIndex? {
        if order == .key { return nil }
        noteUse(of: order, at: path, over: node, isLasting: true, at: lastTime)
        return index(order, at: path)
    }

    private func wasAskedFor(_ order: Index, _ measure: Index?, at path: Path) -> Bool {
        if let found = askedOnce.firstIndex(where: {
            $0.order == order && $0.measure == measure && $0.path == path
        }) {
            askedOnce.remove(at: found)
            return true
        }
        if askedOnce.count == Self.askedOnceLimit { askedOnce.removeFirst() }
        askedOnce.append((path, order, measure))
        return false
    }

    /// Has an index built, if it is not there and there is a place for it.
    func request(
        _ order: Index, measuring measure: Index? = nil, at path: Path, childCount: Int, isDeclared: Bool,
        at time: Int64
    ) {
        guard !hasSlot(order, measuring: measure, at: path) else { return }
        let overhead = isDeclared ? 0 : (path.keys.count + 1) * Self.locationByteCount
        let byteCount = isDeclared ? 0 : childCount * Self.builtEntryByteCount + overhead
        guard byteCount <= onDemandByteLimit,
            isDeclared ? declaredCount < Self.declaredLimit : makePlace(at: path, time)
        else { return }
        lastNumber += 1
        var slot = Slot(
            order: order, measure: measure, number: lastNumber, isDeclared: isDeclared,
            overheadByteCount: overhead, lastUse: time)
        charge(&slot, byteCount)
        makeLocation(at: path).slots.append(slot)
        count(slot, 1)
        work.builds.append(IndexWork.Build(slot, at: path))
        evictBeyondLimit(butNot: lastNumber)
    }

    /// Drops an index on demand where there are as many as there may be.
    /// - Returns: false where all of them are in use.
    /// - Complexity: O(depth), and O(locations) where the database has as many as it may.
    private func makePlace(at path: Path, _ time: Int64) -> Bool {
        if let location = location(at: path) {
            let onDemand = location.slots.indices.filter { !location.slots[$0].isDeclared }
            if onDemand.count >= Self.onDemandLimitPerLocation,
                let oldest = onDemand.min(by: { location.slots[$0].lastUse < location.slots[$1].lastUse })
            {
                guard location.slots[oldest].lastUse <= time - Self.leastStay else { return false }
                drop(oldest, of: location)
            }
        }
        guard onDemandCount >= Self.onDemandLimit, let oldest = leastRecentlyUsed() else { return true }
        guard oldest.lastUse <= time - Self.leastStay else { return false }
        drop { $1.number == oldest.number }
        return true
    }

    /// Counts a slot that was added or removed.
    func count(_ slot: Slot, _ difference: Int) {
        if slot.isDeclared { declaredCount += difference } else { onDemandCount += difference }
    }

    // MARK: Work

    /// What the host is to do now.
    /// - Parameter isExpected: Whether a listen still waits for a scan.
    func takeWork(_ isExpected: (QueryScan) -> Bool) -> IndexWork.Ready {
        reportedByteCount = onDemandByteCount
        return work.take(isAwaited: { isAwaited($0.number, at: $0.path) }, isExpected: isExpected)
    }

    /// Has another thread follow what has changed since the snapshot of a built index.
    func follow(_ built: KeptIndex, of node: Node, number: Int, at path: Path) {
        guard let slot = location(at: path)?.slots.first(where: { $0.number == number }) else { return }
        work.builds.append(IndexWork.Build(slot, at: path, base: (built, node)))
    }

    /// Whether there may be an index of a location in this order.
    func mayKeep(_ order: Index, at path: Path, childCount: Int) -> Bool {
        let isDeclared = declarations?[path]?.orders.contains(order) ?? false
        return childCount > unindexedChildCount
            && (isDeclared || childCount * Self.builtEntryByteCount <= onDemandByteLimit)
    }

    // MARK: Counting bytes

    /// Sets the bytes that an index on demand counts for. Nothing is counted for a declared one.
    func charge(_ slot: inout Slot, _ byteCount: Int) {
        guard !slot.isDeclared else { return }
        onDemandByteCount += byteCount - slot.chargedByteCount
        slot.chargedByteCount = byteCount
        if onDemandByteCount - reportedByteCount >= Self.reportedGrowthByteCount { work.hasGrown = true }
    }

    /// Charges the bytes that an index takes, as they were counted.
    func charge(_ slot: inout Slot, counted byteCount: Int) {
        slot.uncountedChangeCount = 0
        charge(&slot, slot.overheadByteCount + byteCount + byteCount / Self.slackPart)
    }

    /// After a write: charges what it can have added, and counts the bytes anew after some changes.
    /// - Complexity: O(1), and O(pages) once for so many changes as there are pages.
    func recharge(_ slot: inout Slot, _ index: KeptIndex, changeCount: Int) {
        guard !slot.isDeclared else { return }
        slot.uncountedChangeCount += changeCount
        if slot.uncountedChangeCount > index.count / Self.entriesPerPage {
            charge(&slot, counted: index.byteCount)
        } else {
            charge(&slot, slot.chargedByteCount + changeCount * Self.addedEntryByteCount)
        }
    }

    /// Of a full page.
    private static let entriesPerPage = 64

    private func makeLocation(at path: Path) -> Location {
        var location = root
        for (depth, key) in path.keys.enumerated() {
            if let next = location.children[key] {
                location = next
            } else {
                let next = Location(path: Path(Array(path.keys[...depth])))
                location.children[key] = next
                location = next
                locationCount += 1
            }
        }
        return location
    }
}
