import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules
import PandoSimulatedDisk
import PandoTree
import PandoWire
import Synchronization
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// A real directory on a disk that can be full: space is reserved, and files are made, only while it is not.
final class LimitedDisk: ForwardingDisk {
    let base: SystemDisk
    private let full: Gauge
    let overwritesInPlace: Bool

    final class Gauge: Sendable {
        let isFull = Atomic<Bool>(false)
        /// How often space was refused.
        let refusals = Atomic<Int>(0)
    }

    init(_ directory: String, _ full: Gauge, overwritesInPlace: Bool = true) throws(DiskFailure) {
        self.overwritesInPlace = overwritesInPlace
        base = try SystemDisk(directory: directory, create: true)
        self.full = full
    }

    private func refuseIfFull(_ operation: DiskOperation) throws(DiskFailure) {
        guard full.isFull.load(ordering: .relaxed) else { return }
        full.refusals.add(1, ordering: .relaxed)
        throw DiskFailure(
            operation: operation, path: directory, errorNumber: 28, errorText: "No space left on device")
    }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SystemDisk.File {
        if mode == .create { try refuseIfFull(.open) }
        return try base.open(name, mode)
    }
    func reserve(_ range: Range<Int>, of file: SystemDisk.File) throws(DiskFailure) {
        try refuseIfFull(.reserve)
        try base.reserve(range, of: file)
    }
}

/// A full disk refuses writes before they are done; reads go on; ends of sessions wait; and all is taken up
/// again.
@Suite struct FullDiskTests {
    private static let refusal =
        #""b":{"s":"unavailable","d":"The server's disk is full: writes fail until there is space again"}"#

