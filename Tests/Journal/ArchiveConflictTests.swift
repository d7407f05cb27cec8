import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

/// An archive that is not a copy of the journal: it is never overwritten.
@Suite struct ArchiveConflictTests {
    /// A data directory that can be set back to an earlier state, as by the snapshot of a machine.
    final class World {
        var source = SimulatedDisk()
        let target = SimulatedDisk()
        var journal: Journal<SimulatedDisk>
        var archive: JournalArchive<SimulatedDisk>
        var entries: [Entry] = []
        let options: JournalOptions

        init(segmentByteLimit: Int) throws {
            options = smallOptions(segmentByteLimit)
            var none: [Entry] = []
            journal = try openJournal(on: source, options: options, entries: &none)
            archive = JournalArchive(of: source, in: target, timeline: firstTimeline)
        }

        func write(_ texts: [String]) throws { entries += try journal.writeAndSync(texts) }

        func update() throws(JournalError) {
            let isDone = try archive.update(upTo: journal.writtenPosition) { _ in }
            #expect(isDone)
        }

        /// Goes on with these files, in a new process.
        func goBack(to files: [String: [UInt8]]) throws {
            source = SimulatedDisk(files: files)
            entries = []
            journal = try openJournal(on: source, options: options, entries: &entries)
            archive = JournalArchive(of: source, in: target, timeline: firstTimeline)
        }

        /// Everything that the archive has.
        var archived: [Entry] {
            get throws {
                let backups = SimulatedDisk()
                let header = checkpointHeader(.zero)
                _ = try CheckpointWriter(header, on: backups, named: "a.backup").finish()
                let journal = try ArchivedJournal("a.backup", in: backups, header, archive: target)
                var history = History()
                _ = try readArchive(journal, until: nil, into: &history)
                return history.entries
            }
        }
    }

    /// Runs an update that must be refused.
    /// - Returns: Why.
    static func conflict(of world: World) -> JournalFlaw? {
        let before = world.target.contents
        do throws(JournalError) {
            try world.update()
            return nil
        } catch {
            #expect(world.target.contents == before, "nothing is changed")
            guard case .corrupt(let problem) = error else { return nil }
            #expect(problem.flaw.isArchiveConflict)
            return problem.flaw
        }
    }

