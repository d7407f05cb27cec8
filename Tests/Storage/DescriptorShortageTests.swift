import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoSimulatedDisk
import Synchronization
import Testing

@testable import PandoStorage

/// A process without a free descriptor goes on with the files it has, says so, and catches up later.
@Suite struct DescriptorShortageTests {
    private struct Bench {
        let disk = SimulatedDisk()
        let log = LogLines()
        let writer: JournalWriter<SimulatedDisk>

        init() throws {
            var options = JournalOptions()
            options.segmentByteLimit = 64 << 10
            options.reservationByteCount = 64 << 10
            var storageOptions = StorageOptions()
            storageOptions.minimumReservedByteCount = 4096
            var state = RecoveredState(access: .open)
            let journal = try Journal.open(
                on: disk, newDirectoryID: DirectoryID(1, 2), options: options, into: &state)
            let queue = JournalQueue(
                Mailbox(signalling: try WakeupEvent()), space: try JournalSpace(),
                origin: JournalOrigin(journal),
                waitForSpace: {})
            writer = JournalWriter(
                journal, options: storageOptions, queue: queue, environment: .machine, logger: log.logger,
                JournalCallbacks(
                    report: { _ in }, writeCheckpoint: { _ in },
                    preparer: SegmentPreparer(prepare: { _ in }, cancel: {})))
            try writer.begin()
        }

        func write(_ byteCount: Int) throws {
            var requests: [JournalRequest] = [.entries(oneEntry(byteCount), upTo: 1)]
            #expect(try writer.process(&requests))
        }

        func checkpoint(_ sequence: UInt64) throws -> Bool {
            let state = RecoveredState(access: .open)
            let header = CheckpointHeader(
                directory: DirectoryID(1, 2), timeline: 1, sequence: SequenceNumber(sequence), timestamp: 1)
            return try CheckpointJobWriter(
                disk: disk, keptCount: 2, logger: log.logger, cancelled: CancellationFlag()
            )
            .write(CheckpointJob(header: header, snapshot: state.snapshot))
        }

        func count(_ suffix: String) -> Int { disk.fileNames.count { $0.hasSuffix(suffix) } }
    }

    @Test func fullSegmentIsStillWrittenToAndReportedOnce() throws {
        let bench = try Bench()
        bench.disk.lacksDescriptors = true
        for _ in 0..<20 { try bench.write(10_000) }
        #expect(bench.count(".log") == 1)
        let warnings = bench.log.lines { $0.hasPrefix("warning") }
        #expect(warnings.count == 1)
        #expect(
            warnings.allSatisfy {
                $0.contains("writing continues in it") && $0.contains("Too many open files")
            })
        bench.disk.lacksDescriptors = false
        try bench.write(10_000)
        #expect(bench.count(".log") == 2)
        #expect(bench.log.lines { $0.contains("a new segment of the journal") }.count == 1)
    }

    @Test func checkpointWithoutDescriptorsIsTriedAgain() throws {
        let bench = try Bench()
        for _ in 0..<4 { try bench.write(100) }
        bench.disk.lacksDescriptors = true
        #expect(try !bench.checkpoint(1))
        #expect(bench.log.lines { $0.contains("no free descriptor; it is tried again later") }.count == 1)
        #expect(bench.count(".chk") == 0)
        bench.disk.lacksDescriptors = false
        #expect(try bench.checkpoint(1))
        #expect(try bench.checkpoint(2))
        #expect(bench.count(".chk") == 2)

        // It is written, and the directory cannot be listed: what it supersedes stays until the next one.
        bench.disk.onOperation = { $0 == .list ? .fail(SimulatedDisk.noDescriptor) : .succeed }
        #expect(try bench.checkpoint(3))
        #expect(bench.count(".chk") == 3)
        #expect(bench.log.lines { $0.contains("are removed after the next checkpoint") }.count == 1)
        bench.disk.onOperation = nil
        #expect(try bench.checkpoint(4))
        #expect(bench.count(".chk") == 2)
    }

    /// The number is a shortage's, but of a sync: what is on the disk is unknown.
    @Test(arguments: [
        (DiskOperation.open, 24 as Int32, true), (.list, 23, true), (.reserve, 28, true), (.rename, 28, true),
        (.sync, 28, false), (.syncDirectory, 28, false), (.sync, 24, false), (.open, 5, false),
        (.write, 5, false),
    ])
    func mayBeRetried(operation: DiskOperation, number: Int32, isExpected: Bool) {
        let failure = DiskFailure(operation: operation, path: "/x", errorNumber: number, errorText: "?")
        #expect(failure.mayBeRetried == isExpected)
    }
}

/// What was logged, each line behind its level.
final class LogLines: Sendable {
    private let all = Mutex<[String]>([])

    var logger: Logger { Logger(label: "test") { [self] _ in Handler(lines: self) } }

    func lines(where isWanted: (String) -> Bool) -> [String] { all.withLock { $0 }.filter(isWanted) }

    fileprivate func add(_ line: String) { all.withLock { $0.append(line) } }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.add("\(event.level) \(event.message)") }
    }
}
