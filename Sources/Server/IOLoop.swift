import PandoBytes
import PandoEngine
import PandoReactor
import PandoWire

/// One I/O thread: its event loop, its connections, and the doors to the other threads.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs.
final class IOLoop: @unchecked Sendable {
    let loop: EventLoop
    let configuration: Configuration
    let verifier: TokenVerifier
    private let index: UInt8
    private let database: Mailbox<DatabaseMessage>
    private let encoder: EncodingThread
    private let congestion: Congestion
    private let outputCongestion: Congestion
    /// Every loop's mailbox, our own included.
    private let allLoops: [Mailbox<OutputBatch>]

    /// Sessions by slot; free slots are nil.
    private var sessions: ContiguousArray<ClientSession?> = []
    private var freeSlots: [UInt32] = []
    private var generation: UInt32 = 0
    /// Messages for the database thread that the current read event has brought.
    private var outgoing: [DatabaseMessage] = []
    /// Sessions that are not read because the database or the disk is behind.
    private var paused: [ClientSession] = []
    private var isCongested = false
    private var onEmpty: (() -> Void)?
    private var unfinishedByteCount = 0

    /// Bytes of unfinished messages on one loop: sixteen of the largest, which clients send seldom and at once.
    private static let unfinishedByteLimit = 256 << 20
    let encoded: Mailbox<EncodedMessage>

    init(
        _ loop: EventLoop, index: UInt8, configuration: Configuration, database: Mailbox<DatabaseMessage>,
        outputs: [Mailbox<OutputBatch>], encoder: EncodingThread, congestion: Congestion,
        outputCongestion: Congestion
    ) {
        self.loop = loop
        self.index = index
        self.configuration = configuration
        self.database = database
        self.encoder = encoder
        self.congestion = congestion
        self.outputCongestion = outputCongestion
        allLoops = outputs
        verifier = TokenVerifier(acceptsDevelopmentTokens: configuration.isDevelopment)
        encoded = Mailbox(ringing: loop.bell)
        loop.attach(outputs[Int(index)]) { [self] batches in
            for batch in batches { deliver(batch) }
        }
        loop.attach(encoded) { [self] messages in
            for message in messages { session(message.session)?.finishEncoding(message.message) }
        }
        scheduleSweep()
    }

    // MARK: Connections

    /// Begins to speak HTTP on a new connection.
    func adopt(_ socket: ConnectedSocket) {
        // Out of memory for one more epoll entry: the socket is closed, the client tries again.
        _ = try? Channel.adopt(socket, on: loop) { channel in
            let connection = HTTPConnection(makeID(), on: channel, of: self)
            sessions[Int(connection.id.slot)] = connection
            return connection
        }
    }

    private func makeID() -> SessionID {
        let slot: UInt32
        if let free = freeSlots.popLast() { slot = free } else {
            slot = UInt32(sessions.count)
            sessions.append(nil)
        }
        generation &+= 1
        return SessionID(loop: index, slot: slot, generation: generation)
    }

    /// Makes a session for a connection that has become a WebSocket, and tells the database.
    func open(_ channel: Channel, _ request: OpenRequest) -> RealtimeSession {
        let id = makeID()
        let session = RealtimeSession(id, on: channel, of: self)
        sessions[Int(id.slot)] = session
        outgoing.append(.open(id, request))
        return session
    }

    /// The connection has become a WebSocket, and its HTTP side is over.
    func forget(_ connection: HTTPConnection) {
        sessions[Int(connection.id.slot)] = nil
        freeSlots.append(connection.id.slot)
        paused.removeAll { $0 === connection }
        // Whoever takes the channel over has no reason yet not to read it.
        connection.resumeAll()
    }

    /// The connection is gone.
    func remove(_ session: ClientSession) {
        let slot = session.id.slot
        sessions[Int(slot)] = nil
        freeSlots.append(slot)
        paused.removeAll { $0 === session }
        post(.closed(session.id), byteCount: 0, for: nil)
        flushOutgoing()
        tellIfEmpty()
    }

