import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

/// Batches of entries as a host writes them, synced after some of them.
struct Script {
    struct Batch {
        var entries: [Entry]
        var syncs: Bool
    }

    var batches: [Batch]

    var entries: [Entry] { batches.flatMap(\.entries) }

    /// - Returns: What was acknowledged before the first error, and the error.
    func run(on disk: SimulatedDisk) -> (acknowledged: [Entry], failure: JournalError?) {
        var acknowledged: [Entry] = []
        var waiting: [Entry] = []
        do throws(JournalError) {
            var before: [Entry] = []
            var journal = try openJournal(on: disk, entries: &before)
            for batch in batches {
                for entry in batch.entries { try journal.append(entry: entry.journalRecords) }
                waiting += batch.entries
                try journal.write()
                if batch.syncs {
                    try journal.sync()
                    acknowledged += waiting
                    waiting = []
                    precondition(journal.lastDurable == journal.lastWritten)
                }
            }
            return (acknowledged, nil)
        } catch {
            return (acknowledged, error)
        }
    }

    /// Small, sector-sized and large payloads; lone and many-record entries.
    static func random(seed: UInt64, batchCount: Int, syncEvery: Int) -> Script {
        var random = SeededGenerator(seed: seed)
        return Script(
            batches: (1...batchCount).map { index in
                let entries = (0..<Int.random(in: 1...4, using: &random)).map { _ in Entry.random(&random) }
                return Batch(entries: entries, syncs: index % syncEvery == 0)
            })
    }
}

extension Entry {
    static func random(_ random: inout SeededGenerator) -> Entry {
        let recordCount = [1, 1, 1, 2, 3][Int.random(in: 0..<5, using: &random)]
        return Entry(
            (0..<recordCount).map { _ in
                let limits = [1, 9, 100, 600, 2000, 40_000]
                let limit = limits[Int.random(in: 0..<limits.count, using: &random)]
                let byteCount = Int.random(in: 0..<limit, using: &random)
                let first = UInt8.random(in: 0...255, using: &random)
                return Record(
                    kind: RecordKind.allCases.randomElement(using: &random) ?? .delta,
                    namespace: .random(in: 0...UInt32.max, using: &random),
                    timestamp: .random(in: 0...Int64.max, using: &random),
                    payload: (0..<byteCount).map { first &+ UInt8(truncatingIfNeeded: $0 &* 7) })
            })
    }
}

@Suite struct CrashTests {
    static let scripts = [
        Script.random(seed: 1, batchCount: 6, syncEvery: 1),
        Script.random(seed: 2, batchCount: 9, syncEvery: 3),
        Script(batches: (0..<5).map { Script.Batch(entries: [Entry("write \($0)")], syncs: true) }),
    ]

    /// After a power cut every acknowledged entry is there, and no entry that was never written. What a
    /// recovery has returned stays, also after another power cut at once.
    @Test(arguments: 0..<8 as Range<UInt64>, 0..<scripts.count)
    func acknowledgedWritesSurviveCrash(seed: UInt64, scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        #expect(script.run(on: rehearsal).failure == nil)

        var random = SeededGenerator(seed: seed)
        for crashPoint in 0...rehearsal.operationCount {
            let context = Comment("crash point \(crashPoint), seed \(seed)")
            let disk = SimulatedDisk(crashingBefore: crashPoint)
            let acknowledged = script.run(on: disk).acknowledged
            disk.losePower(seed: random.next())

            // Further power cuts during recovery.
            var promised = acknowledged
            for _ in 0..<3 {
                disk.crashPoint = disk.operationCount + Int.random(in: 0..<14, using: &random)
                if let again = try? recover(disk) {
                    #expect(again.entries.starts(with: promised), context)
                    promised = again.entries
                }
                disk.losePower(seed: random.next())
            }

            let recovered = try recover(disk).entries
            #expect(recovered.starts(with: promised), context)
            #expect(script.entries.starts(with: recovered), context)
            disk.killProcess()

            // And the journal can be continued.
            #expect(script.run(on: disk).failure == nil, context)
            disk.losePower(seed: random.next())
            let continued = try recover(disk).entries
            #expect(continued == recovered + script.entries, context)
        }
    }

