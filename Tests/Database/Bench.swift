import Glibc
import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase

/// Frames of a server, which have no mask, one by one.
func wholeFrames(in frames: ArraySlice<UInt8>) -> [(bytes: ArraySlice<UInt8>, payload: ArraySlice<UInt8>)] {
    var found: [(ArraySlice<UInt8>, ArraySlice<UInt8>)] = []
    var rest = frames
    while rest.count >= 2 {
        let code = Int(rest[rest.startIndex + 1])
        let lengthCount = code == 127 ? 8 : code == 126 ? 2 : 0
        let lengthBytes = rest.dropFirst(2).prefix(lengthCount)
        let length = lengthCount == 0 ? code : lengthBytes.reduce(0) { $0 << 8 | Int($1) }
        let frame = rest.prefix(2 + lengthCount + length)
        found.append((frame, frame.dropFirst(2 + lengthCount)))
        rest = rest.dropFirst(frame.count)
    }
    return found
}

extension OutputBatch {
    /// The messages in frames: unmasked, with chunks joined (realtime §2.1).
    static func messages(in frames: ArraySlice<UInt8>) -> [[UInt8]] {
        var messages: [[UInt8]] = []
        var chunkCount = 0
        for payload in wholeFrames(in: frames).map(\.payload) {
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

/// The databases without their thread: a test hands them messages, and looks at the outputs that are
/// released.
final class Bench {
    let wakeup: WakeupEvent
    let mailbox: Mailbox<DatabaseMessage>
    let outputs: Mailbox<OutputBatch>
    let outputBackpressure = Backpressure(byteLimit: 8 << 20)
    let spareOutputs = OutputBatch.pool(loopCount: 1)
    let journal: JournalThread?
    let host: DatabaseHost
    /// Nodes that wait to be hashed.
    let preparationJobs: Mailbox<PreparationJob>
    let abandoned = Abandoned()
    private var batch: [OutputBatch] = []
    private let endsTurns: Bool

    /// Values that another thread is to free.
    let released = Released()

    /// - Parameters:
    ///   - directory: nil keeps everything in memory.
    ///   - indexByteLimit: Of the indexes that no rule declares.
    ///   - slowThreshold: Nanoseconds from which on an operation is noted as slow.
    init(
        directory: String?, isDevelopment: Bool = true, environment: Environment = .machine,
        indexByteLimit: Int = 256 << 20, slowThreshold: UInt64 = SlowOperations.standardThreshold
    ) throws {
        endsTurns = environment.hasWorkers
        wakeup = try WakeupEvent()
        mailbox = Mailbox(signalling: wakeup)
        preparationJobs = Mailbox(signalling: wakeup)
        outputs = Mailbox(signalling: try WakeupEvent())
        var options = DatabaseOptions()
        options.createsNamespaces = isDevelopment
        options.indexByteLimit = indexByteLimit
        var state = RecoveredState(access: isDevelopment ? .open : .locked)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        if let directory {
            let opened = try DataDirectory.open(directory, into: &state, endsSessions: true, logger: logger)
            journal = try JournalThread(
                opened, checkpointDisk: try SystemDisk(directory: directory, create: false),
                segmentDisk: try SystemDisk(directory: directory, create: false),
                options: StorageOptions(), logger: logger,
                report: { [mailbox] in mailbox.post(.storage($0)) })
        } else {
            journal = nil
        }
        host = DatabaseHost(
            options, recovered: state, journal: journal?.queue,
            requestBackpressure: Backpressure(byteLimit: 1 << 20),
            outputs: OutputQueues([outputs], pool: spareOutputs, backpressure: outputBackpressure),
            services: DatabaseServices(
                environment: environment, metrics: DatabaseMetrics(SlowOperations(threshold: slowThreshold)),
                logger: logger,
                preparation: PreparationWorkers(
                    start: { [preparationJobs] job in preparationJobs.post(job) },
                    cancel: { [abandoned] session in abandoned.sessions.append(session) },
                    release: { [released] value in released.values.append(value) }),
                post: { [mailbox] in mailbox.post($0) }))
    }

    /// Sessions whose preparations are not wanted any more. On the thread of the test.
    final class Abandoned: @unchecked Sendable {
        var sessions: [SessionID] = []
    }

    /// Values that the databases have another thread free. On the thread of the test.
    final class Released: @unchecked Sendable {
        var values: [any Sendable] = []
    }

    /// Does the work that waits for other threads, and processes its results, until there is none.
    /// - Parameter isDone: Whether a job is done; otherwise it is dropped.
    func work(_ isDone: (PreparationJob) -> Bool = { _ in true }) {
        var hashes = HashMemo()
        while true {
            var jobs: [PreparationJob] = []
            preparationJobs.drain(into: &jobs)
            for job in jobs where isDone(job) { job.perform(&hashes) }
            released.values.removeAll()
            var messages: [DatabaseMessage] = []
            mailbox.drain(into: &messages)
            guard !jobs.isEmpty || !messages.isEmpty else { return }
            process(messages)
        }
    }

    func process(_ messages: [DatabaseMessage]) {
        var messages = messages
        host.receive(&messages)
        // However slow the machine is: a turn that took long leaves the rest to the next.
        while endsTurns, host.hasWork { host.receive(&messages) }
    }

    /// Waits for events, and processes them.
    /// - Throws: Where none comes.
    func waitForDisk() throws {
        var messages: [DatabaseMessage] = []
        mailbox.drain(into: &messages)
        while messages.isEmpty {
            try #require(wakeup.wait(timeout: .seconds(20)), "no event of the journal")
            mailbox.drain(into: &messages)
        }
        process(messages)
    }

    /// Waits until everything that was decided so far is durable, and its outputs are released.
    /// - Throws: Where no event comes.
    func waitUntilDurable() throws {
        while !host.gate.isDurable(host.processor.journal.lastTicket) { try waitForDisk() }
    }

    /// The messages released since the last call, unframed, each with its session's slot.
    func takeMessages() -> [String] {
        outputs.drain(into: &batch)
        defer {
            let delivered = batch.reduce(0) { $0 + $1.byteCount + $1.deliveryWeight }
            batch.removeAll()
            if outputBackpressure.remove(delivered) { process([.outputsDelivered]) }
        }
        return batch.flatMap { batch in
            batch.items.flatMap { item -> [String] in
                switch item {
                case .frames(let session, let range):
                    OutputBatch.messages(in: batch.arena[range]).map {
                        "\(session.slot) \(String(decoding: $0, as: UTF8.self))"
                    }
                case .shared(let bytes, let sessions): sessions.map { "\($0.slot) \(text(bytes.array))" }
                case .compressible(let frames, let sessions):
                    sessions.map { "\($0.slot) \(text(frames.plain.array))" }
                case .tagged(let push): messages(of: push)
                case .large(let session, let message): messages(of: message).map { "\(session.slot) \($0)" }
                case .close(let session, let reason): ["\(session.slot) close \(reason)"]
                case .rest(let session, let outcome): ["\(session.slot) rest \(outcome)"]
                case .events(let session, let events): ["\(session.slot) events \(events)"]
                case .update(let session, let update): ["\(session.slot) events \(update.events)"]
                case .window(let session, let window): ["\(session.slot) events \(window.events)"]
                case .windowMark(let session): ["\(session.slot) mark"]
                case .held: []
                case .resumeReading: ["resume"]
                case .delivered: []
                }
            }
        }
    }

    private func messages(of push: TaggedPush) -> [String] {
        var writer = push.makeWriter()
        return push.recipients.map { recipient in
            guard !push.isLarge, writer.print(for: recipient.tag) else {
                return "\(recipient.session.slot) large"
            }
            return "\(recipient.session.slot) \(text(writer.frames))"
        }
    }

    /// The pushes for many listens of one session; of any other large message only that there is one.
    private func messages(of message: LargeMessage) -> [String] {
        guard case .push(.listens(let changed), _) = message.content else { return ["large"] }
        var messages: [String] = []
        changed.forEach { path, node in
            var bytes: [UInt8] = []
            bytes.append(pushHead: .overwrite(path, node))
            bytes.append(pushTail: nil)
            messages.append(String(decoding: bytes, as: UTF8.self))
        }
        return messages
    }

    /// One small text frame without its header.
    private func text(_ frame: [UInt8]) -> String {
        String(decoding: frame[(frame[1] == 126 ? 4 : 2)...], as: UTF8.self)
    }

    static func session(_ slot: UInt32, generation: UInt32 = 1) -> SessionID {
        SessionID(loop: 0, slot: slot, generation: generation)
    }

    static func request(_ slot: UInt32, _ json: String, signIn: UInt32 = 0) throws -> DatabaseMessage {
        guard case .request(let request) = try ClientMessage(parsing: Array(json.utf8).rawSpan) else {
            throw TruncatedBytes()
        }
        return .request(session(slot), request, .anonymous, signIn: signIn, byteCount: json.utf8.count)
    }

    static func put(_ slot: UInt32, _ number: Int, _ path: String, _ value: String) throws -> DatabaseMessage
    {
        try request(
            slot, #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"\#(path)","d":\#(value)}}}"#)
    }

    static func listen(_ slot: UInt32, _ number: Int, _ path: String) throws -> DatabaseMessage {
        try request(slot, #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"\#(path)","h":""}}}"#)
    }

    static func open(_ slot: UInt32, _ namespace: String = "demo", previous: String? = nil) -> DatabaseMessage
    {
        .open(
            session(slot),
            OpenRequest(namespace: namespace, host: "h", previousSession: previous.map { Text($0) }))
    }
}

/// A directory of its own, gone after the test.
func withDirectory(_ body: (String) throws -> Void) throws {
    let path = "/tmp/pando-host-tests-\(UInt64.random(in: .min ... .max))"
    let disk = try SystemDisk(directory: path, create: true)
    defer {
        for name in (try? disk.list()) ?? [] { try? disk.remove(name) }
        removeDirectory(path)
    }
    try body(path)
}

/// Removes an empty directory.
func removeDirectory(_ path: String) {
    unsafe rmdir(path)
}
