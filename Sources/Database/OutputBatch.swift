import PandoBytes
import PandoEngine
import PandoREST
import PandoReactor
import PandoTime

/// The outputs of one batch of the databases for one queue (a mailbox of a loop), in the order in which they
/// must be sent.
///
/// Small replies lie one behind the other in `arena`, as WebSocket frames, so that a reply costs no
/// allocation. A message for many connections is framed once, in ``SharedBytes``.
package struct OutputBatch: Sendable {
    package enum Item: Sendable {
        /// Frames for a session: a range of the arena.
        case frames(SessionID, Range<Int>)
        /// The same frames for several sessions.
        case shared(SharedBytes, ContiguousArray<SessionID>)
        /// As ``shared(_:_:)``, of one message; so long that receivers share them in the form that they take.
        case compressible(CompressibleFrames, ContiguousArray<SessionID>)
        /// A push to listens with many different tags: each recipient gets a message of its own.
        case tagged(TaggedPush)
        /// A large message: a worker encodes it (``SnapshotWorkers``), and the later outputs of the session
        /// wait for it.
        case large(SessionID, LargeMessage)
        /// The result of a REST request.
        case rest(SessionID, RESTCallResult)
        /// Events for an event stream.
        case events(SessionID, [StreamEvent])
        /// The events of a write of many locations, which the event streams of one location share.
        case update(SessionID, StreamUpdate)
        /// A large query window, which is one event of an event stream: a worker makes the event.
        case window(SessionID, StreamWindow)
        /// The session's ``DatabaseMessage/windowMark(_:)`` comes back: everything that it had requested
        /// before has its reply.
        case windowMark(SessionID)
        /// The session's listens and queued writes take so many bytes of memory.
        case held(SessionID, byteCount: Int)
        /// The session has ended: close its connection once everything before is sent.
        case close(SessionID, DisconnectReason)
        /// Clients that were paused by backpressure may be read again.
        case resumeReading
        /// It was delivered early (``noteDelivered(_:recipientCount:)``): nothing is to be done.
        case delivered
    }

    /// Frames; the items name ranges of them.
    package var arena: [UInt8] = []
    package private(set) var items: [Item] = []
    /// Frames at the end of the arena that are not an item yet: whose they are, and where they begin.
    private var open: (session: SessionID, start: Int)?
    /// Bytes of the shared frames, each counted once.
    package var sharedByteCount = 0
    /// Items and recipients for ``deliveryWeight``.
    private var itemCount = 0
    package var recipientCount = 0
    /// When the oldest of the requests was read from its socket whose results are here; the latest time there
    /// is where that is not known.
    package internal(set) var began = MonotonicTime(nanoseconds: .max)
    /// Replies and responses, and pushes to one session; those of ``Item/shared(_:_:)`` are not counted here
    /// before they are delivered early.
    package internal(set) var replyCount = 0
    package internal(set) var pushCount = 0

    /// - Parameter items: They have no ``deliveryWeight``.
    package init(items: [Item] = []) {
        self.items = items
    }

    /// Bytes that are reserved in advance, in the arena and for items each; and the capacity of both together
    /// up to which it is kept, since arrays grow to up to twice of what they hold.
    private static let reservedByteLimit = 256 << 10
    private static let keptByteLimit = 512 << 10

    /// An empty batch with capacity for as much as another one holds: bursts resemble each other.
    init(withRoomFor other: OutputBatch) {
        arena.reserveCapacity(min(other.arena.count, Self.reservedByteLimit))
        items.reserveCapacity(min(other.items.count, Self.reservedByteLimit / MemoryLayout<Item>.stride))
    }

    /// Removes everything, and keeps the capacity unless it is large.
    mutating func removeAll() {
        let isKept = arena.capacity + items.capacity * MemoryLayout<Item>.stride <= Self.keptByteLimit
        arena.removeAll(keepingCapacity: isKept)
        items.removeAll(keepingCapacity: isKept)
        open = nil
        sharedByteCount = 0
        itemCount = 0
        recipientCount = 0
        began = MonotonicTime(nanoseconds: .max)
        replyCount = 0
        pushCount = 0
    }

    private var hasCapacity: Bool { arena.capacity > 0 }

    /// Gives a batch that was delivered back to the pool, to be filled again.
    package static func recycle(_ batch: consuming OutputBatch, into spares: BufferPool<OutputBatch>) {
        batch.removeAll()
        // One without frames, or with very many, has no buffer to use again.
        if batch.hasCapacity { spares.release(consume batch) }
    }

    /// A pool with enough batches for those on their way to each loop and back, and those that wait for the
    /// disk.
    package static func pool(loopCount: Int) -> BufferPool<OutputBatch> {
        BufferPool(atMost: 4 + 4 * loopCount)
    }

    /// Bytes up to which frames are joined to one item: a channel takes an item as a whole, or not at all.
    private static let joinedByteLimit = 64 << 10

    /// Adds what was appended to the arena from `start` on as frames for a session. Frames for one session
    /// that lie one behind the other are one item: a client that sends sixteen requests at once gets sixteen
    /// replies with one item.
    /// - Precondition: `start` is the end of what was added before.
    mutating func appendFrames(from start: Int, to session: SessionID) {
        assert(start >= open?.start ?? 0 && start <= arena.count)
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
        itemCount += 1
    }

    /// Replaces an item that was delivered early, so that it is not delivered again.
    /// - Parameter recipientCount: How many sessions got it; they are added to ``pushCount`` where they were
    ///   not counted when the item was made.
    package mutating func noteDelivered(_ index: Int, recipientCount: Int) {
        switch items[index] {
        case .shared, .compressible, .tagged, .events, .update, .window: pushCount += recipientCount
        case .frames, .large, .rest, .windowMark, .held, .close, .resumeReading, .delivered: break
        }
        items[index] = .delivered
    }

    /// The sessions that an item is for.
    package enum Recipients {
        case none
        case one(SessionID)
        /// Of all loops.
        case several(ContiguousArray<SessionID>)
        /// Of all loops; a session may be there under many tags.
        case tagged([Push.TaggedRecipient])

        package var count: Int {
            switch self {
            case .none: 0
            case .one: 1
            case .several(let sessions): sessions.count
            case .tagged(let recipients): recipients.count
            }
        }
    }

    package func recipients(ofItem index: Int) -> Recipients {
        switch items[index] {
        case .frames(let id, _), .large(let id, _), .rest(let id, _), .events(let id, _), .update(let id, _),
            .window(let id, _), .windowMark(let id), .held(let id, _), .close(let id, _):
            .one(id)
        case .shared(_, let recipients), .compressible(_, let recipients): .several(recipients)
        case .tagged(let push): .tagged(push.recipients)
        case .resumeReading, .delivered: .none
        }
    }

    /// Makes items of everything that was added. Before ``items`` is read.
    mutating func finish() { close(at: arena.count) }

    /// Makes an item of the open frames, which end at `end`.
    private mutating func close(at end: Int) {
        guard let open else { return }
        assert(open.start < end, "an item of no frames")
        items.append(.frames(open.session, open.start..<end))
        itemCount += 1
        self.open = nil
    }

    /// Bytes that the batch holds in memory until it is delivered.
    package var byteCount: Int { arena.count + sharedByteCount }

    /// What its delivery takes of a loop's time, as so many bytes that ``Backpressure`` counts beside
    /// ``byteCount``: an item takes microseconds, however few bytes it has, and a recipient of shared frames
    /// a fraction of that. Without it, small replies would take some 200 ms of a loop's time before the limit
    /// is reached.
    package var deliveryWeight: Int {
        itemCount * Self.itemWeight + recipientCount * Self.recipientWeight
    }

    private static let itemWeight = 512
    private static let recipientWeight = 64
    /// A recipient whose message a loop makes for it alone weighs as much as so many others: as an item.
    static let recipientsOfItem = itemWeight / recipientWeight

    var isEmpty: Bool { items.isEmpty && open == nil }
}

/// Why the databases end a session's connection.
package enum DisconnectReason: Sendable {
    /// The server has said why before: with a shutdown message, say.
    case finished
    /// The client has come back on another connection (realtime §12.5).
    case replaced
    /// The server stops.
    case goingAway
}
