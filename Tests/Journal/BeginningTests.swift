import PandoBytes
import PandoJournal
import PandoSimulatedDisk
import Testing

/// Checkpoints that begin the journal: what imports and restores make.
@Suite struct BeginningTests {
    static let old = [Entry("one"), Entry("two"), Entry("three")]
    static let new = [Entry("other"), Entry(String(repeating: "x", count: 3000))]

    static func header(_ sequence: UInt64, timeline: UInt32 = 1, timestamp: Int64 = 1000) -> CheckpointHeader
    {
        CheckpointHeader(
            directory: testID, timeline: timeline, sequence: SequenceNumber(sequence), timestamp: timestamp,
            beginsJournal: true)
    }

    /// Three entries of journal, then a checkpoint with other records.
    static func disk() throws -> SimulatedDisk {
        let disk = try makeDisk(old.map { [$0] })
        try writeCheckpoint(header(4), of: new, on: disk)
        return disk
    }

    /// Without any journal, as a restore leaves it; then with what is written behind it.
    @Test(arguments: [0, 1, 7] as [UInt64])
    func checkpointThatBeginsJournalNeedsNoSegment(sequence: UInt64) throws {
        let disk = SimulatedDisk()
        try writeCheckpoint(Self.header(sequence, timeline: 2), of: Self.new, on: disk)
        var history = History()
        #expect(try readDirectory(disk, into: &history).lastSequence.rawValue == sequence)
        #expect(history.entries == Self.new, "before it is opened")
        for round in 0..<3 {
            disk.losePower(seed: sequence)
            var entries: [Entry] = []
            var journal = try openJournal(on: disk, entries: &entries)
            #expect(entries == Self.new + Array(repeating: Entry("behind"), count: round))
            #expect(journal.timeline == 2 && journal.lastAppended.rawValue == sequence + UInt64(round))
            try journal.append(entry: Entry("behind").journalRecords)
            try journal.write()
            try journal.sync()
        }
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
    }

    /// The journal before it does not count and is not read again; the journal behind it does.
    @Test func checkpointThatBeginsJournalReplacesEarlierLog() throws {
        let disk = try Self.disk()
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        for round in 0..<3 {
            disk.losePower(seed: 3)
            var entries: [Entry] = []
            var journal = try openJournal(on: disk, entries: &entries)
            #expect(entries == Self.new + Array(repeating: Entry("behind"), count: round))
            try journal.append(entry: Entry("behind").journalRecords)
            try journal.write()
            try journal.sync()
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        }
        // Usual checkpoints follow, and take the old journal with them.
        for sequence in [5, 6] as [UInt64] {
            let entries = Self.new + Array(repeating: Entry("behind"), count: Int(sequence - 4))
            try writeCheckpoint(checkpointHeader(SequenceNumber(sequence)), of: entries, on: disk)
            _ = try removeSuperseded(on: disk, timeline: 1, keepingCheckpoints: 2)
            #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
        }
        #expect(!disk.fileNames.contains(firstSegment))
        #expect(try recover(disk).entries == Self.new + Array(repeating: Entry("behind"), count: 3))
    }

    /// What it held is nowhere else: with any byte damaged, or cut anywhere, no start uses the earlier
    /// before.
    @Test(arguments: [false, true])
    func damagedOnlyCheckpointIsRefused(hasSegmentBehind: Bool) throws {
        let disk = try Self.disk()
        if hasSegmentBehind { _ = try recover(disk) }
        let whole = disk.contents
        let name = Self.header(4).name.text
        let bytes = try #require(whole[name])
        for offset in stride(from: 0, to: bytes.count, by: bytes.count > 400 ? 7 : 1) {
            for isCut in [false, true] {
                var files = whole
                if isCut { files[name] = Array(bytes[..<offset]) } else { files[name]?[offset] ^= 0x10 }
                let disk = SimulatedDisk(files: files)
                #expect(Self.refusedFile(of: disk) == name, "byte \(offset), cut \(isCut)")
                #expect(try inspect(disk) { _, _ in }.problems.map(\.file) == [name])
            }
        }
        var files = whole
        files[name] = nil
        if hasSegmentBehind {
            #expect(throws: JournalError.self, "gone") { try recover(SimulatedDisk(files: files)) }
        }
    }

    /// The file that a start refuses; nil where it starts.
    static func refusedFile(of disk: SimulatedDisk) -> String? {
        do throws(JournalError) {
            _ = try recover(disk)
            return nil
        } catch {
            if case .corrupt(let problem) = error { return problem.file }
            return "\(error)"
        }
    }

