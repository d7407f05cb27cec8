import PandoTree

/// Views that wait for another thread to answer their queries (``QueryScan``).
///
///     new         ─▶ view view view     queries that begin from nothing
///     following   ─▶ view               go on from an earlier scan, and go first: each holds a snapshot
///
/// Few scans are under way at a time, since each holds a snapshot, and a write copies the pages that it
/// holds. The others wait here without one. A view that ends is removed at once.
///
/// Always true: a view waits at most once, at the place that its ``QueryView/scan`` says.
struct ScanQueue {
    private var new = LinkedQueue<QueryView>()
    private var following = LinkedQueue<QueryView>()
    /// The number of the last scan of a view.
    private var lastNumber = 0
    private var underWayCount = 0

    /// Scans that are under way at the same time.
    private static let underWayLimit = 2
    /// The most views of one scan: what they are sent is encoded in one step.
    static let viewLimit = 64
    /// Children that a scan visits for more than one view: some ten milliseconds of another thread.
    static let childLimit = 1 << 17

    /// Views that wait.
    var waitingCount: Int { new.count + following.count }

    /// Whether a scan can begin now. O(1).
    var hasReady: Bool { waitingCount > 0 && underWayCount < Self.underWayLimit }

    /// Has a view's query answered by another thread, unless it waits for that already. O(1).
    mutating func add(_ view: QueryView) {
        guard view.scan == nil else { return }
        view.scan =
            view.scanBase == nil ? .waiting(new.append(view)) : .waitingToFollow(following.append(view))
    }

    /// A view needs no scan any more, for example because it has ended. What is under way for it is ignored.
    /// O(1).
    mutating func cancel(_ view: QueryView) {
        switch view.scan {
        case .waiting(let place): new.remove(at: place)
        case .waitingToFollow(let place): following.remove(at: place)
        case .underWay, nil: break
        }
        view.scan = nil
        view.scanBase = nil
    }

    /// Takes out the views of the next scan: some that wait one after the other, of one location.
    /// - Parameter childCount: The children that there are at a location.
    /// - Returns: Nil where none waits, or enough are under way. Each view has its number in
    ///   ``QueryView/scan``.
    /// - Complexity: O(views that are taken).
    mutating func take(childCount: (Path) -> Int) -> (path: Path, views: [QueryView])? {
        guard underWayCount < Self.underWayLimit,
            let found = Self.take(from: &following, childCount) ?? Self.take(from: &new, childCount)
        else { return nil }
        underWayCount += 1
        for view in found.views {
            lastNumber += 1
            view.scan = .underWay(lastNumber)
        }
        return found
    }

    private static func take(
        from queue: inout LinkedQueue<QueryView>, _ childCount: (Path) -> Int
    ) -> (path: Path, views: [QueryView])? {
        guard let path = queue.first?.path else { return nil }
        let limit = max(1, min(viewLimit, childLimit / max(1, childCount(path))))
        var views: [QueryView] = []
        while views.count < limit, let next = queue.first, next.path == path {
            views.append(next)
            _ = queue.popFirst()
        }
        return (path, views)
    }

    /// The caller has ended a scan: another one may begin.
    mutating func noteDone() { underWayCount = max(0, underWayCount - 1) }
}
