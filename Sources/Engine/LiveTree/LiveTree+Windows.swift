import PandoTree

// Windows over large locations. To find the ten highest of a million children takes most of a second. A
// caller may have another thread make the window on a snapshot (``locationOfWindow(of:at:)``) before it
// executes the listen. ``prepare(_:at:over:)`` then applies to it what has changed since.

extension LiveTree {
    /// A query that visits no more children is executed at once: some ten microseconds.
    package static let inlineQueryChildCount = IndexCatalog.defaultUnindexedChildCount
    /// A window over no more children is made at once: some two milliseconds.
    package static let inlineWindowChildCount = IndexCatalog.defaultVisitedChildCount

    /// The node over which a window should be made before a listen begins. Nil when that takes next to no
    /// time: the location has few children, the query visits few, or the window exists for another session
    /// and is not stale. O(depth).
    /// - Returns: With it the query, and its index if there is one.
    package func locationOfWindow(of query: Query, at path: Path) -> (query: IndexedQuery, node: Node)? {
        // A live aggregate that takes long gets its first value later.
        guard query.aggregates.isEmpty else { return nil }
        let node = root[path]
        let indexed = indexed(query, at: path)
        guard indexed.visits(moreThan: Self.inlineWindowChildCount, of: node),
            listens.table.view(of: query, at: path).map({ $0.isStale(updater) })
                ?? true
        else { return nil }
        return (indexed, node)
    }

    /// Whether an index in this order may be kept at a location: then one is made with the first window, so
    /// that the window finds its next children by it. O(depth).
    package func mayKeepIndex(_ order: ChildOrder, at path: Path) -> Bool {
        order != .key && indexes.mayHaveIndex(order, at: path, childCount: root[path].children.count)
    }

    /// Takes the index that was made with a window: see ``prepare(_:at:over:)``.
    /// - Parameters:
    ///   - node: The snapshot.
    ///   - time: Milliseconds since 1970.
    package mutating func adopt(_ index: KeptIndex, at path: Path, over node: Node, at time: Int64) {
        indexes.adopt(index, at: path, over: node, now: root[path], time: time)
    }

    /// Stores a window that was made over a snapshot, for the listen that is executed next.
    /// - Parameter node: The snapshot.
    /// - Returns: false when too much has changed since. Then the window has to be made anew.
    /// - Complexity: O(changes since the snapshot × log window), bounded to a few milliseconds.
    package mutating func prepare(_ window: consuming Window, at path: Path, over node: Node) -> Bool {
        let current = root[path]
        if !current.isSameSnapshot(as: node) {
            guard let differences = updater.differences(from: node, to: current) else { return false }
            if !differences.isEmpty {
                let index = indexes.readyIndex(window.query.order, at: path)
                _ = window.update(
                    differences, in: current, by: index, visitingAtMost: indexes.visitedChildCount)
            }
        }
        preparedWindow = PreparedWindow(path: path, window: window)
        return true
    }

    /// Removes the stored window, after its listen was executed or has failed.
    package mutating func discardPreparedWindow() { preparedWindow = nil }

    // MARK: Windows that have changed or ended

    /// Whether ``removeWindowOutcome()`` has anything. O(1).
    package var hasWindowOutcome: Bool { !updater.outcome.isEmpty }

    /// Removes and returns what is to be done about windows since the last call: the sessions whose listens
    /// take more or less memory than before, the listens that have ended because of that, and windows that
    /// take long to free.
    package mutating func removeWindowOutcome() -> (
        recharged: [SessionID], outgrown: [OutgrownListen], ended: [Window]
    ) {
        let outcome = exchange(&updater.outcome, with: WindowOutcome())
        return (outcome.recharged, outcome.outgrown, outcome.ended)
    }

    /// See ``ViewUpdater/chargeResizedWindows(_:)``.
    mutating func chargeResizedWindows() { updater.chargeResizedWindows(&listens) }
}