    /// The n-th operation fails, for every n. The journal accepts nothing more; a new process on the same
    /// machine, and one after a power cut, find everything that was acknowledged or read.
    @Test(arguments: 0..<scripts.count)
    func failureOfEveryOperationIsHandled(scriptIndex: Int) throws {
        let script = Self.scripts[scriptIndex]
        let rehearsal = SimulatedDisk()
        _ = script.run(on: rehearsal)
        for failing in 0..<rehearsal.operationCount {
            let context = Comment("operation \(failing)")
            let disk = SimulatedDisk(failing: failing)
            let (acknowledged, failure) = script.run(on: disk)
            guard case .disk(let cause) = failure else {
                Issue.record(
                    "operation \(failing) failed, and the journal said \(String(describing: failure))")
                continue
            }
            #expect(cause.errorNumber == 5, context)
            disk.killProcess()
            let read = try recover(disk).entries
            #expect(read.starts(with: acknowledged), context)
            #expect(script.entries.starts(with: read), context)
            disk.losePower(seed: UInt64(failing))
            #expect(try recover(disk).entries == read, "\(context): read after a failed sync, then lost")

            // Or the new process continues, and the power cut comes later.
            for seed in 0..<4 as Range<UInt64> {
                let disk = SimulatedDisk(failing: failing)
                _ = script.run(on: disk)
                disk.killProcess()
                #expect(script.run(on: disk).failure == nil, context)
                let written = try inspectedEntryCount(disk)
                disk.losePower(seed: seed)
                let recovered = try recover(disk).entries
                #expect(recovered.suffix(script.entries.count) == script.entries[...], context)
                #expect(recovered.count == written, context)
            }
        }
    }

    private func inspectedEntryCount(_ disk: SimulatedDisk) throws -> Int {
        let report = try inspect(disk) { _, _ in }
        #expect(report.problems.isEmpty)
        return report.entryCount
    }

    @Test(arguments: [(DiskOperation.write, 0), (.sync, 1)])
    func nothingIsAcceptedAfterFailure(operation: DiskOperation, operationsLater: Int) throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        try journal.append(.delta, namespace: 1, timestamp: 1, payload: [1, 2, 3])
        disk.failingOperation = disk.operationCount + operationsLater
        var first: JournalError?
        do throws(JournalError) {
            try journal.write()
            try journal.sync()
        } catch {
            first = error
        }
        guard case .disk(let failure) = first else {
            Issue.record("no failure: \(String(describing: first))")
            return
        }
        #expect(failure.operation == operation)
        #expect(journal.lastDurable == .zero)
        let operationCount = disk.operationCount
        // (`#expect(throws:)` cannot capture a noncopyable value.)
        var errors: [JournalError?] = []
        do throws(JournalError) { try journal.write() } catch { errors.append(error) }
        do throws(JournalError) { try journal.sync() } catch { errors.append(error) }
        do throws(JournalError) {
            try journal.append(.delta, namespace: 1, timestamp: 1, payload: [4])
        } catch { errors.append(error) }
        do throws(JournalError) { try journal.append(entry: Entry("x").journalRecords) } catch {
            errors.append(error)
        }
        #expect(errors == Array(repeating: .poisoned(by: failure), count: 4))
        #expect(disk.operationCount == operationCount, "after a failure the journal calls the disk no more")
    }

    /// A sync makes durable what was written before it, not what was accepted meanwhile.
    @Test func entriesAcceptedAfterTheWriteAreNotDurable() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        try journal.append(entry: Entry("written").journalRecords)
        try journal.write()
        try journal.append(entry: Entry("accepted").journalRecords)
        try journal.sync()
        #expect(journal.lastDurable == SequenceNumber(1))
        #expect(journal.lastWritten == SequenceNumber(1))
        #expect(journal.lastAppended == SequenceNumber(2))
        try journal.write()
        var marks: [UInt64] = []
        _ = try inspect(disk) { record, _ in marks.append(record.durable.rawValue) }
        #expect(marks == [0, 1], "`durable` is the last durable sequence when the batch is written")
        #expect(journal.lastDurable == SequenceNumber(1))
    }

    /// One write and one sync for a whole batch, and neither when there is nothing to do.
    @Test func batchTakesOneWriteAndOneSync() throws {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        let (writes, syncs) = (disk.writeCount, disk.syncCount)
        for index in 0..<100 {
            try journal.append(
                .delta, namespace: 1, timestamp: 1, payload: [UInt8](repeating: 1, count: index * 500)
            )
        }
        try journal.append(
            .delta, namespace: 2, timestamp: 2, payload: [UInt8](repeating: 2, count: 100_000))
        try journal.write()
        try journal.sync()
        try journal.write()
        try journal.sync()
        #expect(disk.writeCount == writes + 1)
        #expect(disk.syncCount == syncs + 1)
        #expect(journal.lastDurable == SequenceNumber(101))
        #expect(journal.pendingByteCount == 0)
        disk.killProcess()
        let entries = try recover(disk).entries
        #expect(entries.map { $0.records[0].payload.count } == (0..<100).map { $0 * 500 } + [100_000])
        #expect(entries.last?.records[0].payload == [UInt8](repeating: 2, count: 100_000))
    }
}
