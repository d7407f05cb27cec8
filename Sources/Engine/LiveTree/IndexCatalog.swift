import PandoRules
import PandoTree

/// The indexes that a database keeps.
///
///     root ─ "scores" ─   .child(n)   ready: changes with the location's children, in the same commit
///                         .value      being built on a snapshot, by another thread; not used until then
///
/// Indexes save time and change no result: without one a query visits all children, but for one by key.
///
/// There are two kinds. Those that the rules declare are built for every location with many children, and
/// kept while the rules name them. The others are built when queries ask for their order, and the one that
/// was not used for the longest time is dropped where all of them would take more than ``onDemandByteLimit``.
/// (The caller has one limit for all databases, and drops the one that no query has used for the longest time
/// in any of them.)
///
/// Always true: a ready index is that of its location's children as they are in the tree, between any two
/// commands.
///
/// What clients ask for is bounded: in number, for a location and for a database, and in bytes, each index
/// with the trie's nodes on its way. They never keep an index out that the rules declare.
///
/// `@unchecked Sendable`: owned by one ``LiveTree`` and never handed out. A tree belongs to one thread and
/// cannot be copied, so no two threads use it at the same time.
final class IndexCatalog: @unchecked Sendable {
    /// Children of a location up to which all are visited: some ten microseconds. It gets no indexes. A query
    /// that visits no more children is executed at once (``LiveTree/inlineQueryChildCount``).
    var unindexedChildCount = defaultUnindexedChildCount
    static let defaultUnindexedChildCount = 256
    /// Children of a location up to which all are visited, in the same step, for a window that lacks some. A
    /// window over no more children is made at once (``LiveTree/inlineWindowChildCount``).
    var visitedChildCount = defaultVisitedChildCount
    static let defaultVisitedChildCount = 2048
    /// A location with fewer children loses its indexes. Fewer, so that they are not built again and again.
    var minimumChildCountToKeep: Int { max(1, unindexedChildCount / 4) }
    /// An index on demand that a query has used within this time gives way to no other one, so that many
    /// orders in turn do not make indexes that are dropped before they are used: milliseconds.
    static let minimumStay: Int64 = 10_000

    var locations = IndexLocations()
    var accounts = IndexAccounts()
    /// What the rules declare; nil for nothing.
    var declarations: IndexDeclarations?
    /// Indexes that are ready. While there are none, a write has nothing to do here.
    var readyCount = 0
    private var lastNumber = 0
    /// Of a query: milliseconds since 1970.
    private var lastTime: Int64 = 0

    /// What the caller is to do: see ``IndexWork``.
    var work = IndexWork()
    private var requested = RequestedOrders()
    /// Locations that the write in progress changes the children of.
    var touched: [IndexLocation] = []
    /// Indexes of data that the next write brings; none mostly.
    var prepared: [PreparedIndex] = []
    /// Writes so far: one in some is looked at for locations that have grown.
    var writeCount = 0
    static let growthCheckMask = 31

    /// Whether any location has an index, ready or not.
    var hasIndexes: Bool { !locations.isEmpty }

    /// Of both kinds, ready or not.
    var count: Int { accounts.declaredCount + accounts.onDemandCount }

    var onDemandCount: Int { accounts.onDemandCount }

    /// Entries of all indexes that are ready. O(locations with indexes).
    var entryCount: Int {
        var count = 0
        locations.forEach { location in
            for slot in location.slots { count += slot.index?.count ?? 0 }
        }
        return count
    }

    /// Bytes of all indexes on demand, ready or being built.
    var onDemandByteCount: Int { accounts.onDemandByteCount }

    /// Bytes that all indexes on demand may take together. A lower limit than before drops some.
    var onDemandByteLimit: Int {
        get { accounts.onDemandByteLimit }
        set {
            accounts.onDemandByteLimit = newValue
            evictBeyondLimit()
        }
    }

    /// The caller has built an index, or has given up: another one may be built.
    func noteBuilt(_ number: Int) { work.noteBuilt(number) }

    /// Whether a write has nothing to do here.
    var ignoresWrites: Bool { declarations == nil && !hasIndexes }

    // MARK: Finding

    /// The index of a location in this order; nil where there is none that is ready. O(depth).
    func readyIndex(_ order: ChildOrder, measuring measure: ChildOrder? = nil, at path: Path) -> KeptIndex? {
        guard readyCount > 0, let location = locations[path] else { return nil }
        return location.slot(order, measuring: measure).flatMap { location.slots[$0].index }
    }

    /// Whether there is an index of a location in this order, ready or not. O(depth).
    func hasSlot(_ order: ChildOrder, measuring measure: ChildOrder? = nil, at path: Path) -> Bool {
        locations[path]?.slot(order, measuring: measure) != nil
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
        of order: ChildOrder, measuring measure: ChildOrder? = nil, at path: Path, over node: Node,
        isLasting: Bool,
        at time: Int64
    ) {
        lastTime = max(lastTime, time)
        if let location = locations[path], let slot = location.slot(order, measuring: measure) {
            location.slots[slot].lastUse = time
            return
        }
        guard node.children.count > unindexedChildCount else { return }
        // Those that are beyond the limit are kept as others are, while they are used.
        let isDeclared =
            measure == nil && accounts.declaredCount < IndexAccounts.declaredLimit
            && declarations?[path]?.orders.contains(order) ?? false
        // The default order needs no declaration.
        guard
            isDeclared || isLasting || order == .priority
                || requested.ask(for: order, measuring: measure, at: path)
        else { return }
        request(
            order, measuring: measure, at: path, childCount: node.children.count, isDeclared: isDeclared,
            at: time)
    }

