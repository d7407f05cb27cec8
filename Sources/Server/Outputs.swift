import PandoBytes
import PandoEngine
import PandoTree

/// What one I/O loop is to send, in order: the outputs of one batch of the database thread.
///
/// Small answers lie one behind the other in `arena`, ready framed, so that an answer costs no allocation. What many
/// connections get is framed once in ``SharedBytes``.
struct OutputBatch: Sendable {
    enum Item: Sendable {
        /// A range of the arena.
        case frames(SessionID, Range<Int>)
        case shared(SharedBytes, ContiguousArray<SessionID>)
        /// A large read: the loop has it encoded on a helper thread, and the connection's later outputs wait for it.
        case deferred(SessionID, DeferredMessage)
        /// Nothing more will come: close once all is sent.
        case close(SessionID, CloseReason)
        /// Sockets may be read again.
        case resumeReading
    }

    enum CloseReason: Sendable {
        /// The server said what there was to say: a shutdown message, say.
        case finished
        /// The client has come back on another connection (wire-protocol §12.5).
        case replaced
        case goingAway
    }

    var arena: [UInt8] = []
    var items: [Item] = []

    var isEmpty: Bool { items.isEmpty }
}

/// A message whose encoding is left to a helper thread, on a snapshot.
struct DeferredMessage: Sendable {
    enum Content: Sendable {
        case push(Push.Body, tag: Int64?)
        case response(Int64, Node)
    }

    var content: Content

    /// Nodes from this many leaves on are large. A thousand leaves take some 50 µs to print: what a burst of small
    /// commands takes, and well under a disk sync.
    static let leafCount = 1000

    /// Bytes handed to a socket at once: far below what a client may leave unread (``Configuration/outboundByteLimit``),
    /// so that a message larger than that gets through to a client that reads.
    static let pieceByteCount = 512 << 10
}

extension Node {
    /// True when the node has more leaves than `limit`. O(limit), however large the node is.
    func hasMoreLeaves(than limit: Int) -> Bool {
        var left = limit
        return countDown(&left)
    }

    private func countDown(_ left: inout Int) -> Bool {
        guard case .object(let children) = withoutPriority else {
            left -= 1
            return left < 0
        }
        return !children.forEach { _, child in !child.countDown(&left) }
    }
}
