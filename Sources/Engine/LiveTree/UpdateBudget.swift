import PandoTree

/// What the updates of query views may take in one step. Counted in visits of children, about.
struct UpdateBudget {
    /// Of one write, all of its views together: some five milliseconds. Windows for which nothing is left are
    /// left to another thread (``QueryView/requestReplacement(_:)``): one client may have a thousand over a
    /// large location.
    var writeLimit = 1 << 17
    /// Of one step of a ``ViewSweep``: a fraction of a millisecond. A window that takes more by itself is
    /// left to another thread, too.
    var sweepStepLimit = 1 << 14
    /// What is left for the step in progress; negative where its last view took more.
    private(set) var left = 0

    /// To find and move a child of a window takes as long as to visit so many children.
    private static let visitsPerMovedChild = 8
    /// To make and print a push takes as long as to visit so many children.
    static let visitsPerPush = 256
    /// To encode a push for one more recipient with a tag takes as long as to visit so many children.
    static let visitsPerRecipient = 16

    /// A write is about to update views.
    mutating func beginWrite() { left = writeLimit }

    /// A step of a sweep is about to update views.
    mutating func beginSweepStep() { left = sweepStepLimit }

    var isUsedUp: Bool { left <= 0 }

    mutating func spend(_ visits: Int) { left -= visits }

    /// A view's recipients get a push: they count, too, for what a step may do.
    mutating func spendPush(to view: QueryView) { left -= view.recipients.count * Self.visitsPerRecipient }

    /// About how long the update of a window takes, or of a live aggregate.
    /// - Parameter alteredCount: Children of the location that have changed; nil where any may have.
    static func cost(
        of view: QueryView, _ alteredCount: Int?, over value: Node, _ indexes: IndexCatalog
    ) -> Int {
        // Fewer children have no index: all may be visited.
        let childCount = value.children.count
        let visitedCount = childCount <= indexes.unindexedChildCount ? childCount : 0
        if view.aggregate != nil { return visitsPerPush + visitedCount * view.query.aggregates.count }
        let count = view.window.entries.count
        if let alteredCount {
            return visitsPerPush + alteredCount * visitsPerMovedChild
                + (view.query.limit == nil || view.query.order == .key ? 0 : visitedCount)
        }
        guard let limit = view.query.limit, view.query.order == .key || indexes.hasIndexes else {
            return visitsPerPush + count + childCount
        }
        return visitsPerPush + count + min(limit.count, childCount)
    }
}