    /// Notes that the indexes of a query were used, or would have been
    /// (``noteUse(of:measuring:at:over:isLasting:at:)``).
    /// - Parameter time: Milliseconds since 1970; nil for that of the last query.
    func noteUse(of query: Query, at path: Path, over node: Node, isLasting: Bool, at time: Int64? = nil) {
        let time = time ?? lastTime
        let isSmall = query.limit.map { $0.count <= unindexedChildCount } ?? false
        // Of few children the numbers are looked up.
        for field in isSmall ? [] : query.aggregatedFields {
            noteUse(of: query.order, measuring: field, at: path, over: node, isLasting: isLasting, at: time)
        }
        guard isSmall || query.aggregatedFields.isEmpty, query.order != .key else { return }
        noteUse(of: query.order, at: path, over: node, isLasting: isLasting, at: time)
    }

    /// The query with the indexes that are ready. O(depth).
    func indexed(_ query: Query, at path: Path) -> IndexedQuery {
        IndexedQuery(
            query, by: readyIndex(query.order, at: path),
            measured: query.aggregates.isEmpty
                ? [] : query.aggregatedFields.map { readyIndex(query.order, measuring: $0, at: path) })
    }

    /// The index by which a window finds its next children, of a location's data after a write. It is built
    /// where there is none, unless there are few children.
    func indexForWindow(_ order: ChildOrder, at path: Path, over node: Node) -> KeptIndex? {
        if order == .key { return nil }
        noteUse(of: order, at: path, over: node, isLasting: true, at: lastTime)
        return readyIndex(order, at: path)
    }

    /// Has an index built, if it is not there and there is a place for it.
    func request(
        _ order: ChildOrder, measuring measure: ChildOrder? = nil, at path: Path, childCount: Int,
        isDeclared: Bool,
        at time: Int64
    ) {
        guard !hasSlot(order, measuring: measure, at: path) else { return }
        let overhead = isDeclared ? 0 : (path.keys.count + 1) * IndexAccounts.locationByteCount
        guard
            isDeclared
                ? accounts.declaredCount < IndexAccounts.declaredLimit
                : accounts.mayHold(childCount: childCount, overheadByteCount: overhead)
                    && makePlace(at: path, time)
        else { return }
        lastNumber += 1
        var slot = IndexSlot(
            order: order, measure: measure, number: lastNumber, isDeclared: isDeclared,
            overheadByteCount: overhead, lastUse: time)
        accounts.add(&slot, childCount: childCount)
        locations.make(at: path).slots.append(slot)
        work.builds.append(IndexWork.Build(slot, at: path))
        evictBeyondLimit(butNot: lastNumber)
    }

    /// Drops an index on demand where there are as many as there may be.
    /// - Returns: false where all of them are in use.
    /// - Complexity: O(depth), and O(locations) where the database has as many as it may.
    private func makePlace(at path: Path, _ time: Int64) -> Bool {
        if let location = locations[path] {
            let onDemand = location.slots.indices.filter { !location.slots[$0].isDeclared }
            if onDemand.count >= IndexAccounts.onDemandLimitPerLocation,
                let oldest = onDemand.min(by: { location.slots[$0].lastUse < location.slots[$1].lastUse })
            {
                guard location.slots[oldest].lastUse <= time - Self.minimumStay else { return false }
                drop(oldest, of: location)
            }
        }
        guard accounts.onDemandCount >= IndexAccounts.onDemandLimit,
            let oldest = locations.leastRecentlyUsed()
        else { return true }
        guard oldest.lastUse <= time - Self.minimumStay else { return false }
        drop { $1.number == oldest.number }
        return true
    }

    // MARK: Work

    /// Whether there is something for ``takeWork()``. O(1).
    var hasWork: Bool { accounts.hasGrown || work.hasReady }

    /// What the caller is to do now.
    func takeWork() -> IndexWork.Ready {
        accounts.report()
        return work.take { isAwaited($0.number, at: $0.path) }
    }

    /// Has another thread follow what has changed since the snapshot of a built index.
    func follow(_ built: KeptIndex, of node: Node, number: Int, at path: Path) {
        guard let slot = locations[path]?.slots.first(where: { $0.number == number }) else { return }
        work.builds.append(IndexWork.Build(slot, at: path, base: (built, node)))
    }

    /// Whether a location with so many children may have an index in this order.
    func mayHaveIndex(_ order: ChildOrder, at path: Path, childCount: Int) -> Bool {
        let isDeclared = declarations?[path]?.orders.contains(order) ?? false
        return childCount > unindexedChildCount
            && (isDeclared || accounts.mayHold(childCount: childCount))
    }
}
