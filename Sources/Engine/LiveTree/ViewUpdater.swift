import PandoTree

/// Keeps the query views of a database up to date: their windows and live aggregates.
///
///     write ─▶ a few views    updated in the step of the write, as long as its budget lasts
///          ├─▶ the others     wait in the queue of scans: another thread finds their windows anew
///          └─▶ above very many filtered listens: a sweep updates the views there, some in each later step
///
/// What views send in later steps, and what their sessions are charged with, waits here for the caller.
///
/// `@unchecked Sendable`: owned by one ``LiveTree`` and never handed out, as its ``IndexCatalog`` is.
final class ViewUpdater: @unchecked Sendable {
    let indexes: IndexCatalog
    var budget = UpdateBudget()
    var scans = ScanQueue()
    var sweeps = SweepSchedule()
    /// Windows that are to be charged anew.
    var resized = ResizedWindows()
    /// What the caller does about windows that have changed or ended.
    var outcome = WindowOutcome()
    /// Of views that were updated in later steps.
    private var pushes: [Push] = []

    /// Children that may have changed since the snapshot of a window. If more have, it is made anew.
    static let differenceLimit = 4096

    init(_ indexes: IndexCatalog) { self.indexes = indexes }

    /// Whether there is something for another thread, or another step. O(1).
    var hasWork: Bool { scans.hasReady || sweeps.isDue }

    /// What has changed at a location since a snapshot over which a window was made; nil where that is more
    /// than one step may do.
    func differences(from snapshot: Node, to node: Node) -> [ChildChange]? {
        node.children.differences(from: snapshot.children, atMost: Self.differenceLimit)
    }

    /// Adds a push for all recipients of a view, outside of the step of a write.
    func push(_ body: Push.Body, to view: QueryView) {
        pushes.append(Push(body: body, taggedRecipients: view.recipients.members))
    }

    /// Removes and returns the pushes since the last call.
    func removePushes() -> [Push] { pushes.isEmpty ? [] : exchange(&pushes, with: []) }

    /// A listen through a view has ended. If it was the last one, nothing is computed for the view any more,
    /// and what is large of it is freed by another thread. O(1).
    func noteEnd(of view: QueryView) {
        guard view.recipients.isEmpty else { return resized.noteEnd(of: view) }
        scans.cancel(view)
        outcome.noteEnd(of: view.window)
    }
}
