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
        fileprivate(set) var scans: [QueryScan] = []
    }

    var builds: [Build] = []
    /// Locations below which the rules may declare indexes that are not there.
    var discoveries: [Path] = []
    var dropped: [KeptIndex] = []
    /// Queries of listens that are to be answered by visiting children.
    var scans: [QueryScan] = []

    /// Numbers of indexes that are being built.
    private var buildsUnderWay: Set<Int> = []
    private var scansUnderWay = 0
    /// Builds that are under way at the same time, and scans.
    private static let underWayLimit = 2
    /// With more scans that wait, those are removed whose listens have ended.
    private var scanCountToPrune = leastScanCountToPrune
    private static let leastScanCountToPrune = 256

    /// Whether there is something for ``take(isAwaited:isExpected:)``. O(1).
    var hasReady: Bool {
        !discoveries.isEmpty || !dropped.isEmpty
            || (!builds.isEmpty && buildsUnderWay.count < Self.underWayLimit)
            || (!scans.isEmpty && scansUnderWay < Self.underWayLimit) || scans.count > scanCountToPrune
    }

    /// What the caller can begin now. What follows an earlier build or scan goes first, since it holds a
    /// snapshot; then declared indexes.
    /// - Parameters:
    ///   - isAwaited: Whether an index is still to be built.
    ///   - isExpected: Whether a listen still waits for a scan.
    mutating func take(isAwaited: (Build) -> Bool, isExpected: (QueryScan) -> Bool) -> Ready {
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
        while scansUnderWay < Self.underWayLimit, !scans.isEmpty {
            let scan = scans.remove(at: scans.firstIndex { $0.follows } ?? scans.startIndex)
            guard isExpected(scan) else { continue }
            scansUnderWay += 1
            ready.scans.append(scan)
        }
        if scans.count > scanCountToPrune {
            scans.removeAll { !isExpected($0) }
            scanCountToPrune = max(Self.leastScanCountToPrune, 2 * scans.count)
        }
        return ready
    }

    /// An index is no longer being built.
    mutating func noteBuilt(_ number: Int) { buildsUnderWay.remove(number) }

    /// A query has been answered.
    mutating func noteScanned() { scansUnderWay = max(0, scansUnderWay - 1) }

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
    /// Answers a listen's query that no index helps.
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
