import PandoBytes
import PandoEngine
import PandoREST

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
        case large(SessionID, LargeMessage)
        /// What came of a REST request.
        case rest(SessionID, RESTOutcome)
        /// What an event stream is told.
        case events(SessionID, [StreamEvent])
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
    /// Bytes of what is shared, each once.
    var sharedByteCount = 0

    /// What the batch takes until its loop has dealt it out.
    var byteCount: Int { arena.count + sharedByteCount }

    var isEmpty: Bool { items.isEmpty }
}
