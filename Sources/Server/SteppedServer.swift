import Logging
import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoJournal
import PandoREST
import PandoReactor
import PandoRules
import PandoStorage
import PandoTree
import PandoWire

/// A server without threads, sockets or time of its own: whoever holds it says when the database thread, the
/// journal thread, the checkpoint thread and the segment thread get a turn, and on what disk. What runs in a
/// turn is what runs in `pando serve`.
///
///     say, send, close ──▶ mailbox ──stepDatabase()──▶ orders ──stepJournal()──▶ disk
///                                        │                          ├──stepCheckpoint()──▶ disk
///                                        └──▶ takeOutputs()         └──stepSegment()──▶ disk
///
/// An error that ends `pando serve` ends this: see ``failure``.
///
/// `@unchecked Sendable`: one thread.
package final class SteppedServer<Storage: Disk>: @unchecked Sendable {
    /// What it lets out.
    package enum Output: Sendable {
        /// One whole message of the realtime protocol, without its frames.
        case message(SessionID, [UInt8])
        case rest(SessionID, RESTResult)
        case closed(SessionID)
    }

    /// What came of a REST request.
    package enum RESTResult: Sendable {
        /// Data, as JSON; nil where there is none to tell.
        case done([UInt8]?)
        /// 412.
        case stale([UInt8])
        case denied
        /// 503: the disk is full.
        case diskFull
        case refused(String)
    }

    private let mailbox: Mailbox<DatabaseMessage>
    private let outputs: Mailbox<OutputBatch>
    private let spareOutputs = OutputBatch.pool(loopCount: 1)
    private let outputCongestion: Backpressure
    private let congestion: Backpressure
    private let journalQueue: JournalQueue
    private let writer: JournalWriter<Storage>
    private let checkpoints: CheckpointJobWriter<Storage>
    private let checkpointOrders: Mailbox<CheckpointJob>
    private var jobs: [CheckpointJob] = []
    private let disk: Storage
    /// The bytes of segments to be prepared.
    private let segmentOrders: Mailbox<Int>
    private var segmentJobs: [Int] = []
    private let abandonedSegment = CancellationFlag()
    private let host: DatabaseHost
    private let budget: EncodingBudget
    /// What `waitForSpace` reaches, which is made before the server is.
    private let turn: JournalTurn
    private var isStopped = false
    /// Too many bytes of requests wait: clients are not read.
    package private(set) var isPaused = false
    /// All sessions have ended and everything is as durable as was asked for.
    package private(set) var isDrained = false

    /// Why the process would have ended: a disk that failed. Nothing leaves any more.
    package var failure: (any Error)? { turn.failure }

    /// Recovers what is on the disk, as `pando serve` does before it listens.
    /// - Parameter outputByteLimit: Bytes of outputs that may wait before requests do.
    package init(
        on disk: Storage, _ configuration: Configuration, journalOptions: JournalOptions,
        outputByteLimit: Int,
        environment: Environment, logger: Logger
    ) throws {
        var state = RecoveredState(access: configuration.isDevelopment ? .open : .locked)
        let journal = try DataDirectory.open(
            disk, into: &state, endsSessions: true, options: journalOptions, environment: environment,
            logger: logger)
        let wakeup = try WakeupEvent()
        mailbox = Mailbox(signalling: wakeup)
        outputs = Mailbox(signalling: wakeup)
        checkpointOrders = Mailbox(signalling: wakeup)
        segmentOrders = Mailbox(signalling: wakeup)
        self.disk = disk
        let turn = JournalTurn()
        self.turn = turn
        let orders = Mailbox<JournalRequest>(signalling: wakeup)
        let space = try LogSpace()
        // Weak: the turn holds the writer, which holds the queue.
        journalQueue = JournalQueue(orders, space: space, origin: JournalOrigin(journal)) { [weak turn] in
            guard let turn else { return }
            turn.take()
            // The wait ends, so that the simulator can see that the process has failed.
            if turn.failure != nil { space.update(granted: .max, isFull: true) }
        }
        let (checkpointOrders, segmentOrders) = (checkpointOrders, segmentOrders)
        let writer = JournalWriter(
            journal, options: configuration.storage, queue: journalQueue, environment: environment,
            logger: logger,
            report: { [mailbox, weak turn] event in
                // As the executor does: released at once, unless the database is at work.
                if case .durable(let ticket) = event, turn?.release(upTo: ticket) == true { return }
                mailbox.post(.storage(event))
            }, writeCheckpoint: { checkpointOrders.post($0) },
            preparer: SegmentPreparer(
                prepare: { [abandonedSegment] byteCount in
                    abandonedSegment.isSet = false
                    segmentOrders.post(byteCount)
                }, cancel: { [abandonedSegment] in abandonedSegment.isSet = true }))
        self.writer = writer
        turn.body = { () throws(JournalError) in
            var batch: [JournalRequest] = []
            orders.drain(into: &batch)
            return try writer.process(&batch)
        }
        checkpoints = CheckpointJobWriter(
            disk: disk, keptCount: configuration.storage.keptCheckpointCount, logger: logger,
            cancelled: CancellationFlag()
        )
        congestion = Backpressure(byteLimit: configuration.inFlightByteLimit)
        outputCongestion = Backpressure(byteLimit: outputByteLimit)
        budget = EncodingBudget(byteLimit: .max, signalling: wakeup)
        host = DatabaseHost(
            configuration.databaseOptions, recovered: state, journal: journalQueue,
            requestBackpressure: congestion,
            outputs: OutputQueues([outputs], pool: spareOutputs, backpressure: outputCongestion),
            environment: environment,
            logger: logger,
            preparation: PreparationWorkers(start: { _ in
                preconditionFailure("a simulation has no workers")
            }),
            post: { [mailbox] message in mailbox.post(message) })
        turn.host = host
        try writer.begin()
    }

    // MARK: What clients do

    /// A WebSocket has opened.
    package func open(_ session: SessionID, namespace: String, as credential: PandoRules.Credential) {
        post(.open(session, OpenRequest(namespace: namespace, host: "simulated", previousSession: nil)))
        if credential != .anonymous { post(.identity(session, credential)) }
    }

    /// A client says something; the message must be a request to the database.
    package func say(
        _ message: [UInt8], in session: SessionID, as credential: PandoRules.Credential
    ) throws(MalformedMessage) {
        guard case .request(let request) = try ClientMessage(parsing: message.rawSpan) else {
            throw .unknownKind
        }
        if case .invalid(_, let problem) = request.action {
            return post(.reply(session, .invalid(request.number, problem), byteCount: 0))
        }
        take(message.count)
        post(.request(session, request, credential, byteCount: message.count))
    }

    /// A REST request, on a connection of its own.
    /// - Parameter head: With its empty line.
    package func send(
        head: [UInt8], body: [UInt8], namespace: String, in session: SessionID,
        as credential: PandoRules.Credential
    ) throws(HTTPError) {
        var reader = RequestHeadReader()
        var offset = 0
        guard let head = try reader.read(head.rawSpan, from: &offset) else { throw .malformedRequestLine }
        let action: RESTCall.Action
        do throws(RESTError) {
            let request = try RESTRequest(head)
            switch request.location {
            case .data:
                let content = request.method.isRead ? nil : try request.readBody(body.rawSpan)
                try request.checkConditions()
                action = .data(request, content, credential)
            case .settings("rules"): action = .rules(request, source: body, credential)
            case .settings(let name): action = .setting(name, request, value: body, credential)
            case .inspect: throw .invalidPath
            }
        } catch {
            action = .refuse(error)
        }
        take(body.count)
        post(.rest(session, RESTCall(namespace: namespace, action: action), byteCount: body.count))
    }

    /// The connection is gone.
    package func close(_ session: SessionID) {
        post(.closed(session))
    }

    /// SIGTERM: ends all sessions; ``isDrained`` becomes true.
    package func drain() {
        // Called back in a turn of the database thread, so on ours.
        post(.drain { [weak self] in self?.isDrained = true })
    }

    private func post(_ message: DatabaseMessage) {
        mailbox.post(message)
    }

    private func take(_ byteCount: Int) {
        switch congestion.add(byteCount) {
        case .goOn: break
        case .pause: isPaused = true
        case .resumeAll: isPaused = false
        }
    }

    // MARK: Turns

    /// The database thread takes all there is.
    package func stepDatabase() {
        guard failure == nil else { return }
        var batch: [DatabaseMessage] = []
        mailbox.drain(into: &batch)
        guard !batch.isEmpty || host.hasWork else { return }
        turn.isHostBusy = true
        host.receive(&batch)
        turn.isHostBusy = false
    }

    /// Nanoseconds of work for which requests that came together are done in the order of arrival; what takes
    /// longer is done in turn.
    package static var burstWork: UInt64 { DatabaseHost.burstTurn }
    /// Nanoseconds of work of one session, and of one database, before the next one's turn.
    package static var quantum: UInt64 { DatabaseHost.quantum }

    /// Whether the database thread has more to do without anything new.
    package var hasBacklog: Bool { host.hasWork }

    /// The journal thread takes all there is, or looks whether a deadline has come.
    package func stepJournal() {
        guard failure == nil, !isStopped else { return }
        turn.take()
    }

    /// Whether a checkpoint waits to be written.
    package var hasCheckpointJob: Bool {
        var new: [CheckpointJob] = []
        checkpointOrders.drain(into: &new)
        jobs += new
        return !jobs.isEmpty
    }

    /// The checkpoint thread writes one checkpoint. The disk may give the others their turns meanwhile.
    package func stepCheckpoint() {
        guard failure == nil, hasCheckpointJob else { return }
        let job = jobs.removeFirst()
        do throws(DiskFailure) {
            let isWritten = try checkpoints.write(job)
            journalQueue.requests.post(.checkpointFinished(isWritten: isWritten))
        } catch {
            turn.fail(error)
        }
    }

    /// Whether a segment waits to be prepared.
    package var hasSegmentJob: Bool {
        var new: [Int] = []
        segmentOrders.drain(into: &new)
        segmentJobs += new
        return !segmentJobs.isEmpty
    }

    /// Segments that were prepared before they were begun.
    package var usedPreparedCount: Int { writer.usedPreparedCount }

    /// The segment thread prepares one segment. The disk may give the others their turns meanwhile.
    /// - Parameter isAbandoned: Is asked between its steps; true gives up.
    package func stepSegment(isAbandoned: () -> Bool = { false }) {
        guard failure == nil, hasSegmentJob else { return }
        let byteCount = segmentJobs.removeFirst()
        do throws(DiskFailure) {
            let isThere = try PreparedSegment.make(byteCount: byteCount, on: disk) {
                isAbandoned() || abandonedSegment.isSet
            }
            journalQueue.requests.post(.segmentPrepared(byteCount: isThere ? byteCount : nil))
        } catch {
            turn.fail(error)
        }
    }

    /// Once drained: makes everything durable and lets go of the directory.
    package func stop() {
        journalQueue.requests.post(.stop)
        stepJournal()
        while hasCheckpointJob, failure == nil { stepCheckpoint() }
        isStopped = true
    }

    // MARK: What clients hear

    /// What has been let out since the last call, in the order of its decision.
    package func takeOutputs() -> [Output] {
        // Outputs that a process had not handed to the kernel when it died are lost.
        guard failure == nil else { return [] }
        var batches: [OutputBatch] = []
        outputs.drain(into: &batches)
        var all: [Output] = []
        for index in batches.indices {
            var batch = OutputBatch()
            swap(&batch, &batches[index])
            for item in batch.items { add(item, batch.arena, to: &all) }
            if outputCongestion.remove(batch.byteCount) { mailbox.post(.outputsDelivered) }
            OutputBatch.recycle(consume batch, into: spareOutputs)
        }
        return all
    }

    /// What was decided and not taken by ``takeOutputs()``, in the order of its decision, whether it was let
    /// out or not: a client would never hear it. For a checker that has to know in which order requests were
    /// done when the process died; the server is good for nothing else afterwards.
    package func takeUndelivered() -> [Output] {
        var batches: [OutputBatch] = []
        outputs.drain(into: &batches)
        var all: [Output] = []
        for batch in batches + host.takeHeld() {
            for item in batch.items { add(item, batch.arena, to: &all) }
        }
        return all
    }

    private func add(_ item: OutputBatch.Item, _ arena: [UInt8], to all: inout [Output]) {
        switch item {
        case .frames(let session, let range):
            for message in OutputBatch.messages(in: arena[range]) { all.append(.message(session, message)) }
        case .shared(let bytes, let sessions):
            for message in OutputBatch.messages(in: bytes.array[...]) {
                for session in sessions { all.append(.message(session, message)) }
            }
        case .large(let session, let message):
            var hashes = HashMemo()
            message.encode(within: budget, &hashes)
            let frames = (message.pieces ?? []).reduce(into: [UInt8]()) { $0 += $1.array }
            for message in OutputBatch.messages(in: frames[...]) { all.append(.message(session, message)) }
        case .rest(let session, let outcome): all.append(.rest(session, RESTResult(outcome)))
        // No stream is ever asked for here.
        case .events: break
        case .close(let session, _): all.append(.closed(session))
        case .windowMark: break  // No session here has a window.
        case .resumeReading: isPaused = false
        }
    }
}

