import PandoBytes
import PandoJournal
import PandoRandom
import PandoSimulatedDisk
import Testing

let firstTimeline = TimelineHistory(timeline: 1, directory: testID)

/// The archive of a journal that is being written: what it has, what it survives, and what is restored from
/// it.
@Suite struct JournalArchiveTests {
    /// A data directory and an archive on two simulated disks.
    final class World {
        let source = SimulatedDisk()
        let target = SimulatedDisk()
        var journal: Journal<SimulatedDisk>
        var archive: JournalArchive<SimulatedDisk>
        /// Everything that is on disk.
        var entries: [Entry] = []
        /// How many of them the archive must have.
        var archivedCount = 0
        var events: [ArchiveEvent] = []

        init(segmentByteLimit: Int = 600) throws {
            var none: [Entry] = []
            journal = try openJournal(on: source, options: smallOptions(segmentByteLimit), entries: &none)
            archive = JournalArchive(of: source, in: target, timeline: firstTimeline)
        }

        func write(_ texts: [String]) throws { entries += try journal.writeAndSync(texts) }

        func update() throws {
            let count = entries.count
            #expect(try archive.update(upTo: journal.writtenPosition) { events.append($0) })
            archivedCount = count
        }

        /// Replaces everything, as `pando import` does, and starts the journal again.
        func importEntries(_ new: [Entry]) throws {
            let header = CheckpointHeader(
                directory: testID, timeline: 1, sequence: journal.lastAppended.successor, timestamp: 1000,
                beginsJournal: true)
            try writeCheckpoint(header, of: new, on: source)
            source.killProcess()
            journal = try openJournal(on: source, options: smallOptions(600), entries: &entries)
            #expect(entries == new)
            restart()
        }

        /// A new process, which knows nothing but the directories.
        func restart() { archive = JournalArchive(of: source, in: target, timeline: firstTimeline) }

        var segments: [String] { source.fileNames.filter { $0.hasSuffix(".log") } }

        /// A backup behind so many entries, and what is restored from it and the archive.
        /// - Parameter sequence: Of the backup; nil where each entry has one.
        func restore(
            behind count: Int, as sequence: SequenceNumber? = nil, until moment: PointInTime? = nil
        ) throws -> (History, RecoverySummary) {
            let backups = SimulatedDisk()
            let header = checkpointHeader(sequence ?? SequenceNumber(UInt64(count)))
            var writer = try CheckpointWriter(header, on: backups, named: "a.backup")
            for entry in entries.prefix(count) {
                try writer.append(.tree, namespace: 1, payload: entry.flat.rawSpan)
            }
            _ = try writer.finish()
            let journal = try ArchivedJournal("a.backup", in: backups, header, archive: target)
            var history = History()
            let summary = try readArchive(journal, until: moment, into: &history)
            return (history, summary)
        }
    }

