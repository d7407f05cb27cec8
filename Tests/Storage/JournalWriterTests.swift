import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// One entry of so many bytes.
func oneEntry(_ byteCount: Int) -> JournalBatch {
    var entries = JournalBatch()
    entries.append(
        entry: [
            JournalRecord(
                .delta, namespace: 1, timestamp: 1, payload: [UInt8](repeating: 1, count: byteCount))
        ])
    return entries
}

/// The journal thread's work without its thread: what it waits for, and what it asks for.
@Suite struct JournalWriterTests {
    final class Asked: @unchecked Sendable {
        var prepared: [Int] = []
        var cancelCount = 0
        var eventCount = 0
    }

    struct Bench {
        let disk: SimulatedDisk
        let environment = ScriptedEnvironment(startingAt: 1_700_000_000_000, seed: 1)
        let space: JournalSpace
        let queue: JournalQueue
        let asked = Asked()
        let writer: JournalWriter<SimulatedDisk>

        init(segmentByteLimit: Int = 64 << 10, minimumReservedByteCount: Int = 8 << 20) throws {
            disk = SimulatedDisk()
            var options = JournalOptions()
            options.segmentByteLimit = segmentByteLimit
            options.reservationByteCount = 2 * minimumReservedByteCount
            var storageOptions = StorageOptions()
            storageOptions.minimumReservedByteCount = minimumReservedByteCount
            var state = RecoveredState(access: .open)
            let journal = try Journal.open(
                on: disk, newDirectoryID: DirectoryID(1, 2), options: options, into: &state)
            space = try JournalSpace()
            queue = JournalQueue(
                Mailbox(signalling: try WakeupEvent()), space: space, origin: JournalOrigin(journal),
                waitForSpace: {})
            writer = JournalWriter(
                journal, options: storageOptions, queue: queue, environment: .scripted(environment),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                JournalCallbacks(
                    report: { [asked] _ in asked.eventCount += 1 }, writeCheckpoint: { _ in },
                    preparer: SegmentPreparer(
                        prepare: { [asked] in asked.prepared.append($0) },
                        cancel: { [asked] in asked.cancelCount += 1 })))
            try writer.begin()
        }

        func process(_ requests: [JournalRequest]) throws -> Bool {
            var requests = requests
            let goesOn = try writer.process(&requests)
            #expect(requests.isEmpty)
            return goesOn
        }

        func write(_ byteCount: Int) throws {
            _ = try process([.entries(oneEntry(byteCount), upTo: 1)])
        }
    }

    /// Batches that were written go back empty, to be filled again.
    @Test func emptiedBatchesAreReused() throws {
        let bench = try Bench()
        var entries = JournalBatch()
        var places: [UInt] = []
        var decoys: [[UInt8]] = []
        for number in 1...9 {
            entries.append(
                entry: [
                    JournalRecord(
                        .delta, namespace: 1, timestamp: 1, payload: Array("payload \(number)".utf8))
                ])
            places.append(
                unsafe entries.bytes.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) })
            let capacity = entries.bytes.capacity
            bench.queue.post(&entries, upTo: UInt64(number))
            #expect(entries.isEmpty && entries.bytes.isEmpty && entries.byteCount == 0)
            var requests: [JournalRequest] = []
            bench.queue.requests.drain(into: &requests)
            #expect(try bench.writer.process(&requests))
            // Were it freed, this would have its place, and the next batch another.
            for _ in 0..<8 { decoys.append([UInt8](repeating: 0, count: capacity)) }
        }
        // One is filled, one is on its way, and one stays with the journal.
        #expect(Set(places.dropFirst(3)).count == 3 && places[8] == places[5])
        #expect(bench.asked.eventCount == 9)
        let journal = bench.disk.contents.filter { $0.key.hasSuffix(".log") }.values.reduce([], +)
        for number in 1...9 { #expect(journal.firstRange(of: Array("payload \(number)".utf8)) != nil) }
    }

    /// After a reservation has failed the disk counts as full for a second; then it is tried again with the
    /// next request for space.
    @Test func fullDiskIsAskedAgainAfterASecond() throws {
        let bench = try Bench()
        bench.disk.capacity = bench.disk.usedByteCount
        _ = try bench.process([.reserve(100 << 20)])
        #expect(bench.space.isFull && bench.writer.timeUntilDue != .zero)
        bench.environment.advance(by: 1100)
        #expect(bench.writer.timeUntilDue == .zero)
        _ = try bench.process([])
        #expect(!bench.space.isFull && bench.writer.timeUntilDue == nil)

        _ = try bench.process([.reserve(100 << 20)])
        #expect(bench.space.isFull)
        bench.disk.capacity = .max
        bench.environment.advance(by: 1100)
        _ = try bench.process([])
        _ = try bench.process([.reserve(100 << 20)])
        #expect(!bench.space.isFull && bench.space.grantedByteCount >= 100 << 20)
    }

    /// One segment is prepared for each, from a quarter of it on; given up as soon as its room is needed.
    @Test func segmentIsPreparedOnceAndCancelledOnAFullDisk() throws {
        let bench = try Bench(minimumReservedByteCount: 4096)
        try bench.write(10_000)
        #expect(bench.asked.prepared.isEmpty)
        try bench.write(10_000)
        try bench.write(10_000)
        #expect(bench.asked.prepared == [64 << 10])
        // While it is being made, there is no room.
        bench.disk.capacity = bench.disk.usedByteCount
        _ = try bench.process([.reserve(1 << 20)])
        #expect(bench.space.isFull && bench.asked.cancelCount == 1)
        bench.disk.capacity = .max
        _ = try bench.process([.segmentPrepared(byteCount: nil)])
        #expect(!bench.space.isFull, "asked again at once")
        try bench.write(10_000)
        #expect(bench.asked.prepared.count == 1, "once for each segment")
    }

    /// What was made is taken by the next rotation, also when the disk has filled up meanwhile.
    @Test func preparedSegmentIsUsedByTheNextRotation() throws {
        let bench = try Bench(minimumReservedByteCount: 4096)
        for _ in 0..<3 { try bench.write(10_000) }
        #expect(try PreparedSegment.make(byteCount: 64 << 10, on: bench.disk, isAbandoned: { false }))
        _ = try bench.process([.segmentPrepared(byteCount: 64 << 10)])
        for _ in 0..<5 { try bench.write(10_000) }
        #expect(bench.writer.usedPreparedCount == 1)
        #expect(bench.asked.prepared.count == 1)
        for _ in 0..<3 { try bench.write(10_000) }
        #expect(bench.asked.prepared.count == 2, "and the one after it is asked for")

        // Neither a checkpoint without room nor a full disk leaves one standing.
        #expect(try PreparedSegment.make(byteCount: 64 << 10, on: bench.disk, isAbandoned: { false }))
        _ = try bench.process([.segmentPrepared(byteCount: 64 << 10), .checkpointFinished(isWritten: false)])
        #expect(!bench.disk.fileNames.contains { $0.hasSuffix(".new") })
        #expect(try !bench.process([.stop]))
        #expect(bench.disk.usedByteCount == bench.disk.contents.values.reduce(0) { $0 + $1.count })
    }
}
