import PandoEngine
import PandoREST
import PandoReactor
import PandoTree
import Synchronization

/// All of a large query window as event streams of the query are sent it, in one `put` (rest §8.2): when they
/// begin, and when they have caught up. To make one node of the window takes as long as it has children.
///
///     database thread   ``init(_:)`` of its snapshot: O(1), once for all streams until the window changes
///     worker            ``make()``: the node, once
///     loops             print the node for each stream, a piece at a time
package final class StreamWindow: Sendable {
    private enum State {
        case waiting(Window)
        case made(Node, isTooHeavy: Bool)
    }

    /// That of the window; nil where it has none, and streams do not share it.
    let identity: Window.Identity?
    private let childCount: Int
    private let state: Mutex<State>
    /// ``Share``s that there are.
    private let shareCount = Atomic<Int>(0)

    /// O(1).
    package init(_ window: Window) {
        identity = window.identity
        childCount = window.entries.count
        state = Mutex(.waiting(window))
    }

    /// Makes the node, unless that is done, and measures it. Any thread. O(children × log children) and
    /// O(size), as far as a stream may begin with it.
    package func make() {
        guard case .waiting(let window) = current else { return }
        let node = window.node
        let made = State.made(node, isTooHeavy: node.isHeavier(than: RESTLimits.streamByteCount))
        // The window is freed after that, and not while others wait for the lock.
        _ = state.withLock { exchange(&$0, with: made) }
    }

    /// An object of the window's children; nil while it is not made.
    package var node: Node? {
        guard case .made(let node, _) = current else { return nil }
        return node
    }

    /// Whether a stream may not begin with so much (``RESTLimits/streamByteCount``); nil while it is not
    /// made.
    package var isTooHeavy: Bool? {
        guard case .made(_, let isTooHeavy) = current else { return nil }
        return isTooHeavy
    }

    private var current: State { state.withLock { $0 } }

    /// Whether ``make()`` takes longer than printing so many bytes, or than visiting so many children, about.
    /// O(`byteLimit`).
    func isHeavier(than byteLimit: Int, _ childLimit: Int) -> Bool {
        guard case .waiting(let window) = current else { return false }
        return window.isHeavier(than: byteLimit, childLimit)
    }

    /// Its one event. O(children) where the node is not made: for tests and simulations.
    package var events: [StreamEvent] {
        switch current {
        case .waiting(let window): [.put(.root, window.node)]
        case .made(let node, _): [.put(.root, node)]
        }
    }

    /// About the bytes of memory of the node's list of children, also while it is not made. What is below
    /// them is the tree's.
    package var byteCount: Int { childCount * MemoryLayout<Children.Entry>.stride }

    /// What one stream holds of a window, until it has printed it.
    package final class Share: Sendable {
        package let window: StreamWindow

        package init(_ window: StreamWindow) {
            self.window = window
            window.shareCount.add(1, ordering: .relaxed)
        }

        deinit { window.shareCount.subtract(1, ordering: .relaxed) }

        /// The bytes of the window, divided by the streams that hold it at the moment.
        package var byteCount: Int {
            window.byteCount / max(1, window.shareCount.load(ordering: .relaxed))
        }
    }
}

/// Makes the node of a window for an event stream.
package struct StreamWindowJob: Sendable {
    package var session: SessionID
    package var window: StreamWindow
    package var results: Mailbox<NodeSizeCheck>

    package init(session: SessionID, window: StreamWindow, results: Mailbox<NodeSizeCheck>) {
        self.session = session
        self.window = window
        self.results = results
    }
}

extension NodeSizeCheck {
    /// Does a ``StreamWindowJob``: the result says that the node is there, and whether it is too much.
    package init(making window: StreamWindow, for session: SessionID) {
        window.make()
        self.init(session: session, isTooHeavy: window.isTooHeavy ?? false)
    }
}
