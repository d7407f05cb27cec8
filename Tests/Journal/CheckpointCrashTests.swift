import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

/// A server over a longer time: batches in many small segments, and checkpoints that are written in parts
/// while the journal goes on.
struct LongScript {
    enum Step {
        /// Entries written together, and synced or not.
        case batch([Entry], syncs: Bool)
        /// Takes a snapshot, unless a checkpoint is being written.
        case beginCheckpoint
        /// Writes this many of its records.
        case writeRecords(Int)
        case finishCheckpoint
        /// Prepares the next segment, unless the current one is far from its end or one is prepared already.
        case prepareSegment
        /// What a server does when it stops.
        case releaseReservation
    }

    var steps: [Step]
    static let options = smallOptions(2048)

    /// - Returns: What was acknowledged before the first error, and the error.
    func run(on disk: SimulatedDisk) -> (acknowledged: [Entry], failure: DiskFailure?) {
        /// All that was written, and how much of it was acknowledged.
        var history: [Entry] = []
        var acknowledgedCount = 0
        do throws(JournalError) {
            var before: [Entry] = []
            var journal = try openJournal(on: disk, options: Self.options, entries: &before)
            history = before
            acknowledgedCount = before.count
            var snapshot: (entries: [Entry], next: Int)?
            var writer: CheckpointWriter<SimulatedDisk>?
            for step in steps {
                switch step {
                case .batch(let entries, let syncs):
                    // As the host does: without space nothing is written.
                    let byteCount = entries.reduce(0) { sum, entry in
                        entry.records.reduce(sum) {
                            $0 + JournalFormat.recordByteCount(payloadByteCount: $1.payload.count)
                        }
                    }
                    guard try journal.reserve(byteCount) else { continue }
                    for entry in entries { try journal.append(entry: entry.journalRecords) }
                    try journal.write()
                    history += entries
                    if syncs {
                        try journal.sync()
                        acknowledgedCount = history.count
                    }
                case .beginCheckpoint where snapshot == nil && journal.lastWritten > .zero:
                    // A checkpoint is never ahead of its journal.
                    try journal.sync()
                    do throws(DiskFailure) {
                        writer = try CheckpointWriter(checkpointHeader(journal.lastDurable), on: disk)
                        snapshot = (history, 0)
                    } catch {
                        guard error.isShortage else { throw JournalError.disk(error) }
                    }
                case .writeRecords(let count):
                    guard let (entries, next) = snapshot else { continue }
                    let end = min(entries.count, next + count)
                    var isFull = false
                    for entry in entries[next..<end] {
                        do throws(DiskFailure) {
                            try writer?.append(.tree, namespace: 1, payload: entry.flat.rawSpan)
                        } catch {
                            guard error.isShortage else { throw JournalError.disk(error) }
                            isFull = true
                        }
                    }
                    snapshot = isFull ? nil : (entries, end)
                    if isFull, let writer = writer.take() { try? writer.abandon() }
                case .finishCheckpoint:
                    guard let (entries, next) = snapshot, let taken = writer.take() else { continue }
                    snapshot = nil
                    do throws(DiskFailure) {
                        var writer = taken
                        for entry in entries[next...] {
                            try writer.append(.tree, namespace: 1, payload: entry.flat.rawSpan)
                        }
                        _ = try writer.finish()
                        _ = try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2)
                    } catch {
                        guard error.isShortage else { throw JournalError.disk(error) }
                    }
                case .beginCheckpoint: continue
                case .prepareSegment:
                    guard journal.wantsPreparedSegment else { continue }
                    do throws(DiskFailure) {
                        let byteCount = journal.wantedPreparedByteCount
                        if try PreparedSegment.make(byteCount: byteCount, on: disk, isAbandoned: { false }) {
                            journal.usePreparedSegment(byteCount: byteCount)
                        }
                    } catch {
                        throw JournalError.disk(error)
                    }
                case .releaseReservation:
                    try journal.sync()
                    try journal.releaseReservation()
                }
            }
            try journal.sync()
            return (history, nil)
        } catch {
            let acknowledged = Array(history.prefix(acknowledgedCount))
            if case .disk(let failure) = error { return (acknowledged, failure) }
            Issue.record("\(error)")
            return (acknowledged, nil)
        }
    }

    var entries: [Entry] {
        steps.flatMap { step -> [Entry] in if case .batch(let entries, _) = step { entries } else { [] } }
    }

    static func random(seed: UInt64, batchCount: Int, prepares: Bool = false) -> LongScript {
        var random = SeededGenerator(seed: seed)
        var steps: [Step] = []
        for index in 0..<batchCount {
            steps.append(
                .batch(
                    (0..<Int.random(in: 1...3, using: &random)).map {
                        Entry.small("\(index).\($0)", &random)
                    },
                    syncs: Int.random(in: 0..<3, using: &random) > 0))
            if prepares { steps.append(.prepareSegment) }
            switch index % 4 {
            case 1: steps.append(.beginCheckpoint)
            case 2: steps.append(.writeRecords(Int.random(in: 0...4, using: &random)))
            case 3: steps.append(.finishCheckpoint)
            default: break
            }
        }
        if prepares { steps.append(.releaseReservation) }
        return LongScript(steps: steps)
    }
}