    @Test(arguments: [100_000, 600, 150])
    func journalThatWasTakenBackIsNotArchived(segmentByteLimit: Int) throws {
        let world = try World(segmentByteLimit: segmentByteLimit)
        try world.write((0..<10).map { "entry \($0)" })
        try world.update()
        let snapshot = world.source.contents
        for number in 10..<20 { try world.write(["entry \(number)"]) }
        try world.update()
        try world.goBack(to: snapshot)
        #expect(
            Self.conflict(of: world)
                == .archiveAhead(archived: SequenceNumber(20), journal: SequenceNumber(10)))
        #expect(try world.archived.count == 20)
        // Written on from there, to the same length.
        for number in 10..<20 { try world.write(["other \(number)"]) }
        #expect(Self.conflict(of: world) == .archiveDiffers)
        for number in 20..<40 { try world.write(["other \(number)"]) }
        #expect(Self.conflict(of: world) == .archiveDiffers)
        #expect(try world.archived.last == Entry("entry 19"))
    }

    /// A journal that was set back and an archive that has nothing of what was behind it go on together.
    @Test func journalThatWasTakenBackToWhatIsArchivedGoesOn() throws {
        let world = try World(segmentByteLimit: 300)
        for number in 0..<20 { try world.write(["entry \(number)"]) }
        try world.update()
        let snapshot = world.source.contents
        try world.write(["not archived"])
        try world.goBack(to: snapshot)
        try world.write(["instead"])
        try world.update()
        #expect(try world.archived == world.entries)
    }

    /// Whenever a data directory goes back, and whatever it writes then: what was archived stays in the
    /// archive. Where its journal goes on from all of that, it is archived.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func archivedEntriesStay(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let world = try World(segmentByteLimit: Int.random(in: 60...900, using: &random))
        var number = 0
        func write(_ count: Int) throws {
            for _ in 0..<count {
                number += 1
                // Of one length, so that segments of different histories have the same names.
                try world.write(["entry \(1000 + number)"])
            }
        }
        var snapshot = world.source.contents
        var archived: [Entry] = []
        for _ in 0..<8 {
            try write(Int.random(in: 0...12, using: &random))
            if Bool.random(using: &random) {
                try world.update()
                archived = world.entries
                // A checkpoint may remove what is archived.
                if Int.random(in: 0..<4, using: &random) == 0 {
                    let segments = world.source.fileNames.filter { $0.hasSuffix(".log") }
                    let sequence = world.journal.lastAppended
                    for _ in 0..<2 {
                        try writeCheckpoint(
                            checkpointHeader(sequence), of: world.entries, on: world.source)
                    }
                    for name in segments.dropLast() { try world.source.remove(name) }
                    try world.source.syncDirectory()
                }
            }
            if Int.random(in: 0..<3, using: &random) == 0 { snapshot = world.source.contents }
        }
        try world.goBack(to: snapshot)
        for _ in 0..<4 {
            try write(Int.random(in: 0...12, using: &random))
            let isContinued = world.entries.starts(with: archived)
            let flaw = Self.conflict(of: world)
            #expect((flaw == nil) == isContinued, "\(String(describing: flaw)), seed \(seed)")
            if isContinued { archived = world.entries }
            #expect(try world.archived == archived, "seed \(seed)")
        }
    }

    // MARK: Whose archive it is

    static let other = DirectoryID(1, 2)
    static let third = DirectoryID(3, 4)

    static func history(
        _ timeline: UInt32, _ directory: DirectoryID, _ ancestors: [(UInt32, DirectoryID, UInt64)] = []
    ) -> TimelineHistory {
        TimelineHistory(
            timeline: timeline, directory: directory,
            ancestors: ancestors.map { .init(timeline: $0, directory: $1, end: SequenceNumber($2)) })
    }

    @Test(
        arguments: [
            // in the archive, the oldest first                     the journal                           may be archived
            ([], history(1, testID), true, "an empty archive"),
            ([history(1, testID)], history(1, testID), true, "its own"),
            ([history(1, testID)], history(1, other), false, "another one's"),
            ([history(1, testID)], history(2, other), false, "another one's, and a later timeline"),
            ([history(1, testID)], history(2, other, [(1, testID, 7)]), true, "restored from it"),
            ([history(1, testID)], history(2, other, [(1, third, 7)]), false, "restored from another one"),
            (
                [history(1, testID), history(2, other, [(1, testID, 7)])],
                history(3, third, [(1, testID, 5)]), true, "another branch of the same origin"
            ),
            (
                [history(2, other, [(1, testID, 7)])], history(3, third, [(1, testID, 5)]), true,
                "the same, without what the branches have in common"
            ),
            (
                [history(1, testID), history(2, other, [(1, testID, 7)])], history(1, testID), false,
                "a restored directory has taken its place"
            ),
            (
                [history(2, other, [(1, testID, 7)])], history(2, third, [(1, testID, 9)]), false,
                "two were restored from one"
            ),
        ] as [([TimelineHistory], TimelineHistory, Bool, String)])
    func owners(archived: [TimelineHistory], journal: TimelineHistory, isAllowed: Bool, reason: String) throws
    {
        let target = SimulatedDisk()
        for (index, history) in (archived + [journal]).enumerated() {
            let source = SimulatedDisk()
            var none = History()
            var journal = try Journal.open(
                on: source, newDirectoryID: history.directory, timeline: history.timeline, into: &none)
            try journal.append(.delta, namespace: 1, timestamp: 1, payload: [1])
            try journal.write()
            try journal.sync()
            var archive = JournalArchive(of: source, in: target, timeline: history)
            guard index == archived.count, !isAllowed else {
                try archive.refuseIfForeign(at: journal.writtenPosition)
                let isDone = try archive.update(upTo: journal.writtenPosition) { _ in }
                #expect(isDone, "\(reason)")
                continue
            }
            let before = target.contents
            #expect(throws: JournalError.self, "\(reason)") {
                try archive.refuseIfForeign(at: journal.writtenPosition)
            }
            #expect(throws: JournalError.self, "\(reason)") {
                try archive.update(upTo: journal.writtenPosition) { _ in }
            }
            #expect(target.contents == before)
        }
    }

    /// Two directories were restored from one backup, and the first was lost before any of its records was
    /// archived.
    @Test(arguments: [history(2, other, [(1, testID, 7)]).bytes, [1, 2, 3]])
    func historyOfATimelineOfWhichNothingIsArchivedIsReplaced(bytes: [UInt8]) throws {
        let target = SimulatedDisk()
        let journalHistory = Self.history(2, Self.third, [(1, testID, 9)])
        target.add(TimelineHistory.fileName(2), bytes)
        let source = SimulatedDisk()
        var none = History()
        let journal = try Journal.open(on: source, newDirectoryID: Self.third, timeline: 2, into: &none)
        var archive = JournalArchive(of: source, in: target, timeline: journalHistory)
        #expect(try archive.update(upTo: journal.writtenPosition) { _ in })
        #expect(try TimelineHistory.read(2, on: target) == journalHistory)
    }
}
