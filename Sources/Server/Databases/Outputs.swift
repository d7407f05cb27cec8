import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor

/// What one I/O loop is to send, in order: the outputs of one batch of the database thread.
///
/// Small answers lie one behind the other in `arena`, ready framed, so that an answer costs no allocation.
/// What many connections get is framed once in ``SharedBytes``.
struct OutputBatch: Sendable {
    enum Item: Sendable {
        /// A range of the arena.
        case frames(SessionID, Range<Int>)
        case shared(SharedBytes, ContiguousArray<SessionID>)
        /// A large read: the loop has it encoded on a helper thread, and the connection's later outputs wait
        /// for it.
        case large(SessionID, LargeMessage)
        /// What came of a REST request.
        case rest(SessionID, RESTOutcome)
        /// What an event stream is told.
        case events(SessionID, [StreamEvent])
        /// What the session has asked for before its mark is answered (``RequestWindow``).
        case windowMark(SessionID)
        /// Nothing more will come: close once all is sent.
        case close(SessionID, CloseReason)
        /// Sockets may be read again.
        case resumeReading
    }

    enum CloseReason: Sendable {
        /// The server said what there was to say: a shutdown message, say.
        case finished
        /// The client has come back on another connection (realtime §12.5).
        case replaced
        case goingAway
    }

    var arena: [UInt8] = []
    private(set) var items: [Item] = []
    /// Answers at the arena's end that are no item yet: whose they are, and where they begin.
    private var open: (session: SessionID, start: Int)?
    /// Bytes of what is shared, each once.
    var sharedByteCount = 0

    init(items: [Item] = []) {
        self.items = items
    }

    /// Room that is taken in advance, in the arena and for items each; and what is kept of both together,
    /// since arrays grow to up to twice of what they hold.
    private static let reservedByteLimit = 256 << 10
    private static let keptByteLimit = 512 << 10

    /// An empty batch with room for as much as another one holds: bursts resemble each other.
    init(withRoomFor other: OutputBatch) {
        arena.reserveCapacity(min(other.arena.count, Self.reservedByteLimit))
        items.reserveCapacity(min(other.items.count, Self.reservedByteLimit / MemoryLayout<Item>.stride))
    }

    /// Forgets everything and keeps its room, unless that is much.
    mutating func removeAll() {
        let isKept = arena.capacity + items.capacity * MemoryLayout<Item>.stride <= Self.keptByteLimit
        arena.removeAll(keepingCapacity: isKept)
        items.removeAll(keepingCapacity: isKept)
        open = nil
        sharedByteCount = 0
    }

    /// Whether there is room that was kept.
    private var hasRoom: Bool { arena.capacity > 0 }

    /// Gives a batch back that has been dealt out.
    static func give(_ batch: consuming OutputBatch, to spares: BufferPool<OutputBatch>) {
        batch.removeAll()
        // Of one that held no answer, or very many, nothing is left to use again.
        if batch.hasRoom { spares.release(consume batch) }
    }

    /// Batches that go round: some under way to each loop or from it, some that wait for the disk.
    static func spares(loopCount: Int) -> BufferPool<OutputBatch> { BufferPool(atMost: 4 + 4 * loopCount) }

    /// Answers are joined up to here: a channel takes an item whole, or not at all.
    private static let joinedByteLimit = 64 << 10

    /// Takes what has been appended to the arena from `start` on as an answer. Answers to one session that
    /// lie one behind the other are one item: a client that asks sixteen things at once is handed sixteen
    /// answers as one.
    /// - Precondition: `start` is where the arena ended when the last item or answer was taken.
    mutating func appendFrames(from start: Int, to session: SessionID) {
        if let open, open.session.rawValue == session.rawValue,
            arena.count - open.start <= Self.joinedByteLimit
        {
            return
        }
        close(at: start)
        open = (session, start)
    }

    mutating func append(_ item: Item) {
        close(at: arena.count)
        items.append(item)
    }

    /// Makes items of everything that was appended. Before the batch is looked at.
    mutating func finish() { close(at: arena.count) }

    /// Makes an item of the answers up to `end`.
    private mutating func close(at end: Int) {
        guard let open else { return }
        items.append(.frames(open.session, open.start..<end))
        self.open = nil
    }

    /// What the batch takes until its loop has dealt it out.
    var byteCount: Int { arena.count + sharedByteCount }

    var isEmpty: Bool { items.isEmpty && open == nil }
}