    /// It is not replaced where the disk cannot read it, and the failure is that of the disk.
    @Test(arguments: [nil, 0] as [Int?])
    func unreadableOnlyCheckpointIsRefused(goodReadCount: Int?) throws {
        let disk = try Self.disk()
        let name = Self.header(4).name.text
        let files = disk.contents
        #expect {
            try recover(UnreadableDisk(disk, name, goodReadCount: goodReadCount))
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error else { return false }
            return problem.file == name && problem.flaw.isReadFailure
        }
        #expect(disk.contents == files)
        #expect(try recover(disk).entries == Self.new, "once it can be read")
    }

    /// What was there before a restore does not come back, whichever byte of the restore's checkpoint is
    /// damaged, although the earlier journal is intact until a start removes it.
    @Test(arguments: [0, 2, 9] as [UInt64])
    func damagedCheckpointOfARestoreIsRefused(sequence: UInt64) throws {
        let disk = try makeDisk(Self.old.map { [$0] })
        try writeCheckpoint(checkpointHeader(SequenceNumber(3)), of: Self.old, on: disk)
        try writeCheckpoint(Self.header(sequence, timeline: 2), of: Self.new, on: disk)
        let name = Self.header(sequence, timeline: 2).name.text
        let whole = disk.contents
        let bytes = try #require(whole[name])
        for offset in Array(0..<72) + Array(stride(from: 72, to: bytes.count, by: 97)) {
            for isCut in [false, true] {
                var files = whole
                if isCut { files[name] = Array(bytes[..<offset]) } else { files[name]?[offset] ^= 4 }
                let disk = SimulatedDisk(files: files)
                let context: Comment = "byte \(offset), cut \(isCut)"
                #expect(Self.refusedFile(of: disk) == name, context)
                #expect(disk.contents == files, "a refusal changed a file")
                #expect(try inspect(disk) { _, _ in }.problems.map(\.file) == [name], context)
                var history = History()
                #expect(throws: JournalError.self, context) {
                    try readDirectory(disk, until: .sequence(SequenceNumber(1)), into: &history)
                }
            }
        }
    }

    /// A checkpoint at sequence 0, of a backup of a server in memory: the journal behind it begins with the
    /// first record, and is not all that there is.
    @Test func damagedCheckpointBeforeTheFirstRecordIsRefused() throws {
        let disk = SimulatedDisk()
        try writeCheckpoint(Self.header(0, timeline: 2), of: Self.new, on: disk)
        var entries: [Entry] = []
        var journal = try openJournal(on: disk, entries: &entries)
        try journal.append(entry: Entry("behind").journalRecords)
        try journal.write()
        try journal.sync()
        let name = Self.header(0, timeline: 2).name.text
        for byteOffset in [10, 100] {
            let damaged = SimulatedDisk(files: disk.contents)
            damaged.flipBit(of: name, at: byteOffset * 8)
            #expect(Self.refusedFile(of: damaged) == name, "byte \(byteOffset)")
        }
    }

    /// Runs something with a power cut before each of its disk operations, and gives what is recovered then
    /// to `check`, eight times each: with other parts of what was not synced.
    private static func recoverAfterEachCrash(
        of run: (SimulatedDisk) throws -> Void, _ files: [String: [UInt8]],
        _ check: ([Entry], RecoverySummary, Comment) -> Void
    ) throws {
        let rehearsal = SimulatedDisk(files: files)
        try run(rehearsal)
        for crashPoint in 0...rehearsal.operationCount {
            for seed in 0..<8 as Range<UInt64> {
                let disk = SimulatedDisk(files: files)
                disk.crashPoint = crashPoint
                try? run(disk)
                disk.losePower(seed: seed)
                disk.crashPoint = nil
                let (entries, summary) = try recover(disk)
                check(entries, summary, "crash before \(crashPoint), seed \(seed)")
            }
        }
    }

    /// A power cut before any operation, also at the start that follows, leaves all of it or all of the
    /// earlier state.
    @Test func powerCutAtEveryStepIsRecovered() throws {
        let files = try makeDisk(Self.old.map { [$0] }).contents
        func run(_ disk: SimulatedDisk) throws {
            try writeCheckpoint(Self.header(4), of: Self.new, on: disk)
            disk.killProcess()
            _ = try recover(disk)
        }
        var seen: Set<Bool> = []
        try Self.recoverAfterEachCrash(of: run, files) { entries, _, context in
            #expect(entries == Self.old || entries == Self.new, context)
            seen.insert(entries == Self.new)
        }
        #expect(seen.count == 2)
    }

    /// A restore into a directory with data: the new timeline counts as soon as its file has its name, and
    /// the next start removes the old one.
    @Test func newTimelineReplacesOldOne() throws {
        let files = try makeDisk(Self.old.map { [$0] }).contents
        func run(_ disk: SimulatedDisk) throws {
            try writeCheckpoint(Self.header(2, timeline: 2), of: Self.new, on: disk)
            var history = History()
            #expect(try readDirectory(disk, into: &history).timeline == 2)
            #expect(history.entries == Self.new)
            disk.killProcess()
            _ = try recover(disk)
        }
        let rehearsal = SimulatedDisk(files: files)
        try run(rehearsal)
        #expect(rehearsal.fileNames.filter { $0.hasPrefix("journal-00000001") }.isEmpty)
        try Self.recoverAfterEachCrash(of: run, files) { entries, summary, context in
            #expect(entries == (summary.timeline == 2 ? Self.new : Self.old), context)
        }
    }

    // MARK: Moments

    struct Moments {
        var moment: PointInTime
        var entries: [Entry]?
        var because: Comment
    }

    static func timed(_ text: String, at timestamp: Int64) -> Entry {
        Entry([.init(kind: .delta, namespace: 1, timestamp: timestamp, payload: Array(text.utf8))])
    }

    /// 1 2 [3 4] at 10, 20, 30; a checkpoint at 2; 5 at 40; an import at 6, time 50; 7 at 60.
    static func life() throws -> (disk: SimulatedDisk, entries: [Entry]) {
        let two = Entry([
            .init(kind: .delta, namespace: 1, timestamp: 30, payload: [3]),
            .init(kind: .delta, namespace: 1, timestamp: 30, payload: [4]),
        ])
        let entries = [timed("1", at: 10), timed("2", at: 20), two, timed("5", at: 40)]
        let disk = try makeDisk(entries.map { [$0] })
        try writeCheckpoint(
            CheckpointHeader(directory: testID, timeline: 1, sequence: SequenceNumber(2), timestamp: 20),
            of: Array(entries[..<2]), on: disk)
        try writeCheckpoint(header(6, timestamp: 50), of: new, on: disk)
        var none: [Entry] = []
        disk.killProcess()
        var journal = try openJournal(on: disk, entries: &none)
        try journal.append(entry: timed("7", at: 60).journalRecords)
        try journal.write()
        try journal.sync()
        return (disk, entries)
    }

    @Test func moments() throws {
        let (disk, entries) = try Self.life()
        let after = Self.new + [Self.timed("7", at: 60)]
        let cases: [Moments] = [
            Moments(
                moment: .sequence(SequenceNumber(1)), entries: Array(entries[..<1]),
                because: "before every checkpoint"),
            Moments(
                moment: .sequence(SequenceNumber(2)), entries: Array(entries[..<2]),
                because: "a checkpoint's own"),
            Moments(
                moment: .sequence(SequenceNumber(3)), entries: Array(entries[..<2]),
                because: "inside an entry"),
            Moments(
                moment: .sequence(SequenceNumber(4)), entries: Array(entries[..<3]), because: "an entry's end"
            ),
            Moments(
                moment: .sequence(SequenceNumber(5)), entries: entries, because: "the last before the import"),
            Moments(moment: .sequence(SequenceNumber(6)), entries: Self.new, because: "the import"),
            Moments(moment: .sequence(SequenceNumber(7)), entries: after, because: "the end"),
            Moments(moment: .time(9), entries: [], because: "before anything"),
            Moments(
                moment: .time(10), entries: Array(entries[..<1]),
                because: "entries of the same millisecond count"),
            Moments(moment: .time(29), entries: Array(entries[..<2]), because: "between two"),
            Moments(moment: .time(30), entries: Array(entries[..<3]), because: "an entry of two"),
            Moments(moment: .time(49), entries: entries, because: "before the import"),
            Moments(moment: .time(50), entries: Self.new, because: "with the import"),
            Moments(moment: .time(1 << 50), entries: after, because: "some day"),
        ]
        for example in cases {
            var history = History()
            _ = try readDirectory(disk, until: example.moment, into: &history)
            #expect(history.entries == example.entries, example.because)
        }
    }

    /// Records before an import do not depend on its checkpoint.
    @Test func momentsBeforeADamagedImportAreRead() throws {
        let (disk, entries) = try Self.life()
        disk.flipBit(of: Self.header(6).name.text, at: 80)
        for (sequence, count) in [(1, 1), (2, 2), (4, 3), (5, 4)] {
            var history = History()
            let summary = try readDirectory(
                disk, until: .sequence(SequenceNumber(UInt64(sequence))), into: &history)
            #expect(history.entries == Array(entries[..<count]), "up to \(sequence)")
            #expect(summary.lastSequence.rawValue == UInt64(sequence))
        }
        for sequence in [6, 7] as [UInt64] {
            var history = History()
            #expect(throws: JournalError.self, "up to \(sequence)") {
                try readDirectory(disk, until: .sequence(SequenceNumber(sequence)), into: &history)
            }
        }
    }

    @Test func momentBeforeOldestFileIsRefused() throws {
        let (disk, _) = try Self.life()
        var files = disk.contents
        files[firstSegment] = nil
        for moment in [PointInTime.sequence(SequenceNumber(1)), .time(15)] {
            var history = History()
            #expect(throws: JournalError.beforeJournal(earliest: SequenceNumber(2)), "\(moment)") {
                try readDirectory(SimulatedDisk(files: files), until: moment, into: &history)
            }
        }
    }

    /// A copy can be read as the directory was at one moment, also while a server writes to it.
    @Test func copies() throws {
        let (disk, _) = try Self.life()
        let copy = SimulatedDisk()
        _ = try copyJournal(of: disk, to: copy) { _ in }
        copy.losePower(seed: 9)
        let ours = disk.contents.filter { $0.key.hasSuffix(".log") || $0.key.hasSuffix(".chk") }
        #expect(copy.contents == ours)
    }
}
