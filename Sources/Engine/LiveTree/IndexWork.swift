import PandoRules
import PandoTree

/// What an engine leaves to its caller after a command: to build indexes and to answer queries on other
/// threads, and to free dropped indexes.
///
/// Few builds and scans are under way at a time, since each holds a snapshot, and a write copies the pages
/// that it holds. The others wait here without one.
struct IndexWork {
    /// An index that is to be built.
    struct Build {
        let path: Path
        let order: ChildOrder
        let measure: ChildOrder?
        /// That of its slot.
        let number: Int
        let isDeclared: Bool
        /// An index of an earlier snapshot, and that snapshot: only what has changed since is to be done.
        let base: (index: KeptIndex, node: Node)?

        init(_ slot: IndexSlot, at path: Path, base: (index: KeptIndex, node: Node)? = nil) {
            self.path = path
            order = slot.order
            measure = slot.measure
            number = slot.number
            isDeclared = slot.isDeclared
            self.base = base
        }
    }

    /// What the caller can begin now.
    struct Ready {
        fileprivate(set) var builds: [Build] = []
        fileprivate(set) var discoveries: [Path] = []
        fileprivate(set) var dropped: [KeptIndex] = []
    }

    var builds: [Build] = []
    /// Locations below which the rules may declare indexes that are not there.
    var discoveries: [Path] = []
    var dropped: [KeptIndex] = []
    /// Views whose queries are to be answered by visiting children. A view that ends is removed at once.
    private var newScans = LinkedQueue<QueryView>()
    /// Those that go on from an earlier scan. They go first, since each holds a snapshot.
    private var followingScans = LinkedQueue<QueryView>()
    /// The number of the last scan.
    private var lastScan = 0

    /// Numbers of indexes that are being built.
    private var buildsUnderWay: Set<Int> = []
    private var scansUnderWay = 0
    /// Builds that are under way at the same time, and scans.
    private static let underWayLimit = 2
    /// The most views of one scan: what they are sent is encoded in one step.
    private static let scannedViewLimit = 64
    /// Children that a scan visits for more than one view: some ten milliseconds of another thread.
    private static let scannedChildLimit = 1 << 17
    /// Views that wait for a scan.
    var waitingScanCount: Int { newScans.count + followingScans.count }

    /// Whether there is something for ``take(isAwaited:)`` or ``takeScan(childCount:)``. O(1).
    var hasReady: Bool {
        !discoveries.isEmpty || !dropped.isEmpty
            || (!builds.isEmpty && buildsUnderWay.count < Self.underWayLimit)
            || (waitingScanCount > 0 && scansUnderWay < Self.underWayLimit)
    }

    /// What the caller can begin now, but for scans. What follows an earlier build goes first, since it holds
    /// a snapshot; then declared indexes.
    /// - Parameter isAwaited: Whether an index is still to be built.
    mutating func take(isAwaited: (Build) -> Bool) -> Ready {
        var ready = Ready()
        ready.discoveries = exchange(&discoveries, with: [])
        ready.dropped = exchange(&dropped, with: [])
        while buildsUnderWay.count < Self.underWayLimit, !builds.isEmpty {
            let next =
                builds.firstIndex { $0.base != nil } ?? builds.firstIndex { $0.isDeclared }
                ?? builds.startIndex
            let build = builds.remove(at: next)
            guard isAwaited(build) else { continue }
            buildsUnderWay.insert(build.number)
            ready.builds.append(build)
        }
        return ready
    }

    /// An index is no longer being built.
    mutating func noteBuilt(_ number: Int) { buildsUnderWay.remove(number) }

    // MARK: Scans

    /// Has a view's query answered by another thread, unless it waits for that already.
    mutating func addScan(for view: QueryView) {
        guard view.scan == nil else { return }
        view.scan =
            view.scanBase == nil
            ? .waiting(newScans.append(view)) : .waitingToFollow(followingScans.append(view))
    }

    /// A view needs no scan any more, for example because it has ended. What is under way for it is ignored.
    mutating func cancelScan(for view: QueryView) {
        switch view.scan {
        case .waiting(let place): newScans.remove(at: place)
        case .waitingToFollow(let place): followingScans.remove(at: place)
        case .underWay, nil: break
        }
        view.scan = nil
        view.scanBase = nil
    }

    /// Takes out the views of the next scan: some that wait one behind the other, of one location.
    /// - Parameter childCount: The children that there are at a location.
    /// - Returns: Nil where none waits, or enough are under way. Each view has its number in
    ///   ``QueryView/scan``.
    /// - Complexity: O(views that are taken).
    mutating func takeScan(childCount: (Path) -> Int) -> (path: Path, views: [QueryView])? {
        guard scansUnderWay < Self.underWayLimit else { return nil }
        guard
            let found = Self.take(&followingScans, childCount) ?? Self.take(&newScans, childCount)
        else { return nil }
        scansUnderWay += 1
        for view in found.views {
            lastScan += 1
            view.scan = .underWay(lastScan)
        }
        return found
    }

