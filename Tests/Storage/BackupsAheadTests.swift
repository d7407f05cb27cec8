import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// A data directory that was set back to an earlier state, and has later backups.
@Suite struct BackupsAheadTests {
    static let own = DirectoryID(1, 2)

    static func header(
        _ sequence: UInt64, at milliseconds: Int64, of directory: DirectoryID = Self.own,
        _ timeline: UInt32 = 1
    ) -> CheckpointHeader {
        CheckpointHeader(
            directory: directory, timeline: timeline, sequence: SequenceNumber(sequence),
            timestamp: milliseconds)
    }

    @Test(
        arguments: [
            // directory, timeline, sequence        ahead of 50
            (own, 1, 51, true, "its own"), (own, 1, 50, false, "what the journal has"),
            (own, 2, 51, false, "another timeline"), (DirectoryID(3, 4), 1, 51, false, "another directory"),
        ] as [(DirectoryID, UInt32, UInt64, Bool, String)])
    func conflicts(
        directory: DirectoryID, timeline: UInt32, sequence: UInt64, isAhead: Bool, reason: String
    ) {
        let disk = SimulatedDisk()
        let header = Self.header(sequence, at: 1000, of: directory, timeline)
        disk.add(BackupName(header).text, header.bytes)
        // Nothing says whose it is.
        let damaged = BackupName(Self.header(900, at: 2000))
        disk.add(damaged.text, [1])
        let ahead = BackupsAhead(
            of: Self.own, 1, endingAt: SequenceNumber(50), among: [damaged, BackupName(header)], on: disk)
        #expect(ahead?.newest == (isAhead ? BackupName(header) : nil), "\(reason)")
    }

    /// No backup is made before the journal has passed them: it would be taken for an older one.
    @Test func nothingIsMadeBesideThem() throws {
        let world = BackupWriterTests.World()
        world.options.retention = BackupRetention(hours: 1, days: 0, weeks: 0)
        let given = Self.header(250, at: 1000)
        world.disk.add(BackupName(given).text, given.bytes)
        let isWritten = world.writer.write(try world.job(at: 2000, sequence: 150))
        #expect(!isWritten && world.metrics.backups.value(of: .failed) == 1)
        #expect(world.backups == [BackupName(given).text])
        #expect(try world.writer.write(world.job(at: 3000, sequence: 250)))
    }

    /// A start refuses, as it does with an archive that is ahead, and changes nothing.
    @Test func startIsRefused() throws {
        let folder = try BackupDirectoryTests.Folder()
        try folder.make(folder.data)
        let directory = try folder.open(.backups)
        let disk = try directory.open()
        var state = RecoveredState(access: .open)
        let journal = try Journal.open(on: SimulatedDisk(), newDirectoryID: Self.own, into: &state)
        let origin = JournalOrigin(journal)
        #expect(BackupThread.refusal(of: directory, behind: origin).map(String.init(describing:)) == nil)
        let header = Self.header(1, at: 1000)
        let name = BackupName(header).text
        _ = try CheckpointWriter(header, on: disk, named: name).finish()
        let before = folder.names(folder.place)
        guard case .locked(let text) = BackupThread.refusal(of: directory, behind: origin) else {
            Issue.record("not refused")
            return
        }
        #expect(text.contains(name) && text.contains("set back to an earlier state"))
        #expect(folder.names(folder.place) == before)
    }

    @Test(
        arguments: [
            // sequences in the order of the times  restored  made last
            ([50, 250, 350], 350, nil), ([50, 250, 150], 250, 150), ([250, 100, 150], 250, 150),
            ([50, 250, 150, 300], 300, nil),
        ] as [([UInt64], UInt64, UInt64?)])
    func restoreWarnsOfALaterBackupOfAnEarlierState(
        sequences: [UInt64], restored: UInt64, last: UInt64?
    ) throws {
        let folder = try BackupDirectoryTests.Folder()
        try folder.make(folder.place)
        let disk = try SystemDisk(directory: folder.place, create: false)
        for (index, sequence) in sequences.enumerated() {
            let header = Self.header(sequence, at: Int64(index + 1) * 1000)
            _ = try CheckpointWriter(header, on: disk, named: BackupName(header).text).finish()
        }
        var warnings: [String] = []
        let newest = try ScheduledBackups.newest(in: folder.place, until: nil) { warnings.append($0) }
        #expect(newest.flatMap { BackupName($0)?.sequence.rawValue } == restored)
        #expect(warnings.count == (last == nil ? 0 : 1))
        if let last { #expect(warnings[0].contains("-1-\(last).backup was made after it")) }
    }
}
