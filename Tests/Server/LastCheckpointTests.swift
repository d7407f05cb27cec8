import Glibc
import Logging
import PandoEngine
import PandoJournal
import PandoReactor
import PandoSimulatedDisk
import PandoStorage
import PandoTree
import Synchronization
import Testing

@testable import PandoServer

/// The checkpoint that is written before a server stops has a bound; what it would have held is in the
/// journal.
@Suite struct LastCheckpointTests {
    @Test func aCheckpointThatTakesTooLongIsGivenUpAndNothingIsLost() throws {
        let path = "/tmp/pando-server-tests-\(UInt64.random(in: .min ... .max))"
        let gate = try StalledDisk.Gate()
        // Goes on only once the checkpoint was cancelled: without a bound, never.
        let lines = Lines { line in if line.contains("is cancelled") { gate.opened.signal() } }
        let disk = try StalledDisk(path, gate)
        defer {
            for name in (try? disk.list()) ?? [] { try? disk.remove(name) }
            unsafe rmdir(path)
        }
        var state = RecoveredState(access: .open)
        let journal = try JournalThread(
            try DataDirectory.open(disk, into: &state, endsSessions: true, logger: lines.logger),
            checkpointDisk: try StalledDisk(path, gate), segmentDisk: try StalledDisk(path, gate),
            options: StorageOptions(), logger: lines.logger
        ) { _ in }
        let payload = EngineRecord.delta([Change(path: "a", node: .string("kept"))]).payload
        try state.replay(.delta, namespace: 1, time: 1, payload: payload.rawSpan)
        var batch = JournalBatch()
        batch.append(entry: [JournalRecord(.delta, namespace: 1, timestamp: 1, payload: payload)])
        journal.queue.post(&batch, upTo: 1)
        journal.queue.post(state.snapshot)
        #expect(gate.reached.wait(timeout: .seconds(60)), "no checkpoint was begun")

        var isLocked = false
        journal.stop(checkpointTimeout: .milliseconds(1), lines.logger) {
            var other = RecoveredState(access: .open)
            do {
                _ = try DataDirectory.open(disk, into: &other, endsSessions: true, logger: lines.logger)
            } catch { isLocked = "\(error)".contains("in use by process") }
        }
        #expect(isLocked, "no other process may begin before the last checkpoint and the archive are done")

        let wasForced = gate.wasForced.load(ordering: .relaxed)
        #expect(!wasForced, "the checkpoint was not cancelled")
        #expect(lines.all.contains { $0.contains("the last checkpoint is cancelled after") })
        #expect(lines.all.contains { $0.contains("cancelled because the server stops") })
        #expect(try disk.list().allSatisfy { !$0.hasPrefix("checkpoint-") })
        var next = RecoveredState(access: .open)
        try DataDirectory.read(path, into: &next)
        #expect(next.database(named: "default")?.root["a" as Key] == .string("kept"))
    }
}

/// A real directory on which a checkpoint cannot be begun until the gate is opened.
private final class StalledDisk: ForwardingDisk {
    let base: SystemDisk
    private let gate: Gate

    final class Gate: Sendable {
        /// A checkpoint was begun.
        let reached: WakeupEvent
        let opened: WakeupEvent
        /// It was not opened in time.
        let wasForced = Atomic<Bool>(false)

        init() throws { (reached, opened) = (try WakeupEvent(), try WakeupEvent()) }
    }

    init(_ directory: String, _ gate: Gate) throws(DiskFailure) {
        base = try SystemDisk(directory: directory, create: true)
        self.gate = gate
    }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SystemDisk.File {
        if mode == .create, name.hasPrefix("checkpoint-") {
            gate.reached.signal()
            if !gate.opened.wait(timeout: .seconds(60)) { gate.wasForced.store(true, ordering: .relaxed) }
        }
        return try base.open(name, mode)
    }
}

/// What was logged.
private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    private let note: @Sendable (String) -> Void

    init(_ note: @escaping @Sendable (String) -> Void) { self.note = note }

    var all: [String] { lines.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { [self] _ in Handler(lines: self) } }

    fileprivate func add(_ line: String) {
        lines.withLock { $0.append(line) }
        note(line)
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.add("\(event.message)") }
    }
}