    private static func take(
        _ queue: inout LinkedQueue<QueryView>, _ childCount: (Path) -> Int
    ) -> (path: Path, views: [QueryView])? {
        guard let path = queue.first?.path else { return nil }
        let cost = max(1, childCount(path))
        let limit = max(1, min(scannedViewLimit, scannedChildLimit / cost))
        var views: [QueryView] = []
        while views.count < limit, let next = queue.first, next.path == path {
            views.append(next)
            _ = queue.popFirst()
        }
        return (path, views)
    }

    /// A scan is done.
    mutating func noteScanned() { scansUnderWay = max(0, scansUnderWay - 1) }

    // MARK: Discoveries

    /// Locations after which the whole tree is looked at once.
    private static let discoveryLimit = 64

    mutating func discover(below path: Path) {
        guard !discoveries.contains(where: { $0.contains(path) }) else { return }
        if discoveries.count == Self.discoveryLimit {
            discoveries = [.root]
        } else {
            discoveries.append(path)
        }
    }
}

/// A computation over a snapshot that indexes need. It takes up to a second, and nothing waits for it.
package enum IndexJob: Sendable {
    case build(IndexBuild)
    /// Finds the locations below a path that have more than so many children, and for which the rules declare
    /// indexes.
    case discover(IndexDeclarations, Path, Node, moreThan: Int)
    /// Answers listens' queries that no index helps.
    case scan(QueryScan)
    /// Nothing: the next step of a ``ViewSweep`` comes behind what others have asked for meanwhile.
    case sweep

    /// Does it. O(n log n) for `n` children; O(nodes) for a discovery.
    package func perform() -> IndexJobResult {
        switch self {
        case .build(var build):
            build.perform()
            return .built(build)
        case .scan(var scan):
            scan.perform()
            return .scanned(scan)
        case .sweep: return .swept
        case .discover(let declarations, let path, let node, let unindexedChildCount):
            var found: [FoundLocation] = []
            declarations.forEachLocation(in: node, at: path) { path, orders, node in
                let childCount = node.children.count
                if childCount > unindexedChildCount {
                    found.append(FoundLocation(path: path, orders: orders, childCount: childCount))
                }
                return found.count < IndexAccounts.declaredLimit
            }
            return .found(found)
        }
    }
}

/// The result of an ``IndexJob``, for ``LiveTree/finish(_:)``.
package enum IndexJobResult: Sendable {
    case built(IndexBuild)
    case found([FoundLocation])
    case scanned(QueryScan)
    case swept
}

/// A location for which the rules declare indexes.
package struct FoundLocation: Sendable {
    let path: Path
    let orders: Set<ChildOrder>
    let childCount: Int
}

/// An index that is built on a snapshot.
package struct IndexBuild: Sendable {
    let path: Path
    let order: ChildOrder
    let measure: ChildOrder?
    /// Which of the engine's indexes it becomes.
    let number: Int
    /// The snapshot.
    let node: Node
    /// An index of an earlier snapshot. Nil where it is made from nothing.
    private(set) var base: (index: KeptIndex, node: Node)?
    /// The result.
    private(set) var index: KeptIndex?
    /// Bytes that it takes.
    private(set) var byteCount = 0

    init(_ build: IndexWork.Build, over node: Node) {
        path = build.path
        order = build.order
        measure = build.measure
        number = build.number
        base = build.base
        self.node = node
    }

    fileprivate mutating func perform() {
        let children = node.children
        if let base = base.take(), let index = base.index.following(base.node, to: node, atMost: .max) {
            self.index = index
        } else {
            index = KeptIndex(ordering: children, by: order, measuring: measure)
        }
        byteCount = index?.byteCount ?? 0
    }
}

extension KeptIndex {
    /// The index after a node has changed from one snapshot to another.
    /// - Parameter limit: Most children that are compared.
    /// - Returns: Nil where there are more, or the index must be built anew.
    /// - Complexity: O(pages that differ + changes × log n).
    func following(_ old: Node, to new: Node, atMost limit: Int) -> KeptIndex? {
        if new.isSameSnapshot(as: old) { return self }
        let children = new.children
        guard let differences = children.differences(from: old.children, atMost: limit) else { return nil }
        let (order, measure) = (order, measure)
        let changes = differences.map {
            ValueChange(
                key: $0.key, old: order.placedValue(of: $0.old), new: order.placedValue(of: $0.new),
                oldNumber: measure?.number(of: $0.old) ?? .empty,
                newNumber: measure?.number(of: $0.new) ?? .empty)
        }
        var index = self
        return index.update(changes, in: children) ? index : nil
    }
}
