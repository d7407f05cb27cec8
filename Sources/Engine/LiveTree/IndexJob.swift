import PandoRules
import PandoTree

/// A computation over a snapshot that indexes need. It takes up to a second, and nothing waits for it.
package enum IndexJob: Sendable {
    case build(IndexBuild)
    /// Finds the locations below a path that have more than so many children, and for which the rules declare
    /// indexes.
    case discover(IndexDeclarations, Path, Node, moreThan: Int)
    /// Answers listens' queries that no index helps.
    case scan(QueryScan)
    /// Nothing: the next step of a ``ViewSweep`` comes after what others have asked for meanwhile.
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
