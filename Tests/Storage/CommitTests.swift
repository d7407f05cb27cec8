import Logging
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// Changes of a whole directory while no server runs on it.
@Suite struct CommitTests {
    static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Its name, with its length before it, and its value.
    static let setting = [UInt8(1)] + Array("a1".utf8)

    static func checkpoints(on disk: SimulatedDisk) -> [String] {
        disk.fileNames.filter { $0.hasSuffix(".chk") }
    }

    /// Imports one database more.
    static func change(_ disk: SimulatedDisk, _ round: Int64, isArchived: Bool = false) throws {
        var state = RecoveredState(access: .open)
        let journal = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
        #expect(state.namespaceNames.count == Int(round) + 1)
        _ = state.makeNamespace("n\(round)")
        let before = checkpoints(on: disk)
        let header = try OfflineCommit.commit(
            state, to: disk, behind: journal, at: round, isArchived: isArchived, progress: { _ in })
        #expect(header.sequence == journal.lastAppended.successor)
        #expect(checkpoints(on: disk).last == header.name.text && !before.contains(header.name.text))
        disk.killProcess()
    }

    /// Each import adds a checkpoint. Behind another import it removes the oldest one, so that two remain,
    /// and of the journal what follows the older.
    @Test func importsInARowKeepTwoCheckpoints() throws {
        let disk = SimulatedDisk()
        for round in 0..<6 as Range<Int64> {
            try Self.change(disk, round)
            #expect(Self.checkpoints(on: disk).count == (round == 0 ? 1 : 2))
            #expect(disk.fileNames.filter { $0.hasSuffix(".log") }.count <= 2)
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        }
        var state = RecoveredState(access: .open)
        _ = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: Self.logger)
        #expect(state.namespaceNames.count == 7)
    }

    /// How many checkpoints a server keeps is its option: the first import removes none of them, each further
    /// one the oldest.
    @Test func checkpointsOfAServerAreReplacedOneByOne() throws {
        let disk = SimulatedDisk()
        try Self.change(disk, 0)
        for time in 0..<5 as Range<Int64> {
            var state = RecoveredState(access: .open)
            var journal = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: Self.logger)
            try journal.append(
                entry: [JournalRecord(.settings, namespace: 1, timestamp: time, payload: Self.setting)])
            try journal.write()
            try journal.sync()
            var writer = try CheckpointWriter(
                CheckpointHeader(
                    directory: journal.directory, timeline: journal.timeline, sequence: journal.lastDurable,
                    timestamp: time), on: disk)
            try state.forEachRecord { kind, namespace, payload throws(DiskFailure) in
                try writer.append(kind, namespace: namespace, payload: payload.rawSpan)
            }
            _ = try writer.finish()
            disk.killProcess()
        }
        let kept = Self.checkpoints(on: disk)
        #expect(kept.count == 6)
        try Self.change(disk, 1)
        #expect(Self.checkpoints(on: disk).count == 7 && Self.checkpoints(on: disk).starts(with: kept))
        for round in 2..<5 as Range<Int64> {
            try Self.change(disk, round)
            #expect(Self.checkpoints(on: disk).count == 7)
            #expect(Self.checkpoints(on: disk).starts(with: kept.dropFirst(Int(round) - 1)))
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        }
    }

    /// What the archive may not have yet stays for it, as in a server.
    @Test func segmentsOfAnArchivedJournalStay() throws {
        let disk = SimulatedDisk()
        for round in 0..<6 as Range<Int64> {
            try Self.change(disk, round, isArchived: true)
            #expect(disk.fileNames.filter { $0.hasSuffix(".log") }.count == Int(round) + 1)
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        }
        #expect(Self.checkpoints(on: disk).count == 2)
    }

    /// The import has taken effect: whatever cannot be removed is left to the server.
    @Test func failureOfTheRemovalIsNoneOfTheImport() throws {
        let disk = SimulatedDisk()
        for round in 0..<5 as Range<Int64> {
            disk.onOperation = { [unowned disk] operation in
                // A start removes nothing here.
                operation == .remove && Self.checkpoints(on: disk).count > 2 ? .fail(5) : .succeed
            }
            try Self.change(disk, round)
        }
        #expect(Self.checkpoints(on: disk).count == 5)
        disk.onOperation = nil
        try Self.change(disk, 5)
        #expect(Self.checkpoints(on: disk).count == 5)
    }
}