extension Entry {
    /// A few hundred bytes, unlike any other.
    fileprivate static func small(_ name: String, _ random: inout SeededGenerator) -> Entry {
        Entry(name + String(repeating: "x", count: Int.random(in: 0..<700, using: &random)))
    }
}

@Suite struct CheckpointCrashTests {
    static let scripts = [
        LongScript.random(seed: 11, batchCount: 16), LongScript.random(seed: 12, batchCount: 13),
        LongScript.random(seed: 13, batchCount: 12, prepares: true),
    ]

    /// A run without faults: several segments and two checkpoints remain, and older ones were removed.
    @Test(arguments: 0..<scripts.count)
    func scriptCoversRotationAndCheckpoints(index: Int) throws {
        let disk = SimulatedDisk()
        let script = Self.scripts[index]
        let (acknowledged, failure) = script.run(on: disk)
        #expect(failure == nil)
        #expect(acknowledged == script.entries)
        let names = disk.fileNames
        #expect(names.filter { $0.hasSuffix(".chk") }.count == 2)
        #expect(names.filter { $0.hasSuffix(".log") }.count >= 2)
        #expect(!names.contains(firstSegment), "the journal before the older checkpoint is gone")
        #expect(!names.contains { $0.hasSuffix(".new") })
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        disk.killProcess()
        let (entries, summary) = try recover(disk)
        #expect(entries == script.entries)
        #expect(summary.checkpoint != nil && summary.damagedCheckpoints.isEmpty)
    }

