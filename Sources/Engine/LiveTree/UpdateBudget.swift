import PandoTree

/// What the updates of query views may take in one step. Counted in visits of children, about.
struct UpdateBudget {
    /// Of one write, all of its views together but for the last: some five milliseconds. Windows for which
    /// nothing is left are left to another thread (``QueryView/requestReplacement(_:)``): one client may have
    /// a thousand over a large location.
    var writeLimit = 1 << 17
    /// Of one step of a ``ViewSweep``: a fraction of a millisecond. A window that takes more by itself is
    /// left to another thread, too.
    var sweepStepLimit = 1 << 14
    /// Views of one write at locations with so many that they are found by their ranges: to mark each of them
    /// for another thread takes a fraction of a millisecond. Where more are touched, later steps update them
    /// (``ViewSweep``).
    var viewLimit = 2048
    /// Ranges of windows, and altered children in them, that a write compares: one or two milliseconds. Where
    /// there are more, later steps update the windows.
    var comparisonLimit = 1 << 13
    /// What is left of them for the write in progress.
    var viewsLeft = 0
    var comparisonsLeft = 0
    /// What is left for the step in progress; negative where its last view took more.
    private(set) var left = 0

    /// To find and move a child of a window, or to take it in and to push it, takes as long as to visit so
    /// many children.
    private static let visitsPerMovedChild = 16
    /// To make and print a push takes as long as to visit so many children.
    static let visitsPerPush = 256
    /// To encode a push for one more recipient with a tag takes as long as to visit so many children.
    static let visitsPerRecipient = 16

    /// A write is about to update views.
    mutating func beginWrite() {
        (left, viewsLeft, comparisonsLeft) = (writeLimit, viewLimit, comparisonLimit)
    }

    /// A step of a sweep is about to update views.
    mutating func beginSweepStep() { left = sweepStepLimit }

    var isUsedUp: Bool { left <= 0 }

    /// Whether a write updates a view of this cost itself: not when the view takes much more than all that a
    /// write may. The client that writes then has its reply before the push.
    func hasTime(for cost: Int) -> Bool { !isUsedUp && cost <= writeLimit * Self.largestViewInWrites }

    /// A view may take so many times what a write may: with a window of 7900 children that are all replaced,
    /// some 5 ms. SDKs show the former data again where the reply comes before the push.
    private static let largestViewInWrites = 2

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
        // All children of before leave, and those of now enter.
        let movedCount = count + min(view.query.limit?.count ?? .max, childCount)
        let isFoundByRank = view.query.limit != nil && (view.query.order == .key || indexes.hasIndexes)
        return visitsPerPush + movedCount * visitsPerMovedChild + (isFoundByRank ? 0 : childCount)
    }
}
