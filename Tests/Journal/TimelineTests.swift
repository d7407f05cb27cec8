import PandoJournal
import PandoSimulatedDisk
import Testing

/// Timelines: where one comes from, and restores that follow them through an archive.
@Suite struct TimelineTests {
    static let ids = [DirectoryID(1, 1), DirectoryID(2, 2), DirectoryID(3, 3), DirectoryID(4, 4)]

    // MARK: The file

    static let history = TimelineHistory(
        timeline: 3, directory: ids[2],
        ancestors: [
            .init(timeline: 1, directory: ids[0], end: SequenceNumber(42)),
            .init(timeline: 2, directory: ids[1], end: SequenceNumber(77)),
        ])

    @Test func fileIsReadAgain() throws {
        let disk = SimulatedDisk()
        try Self.history.write(on: disk)
        #expect(disk.fileNames == ["timeline-00000003.history"])
        #expect(try TimelineHistory.read(3, on: disk) == Self.history)
        #expect(try TimelineHistory.read(2, on: disk) == nil)
        #expect(Self.history.origin == Self.ids[0])
        #expect(
            String(decoding: Self.history.bytes, as: UTF8.self).hasPrefix(
                """
                1 00000000000000010000000000000001 42
                2 00000000000000020000000000000002 77
                3 00000000000000030000000000000003
                crc32c\u{20}
                """))
    }

    /// Any changed, missing or further byte is damage.
    @Test func everyDamageIsFound() {
        let bytes = Self.history.bytes
        for index in bytes.indices {
            for bit in 0..<8 as Range<UInt8> {
                var changed = bytes
                changed[index] ^= 1 << bit
                #expect(TimelineHistory(changed) == nil, "byte \(index), bit \(bit)")
            }
            #expect(TimelineHistory(Array(bytes.prefix(index))) == nil, "\(index) bytes")
        }
        #expect(TimelineHistory(bytes + [10]) == nil)
        #expect(TimelineHistory([]) == nil)
        let disk = SimulatedDisk(files: [TimelineHistory.fileName(3): Array(bytes.dropLast())])
        #expect(throws: JournalError.self) { try TimelineHistory.read(3, on: disk) }
    }

    @Test func ancestorsAreBounded() throws {
        let ancestors = (1...5000 as ClosedRange<UInt32>).map {
            TimelineHistory.Ancestor(
                timeline: $0, directory: Self.ids[0], end: SequenceNumber(UInt64($0)))
        }
        let history = TimelineHistory(timeline: 5001, directory: Self.ids[1], ancestors: ancestors)
        #expect(history.ancestors.count == 4096)
        #expect(history.ancestors.first == ancestors.first && history.ancestors.last == ancestors.last)
        #expect(TimelineHistory(history.bytes) == history)
    }

    // MARK: Restores

    /// Several data directories, each restored from the one before, and the archive of all of them.
    final class World {
        let archive = SimulatedDisk()
        /// What each timeline has, from its first record on.
        var entries: [UInt32: [Entry]] = [:]

        /// Writes a journal, and archives it.
        /// - Parameter ancestors: The timeline that it continues, and up to where.
        func write(_ history: TimelineHistory, count: Int) throws {
            let disk = SimulatedDisk()
            var known: [Entry] = []
            if let parent = history.ancestors.last {
                known = Array(try #require(entries[parent.timeline]).prefix(Int(parent.end.rawValue)))
                let header = CheckpointHeader(
                    directory: history.directory, timeline: history.timeline, sequence: parent.end,
                    timestamp: 1000, beginsJournal: true)
                try writeCheckpoint(header, of: known, on: disk)
                try history.write(on: disk)
            }
            var host = History()
            var journal = try Journal.open(
                on: disk, newDirectoryID: history.directory, timeline: history.timeline,
                options: smallOptions(300), into: &host)
            var archive = JournalArchive(of: disk, in: archive, timeline: history)
            _ = try archive.update(upTo: journal.writtenPosition) { _ in }
            for number in 0..<count {
                let entry = Entry("\(number) of timeline \(history.timeline)")
                try journal.append(entry: entry.journalRecords)
                try journal.write()
                try journal.sync()
                known.append(entry)
                _ = try archive.update(upTo: journal.writtenPosition) { _ in }
            }
            entries[history.timeline] = known
        }

        /// Restores a backup of a timeline behind so many of its entries.
        func restore(
            _ history: TimelineHistory, behind count: Int, timeline: UInt32? = nil,
            until moment: PointInTime? = nil
        ) throws -> (History, RecoverySummary) {
            let backups = SimulatedDisk()
            let header = checkpointHeader(
                SequenceNumber(UInt64(count)), directory: history.directory, timeline: history.timeline)
            var writer = try CheckpointWriter(header, on: backups, named: "a.backup")
            for entry in try #require(entries[history.timeline]).prefix(count) {
                try writer.append(.tree, namespace: 1, payload: entry.flat.rawSpan)
            }
            _ = try writer.finish()
            let journal = try ArchivedJournal(
                "a.backup", in: backups, header, archive: archive, timeline: timeline)
            var history = History()
            let summary = try readArchive(journal, until: moment, into: &history)
            return (history, summary)
        }
    }

    static func child(_ number: Int, of parent: TimelineHistory, at end: UInt64) -> TimelineHistory {
        TimelineHistory(
            timeline: UInt32(number), directory: ids[number - 1],
            ancestors: parent.ancestors(until: SequenceNumber(end)))
    }

    /// 1 ── 12 ──── 20
    ///       └ 2 ── 22 ── 30
    ///                └ 3 ── 27
    ///   └ 4 (at 5) ── 9
    static func world() throws -> (World, [TimelineHistory]) {
        let world = World()
        let first = TimelineHistory(timeline: 1, directory: ids[0])
        let second = child(2, of: first, at: 12)
        let third = child(3, of: second, at: 22)
        let fourth = child(4, of: first, at: 5)
        try world.write(first, count: 20)
        try world.write(second, count: 18)
        try world.write(third, count: 5)
        try world.write(fourth, count: 4)
        return (world, [first, second, third, fourth])
    }

    @Test(
        arguments: [
            // backup: timeline, behind   wanted   restored, and on which timeline it ends
            (1, 0, nil, 4, 9), (1, 5, nil, 4, 9), (4, 7, nil, 4, 9),
            (1, 0, 3, 3, 27), (1, 12, 3, 3, 27), (2, 12, 3, 3, 27), (2, 22, 3, 3, 27), (3, 24, 3, 3, 27),
            (1, 3, 2, 2, 30), (2, 30, 2, 2, 30), (1, 15, 1, 1, 20), (1, 0, 1, 1, 20),
        ] as [(Int, Int, UInt32?, UInt32, Int)])
    func restoreFollowsATimeline(
        backup: Int, count: Int, wanted: UInt32?, timeline: UInt32, end: Int
    ) throws {
        let (world, histories) = try Self.world()
        let (restored, summary) = try world.restore(histories[backup - 1], behind: count, timeline: wanted)
        #expect(restored.entries == world.entries[timeline])
        #expect(restored.entries.count == end && restored.restoredCount == count)
        #expect(summary.lastSequence == SequenceNumber(UInt64(end)))
        #expect(summary.timeline == (count == end ? UInt32(backup) : timeline))
    }

    /// A backup of what a restore has given up, a timeline that does not exist, one that the backup is
    /// behind.
    @Test(
        arguments: [
            (1, 6, nil), (2, 13, nil), (3, 24, nil), (1, 13, 2), (1, 13, 3), (2, 23, 3), (4, 7, 3), (1, 3, 9),
        ] as [(Int, Int, UInt32?)])
    func backupThatIsNotOnTheTimelineIsRefused(backup: Int, count: Int, wanted: UInt32?) throws {
        let (world, histories) = try Self.world()
        #expect {
            try world.restore(histories[backup - 1], behind: count, timeline: wanted)
        } throws: { error in
            guard case JournalError.corrupt(let problem) = error,
                case .backupNotOnTimeline = problem.flaw
            else { return false }
            return true
        }
    }

    /// A restored directory was started, and its disk was lost before any of its records was archived.
    @Test func timelineWithAHistoryOnlyIsNotFollowed() throws {
        let world = World()
        let first = TimelineHistory(timeline: 1, directory: Self.ids[0])
        try world.write(first, count: 20)
        try Self.child(2, of: first, at: 5).write(on: world.archive)
        #expect(try world.restore(first, behind: 15).0.entries == world.entries[1])
        let (_, summary) = try world.restore(first, behind: 5, timeline: 2)
        #expect(summary.lastSequence == SequenceNumber(5), "it can be asked for")
        let backups = SimulatedDisk()
        let header = checkpointHeader(.zero, directory: Self.ids[0])
        _ = try CheckpointWriter(header, on: backups, named: "a.backup").finish()
        let journal = try ArchivedJournal("a.backup", in: backups, header, archive: world.archive)
        #expect(journal.newestTimeline == 2, "its number is taken")
    }

    /// The same, with a backup of the restored directory: what is archived of the earlier timeline is no less
    /// part of its journal.
    @Test func backupOfATimelineWithAHistoryOnlyIsRestored() throws {
        let world = World()
        let first = TimelineHistory(timeline: 1, directory: Self.ids[0])
        try world.write(first, count: 20)
        let second = Self.child(2, of: first, at: 12)
        try second.write(on: world.archive)
        let known = Array(try #require(world.entries[1]).prefix(12))
        world.entries[2] = known
        let (restored, summary) = try world.restore(second, behind: 12)
        #expect(restored.entries == known && summary.lastSequence == SequenceNumber(12))
        let (earlier, _) = try world.restore(second, behind: 12, until: .sequence(SequenceNumber(5)))
        #expect(earlier.entries == Array(known.prefix(5)))
    }

    /// Moments before, at and behind the records at which timelines begin.
    @Test(arguments: [5, 11, 12, 13, 21, 22, 23, 27, 40] as [UInt64])
    func momentsOfATimeline(sequence: UInt64) throws {
        let (world, histories) = try Self.world()
        let (restored, summary) = try world.restore(
            histories[0], behind: 4, timeline: 3, until: .sequence(SequenceNumber(sequence)))
        #expect(restored.entries == world.entries[3].map { Array($0.prefix(Int(sequence))) })
        #expect(summary.timeline == (sequence <= 12 ? 1 : sequence <= 22 ? 2 : 3))
        #expect(summary.hasReachedMoment == (sequence < 27))
    }

    /// What a journal had written and an archive had not when it was lost is a gap, also where the next
    /// timeline begins.
    @Test func missingEndOfAnAncestorIsAGap() throws {
        let (world, histories) = try Self.world()
        let partial = try #require(
            world.archive.fileNames.last { $0.hasPrefix("journal-00000002") })
        try world.archive.remove(partial)
        let whole = try #require(
            world.archive.fileNames.filter { $0.hasPrefix("journal-00000002") }.last)
        try world.archive.remove(whole)
        let names = world.archive.fileNames.filter { $0.hasPrefix("journal-00000002") }
        for name in names.dropFirst() { try world.archive.remove(name) }
        #expect(throws: JournalError.self) { try world.restore(histories[0], behind: 4, timeline: 3) }
        #expect(try world.restore(histories[2], behind: 23, timeline: 3).0.entries == world.entries[3])
    }
}