    /// A power cut before each disk operation, and perhaps again during recovery: every acknowledged write is
    /// there, nothing else is, and the journal can be continued.
    @Test(arguments: 0..<3 as Range<UInt64>, 0..<scripts.count)
    func acknowledgedWritesSurviveCrash(seed: UInt64, scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        _ = script.run(on: rehearsal)
        var random = SeededGenerator(seed: seed)
        for crashPoint in 0...rehearsal.operationCount {
            let context = Comment("crash point \(crashPoint), seed \(seed)")
            let disk = SimulatedDisk(crashingBefore: crashPoint)
            let acknowledged = script.run(on: disk).acknowledged
            disk.losePower(seed: random.next())
            var promised = acknowledged
            disk.crashPoint = disk.operationCount + Int.random(in: 0..<30, using: &random)
            if let again = try? recover(disk) {
                #expect(again.entries.starts(with: promised), context)
                promised = again.entries
            }
            disk.losePower(seed: random.next())

            let (recovered, summary) = try recover(disk)
            #expect(recovered.starts(with: promised), context)
            #expect(
                summary.damagedCheckpoints.isEmpty,
                "a power cut damages no checkpoint that has its name: \(context)")
            #expect(script.entries.starts(with: recovered), context)
            disk.killProcess()
            let (continued, failure) = script.run(on: disk)
            #expect(failure == nil && continued == recovered + script.entries, context)
            disk.losePower(seed: random.next())
            #expect(try recover(disk).entries == continued, context)
            #expect(disk.fileNames.filter { $0.hasSuffix(".chk") }.count <= 2, context)
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty, context)
        }
    }

    /// The n-th operation fails, for every n, with an error that is final or with a full disk.
    @Test(arguments: [5, 28] as [Int32], 0..<scripts.count)
    func failureOfEveryOperationIsHandled(errorNumber: Int32, scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        _ = script.run(on: rehearsal)
        for failing in 0..<rehearsal.operationCount {
            let context = Comment("operation \(failing), \(rehearsal.operations[failing])")
            let disk = SimulatedDisk(failing: failing)
            disk.failureNumber = errorNumber
            let (acknowledged, failure) = script.run(on: disk)
            // A full disk ends nothing where no space was promised yet.
            if errorNumber == 5 { #expect(failure?.errorNumber == 5, context) }
            disk.killProcess()
            let read = try recover(disk).entries
            #expect(read.starts(with: acknowledged), context)
            #expect(isSubsequence(read, of: script.entries), context)
            disk.losePower(seed: UInt64(failing))
            #expect(try recover(disk).entries == read, "\(context): read, then lost")
            disk.killProcess()
            let (continued, second) = script.run(on: disk)
            #expect(second == nil && continued == read + script.entries, context)
        }
    }

    /// Operations that need a descriptor: opening a file, listing the directory, the lock.
    static let openings: Set<DiskOperation> = [.open, .list, .lock]

    /// From the n-th operation that needs a descriptor on, for every n, one, some or all of them fail for
    /// want of one. Only a start fails then. No acknowledged write is lost, every write is accepted, and once
    /// there are descriptors again the journal goes on in new segments and checkpoints.
    @Test(arguments: [1, 3, .max] as [Int], 0..<scripts.count)
    func startFailsCleanlyWithoutDescriptors(failureCount: Int, scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        _ = script.run(on: rehearsal)
        let openingCount = rehearsal.operations.count { Self.openings.contains($0) }
        #expect(openingCount > 10)
        var startFailures = 0
        for first in 0..<openingCount {
            let context = Comment("opening \(first), \(failureCount) of them")
            let disk = SimulatedDisk()
            var opening = 0
            disk.onOperation = { operation in
                guard Self.openings.contains(operation) else { return .succeed }
                defer { opening += 1 }
                return opening >= first && opening - first < failureCount
                    ? .fail(SimulatedDisk.noDescriptor) : .succeed
            }
            let (acknowledged, failure) = script.run(on: disk)
            disk.onOperation = nil
            if failure == nil {
                #expect(acknowledged == script.entries, context)
            } else {
                startFailures += 1
                #expect(failure?.errorNumber == SimulatedDisk.noDescriptor && acknowledged.isEmpty, context)
            }
            disk.losePower(seed: UInt64(first))
            #expect(try recover(disk).entries == acknowledged, context)
            disk.killProcess()

            let (continued, second) = script.run(on: disk)
            #expect(second == nil && continued == acknowledged + script.entries, context)
            #expect(disk.fileNames.count { $0.hasSuffix(".chk") } == 2, context)
            #expect(!disk.fileNames.contains { $0.hasSuffix(".new") }, context)
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty, context)
        }
        // The directory, the lock, the directory again, the first segment.
        #expect(startFailures == 4)
    }

    /// A full segment is continued, and the reason reported, until there is a descriptor for the next one.
    @Test func fullSegmentIsContinuedWithoutDescriptors() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(1000), entries: &none)
        disk.lacksDescriptors = true
        for index in 0..<100 {
            try journal.append(entry: Entry("entry \(index)").journalRecords)
            try journal.write()
            try journal.sync()
        }
        #expect(journal.segmentCount == 1 && disk.contents[firstSegment]!.count > 4000)
        #expect(journal.postponedRotation?.lacksDescriptors == true)
        disk.lacksDescriptors = false
        for index in 100..<110 {
            try journal.append(entry: Entry("entry \(index)").journalRecords)
            try journal.write()
        }
        try journal.sync()
        #expect(journal.segmentCount == 2 && journal.postponedRotation == nil)
        disk.losePower(seed: 1)
        #expect(try recover(disk).entries == (0..<110).map { Entry("entry \($0)") })
    }

    /// Writes without space were never applied; the others stay in their order.
    private func isSubsequence(_ part: [Entry], of whole: [Entry]) -> Bool {
        var rest = whole[...]
        for entry in part {
            guard let index = rest.firstIndex(of: entry) else { return false }
            rest = rest[(index + 1)...]
        }
        return true
    }

    /// A disk that fills up at any size: no write fails after it was accepted, the journal can be opened
    /// while the disk is full, and continues once there is space.
    @Test(arguments: 0..<scripts.count)
    func fullDiskRefusesReservation(scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        _ = script.run(on: rehearsal)
        var refusedCount = 0
        for capacity in stride(from: 100, to: rehearsal.usedByteCount + 4096, by: 333) {
            let context = Comment("capacity \(capacity)")
            let disk = SimulatedDisk()
            disk.capacity = capacity
            let (acknowledged, failure) = script.run(on: disk)
            #expect(failure == nil, context)
            if acknowledged != script.entries { refusedCount += 1 }
            disk.losePower(seed: UInt64(capacity))
            let recovered = try recover(disk).entries
            #expect(recovered == acknowledged, context)
            disk.killProcess()
            disk.capacity = .max
            #expect(script.run(on: disk).acknowledged == acknowledged + script.entries, context)
        }
        #expect(refusedCount > 10, "the disk was never full")
    }

    /// Space is reserved before the write that needs it, and a new segment reserves what was promised in the
    /// last one.
    @Test func reservedSpaceStaysReserved() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(1000), entries: &none)
        var isReserved = try journal.reserve(5000)
        #expect(isReserved)
        #expect(journal.reservedByteCount == 5000)
        disk.capacity = disk.usedByteCount + 6000
        for index in 0..<50 {
            try journal.append(entry: Entry("entry \(index)").journalRecords); try journal.write()
        }
        #expect(journal.segmentCount > 1)
        let left = journal.reservedByteCount
        disk.capacity = disk.usedByteCount
        isReserved = try journal.reserve(left + 1)
        #expect(!isReserved)
        #expect(journal.reservedByteCount == left, "reserved space stays reserved")
        let count = left / 48
        for _ in 0..<count { try journal.append(entry: Entry("granted").journalRecords) }
        try journal.write()
        try journal.sync()
        disk.capacity = .max
        isReserved = try journal.reserve(1000)
        #expect(isReserved)
    }

    /// One checkpoint: it is durable before it has its name, and its name is durable before anything is
    /// removed.
    @Test func checkpointSystemCallsAreInOrder() throws {
        let disk = try makeDisk([[Entry("one")], [Entry("two")]])
        try writeCheckpoint(checkpointHeader(SequenceNumber(1)), of: [Entry("one")], on: disk)
        let start = disk.operations.count
        try writeCheckpoint(checkpointHeader(SequenceNumber(2)), of: [Entry("one"), Entry("two")], on: disk)
        _ = try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 1)
        #expect(
            disk.operations[start...] == [
                .open, .write,  // the header
                .write, .sync, .rename, .syncDirectory,  // a block, with the end mark
                .list, .remove, .syncDirectory,
            ])
    }

    /// The system calls of one rotation, in the order that a power cut requires.
    @Test func segmentSystemCallsAreInOrder() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(60), entries: &none)
        _ = try journal.reserve(400)
        try journal.append(entry: Entry("one, and the segment is full").journalRecords)
        try journal.write()
        let start = disk.operations.count
        try journal.append(entry: Entry("two").journalRecords)
        try journal.write()
        #expect(
            disk.operations[start...] == [
                .sync,  // the old segment's records
                .open, .reserve, .write, .sync, .rename, .syncDirectory,  // the new one
                .truncate, .write,
            ])
    }
}