    @Test func closedSegmentsAreWholeAndTheOpenOneIsPartial() throws {
        let world = try World()
        for number in 0..<40 {
            try world.write(["entry \(number)"])
            try world.update()
        }
        let segments = world.segments
        #expect(segments.count > 3)
        #expect(
            world.target.fileNames == segments.dropLast() + [try #require(segments.last) + ".partial"])
        for name in segments {
            let copy = world.target.contents[name] ?? world.target.contents[name + ".partial"]
            let original = try #require(world.source.contents[name])
            // Reserved space of the open segment is not part of the file.
            #expect(copy == original, "\(name)")
        }
        #expect(
            world.events.filter { if case .closed = $0 { true } else { false } }.count == segments.count - 1)
        let byteCount = world.events.reduce(0) { if case .copied(let count) = $1 { $0 + count } else { $0 } }
        #expect(
            byteCount
                == segments.reduce(0) { $0 + (world.source.contents[$1]?.count ?? 0) })
    }

    /// The reading of a copy that is whole is given up, too, when the server stops: on a slow disk it takes
    /// long. The next update reads it again.
    @Test func readingOfAWholeCopyIsCancelled() throws {
        let world = try World(segmentByteLimit: 4 << 20)
        let text = String(repeating: "x", count: 1 << 19)
        while world.segments.count < 2 { try world.write([text]) }
        let (first, second) = (world.segments[0], world.segments[1])
        let byteCount = try #require(world.source.contents[first]).count
        var (copiedByteCount, askedCount) = (0, 0)
        let isDone = try world.archive.update(
            upTo: world.journal.writtenPosition,
            isCancelled: {
                // One time may be the last of the copying.
                if copiedByteCount == byteCount { askedCount += 1 }
                return askedCount > 2
            }
        ) { event in
            if case .copied(let count) = event { copiedByteCount += count }
            world.events.append(event)
        }
        #expect(!isDone && askedCount == 3)
        #expect(!world.events.contains { if case .closed = $0 { true } else { false } })
        #expect(world.target.fileNames == [first + ".partial"])
        try world.update()
        #expect(world.target.fileNames == [first, second + ".partial"])
        #expect(world.target.contents[first] == world.source.contents[first])
    }

    @Test func nothingIsCopiedThatIsNotOnDisk() throws {
        let world = try World()
        try world.write(["durable"])
        let position = world.journal.writtenPosition
        try world.journal.append(.delta, namespace: 1, timestamp: 1, payload: Array("written".utf8))
        try world.journal.write()
        #expect(try world.archive.update(upTo: position) { _ in })
        #expect(world.target.contents[firstSegment + ".partial"]?.count == position.byteOffset)
    }

    /// Every moment behind a backup can be restored; a backup from behind the archive's end is refused.
    @Test func restores() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)", "and \(number)"]) }
        try world.update()
        for count in [0, 1, 7, 30, 59, 60] {
            let (history, summary) = try world.restore(behind: count)
            #expect(history.entries == world.entries && history.restoredCount == count)
            #expect(summary.lastSequence == SequenceNumber(60))
        }
        let (history, summary) = try world.restore(behind: 10, until: .sequence(SequenceNumber(25)))
        #expect(history.entries == Array(world.entries.prefix(25)) && summary.hasReachedMoment)
        try world.write(["later", "and later"])
        #expect(throws: JournalError.self) { try world.restore(behind: 62) }
    }

    /// A backup that ends with a record which a power cut took from the journal: its sequence went to another
    /// record. The archive alone restores what is before it.
    @Test func backupOfARecordThatTheJournalHasLostIsRefused() throws {
        let world = try World()
        try world.write((0..<5).map { "entry \($0)" })
        try world.journal.append(.delta, namespace: 1, timestamp: 1001, payload: Array("other".utf8))
        try world.write(["later"])
        try world.update()
        #expect {
            try world.restore(behind: 6)
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error else { return false }
            return problem.flaw == .backupDiffers(sequence: SequenceNumber(6))
        }
        let (history, _) = try world.restore(behind: 6, until: .sequence(SequenceNumber(5)))
        #expect(history.entries == Array(world.entries.prefix(5)))
        #expect(try world.restore(behind: 5).1.lastSequence == SequenceNumber(7))
    }

    @Test func gapIsReportedAndABackupBehindItRestores() throws {
        let world = try World()
        for number in 0..<10 { try world.write(["entry \(number)"]) }
        try world.update()
        for number in 10..<40 { try world.write(["entry \(number)"]) }
        let removed = world.segments.dropLast(2)
        for name in removed { try world.source.remove(name) }
        try world.update()
        let gaps = world.events.filter { if case .gap = $0 { true } else { false } }
        #expect(gaps.count == 1)
        #expect(throws: JournalError.self) { try world.restore(behind: 5) }
        let (history, _) = try world.restore(behind: 39)
        #expect(history.entries == world.entries)
    }

    /// An import takes a sequence and writes no record: the archive goes on behind it, and says that it has a
    /// gap. A backup that is made after the import restores; one that was made before it is refused.
    @Test(arguments: [1, 2], [true, false])
    func archiveGoesOnBehindAnImport(importCount: Int, isArchivedBefore: Bool) throws {
        let world = try World()
        for number in 0..<20 { try world.write(["entry \(number)"]) }
        if isArchivedBefore { try world.update() }
        for _ in 0..<importCount { try world.importEntries([Entry("imported")]) }
        var gaps: [ArchiveEvent] { world.events.filter { if case .gap = $0 { true } else { false } } }
        try world.update()
        let last = try #require(world.segments.last)
        let segment = try #require(SegmentName(last))
        #expect(gaps.count == importCount, "a segment without records is between two imports")
        #expect(gaps.last == .gap(before: segment) && world.archive.segment == segment)
        // A new process finds nothing wrong, also where the last one has ended before the next segment was
        // begun.
        try world.target.remove(last + ".partial")
        world.restart()
        #expect(throws: Never.self) { try world.archive.refuseIfForeign(at: world.journal.writtenPosition) }
        for number in 20..<40 { try world.write(["entry \(number)"]) }
        try world.update()
        #expect(gaps.count == importCount)
        let behind = UInt64(20 + importCount)
        let (history, summary) = try world.restore(behind: 1, as: SequenceNumber(behind))
        #expect(history.entries == world.entries && summary.lastSequence.rawValue == behind + 20)
        #expect(throws: JournalError.self) { try world.restore(behind: 5) }
    }

    /// A whole copy that lacks an entry of its segment is no copy of it: no import comes inside a segment.
    @Test func wholeCopyThatIsShorterThanItsSegmentIsAConflict() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        let segment = world.segments[0]
        let entryByteCount = JournalFormat.recordByteCount(payloadByteCount: 8)
        world.target.add(
            segment, try #require(world.source.contents[segment]).dropLast(entryByteCount) as [UInt8])
        #expect {
            try world.archive.refuseIfForeign(at: world.journal.writtenPosition)
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error else { return false }
            return problem.flaw == .archiveDiffers
        }
    }

    /// Segments that are removed when the archive has them leave no gap, also for a new process.
    @Test func removedSegmentsThatAreArchivedLeaveNoGap() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        try world.update()
        for name in world.segments.dropLast() { try world.source.remove(name) }
        world.restart()
        for number in 30..<60 { try world.write(["entry \(number)"]) }
        try world.update()
        #expect(!world.events.contains { if case .gap = $0 { true } else { false } })
        #expect(try world.restore(behind: 1).0.entries == world.entries)
    }

    /// A copy whose sync has failed is written again before it is whole, also where the data directory does
    /// not have its segment any more: the bytes can be read, but the disk does not have them.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func copyWhoseSyncFailedIsWrittenAgain(seed: UInt64) throws {
        let world = try World()
        while world.segments.count < 2 { try world.write(["entry \(world.entries.count)"]) }
        let name = world.segments[0]
        let original = try #require(world.source.contents[name])
        world.target.onOperation = { $0 == .sync ? .fail(5) : .succeed }
        #expect(throws: JournalError.self) { try world.update() }
        world.target.onOperation = nil
        #expect(world.target.contents[name + ".partial"] == original)
        try world.source.remove(name)
        try world.update()
        #expect(world.target.fileNames.contains(name))
        world.target.losePower(seed: seed)
        #expect(world.target.contents[name] == original)
    }

    @Test func damagedSegmentIsNotCopied() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        world.source.flipBit(of: world.segments[1], at: 8 * 100)
        #expect(throws: JournalError.self) {
            try world.archive.update(upTo: world.journal.writtenPosition) { _ in }
        }
        #expect(world.target.fileNames.contains(world.segments[0]))
        #expect(!world.target.fileNames.contains(world.segments[1]))
    }

    /// A checkpoint keeps for a while what is not archived.
    @Test(arguments: [(nil, 0), (0, 16), (1, 16), (30, 9), (39, 0)] as [(UInt64?, Int)])
    func segmentsWaitForTheArchive(archiving: UInt64?, left: Int) throws {
        let world = try World(segmentByteLimit: 60)
        for number in 0..<40 { try world.write(["entry \(number)"]) }
        for sequence in [38, 39] as [UInt64] {
            try writeCheckpoint(checkpointHeader(SequenceNumber(sequence)), of: [], on: world.source)
        }
        _ = try removeSuperseded(
            on: world.source, timeline: 1, keepingCheckpoints: 2,
            archivingFrom: archiving.map { SequenceNumber($0) })
        // The older checkpoint needs the segments from 39 on.
        #expect(world.segments.count == left + 2, "\(world.segments)")
    }

    /// Damage of the archive is no conflict: the journal goes on to be archived.
    @Test func damagedCopyIsReported() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        try world.update()
        let whole = try #require(world.target.fileNames.last { $0.hasSuffix(".log") })
        world.target.flipBit(of: whole, at: 8 * 100)
        world.restart()
        try world.write(["more"])
        try world.update()
        #expect(world.events.contains { if case .damaged(whole, _) = $0 { true } else { false } })
    }

    /// A whole copy whose header is damaged, or that is empty, is damage like any other.
    @Test(arguments: [0, 20, nil] as [Int?])
    func wholeCopyWithADamagedHeaderIsReported(offset: Int?) throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        try world.update()
        let whole = try #require(world.target.fileNames.last { $0.hasSuffix(".log") })
        var bytes = try #require(world.target.contents[whole])
        if let offset { bytes[offset] ^= 1 } else { bytes = [] }
        world.target.add(whole, bytes)
        world.restart()
        try world.write(["more"])
        try world.update()
        #expect(world.events.contains(.damaged(file: whole, byteOffset: 0)))
        for number in 30..<60 { try world.write(["entry \(number)"]) }
        try world.update()
        let last = try #require(world.segments.last)
        #expect(world.target.fileNames.contains(last + ".partial"))
    }

    /// An archive that was begun later, or has lost its oldest segments, says where it begins.
    @Test func beginIsTheFirstArchivedRecord() throws {
        let world = try World()
        #expect(world.archive.begin == nil)
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        let second = try #require(SegmentName(world.segments[1]))
        try world.source.remove(world.segments[0])
        for round in 0..<2 {
            try world.update()
            #expect(world.archive.begin?.rawValue == second.firstSequence.rawValue - 1, "round \(round)")
            world.restart()
        }
    }

    /// The copy of the open segment cannot be read at all: what is left out of the restore is reported.
    @Test func damagedHeaderOfTheOpenSegmentIsCounted() throws {
        let world = try World()
        try world.write(["a", "b"])
        try world.update()
        let partial = try #require(world.target.fileNames.first { $0.hasSuffix(".partial") })
        var bytes = try #require(world.target.contents[partial])
        bytes[20] ^= 1
        world.target.add(partial, bytes)
        let backups = SimulatedDisk()
        let header = checkpointHeader(.zero)
        _ = try CheckpointWriter(header, on: backups, named: "a.backup").finish()
        let journal = try ArchivedJournal("a.backup", in: backups, header, archive: world.target)
        #expect(journal.unreadableByteCount == bytes.count)
    }

    @Test func cancelled() throws {
        let world = try World()
        for number in 0..<30 { try world.write(["entry \(number)"]) }
        #expect(
            try !world.archive.update(upTo: world.journal.writtenPosition, isCancelled: { true }) { _ in })
        try world.update()
        #expect(try world.restore(behind: 0).0.entries == world.entries)
    }

    @Test(
        arguments: [
            // whole                       partial  timeline  sequence   removed
            (["1-1", "1-9", "1-11"], "1-19", 1, 8, ["1-1"]),
            (["1-1", "1-9", "1-11"], "1-19", 1, 7, []),
            (["1-1", "1-9", "1-11"], "1-19", 1, 0x30, ["1-1", "1-9", "1-11"]),
            (["1-1", "1-9"], "2-11", 2, 0x10, ["1-1", "1-9"]),
            (["1-1", "1-9"], "2-11", 1, 0x20, ["1-1"]),
            ([], "1-1", 1, 100, []),
        ] as [([String], String, UInt32, UInt64, [String])])
    func superseded(
        whole: [String], partial: String, timeline: UInt32, sequence: UInt64, removed: [String]
    ) throws {
        func name(_ text: String) throws -> String {
            let parts = text.split(separator: "-").map { UInt64($0, radix: 16) }
            return SegmentName(
                timeline: UInt32(try #require(parts[0])),
                firstSequence: SequenceNumber(try #require(parts[1]))
            ).text
        }
        let names = try whole.map(name) + [name(partial) + ".partial", "LOCK", "other"]
        #expect(
            archivedSegments(of: names, coveredBy: timeline, SequenceNumber(sequence)).map(
                \.file)
                == (try removed.map(name)))
    }

    @Test func copiesThatAreNotWhole() {
        func name(_ timeline: UInt32, _ sequence: UInt64) -> String {
            SegmentName(timeline: timeline, firstSequence: SequenceNumber(sequence)).text
        }
        let names = [
            name(1, 1), name(1, 9) + ".partial", name(2, 11), name(2, 11) + ".partial",
            name(2, 20) + ".partial",
        ]
        func superseded(_ timeline: UInt32, _ sequence: UInt64) -> [String] {
            archivedSegments(of: names, coveredBy: timeline, SequenceNumber(sequence)).map(\.file)
        }
        #expect(superseded(1, 8) == [name(1, 1)])
        #expect(superseded(2, 12) == [name(1, 1), name(1, 9) + ".partial"], "an ended timeline")
        #expect(superseded(2, 19) == [name(1, 1), name(1, 9) + ".partial", name(2, 11)])
        let behind = archivedSegments(of: names, coveredBy: 2, SequenceNumber(12)).map { Array($0.behind) }
        #expect(behind.first?.first == name(1, 9) + ".partial" && behind.last?.contains(name(1, 1)) == false)
    }

    /// Whatever fails, and whenever the machine of the archive loses power: an update that succeeds has
    /// everything, and all that was ever archived can be restored.
    @Test(arguments: 0..<30 as Range<UInt64>)
    func survivesFailures(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let world = try World(segmentByteLimit: Int.random(in: 200...2000, using: &random))
        for round in 0..<60 {
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let length = Int.random(in: 1...300, using: &random)
                try world.write([String(repeating: "x", count: length) + "\(round)"])
            }
            switch Int.random(in: 0..<10, using: &random) {
            case 0...1:
                world.target.failingOperation =
                    world.target.operationCount + Int.random(in: 0..<12, using: &random)
            case 2:
                world.target.crashPoint = world.target.operationCount + Int.random(in: 0..<12, using: &random)
            case 3: world.restart()
            default: break
            }
            do throws(JournalError) {
                let count = world.entries.count
                let isDone = try world.archive.update(upTo: world.journal.writtenPosition) {
                    world.events.append($0)
                }
                #expect(isDone)
                world.archivedCount = count
            } catch {
                guard case .disk = error else { throw error }
            }
            world.target.failingOperation = nil
            if world.target.crashPoint != nil {
                world.target.losePower(seed: seed &* 1000 + UInt64(round))
                world.restart()
            }
            guard world.archivedCount > 0 else { continue }
            let (history, _) = try world.restore(behind: 0)
            #expect(history.entries.starts(with: world.entries.prefix(world.archivedCount)), "round \(round)")
            #expect(world.entries.starts(with: history.entries), "round \(round)")
        }
        #expect(!world.events.contains { if case .gap = $0 { true } else { false } })
    }
}
