import PandoTree

// Windows grow with the data, so what their sessions are charged with follows:
//
//     window changes ──▶ ResizedWindows, when it has by much ──▶ charged anew ──▶ the caller learns of the session
//                                                                     └─ its other listens take all that it may have:
//                                                                        the listen ends, and the caller tells the client

/// Windows with many more or fewer children, or fewer recipients, than their sessions are charged with.
struct ResizedWindows {
    private(set) var views: [QueryView] = []

    /// A window is charged anew when it has changed by more children than these, and by this part of those
    /// that it was charged with: so a write among many recipients rarely charges all of them.
    private static let uncountedChildCount = 64
    private static let uncountedPart = 8
    /// And only if each recipient's share of the difference is at least so many bytes: what very many share
    /// is not charged to each of them with every write.
    private static let uncountedByteCount = 64

    var isEmpty: Bool { views.isEmpty }

    /// After a window has changed. O(1).
    mutating func note(_ view: QueryView) {
        let difference = abs(view.window.entries.count - view.chargedChildCount)
        guard difference > max(Self.uncountedChildCount, view.chargedChildCount / Self.uncountedPart) else {
            return
        }
        let part = difference * ListenCost.windowEntryByteCount / max(1, view.recipients.count)
        let small = SessionListens.smallWindowChildCount
        let isCountedOtherwise = (view.window.entries.count > small) != (view.chargedChildCount > small)
        if part >= Self.uncountedByteCount || isCountedOtherwise { append(view) }
    }

    /// After a recipient has left a view: where half of them have left, the others share its window. O(1).
    mutating func noteEnd(of view: QueryView) {
        guard view.window.entries.count > Self.uncountedChildCount,
            2 * view.recipients.count <= view.chargedRecipientCount
        else { return }
        append(view)
    }

    private mutating func append(_ view: QueryView) {
        view.chargedChildCount = view.window.entries.count
        view.chargedRecipientCount = view.recipients.count
        views.append(view)
    }

    /// Removes and returns all.
    mutating func removeAll() -> [QueryView] { exchange(&views, with: []) }
}

/// A listen that has ended because the windows of its session have grown too much.
package struct OutgrownListen: Sendable {
    package let session: SessionID
    package let path: Path
    package let tag: Int64
}

/// What the caller does when windows have changed or ended.
struct WindowOutcome: Sendable {
    /// Sessions that hold more or less than before.
    fileprivate(set) var recharged: [SessionID] = []
    fileprivate(set) var outgrown: [OutgrownListen] = []
    /// Windows of many children that are not needed any more.
    fileprivate(set) var ended: [Window] = []

    var isEmpty: Bool { recharged.isEmpty && outgrown.isEmpty && ended.isEmpty }
}

extension LiveTree {
    /// A window with more children is not freed at once: to free a child takes some ten nanoseconds.
    private static let inlineFreeChildCount = 256

    /// Whether ``removeWindowOutcome()`` has anything. O(1).
    package var hasWindowOutcome: Bool { !windowOutcome.isEmpty }

    /// Removes and returns what is to be done about windows since the last call: the sessions whose listens
    /// take more or less memory than before, the listens that have ended because of that, and windows that
    /// take long to free.
    package mutating func removeWindowOutcome() -> (
        recharged: [SessionID], outgrown: [OutgrownListen], ended: [Window]
    ) {
        let outcome = exchange(&windowOutcome, with: WindowOutcome())
        return (outcome.recharged, outcome.outgrown, outcome.ended)
    }

    /// Charges sessions with the windows that have changed by much, and ends listens that they may not have
    /// any more. After every write and every result of a scan; O(recipients of these windows).
    mutating func chargeResizedWindows() {
        // Where listens end, the others share their windows: each time by half as many, at least.
        while !indexes.resizedWindows.isEmpty { chargeWindows(indexes.resizedWindows.removeAll()) }
    }

    private mutating func chargeWindows(_ resized: [QueryView]) {
        for view in resized {
            for recipient in view.recipients.members {
                let key = FilteredListenKey(path: view.path, query: view.query, tag: recipient.tag)
                guard let hasSpace = listens.recharge(key, view, of: recipient.session) else { continue }
                windowOutcome.recharged.append(recipient.session)
                guard !hasSpace else { continue }
                windowOutcome.outgrown.append(
                    OutgrownListen(session: recipient.session, path: view.path, tag: recipient.tag))
                if let ended = listens.remove(key, of: recipient.session) { noteEnd(of: ended) }
            }
        }
    }

    /// A listen through a view has ended. If it was the last one, nothing is computed for the view any more,
    /// and what is large of it is freed by another thread. O(1).
    mutating func noteEnd(of view: QueryView) {
        guard view.recipients.isEmpty else { return indexes.resizedWindows.noteEnd(of: view) }
        indexes.work.cancelScan(for: view)
        if view.window.entries.count > Self.inlineFreeChildCount { windowOutcome.ended.append(view.window) }
    }
}
