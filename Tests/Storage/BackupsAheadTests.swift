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

    /// The journal has reached the sequence of the backup again, with a record of another time: such as the
    /// onDisconnect writes that a refused start has appended.
    @Test(
        arguments: [
            // backups: (sequence, time)            another record than
            ([(3, 3000)], nil), ([(3, 2999)], 2999), ([(2, 1)], 1), ([(3, 3000), (2, 1)], nil),
            ([(3, 5000), (3, 2999)], 2999), ([(4, 1)], nil), ([(3, 0)], nil), ([], nil),
        ] as [([(UInt64, Int64)], Int64?)])
    func otherRecordOfTheSameSequence(backups: [(UInt64, Int64)], found: Int64?) throws {
        let source = SimulatedDisk()
        var state = RecoveredState(access: .open)
        var journal = try Journal.open(on: source, newDirectoryID: Self.own, into: &state)
        for number in 1...3 as ClosedRange<Int64> {
            try journal.append(
                entry: [
                    JournalRecord(.settings, namespace: 1, timestamp: number * 1000, payload: [1, 65, 66])
                ])
        }
        try journal.write()
        let disk = SimulatedDisk()
        let headers = backups.map { Self.header($0.0, at: $0.1) }
        for header in headers { disk.add(BackupName(header).text, header.bytes) }
        let other = BackupOfOtherRecords(
            of: Self.own, 1, endingAt: journal.lastAppended, in: source,
            among: headers.map { BackupName($0) }, on: disk)
        #expect(other?.name.milliseconds == found)
    }

    /// A start refuses, as it does with an archive that is ahead, and changes nothing.
    @Test func startIsRefused() throws {
        let folder = try BackupDirectoryTests.Folder()
        try folder.make(folder.data)
        let directory = try folder.open(.backups)
        let disk = try directory.open()
        var state = RecoveredState(access: .open)
        let data = try SystemDisk(directory: folder.data, create: false)
        let journal = try Journal.open(on: data, newDirectoryID: Self.own, into: &state)
        let origin = JournalOrigin(journal)
        var comparison = BackupComparison(of: directory, with: origin, in: data)
        #expect(comparison.contradiction() == nil && comparison.isDone)
        let header = Self.header(1, at: 1000)
        let name = BackupName(header).text
        _ = try CheckpointWriter(header, on: disk, named: name).finish()
        let before = folder.names(folder.place)
        // It is done: later backups are not compared.
        #expect(comparison.contradiction() == nil)
        comparison = BackupComparison(of: directory, with: origin, in: data)
        for _ in 0..<2 {
            let text = comparison.contradiction().map { "\($0)" } ?? "none"
            #expect(text.contains(name) && text.contains("set back to an earlier state"))
            #expect(!comparison.isDone)
        }
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
        if let last { #expect(warnings[0].contains("-1-\(last).backup was made later")) }
    }
}
