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
    private(set) var recharged: [SessionID] = []
    private(set) var outgrown: [OutgrownListen] = []
    /// Windows of many children that are not needed any more.
    private(set) var ended: [Window] = []

    /// A window with more children is not freed at once: to free a child takes some ten nanoseconds.
    private static let inlineFreeChildCount = 256

    var isEmpty: Bool { recharged.isEmpty && outgrown.isEmpty && ended.isEmpty }

    mutating func noteRecharge(of session: SessionID) { recharged.append(session) }

    mutating func noteEnd(of listen: OutgrownListen) { outgrown.append(listen) }

    /// The last listen of a window has ended.
    mutating func noteEnd(of window: Window) {
        if window.entries.count > Self.inlineFreeChildCount { ended.append(window) }
    }
}
