import Foundation
import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// Backups of a directory, also beside a server that writes it.
@Suite struct DirectoryBackupTests {
    static func open<Storage: Disk>(
        _ disk: Storage, _ options: JournalOptions = .init()
    ) throws(JournalError) -> Journal<Storage> {
        var state = RecoveredState(access: .open)
        return try Journal.open(
            on: disk, newDirectoryID: DirectoryID(1, 2), options: options, into: &state)
    }

    static func append<Storage: Disk>(
        _ number: UInt8, to journal: inout Journal<Storage>
    ) throws(JournalError) {
        try journal.append(
            entry: [
                JournalRecord(
                    .settings, namespace: 1, timestamp: 1000 + Int64(number), payload: [1, 65, number])
            ])
        try journal.write()
    }

    /// Records of which the last one is not synced.
    static func disk() throws -> SimulatedDisk {
        let disk = SimulatedDisk()
        var journal = try open(disk)
        for number in 1...3 as ClosedRange<UInt8> { try append(number, to: &journal) }
        try journal.sync()
        try append(4, to: &journal)
        return disk
    }

    /// Otherwise the server would give the sequence of a record that is in the backup to another one.
    @Test(arguments: 0..<16 as Range<UInt64>)
    func whatABackupHoldsSurvivesAPowerCut(seed: UInt64) throws {
        let disk = try Self.disk()
        var state = RecoveredState(access: .open)
        let summary = try DirectoryBackup.read(disk, until: nil, into: &state)
        #expect(summary.sequence == SequenceNumber(4) && summary.timestamp == 1004)
        disk.losePower(seed: seed)
        let journal = try Self.open(disk)
        #expect(journal.lastAppended == summary.sequence)
    }

    @Test(arguments: [DiskOperation.sync, .syncDirectory])
    func directoryThatCannotBeSyncedIsNotBackedUp(operation: DiskOperation) throws {
        let disk = try Self.disk()
        disk.onOperation = { $0 == operation ? .fail(5) : .succeed }
        var state = RecoveredState(access: .open)
        #expect {
            try DirectoryBackup.read(disk, until: nil, into: &state)
        } throws: { error in
            if case StorageError.disk = error { true } else { false }
        }
        #expect(state.lastTime == 0, "nothing is returned")
        // A restore takes what was read, and warns.
        var warnings: [String] = []
        let summary = try DirectoryBackup.read(disk, until: nil, into: &state) { warnings.append($0) }
        #expect(summary.sequence == SequenceNumber(4) && warnings.count == 1)
    }

    /// A copy reaches back to its oldest checkpoint, so damage of files that a start does not read counts,
    /// too.
    @Test(
        arguments: [
            nil, "checkpoint-00000001-0000000000000002.chk", "journal-00000001-0000000000000003.log",
        ] as [String?])
    func copyOfADamagedDirectoryIsRefused(damaged: String?) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "pando-copy-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let source = folder.appending(path: "data").path
        let disk = try SystemDisk(directory: source, create: true)
        var options = JournalOptions()
        // A segment for each record.
        options.segmentByteLimit = 60
        do {
            var journal = try Self.open(disk, options)
            for number in 1...6 as ClosedRange<UInt8> {
                try Self.append(number, to: &journal)
                try journal.sync()
            }
        }
        for sequence in [2, 5] as [UInt64] {
            let header = CheckpointHeader(
                directory: DirectoryID(1, 2), timeline: 1, sequence: SequenceNumber(sequence),
                timestamp: 2000)
            var writer = try CheckpointWriter(header, on: disk)
            let payload: [UInt8] = [1, 65, 48]
            try writer.append(.settings, namespace: 1, payload: payload.rawSpan)
            _ = try writer.finish()
        }
        if let damaged {
            let file = URL(fileURLWithPath: source + "/" + damaged)
            var bytes = try Data(contentsOf: file)
            bytes[70] ^= 1
            try bytes.write(to: file)
        }
        func copy() throws -> SequenceNumber {
            try DirectoryBackup.copy(source, to: (folder.path, "copy", "copy.new"), progress: { _ in })
                .sequence
        }
        guard let damaged else {
            #expect(try copy() == SequenceNumber(6))
            return
        }
        #expect {
            try copy()
        } throws: { error in
            if case StorageError.badData(let text) = error { text.contains(damaged) } else { false }
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/copy"))
    }

    /// The checkpoint of empty databases has no record that says its time.
    @Test func timeOfEmptyDatabasesIsThatOfTheCheckpoint() throws {
        let disk = try Self.disk()
        let header = CheckpointHeader(
            directory: DirectoryID(1, 2), timeline: 1, sequence: SequenceNumber(4), timestamp: 5000)
        _ = try CheckpointWriter(header, on: disk).finish()
        var state = RecoveredState(access: .open)
        #expect(try DirectoryBackup.read(disk, until: nil, into: &state).timestamp == 5000)
        #expect(state.lastTime == 5000)
    }
}