extension OutputBatch {
    /// Takes our own frames apart, and puts chunks together (realtime §2.1).
    static func messages(in frames: ArraySlice<UInt8>) -> [[UInt8]] {
        var messages: [[UInt8]] = []
        var rest = frames
        var chunkCount = 0
        while rest.count >= 2 {
            let code = Int(rest[rest.startIndex + 1])
            let lengthCount = code == 127 ? 8 : code == 126 ? 2 : 0
            let bytes = rest.dropFirst(2).prefix(lengthCount)
            let length = lengthCount == 0 ? code : bytes.reduce(0) { $0 << 8 | Int($1) }
            let payload = rest.dropFirst(2 + lengthCount).prefix(length)
            rest = rest.dropFirst(2 + lengthCount + length)
            if chunkCount > 0 {
                messages[messages.count - 1] += payload
                chunkCount -= 1
            } else if payload.first != UInt8(ascii: "{"),
                let count = Int(String(decoding: payload, as: UTF8.self))
            {
                messages.append([])
                chunkCount = count
            } else {
                messages.append(Array(payload))
            }
        }
        return messages
    }
}

extension SteppedServer.RESTResult {
    fileprivate init(_ outcome: RESTCallResult) {
        switch outcome {
        case .stale(let node): self = .stale(node.json)
        case .refused(.diskFull): self = .diskFull
        case .refused(.permissionDenied), .refused(.unauthorized): self = .denied
        case .refused(let error): self = .refused(error.text)
        case .failed(let text): self = .refused(text)
        case .read(let node), .written(let node), .writtenUnread(let node): self = .done(node.json)
        case .pushed(_, let node): self = .done(node?.json)
        case .verbatim(let bytes): self = .done(bytes)
        case .filtered(let node, let query): self = .done(Window(query, over: node).node.json)
        case .updated, .stream, .admitted, .backup, .deferred, .report: self = .done(nil)
        }
    }
}

extension Node {
    fileprivate var json: [UInt8] {
        var json: [UInt8] = []
        json.append(json: self)
        return json
    }
}

/// A turn of the journal thread, and what came of the last one.
///
/// `@unchecked Sendable`: one thread.
private final class JournalTurn: @unchecked Sendable {
    var body: (() throws(JournalError) -> Bool)?
    private(set) var failure: (any Error)?
    weak var host: DatabaseHost?
    /// The database thread waits for this turn.
    var isHostBusy = false

    /// - Returns: false when the database thread must hear of it.
    func release(upTo ticket: UInt64) -> Bool {
        guard !isHostBusy, let host else { return false }
        return host.release(upTo: ticket)
    }

    func take() {
        guard failure == nil, let body else { return }
        do throws(JournalError) { _ = try body() } catch { failure = error }
    }

    func fail(_ error: DiskFailure) {
        failure = failure ?? error
    }
}