    private func session(_ id: SessionID) -> ClientSession? {
        guard id.loop == index, Int(id.slot) < sessions.count,
            let session = sessions[Int(id.slot)], session.id == id
        else { return nil }
        return session
    }

    // MARK: Unfinished messages

    /// Counts bytes that sessions keep for messages that are not complete.
    /// - Returns: false when all of them keep too much: then one must go, and it is the one that asks for more.
    func keepUnfinished(_ difference: Int) -> Bool {
        unfinishedByteCount += difference
        return difference <= 0 || unfinishedByteCount <= Self.unfinishedByteLimit
    }

    // MARK: To the database thread

    /// Queues a message; ``flushOutgoing()`` sends what one read event brought as one burst.
    func post(_ message: DatabaseMessage, byteCount: Int, for session: ClientSession?) {
        outgoing.append(message)
        if byteCount > 0 {
            switch congestion.add(byteCount) {
            case .goOn: break
            case .pause: isCongested = true
            case .tellAll:
                for loop in allLoops { loop.post(OutputBatch(items: [.resumeReading])) }
            }
        }
        if isCongested, let session, !session.isPausedForCongestion {
            session.pause(.congestion)
            paused.append(session)
        }
    }

    func flushOutgoing() {
        guard !outgoing.isEmpty else { return }
        database.post(contentsOf: outgoing)
        outgoing.removeAll(keepingCapacity: true)
    }

    /// Has a large message encoded on the helper thread; it comes back through ``encoded``.
    func encode(_ message: LargeMessage, for session: SessionID) {
        encoder.post(EncodingJob(session: session, message: message, answer: encoded))
    }

    // MARK: From the database thread

    private func deliver(_ batch: OutputBatch) {
        let arena = batch.arena.rawSpan
        for item in batch.items {
            switch item {
            case .frames(let id, let range): session(id)?.send(arena.extracting(range))
            case .shared(let bytes, let recipients):
                for id in recipients { session(id)?.send(bytes) }
            case .large(let id, let message): session(id)?.send(message)
            case .rest(let id, let outcome): session(id)?.receive(outcome)
            case .events(let id, let events): session(id)?.receive(events)
            case .close(let id, let reason): session(id)?.close(reason)
            case .resumeReading: resumeReading()
            }
        }
        if outputCongestion.remove(batch.byteCount) { database.post(.proceed) }
    }

    private func resumeReading() {
        isCongested = false
        var sessions: [ClientSession] = []
        swap(&sessions, &paused)
        for session in sessions { session.resume(.congestion) }
    }

    // MARK: The end

    /// Calls `body` once the last session is gone; at once when there is none.
    func whenEmpty(_ body: @escaping () -> Void) {
        onEmpty = body
        for session in sessions { session?.endIfIdle() }
        tellIfEmpty()
    }

    private func tellIfEmpty() {
        guard let onEmpty, freeSlots.count == sessions.count else { return }
        self.onEmpty = nil
        onEmpty()
    }

    // MARK: Silence

    /// Looks a few times per idle timeout at who has gone silent.
    private func scheduleSweep() {
        loop.schedule(after: configuration.idleTimeout / 5) { [self] in
            for session in sessions { session?.checkIdle(at: loop.now) }
            scheduleSweep()
        }
    }
}

extension SessionID {
    //  ┌────────────┬──────┬──────┐
    //  │ generation │ loop │ slot │
    //  │     32     │   8  │  24  │   a slot is used again, a generation is not (within 2^32 connections)
    //  └────────────┴──────┴──────┘

    init(loop: UInt8, slot: UInt32, generation: UInt32) {
        // More connections than descriptors a process can have.
        precondition(slot < 1 << 24)
        self.init(UInt64(generation) << 32 | UInt64(loop) << 24 | UInt64(slot))
    }

    var loop: UInt8 { UInt8(truncatingIfNeeded: rawValue >> 24) }
    var slot: UInt32 { UInt32(truncatingIfNeeded: rawValue) & 0xFF_FFFF }
}