    @Test func writesAreRefusedWhileTheDiskIsFull() throws {
        try withDirectory { directory in
            let gauge = LimitedDisk.Gauge()
            let bench = try HostBench(directory: directory, gauge: gauge)
            bench.process([Bench.open(1), Bench.open(2), Bench.open(3)])
            bench.waitForDisk()
            bench.process([
                try HostBench.put(1, 1, "/a", "1"), try Bench.listen(2, 1, "/a"),
                try HostBench.request(3, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone","d":true}}}"#),
            ])
            bench.waitForDisk()
            _ = bench.takeMessages()

            // What was granted is used up; then nothing more is taken.
            gauge.isFull.store(true, ordering: .relaxed)
            let count = try bench.fill(first: 2, refusal: Self.refusal)
            #expect(count > 2, "some room was granted in advance")

            bench.process([
                try HostBench.put(1, 201, "/a", "\"" + String(repeating: "x", count: 500) + "\""),
                try HostBench.put(1, 202, "/filler/2", "\"" + String(repeating: "x", count: 1 << 20) + "\""),
                try HostBench.put(1, 203, "/missing/" + String(repeating: "y", count: 500), "null"),
                try HostBench.request(2, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/a","q":{}}}}"#),
            ])
            let messages = bench.messages(until: "2 {")
            for number in [202, 203] {
                let answer = #"1 {"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":""}}}"#
                #expect(messages.contains(answer), "a write that changes nothing needs no space: \(messages)")
            }
            #expect(
                messages.contains(#"2 {"t":"d","d":{"r":2,"b":{"s":"ok","d":1}}}"#),
                "reads go on: \(messages)")
            #expect(messages.allSatisfy { !$0.contains(#""a":"d""#) }, "a refused write is not done")

            // There is room again: the journal finds out by itself.
            gauge.isFull.store(false, ordering: .relaxed)
            bench.waitForDisk()
            bench.process([try HostBench.put(1, 301, "/a", "3"), .closed(Bench.session(3))])
            bench.messages(until: #"1 {"t":"d","d":{"r":301,"b":{"s":"ok","d":""}}}"#)
            bench.journal.stop()

            var state = RecoveredState(access: .open)
            try DataDirectory.read(directory, into: &state)
            let root = try #require(state.database(named: "demo")).root
            #expect(root["a" as Key] == .integer(3) && root["gone" as Key] == .boolean(true))
            #expect(root["filler" as Key].children.count == count)
        }
    }

    /// The end of a session cannot be refused: its writes are done when there is space, before other writes.
    @Test func endsOfSessionsWaitForSpace() throws {
        try withDirectory { directory in
            let gauge = LimitedDisk.Gauge()
            let bench = try Self.benchOnAFullDisk(
                directory, gauge,
                queued: [
                    try HostBench.request(3, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone/3","d":3}}}"#)
                ])
            bench.process([.closed(Bench.session(1))])
            bench.process([.closed(Bench.session(3))])
            #expect(
                bench.takeMessages().isEmpty,
                "neither is done: the first has no space, and the second waits for it")

            _ = try Self.endedSessions(of: bench, directory, gauge)
        }
    }
}

extension FullDiskTests {
    /// Three sessions, of which the second listens at `/gone` and the first has queued 3 MiB for its end.
    /// Then the disk is full, and not even a small write is accepted.
    /// - Parameter queued: Further requests before that.
    private static func benchOnAFullDisk(
        _ directory: String, _ gauge: LimitedDisk.Gauge, queued: [DatabaseMessage]
    ) throws -> HostBench {
        let bench = try HostBench(directory: directory, gauge: gauge)
        bench.process([Bench.open(1), Bench.open(2), Bench.open(3)])
        bench.process([try Bench.listen(2, 1, "/gone")])
        bench.waitForDisk()
        let value = "\"" + String(repeating: "y", count: 3 << 20) + "\""
        bench.process(
            [try HostBench.request(1, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone/1","d":\#(value)}}}"#)]
                + queued)
        bench.waitForDisk()
        gauge.isFull.store(true, ordering: .relaxed)
        _ = try bench.fill(first: 2, refusal: refusal)
        return bench
    }

    /// The disk has space: the writes of the first session and then those of the third are done, which have
    /// ended before.
    /// - Returns: What the data directory holds then.
    private static func endedSessions(
        of bench: HostBench, _ directory: String, _ gauge: LimitedDisk.Gauge
    ) throws -> RecoveredState {
        gauge.isFull.store(false, ordering: .relaxed)
        let messages = bench.messages(until: "gone/3")
        #expect(
            messages.contains { $0.contains("gone/1") },
            "the older one first: \(messages.map { $0.prefix(80) })")
        bench.journal.stop()
        var state = RecoveredState(access: .open)
        try DataDirectory.read(directory, into: &state)
        let gone = try #require(state.database(named: "demo")).root["gone" as Key]
        #expect(gone.children.count == 2)
        return state
    }

    /// A start on a full disk: reads are served, and the sessions that the crash has ended are ended when
    /// there is space.
    @Test func sessionsThatACrashHasEndedWaitForSpace() throws {
        try withDirectory { directory in
            let gauge = LimitedDisk.Gauge()
            do {
                let bench = try Self.benchOnAFullDisk(
                    directory, gauge,
                    queued: [
                        try HostBench.request(3, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone/3","d":3}}}"#)
                    ])
                bench.journal.stop()
            }
            let bench = try HostBench(directory: directory, gauge: gauge, endsSessions: true)
            let client = 7 as UInt32
            bench.process([
                Bench.open(client), try Bench.listen(client, 1, "/gone"),
                try HostBench.request(client, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/gone","q":{}}}}"#),
                try HostBench.put(client, 3, "/a", "1"),
            ])
            let before = bench.messages(until: #""r":3,"#)
            #expect(
                before.contains(#"7 {"t":"d","d":{"r":2,"b":{"s":"ok","d":null}}}"#), "reads go on: \(before)"
            )
            #expect(before.contains(#"7 {"t":"d","d":{"r":3,\#(Self.refusal)}}"#), "\(before)")
            #expect(before.allSatisfy { !$0.contains("gone/1") && !$0.contains("gone/3") })

            let state = try Self.endedSessions(of: bench, directory, gauge)
            #expect(state.unendedSessions.isEmpty)
        }
    }

    /// A revocation cannot be refused either: it waits, and the end of its session waits behind it.
    @Test func revocationsWaitForSpaceAndComeBeforeTheEnd() throws {
        try withDirectory { directory in
            let gauge = LimitedDisk.Gauge()
            let bench = try Self.benchOnAFullDisk(
                directory, gauge,
                queued: [
                    try HostBench.request(
                        3, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone/revoked","d":3}}}"#, signIn: 1),
                    try HostBench.request(
                        3, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/gone/kept","d":3}}}"#, signIn: 2),
                ])
            bench.process([
                .closed(Bench.session(1)), .revoked(Bench.session(3), [1]),
                .closed(Bench.session(3)),
            ])
            #expect(bench.takeMessages().isEmpty, "all wait for the first, which has no space")

            gauge.isFull.store(false, ordering: .relaxed)
            let messages = bench.messages(until: "gone/kept")
            #expect(messages.allSatisfy { !$0.contains("gone/revoked") })
            bench.journal.stop()
            var state = RecoveredState(access: .open)
            try DataDirectory.read(directory, into: &state)
            let gone = try #require(state.database(named: "demo")).root["gone" as Key]
            #expect(gone.children.count == 2 && gone["kept" as Key] == .integer(3))
            #expect(state.databases.values.allSatisfy { $0.engine.sessionsWithQueue.isEmpty })
        }
    }
}

/// The databases without their thread, and their journal on a disk that can be full.
private final class HostBench {
    let wakeup: WakeupEvent
    let mailbox: Mailbox<DatabaseMessage>
    /// What is computed for the databases, which is done at once.
    let prepared: Mailbox<DatabaseMessage>
    let outputs: Mailbox<OutputBatch>
    let journal: JournalThread
    let host: DatabaseHost
    private var batch: [OutputBatch] = []

    /// - Parameter endsSessions: As a server does that was started after a crash.
    init(directory: String, gauge: LimitedDisk.Gauge, endsSessions: Bool = false) throws {
        wakeup = try WakeupEvent()
        mailbox = Mailbox(signalling: wakeup)
        prepared = Mailbox(signalling: wakeup)
        outputs = Mailbox(signalling: wakeup)
        var options = DatabaseOptions()
        options.createsNamespaces = true
        var state = RecoveredState(access: .open)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        var journalOptions = JournalOptions()
        journalOptions.reservationByteCount = 4 << 20
        let opened = try DataDirectory.open(
            try LimitedDisk(directory, gauge), into: &state, endsSessions: endsSessions,
            options: journalOptions, logger: logger)
        journal = try JournalThread(
            opened, checkpointDisk: try LimitedDisk(directory, gauge),
            segmentDisk: try LimitedDisk(directory, gauge), options: StorageOptions(), logger: logger,
            report: { [mailbox] in mailbox.post(.storage($0)) })
        host = DatabaseHost(
            options, recovered: state, journal: journal.queue,
            requestBackpressure: Backpressure(byteLimit: 64 << 20),
            outputs: OutputQueues(
                [outputs], pool: BufferPool(atMost: 1), backpressure: Backpressure(byteLimit: 64 << 20)),
            services: DatabaseServices(
                logger: logger,
                preparation: PreparationWorkers(start: { job in
                    var hashes = HashMemo()
                    job.perform(&hashes)
                }),
                post: { [mailbox, prepared] message in
                    if case .prepared = message { prepared.post(message) } else { mailbox.post(message) }
                }))
    }

    func process(_ messages: [DatabaseMessage]) {
        var messages = messages
        repeat {
            host.receive(&messages)
            prepared.drain(into: &messages)
        } while host.hasWork || !messages.isEmpty
    }

    /// Waits for an event of the journal, and processes it.
    func waitForDisk() {
        var messages: [DatabaseMessage] = []
        mailbox.drain(into: &messages)
        while messages.isEmpty {
            guard wakeup.wait(timeout: .seconds(20)) else {
                Issue.record("no event of the journal")
                return
            }
            mailbox.drain(into: &messages)
        }
        process(messages)
    }

    /// Writes until not even a small write is accepted.
    /// - Returns: How many writes were accepted.
    func fill(first: Int, refusal: String) throws -> Int {
        var number = first
        var takenCount = 0
        var byteCount = 1 << 20
        while byteCount > 16 {
            let value = "\"" + String(repeating: "x", count: byteCount) + "\""
            process([try HostBench.put(1, number, "/filler/\(number)", value)])
            let answer = messages(until: #""r":\#(number),"#).first {
                $0.hasPrefix(#"1 {"t":"d","d":{"r":\#(number)"#)
            }
            if answer == #"1 {"t":"d","d":{"r":\#(number),\#(refusal)}}"# {
                byteCount /= 2
            } else {
                #expect(answer == #"1 {"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":""}}}"#)
                takenCount += 1
            }
            number += 1
        }
        return takenCount
    }

    /// The messages that are released, up to one with this text.
    @discardableResult
    func messages(until text: String) -> [String] {
        var all: [String] = []
        for _ in 0..<1000 {
            all += takeMessages()
            if all.contains(where: { $0.contains(text) }) { return all }
            waitForDisk()
        }
        Issue.record("no message with \(text): \(all.map { $0.prefix(200) })")
        return all
    }

    /// The messages released since the last call, unframed, each with its session's slot.
    func takeMessages() -> [String] {
        outputs.drain(into: &batch)
        defer { batch.removeAll() }
        return batch.flatMap { batch in
            batch.items.flatMap { item -> [String] in
                switch item {
                case .frames(let session, let range):
                    OutputBatch.messages(in: batch.arena[range]).map {
                        "\(session.slot) \(String(decoding: $0, as: UTF8.self))"
                    }
                case .large(let session, let message):
                    if case .push(.overwrite(let path, _), _) = message.content {
                        ["\(session.slot) large \(path)"]
                    } else {
                        []
                    }
                default: []
                }
            }
        }
    }

    static func request(_ slot: UInt32, _ json: String, signIn: UInt32 = 0) throws -> DatabaseMessage {
        guard case .request(let request) = try ClientMessage(parsing: Array(json.utf8).rawSpan) else {
            throw TruncatedBytes()
        }
        return .request(Bench.session(slot), request, .anonymous, signIn: signIn, byteCount: 100)
    }

    static func put(_ slot: UInt32, _ number: Int, _ path: String, _ value: String) throws -> DatabaseMessage
    {
        try request(slot, #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"\#(path)","d":\#(value)}}}"#)
    }
}
