import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoRandom
import PandoReactor
import PandoSimulatedDisk
import PandoTime
import PandoTree
import Testing

@testable import PandoStorage

/// Names, retention and schedule of scheduled backups, as tables.
@Suite struct BackupTests {
    static let hour: Int64 = 3_600_000
    static let day: Int64 = 24 * hour

    // MARK: Names

    @Test(
        arguments: [
            (0, "pando-19700101T000000.000Z-1-42.backup"),
            (1_763_923_500_123, "pando-20251123T184500.123Z-1-42.backup"),
            (951_782_399_999, "pando-20000228T235959.999Z-1-42.backup"),
            (951_782_400_000, "pando-20000229T000000.000Z-1-42.backup"),
            (951_868_800_000, "pando-20000301T000000.000Z-1-42.backup"),
            (4_107_542_400_000, "pando-21000301T000000.000Z-1-42.backup"),
            (253_402_300_799_999, "pando-99991231T235959.999Z-1-42.backup"),
        ] as [(Int64, String)])
    func names(milliseconds: Int64, text: String) {
        let name = BackupName(milliseconds: milliseconds, timeline: 1, sequence: SequenceNumber(42))
        #expect(name.text == text)
        #expect(BackupName(text) == name)
    }

    @Test func everyDayHasOneName() {
        var previous = ""
        for day in stride(from: Int64(0), to: 60_000, by: 1) {
            let name = BackupName(milliseconds: day * Self.day, timeline: 1, sequence: SequenceNumber(1))
            #expect(name.text > previous && BackupName(name.text) == name, "\(day)")
            previous = name.text
        }
    }

    @Test(
        arguments: [
            ("", "nothing"), ("pando-1-42.backup", "of a download"),
            ("pando-20251123T184500.123Z-1-42.backup.new", "not finished"),
            ("pando-20251123T184500.123Z-01-42.backup", "a leading zero"),
            ("pando-20251123T184500.123Z-1--42.backup", "a negative sequence"),
            ("pando-20250230T184500.123Z-1-42.backup", "the 30th of February"),
            ("pando-20251323T184500.123Z-1-42.backup", "the 13th month"),
            ("pando-20251123T246000.123Z-1-42.backup", "the 24th hour"),
            ("pando-20251123T184500.12xZ-1-42.backup", "no digit"),
            ("pando-20251123T184500.123Z-4294967296-42.backup", "a timeline that does not fit"),
            ("pando-20251123T184500.123Z-1-18446744073709551616.backup", "a sequence that does not fit"),
            ("monday.backup", "another file"),
        ])
    func otherNames(text: String, reason: String) {
        #expect(BackupName(text) == nil, "\(reason)")
    }

    // MARK: Retention

    @Test(
        arguments: [
            ("24,7,4", BackupRetention(hours: 24, days: 7, weeks: 4)),
            ("0,0,0", BackupRetention(hours: 0, days: 0, weeks: 0)),
            ("100000,1,1", BackupRetention(hours: 100_000, days: 1, weeks: 1)), ("100001,1,1", nil),
            ("24,7", nil),
            ("24,7,4,1", nil), ("24,,4", nil), ("24, 7, 4", nil), ("-1,7,4", nil), ("a,7,4", nil), ("", nil),
            ("99999999999999999999,1,1", nil),
        ] as [(String, BackupRetention?)])
    func retentionTexts(text: String, retention: BackupRetention?) {
        #expect(BackupRetention(text) == retention)
    }

    /// 2025-11-24 was a Monday.
    static let monday: Int64 = 20_416 * day

    /// A backup at this hour since that Monday.
    static func name(_ hour: Double) -> BackupName {
        BackupName(
            milliseconds: monday + Int64(hour * Double(Self.hour)), timeline: 1, sequence: SequenceNumber(1))
    }

    @Test(
        arguments: [
            // keep     hours since that Monday         kept                  because
            ("24,7,4", [], [], "there are none"),
            ("0,0,0", [1, 2, 3], [3], "the newest is always kept"),
            ("2,0,0", [1, 2, 3], [2, 3], "the last two hours"),
            ("2,0,0", [1, 2.1, 2.2, 2.9], [1, 2.9], "the newest of each hour"),
            ("2,0,0", [1, 500], [1, 500], "hours without a backup do not count"),
            ("1,2,0", [1, 23.9, 24, 47, 48.5], [47, 48.5], "the newest of a day"),
            ("0,2,0", [1, 23.9, 24, 47], [23.9, 47], "a day ends at midnight"),
            ("0,0,2", [-1, 0, 167.9, 168], [167.9, 168], "a week begins on Monday"),
            ("0,0,3", [-1, 0, 167.9, 168], [-1, 167.9, 168], "and has seven days"),
            ("2,2,3", [-200, -30, -20, 1, 2, 3], [-200, -20, 2, 3], "all together"),
        ] as [(String, [Double], [Double], String)])
    func retention(keep: String, hours: [Double], kept: [Double], reason: String) throws {
        let names = hours.map(Self.name)
        let superfluous = try #require(BackupRetention(keep)).superfluous(
            among: names.shuffled(), at: .max)
        #expect(Set(names).subtracting(superfluous) == Set(kept.map(Self.name)), "\(reason)")
        #expect(superfluous == superfluous.sorted())
    }

    /// What the newest that has passed a restore test keeps is kept, too.
    @Test(
        arguments: [
            // keep     hours since that Monday   tested   kept
            ("2,0,0", [1, 2, 3, 4, 5], 5, [4, 5]), ("2,0,0", [1, 2, 3, 4, 5], 3, [2, 3, 4, 5]),
            ("2,0,0", [1, 2, 3, 4, 5], 1, [1, 4, 5]), ("0,2,0", [1, 30, 60, 90], 30, [1, 30, 60, 90]),
            ("1,0,0", [1, 2, 3], 2.5, [2, 3]), ("0,0,0", [1, 2, 3], 1, [1, 3]),
        ] as [(String, [Double], Double, [Double])])
    func retentionKeepsWhatPassedARestoreTest(
        keep: String, hours: [Double], tested: Double, kept: [Double]
    ) throws {
        let names = hours.map(Self.name)
        let superfluous = try #require(BackupRetention(keep)).superfluous(
            among: names.shuffled(), tested: Self.name(tested), at: .max)
        #expect(Set(names).subtracting(superfluous) == Set(kept.map(Self.name)))
    }

    /// A day between two hourly backups counts as two hours: a clock that jumps makes nothing old.
    @Test(
        arguments: [
            // keep       hours since that Monday       ages in hours
            ("24,7,4", [1, 2, 3], [2, 1, 0]), ("24,7,4", [1, 2, 9000], [3, 2, 0]),
            ("24,7,4", [1, 9000, 9001], [3, 1, 0]), ("1,7,4", [1, 25, 49], [48, 24, 0]),
            ("1,7,4", [1, 25, 9000], [72, 48, 0]), ("1,0,4", [1, 9000], [336, 0]), ("24,7,4", [5], [0]),
        ] as [(String, [Double], [Int64])])
    func ages(keep: String, hours: [Double], ages: [Int64]) throws {
        let names = hours.map(Self.name)
        let found = try #require(BackupRetention(keep)).ages(
            of: names.shuffled(), every: Self.hour, at: .max)
        #expect(names.map { (found[$0]?.milliseconds ?? -1) / Self.hour } == ages)
        #expect(names.allSatisfy { found[$0]?.time == $0.milliseconds })
    }

    /// A clock that was wrong, and is right now: each backup has the sequence of its place in the row.
    @Test(
        arguments: [
            // keep     hours since that Monday             now  kept                 because
            ("2,0,0", [1, 2, 3, 4], 4, [3, 4], "a clock that was right"),
            ("2,0,0", [1, 2, 900, 3, 4], 4, [900, 3, 4], "one of a time to come takes no place"),
            ("2,0,0", [1, 900, 901, 902, 2, 3], 3, [901, 902, 2, 3], "and as many of them are kept"),
            ("2,0,0", [900, 901, 902, 2, 3], 902, [2, 3], "when that time has come they are the oldest"),
            ("2,0,0", [900, 901, 902, 2], 902, [902, 2], "where no others are there"),
            ("3,0,0", [900, 901, 1, 902, 2, 3], 950, [902, 2, 3], "and in the order of the journal"),
            ("2,0,0", [1, 2, 3, -9000], -9000, [2, 3, -9000], "a clock that is behind removes no more"),
            ("2,0,0", [1, 2, 3, -9000, 4, 5], 5, [4, 5], "and is not missed when it is right again"),
        ] as [(String, [Double], Double, [Double], String)])
    func retentionBesideAWrongClock(
        keep: String, hours: [Double], now: Double, kept: [Double], reason: String
    ) throws {
        let names = Self.names(hours)
        let time = Self.monday + Int64(now * Double(Self.hour))
        let superfluous = try #require(BackupRetention(keep)).superfluous(among: names.shuffled(), at: time)
        let left = names.filter { !superfluous.contains($0) }
        #expect(left.map { Double($0.milliseconds - Self.monday) / Double(Self.hour) } == kept, "\(reason)")
    }

    /// Backups at these hours since that Monday, one behind the other in the journal.
    static func names(_ hours: [Double]) -> [BackupName] {
        hours.enumerated().map { index, hour in
            BackupName(
                milliseconds: monday + Int64(hour * Double(Self.hour)), timeline: 1,
                sequence: SequenceNumber(UInt64(index) + 1))
        }
    }

    @Test(
        arguments: [
            // hours since that Monday      now   ages in hours          latest times
            ([1, 2, 900, 3, 4], 4, [3, 2, 1, 1, 0], [1, 2, 3, 3, 4]),
            ([1, 2, 900, 3, 4], 1000, [3, 2, 1, 1, 0], [1, 2, 3, 3, 4]),
            ([1, 2, 900], 4, [3, 2, 0], [1, 2, 4]),
            ([900, 901, 902], 4, [0, 0, 0], [4, 4, 4]),
            ([2, 3, -9000], -9000, [0, 0, 0], [-9000, -9000, -9000]),
        ] as [([Double], Double, [Int64], [Double])])
    func agesBesideAWrongClock(hours: [Double], now: Double, ages: [Int64], times: [Double]) {
        let names = Self.names(hours)
        let time = Self.monday + Int64(now * Double(Self.hour))
        let found = BackupRetention(hours: 24, days: 7, weeks: 4).ages(
            of: names.shuffled(), every: Self.hour, at: time)
        #expect(names.map { (found[$0]?.milliseconds ?? -1) / Self.hour } == ages)
        #expect(
            names.map { Double((found[$0]?.time ?? 0) - Self.monday) / Double(Self.hour) } == times)
    }

    /// Which of right-dated backups are kept, found in another way: of each of the newest periods the last.
    static func keptByAPlainModel(_ names: [BackupName], _ retention: BackupRetention) -> Set<BackupName> {
        var kept: Set<BackupName> = []
        for (count, length, offset) in [
            (retention.hours, hour, 0), (retention.days, day, 0), (retention.weeks, 7 * day, 3 * day),
        ] {
            let periods = Dictionary(grouping: names) { ($0.milliseconds + offset) / length }
            for period in periods.keys.sorted(by: >).prefix(count) {
                if let last = periods[period]?.max(by: { $0.sequence < $1.sequence }) { kept.insert(last) }
            }
        }
        return kept
    }

    /// A clock that is ahead at times: the backups of a right clock are kept as if there were no others, and
    /// no backup counts as older than it is.
    @Test(arguments: 0..<300 as Range<UInt64>)
    func aClockThatIsAheadAtTimes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let retention = BackupRetention(
            hours: Int.random(in: 1...6, using: &random), days: Int.random(in: 0...5, using: &random),
            weeks: Int.random(in: 0...4, using: &random))
        var (now, lead) = (Self.monday, Int64(0))
        var made: [(name: BackupName, time: Int64, isRight: Bool)] = []
        for number in 1...UInt64.random(in: 1...120, using: &random) {
            now += Int64.random(in: 1...3 * Self.hour, using: &random)
            if Int.random(in: 0..<10, using: &random) == 0 {
                lead = Bool.random(using: &random) ? 0 : Int64.random(in: 1...90 * Self.day, using: &random)
            }
            let name = BackupName(
                milliseconds: now + lead, timeline: 1, sequence: SequenceNumber(number))
            made.append((name, now, lead == 0))
        }
        let names = made.map { $0.name }
        let ages = retention.ages(of: names.shuffled(using: &random), every: Self.hour, at: now)
        for (name, time, _) in made {
            let age = ages[name]
            #expect(age.map { $0.milliseconds <= now - time && $0.time >= time } ?? false)
        }
        let inOrder = names.reversed().map { ages[$0]?.milliseconds ?? -1 }
        #expect(inOrder == inOrder.sorted())
        // Names of a time that has come since are among those of a right clock.
        let settled = made.filter { $0.isRight || $0.name.isAhead(of: now) }.map { $0.name }
        let superfluous = Set(retention.superfluous(among: settled.shuffled(using: &random), at: now))
        let right = settled.filter { !$0.isAhead(of: now) }
        let kept = Set(right).subtracting(superfluous)
        let newest = Set([settled.last].compactMap { $0 }).intersection(right)
        #expect(kept == Self.keptByAPlainModel(right, retention).union(newest))
        let ahead = settled.filter { $0.isAhead(of: now) && !superfluous.contains($0) }
        #expect(ahead.count <= retention.hours + retention.days + retention.weeks + 1)
    }

    /// What a restore has left is kept beside what comes behind it.
    @Test func newestOfTheLastTimelines() {
        let names = (1...6 as ClosedRange<UInt32>).flatMap { timeline in
            (0..<2 as Range<Int64>).map { minute in
                BackupName(
                    milliseconds: Self.monday + Int64(timeline) * 120_000 + minute * 60_000,
                    timeline: timeline,
                    sequence: SequenceNumber(7))
            }
        }
        let superfluous = BackupRetention(hours: 1, days: 1, weeks: 1).superfluous(
            among: names, at: .max)
        #expect(Set(names).subtracting(superfluous).map(\.timeline).sorted() == [3, 4, 5, 6])
    }

    /// A backup each second for weeks, removed as they come: what is left is bounded, and reaches back.
    @Test func backupsOfEachMinuteForWeeks() throws {
        let retention = BackupRetention()
        var names: [BackupName] = []
        for minute in stride(from: 0, to: 40 * 24 * 60, by: 7) {
            let time = Self.monday + Int64(minute) * 60_000
            names.append(
                BackupName(milliseconds: time, timeline: 1, sequence: SequenceNumber(UInt64(minute))))
            let superfluous = Set(retention.superfluous(among: names, at: .max))
            names.removeAll { superfluous.contains($0) }
            #expect(names.count <= 24 + 7 + 4)
        }
        let ages = names.map { (names[names.count - 1].milliseconds - $0.milliseconds) / Self.hour }
        #expect(ages.filter { $0 < 24 }.count >= 24 && ages.filter { $0 < 8 * 24 }.count >= 28)
        #expect(ages.max() ?? 0 >= 18 * 24)
    }

    // MARK: Schedule

    @Test(
        arguments: [
            // every  age      due at start  asked at          begun at
            (10, nil, 0, [0, 5, 10, 20], [0, 10, 20]),
            (10, 4, 6, [0, 6, 16], [6, 16]),
            (10, 12, 0, [0, 10], [0, 10]),
            (10, -5, 0, [0, 10], [0, 10]),
            (10, nil, 0, [0, 35, 36, 40], [0, 35, 40]),
            (1, nil, 0, [0, 1, 2, 3], [0, 1, 2, 3]),
        ] as [(Int, Int?, Int, [Int], [Int])])
    func schedule(every: Int, age: Int?, due: Int, asked: [Int], begun: [Int]) {
        func time(_ seconds: Int) -> MonotonicTime {
            MonotonicTime(nanoseconds: UInt64(seconds + 100) * 1_000_000_000)
        }
        var schedule = BackupSchedule(
            every: .seconds(every), newestIsOld: age.map { .seconds($0) }, at: time(0))
        #expect(schedule.due == time(due))
        #expect(asked.filter { schedule.beginIfDue(at: time($0)) } == begun)
    }

    /// A directory that is not there is looked for each minute, and the rhythm is kept afterwards.
    @Test func missingDirectoryIsLookedForEachMinute() {
        func time(_ seconds: Int) -> MonotonicTime {
            MonotonicTime(nanoseconds: UInt64(seconds + 100) * 1_000_000_000)
        }
        var schedule = BackupSchedule(every: .seconds(3600), newestIsOld: nil, at: time(0))
        let begun = schedule.beginIfDue(at: time(0))
        schedule.postpone(at: time(0))
        #expect(begun && schedule.due == time(60))
        let begunAgain = schedule.beginIfDue(at: time(60))
        #expect(begunAgain && schedule.due == time(3660))
    }
}

/// Scheduled backups on simulated disks.
@Suite struct BackupWriterTests {
    final class World: @unchecked Sendable {
        let disk = SimulatedDisk()
        let archive = SimulatedDisk()
        let metrics = BackupMetrics()
        let cancelled = CancellationFlag()
        var tests: [RestoreTest.Job] = []
        var cleanCount = 0
        var outcome = RestoreTest.Outcome.passed("fine")
        var archiveOutcome = RestoreTest.Outcome.passed("fine")
        var options = BackupOptions()
        var timeline: TimelineHistory?
        let mark = JournalMark()
        /// Nil trims the archive at once.
        var trimArchive: ((ArchiveTrim) -> Void)?

        init() {
            disk.add("LOCK", [])
            options.interval = .seconds(3600)
        }

        lazy var writer = BackupWriter<SimulatedDisk>(
            options, open: { [disk] in disk },
            trimArchive: trimArchive ?? { [archive, metrics] trim in
                ArchiveTrimmer<SimulatedDisk>(
                    metrics: metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                ).trim(archive, trim)
            },
            test: RestoreTest(
                run: { [unowned self] job in
                    tests.append(job)
                    return job.archive == nil ? outcome : archiveOutcome
                }, clean: { [unowned self] _ in cleanCount += 1 }),
            timeline: timeline, mark: mark, metrics: metrics,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            cancelled: cancelled, archiveTimeout: .zero)

        static func snapshot(at milliseconds: Int64, _ json: String = #"{"a":{"b":1,".priority":2}}"#) throws
            -> Snapshot
        {
            let database = StoredDatabase(id: 1, name: "default", access: .open)
            database.engine.tree.restore(Change(path: .root, node: try Node(json: Array(json.utf8).rawSpan)))
            return Snapshot([database], nextNamespace: 2, time: milliseconds)
        }

        func job(at milliseconds: Int64, sequence: UInt64 = 7, timeline: UInt32 = 1) throws -> CheckpointJob {
            CheckpointJob(
                header: CheckpointHeader(
                    directory: DirectoryID(1, 2), timeline: timeline, sequence: SequenceNumber(sequence),
                    timestamp: milliseconds), snapshot: try Self.snapshot(at: milliseconds))
        }

        var backups: [String] { disk.fileNames.filter { $0.hasSuffix(".backup") } }

        func testCount(_ end: BackupMetrics.RestoreTestEnd) -> UInt64 {
            metrics.testCount(end, of: .backup)
        }
    }

    @Test func backupIsWhatWasGiven() throws {
        let world = World()
        #expect(try world.writer.write(world.job(at: 1_763_923_500_123)))
        #expect(world.backups == ["pando-20251123T184500.123Z-1-7.backup"])
        var state = RecoveredState(access: .locked)
        let (header, byteCount, _) = try readCheckpoint(world.backups[0], on: world.disk, into: &state)
        #expect(header.sequence == SequenceNumber(7) && !header.beginsJournal)
        #expect(
            state.database(named: "default")?.root[Path(stringLiteral: "/a/b")] == .integer(1))
        #expect(
            world.metrics.backups.value(of: .written) == 1 && world.metrics.backups.value(of: .failed) == 0)
        #expect(world.metrics.lastSuccessTime.value == 1_763_923_500)
        #expect(world.metrics.lastByteCount.value == byteCount)
    }

    /// Any failing call leaves no file that looks like a backup and is none; the next backup works.
    @Test func everyFailureIsCountedAndTheNextWorks() throws {
        let good = World()
        good.writer.write(try good.job(at: 1000))
        #expect(good.disk.operationCount > 6)
        for operation in 0..<good.disk.operationCount {
            let world = World()
            world.disk.failingOperation = operation
            let isWritten = world.writer.write(try world.job(at: 1000))
            #expect(
                world.metrics.backups.value(of: .failed) == (isWritten ? 0 : 1), "call \(operation)")
            for name in world.backups where BackupName(name) != nil {
                var state = RecoveredState(access: .locked)
                _ = try readCheckpoint(name, on: world.disk, into: &state)
            }
            world.disk.failingOperation = nil
            #expect(world.writer.write(try world.job(at: 2000)), "call \(operation)")
            #expect(world.backups.contains(BackupName(try world.job(at: 2000).header).text))
        }
    }

    @Test func cancelledBackupIsNoFailure() throws {
        let world = World()
        world.cancelled.isSet = true
        #expect(try !world.writer.write(world.job(at: 1000)))
        #expect(world.backups.isEmpty && world.metrics.backups.value(of: .failed) == 0)
    }

    @Test func superfluousBackupsAreRemovedAndOtherFilesStay() throws {
        let world = World()
        world.options.retention = BackupRetention(hours: 2, days: 0, weeks: 0)
        world.disk.add("monday.backup", [1])
        world.disk.add("pando-1-42.backup", [2])
        for hour in 0..<5 {
            for minute in 0..<3 {
                world.writer.write(try world.job(at: Int64(hour) * 3_600_000 + Int64(minute) * 60_000))
            }
        }
        #expect(
            world.backups == [
                "monday.backup", "pando-1-42.backup", "pando-19700101T030200.000Z-1-7.backup",
                "pando-19700101T040200.000Z-1-7.backup",
            ])
    }

    /// An empty data directory, as where its disk is not mounted, does not take another one's backups for its
    /// own; those of the directories that it was restored from are its own.
    @Test func backupsOfOtherDirectoriesAreNotCountedAndStay() throws {
        let world = World()
        world.timeline = TimelineHistory(
            timeline: 2, directory: DirectoryID(1, 2),
            ancestors: [.init(timeline: 1, directory: DirectoryID(5, 6), end: SequenceNumber(3))])
        world.options.retention = BackupRetention(hours: 1, days: 0, weeks: 0)
        func add(_ milliseconds: Int64, _ directory: DirectoryID, _ timeline: UInt32) -> String {
            let header = CheckpointHeader(
                directory: directory, timeline: timeline, sequence: SequenceNumber(2), timestamp: milliseconds
            )
            world.disk.add(BackupName(header).text, header.bytes)
            return BackupName(header).text
        }
        let foreign = [add(1000, DirectoryID(3, 4), 1), add(2000, DirectoryID(3, 4), 2)]
        let replaced = add(3000, DirectoryID(5, 6), 1)
        let ancestor = add(4000, DirectoryID(5, 6), 1)
        let damaged = BackupName(milliseconds: 5000, timeline: 2, sequence: SequenceNumber(1)).text
        world.disk.add(damaged, [1])
        let old = add(6000, DirectoryID(1, 2), 2)
        #expect(world.writer.write(try world.job(at: 60_000, timeline: 2)))
        let own = BackupName(milliseconds: 60_000, timeline: 2, sequence: SequenceNumber(7)).text
        #expect(world.backups == foreign + [ancestor, damaged, own])
        #expect(!world.backups.contains(replaced) && !world.backups.contains(old))
        let owners = BackupOwners(
            of: world.backups.compactMap { BackupName($0) }, on: world.disk,
            timeline: try #require(world.timeline))
        #expect(owners.own.map(\.name.text) == [ancestor, own])
        #expect(owners.unreadable.map(\.name.text) == [damaged])
        #expect(world.metrics.unreadableBackups.value == 1)
        #expect(
            owners.foreign.map(\.name.text) == foreign && owners.foreign[0].directory == DirectoryID(3, 4))
    }

    /// A server in memory has made those of its own snapshots, and no others: none of an earlier start, and
    /// none of a data directory.
    @Test func aServerInMemoryRemovesOnlyItsOwnBackups() throws {
        let world = World()
        world.options.retention = BackupRetention(hours: 1, days: 0, weeks: 0)
        let header = CheckpointHeader(
            directory: DirectoryID(3, 4), timeline: 1, sequence: SequenceNumber(8), timestamp: 1000)
        world.disk.add(BackupName(header).text, header.bytes)
        for number in 2...4 as ClosedRange<Int64> {
            #expect(world.writer.write(try world.job(at: number * 1000)))
        }
        let own = BackupName(try world.job(at: 4000).header).text
        #expect(world.backups == [BackupName(header).text, own])
    }

    /// What cannot be read, or not be removed, keeps nothing else from being removed.
    @Test func filesThatFailDoNotStopTheRotation() throws {
        let world = World()
        let disk = PartlyFailingDisk(base: world.disk)
        world.options.retention = BackupRetention(hours: 1, days: 0, weeks: 0)
        let names = try (1...3 as ClosedRange<Int64>).map { number in
            let header = try world.job(at: number * 1000, sequence: UInt64(number)).header
            world.disk.add(BackupName(header).text, header.bytes)
            return BackupName(header).text
        }
        disk.unreadable = names[0]
        disk.unremovable = names[1]
        var writer = BackupWriter<PartlyFailingDisk>(
            world.options, open: { disk },
            test: RestoreTest(run: { _ in .passed("fine") }, clean: { _ in }), metrics: world.metrics,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, cancelled: world.cancelled)
        let isWritten = writer.write(try world.job(at: 60_000, sequence: 9))
        #expect(isWritten)
        let own = BackupName(try world.job(at: 60_000, sequence: 9).header).text
        #expect(world.backups == [names[0], names[1], own])
        #expect(world.metrics.unreadableBackups.value == 1)
        #expect(world.metrics.removalFailures.value == 1)
        (disk.unreadable, disk.unremovable) = (nil, nil)
        let isWrittenAgain = writer.write(try world.job(at: 61_000, sequence: 10))
        #expect(isWrittenAgain)
        #expect(world.backups == [BackupName(try world.job(at: 61_000, sequence: 10).header).text])
        #expect(world.metrics.unreadableBackups.value == 0)
    }

    /// The rotation of backups and that of the archive need the same headers.
    @Test func headerOfEachBackupIsReadOnce() throws {
        let world = World()
        let disk = PartlyFailingDisk(base: world.disk)
        world.options.archiveKeepTime = .seconds(3600)
        let names = try (1...3 as ClosedRange<Int64>).map { number in
            let header = try world.job(at: number * 3_600_000, sequence: UInt64(number)).header
            world.disk.add(BackupName(header).text, header.bytes)
            return BackupName(header).text
        }
        var trims: [ArchiveTrim] = []
        var writer = BackupWriter<PartlyFailingDisk>(
            world.options, open: { disk }, trimArchive: { trims.append($0) },
            test: RestoreTest(run: { _ in .passed("fine") }, clean: { _ in }), metrics: world.metrics,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, cancelled: world.cancelled)
        let isWritten = writer.write(try world.job(at: 4 * 3_600_000, sequence: 9))
        #expect(isWritten)
        #expect(trims.map { $0.backups.map(\.header.sequence.rawValue).sorted() } == [[1, 2, 3, 9]])
        for name in names { #expect(disk.opened.count { $0 == name } == 1, "\(name)") }
    }

    /// A restore test of the archive begins with a backup of this data directory.
    @Test func restoreTestOfTheArchiveIgnoresBackupsOfOtherDirectories() throws {
        let world = World()
        world.timeline = TimelineHistory(timeline: 1, directory: DirectoryID(1, 2))
        world.options.testInterval = 1
        world.options.archiveDirectory = "/archive"
        world.mark.archived = SequenceNumber(0)...SequenceNumber(9)
        let header = CheckpointHeader(
            directory: DirectoryID(3, 4), timeline: 1, sequence: SequenceNumber(8), timestamp: 1000)
        world.disk.add(BackupName(header).text, header.bytes)
        #expect(world.writer.write(try world.job(at: 60_000, sequence: 9)))
        #expect(world.tests.map { BackupName($0.file)?.sequence.rawValue } == [9, 9])
    }

    @Test(
        arguments: [
            (0, [], "never"), (1, [1, 2, 3, 4, 5, 6], "each"), (3, [3, 6], "every third"), (7, [], "not yet"),
        ] as [(Int, [Int], String)])
    func restoreTests(every: Int, tested: [Int], reason: String) throws {
        let world = World()
        world.options.testInterval = every
        for number in 1...6 { world.writer.write(try world.job(at: Int64(number) * 1000)) }
        let expected = tested.map { "pando-19700101T00000\($0).000Z-1-7.backup" }
        #expect(world.tests.map(\.file) == expected, "\(reason)")
        #expect(world.testCount(.passed) == UInt64(tested.count))
        #expect(world.cleanCount == tested.count, "what a killed one has left is removed before each")
    }

    /// After a failed restore test the next backup is tested, too; the digest is that of the state.
    @Test func failedRestoreTestIsRepeated() throws {
        let world = World()
        world.options.testInterval = 3
        for number in 1...3 { world.writer.write(try world.job(at: Int64(number) * 1000)) }
        world.outcome = .failed("different")
        for number in 4...7 { world.writer.write(try world.job(at: Int64(number) * 1000)) }
        #expect(world.tests.count == 3)
        #expect(world.testCount(.passed) == 1 && world.testCount(.failed) == 2)
        var state = RecoveredState(access: .locked)
        _ = try readCheckpoint(try #require(world.backups.last), on: world.disk, into: &state)
        #expect(world.tests.last?.digest == SnapshotDigest.text(of: state))
    }

    /// While restore tests fail, the newest backup that has passed one stays, with what it keeps; also for a
    /// new process.
    @Test func backupThatPassedIsKeptWhileOthersFail() throws {
        let world = World()
        world.options.retention = BackupRetention(hours: 2, days: 0, weeks: 0)
        world.options.testInterval = 1
        for hour in 1...4 as ClosedRange<Int64> {
            world.writer.write(try world.job(at: hour * 3_600_000, sequence: UInt64(hour)))
        }
        world.outcome = .failed("different")
        for hour in 5...9 as ClosedRange<Int64> {
            world.writer.write(try world.job(at: hour * 3_600_000, sequence: UInt64(hour)))
        }
        #expect(world.backups.compactMap { BackupName($0)?.sequence.rawValue } == [3, 4, 8, 9])
        world.outcome = .passed("fine")
        world.writer.write(try world.job(at: 10 * 3_600_000, sequence: 10))
        #expect(world.backups.compactMap { BackupName($0)?.sequence.rawValue } == [9, 10])
    }

    /// With an archive, the backup before is restored up to the newest one, from what is archived.
    @Test(
        arguments: [
            // earlier backups: (timeline, sequence)   archived        restored with the archive: behind, up to
            ([(1, 3), (1, 5)], 0, 9, 5), ([], 0, 9, 9), ([(1, 3), (1, 5)], 5, 9, 5),
            ([(1, 3), (1, 5)], 6, 9, 9), ([(1, 3), (2, 8)], 0, 30, 3), ([(1, 3)], 0, 8, nil),
        ] as [([(UInt32, UInt64)], UInt64, UInt64, UInt64?)])
    func restoreTestWithArchive(
        earlier: [(UInt32, UInt64)], begin: UInt64, end: UInt64, restored: UInt64?
    ) throws {
        let world = World()
        world.options.testInterval = earlier.count + 1
        world.options.archiveDirectory = "/archive"
        world.mark.archived = SequenceNumber(begin)...SequenceNumber(end)
        for (index, (timeline, sequence)) in earlier.enumerated() {
            world.writer.write(
                try world.job(at: Int64(index) * 1000, sequence: sequence, timeline: timeline))
        }
        world.writer.write(try world.job(at: 60_000, sequence: 9))
        let job = world.tests.last { $0.archive != nil }
        #expect(job.flatMap { BackupName($0.file)?.sequence.rawValue } == restored)
        #expect(world.metrics.testCount(.passed, of: .archive) == (restored == nil ? 0 : 1))
        #expect(world.metrics.testCount(.failed, of: .archive) == (restored == nil ? 1 : 0))
        #expect((world.metrics.lastTestTime.value > 0) == (restored != nil))
        guard let job else { return }
        #expect(job.archive == RestoreTest.Archive(directory: "/archive", sequence: SequenceNumber(9)))
        #expect(job.digest == world.tests[0].digest)
    }

    @Test func failedRestoreTestOfTheArchiveIsCountedAndRepeated() throws {
        let world = World()
        world.options.testInterval = 2
        world.options.archiveDirectory = "/archive"
        world.mark.archived = .zero...SequenceNumber(100)
        world.archiveOutcome = .failed("a gap")
        for number in 1...4 as ClosedRange<UInt64> {
            world.writer.write(try world.job(at: Int64(number) * 1000, sequence: number))
        }
        #expect(world.metrics.testCount(.failed, of: .archive) == 3)
        #expect(world.testCount(.passed) == 3 && world.metrics.lastTestTime.value == 0)
    }

    @Test func digestsDiffer() throws {
        let texts = [
            #"{"a":1}"#, #"{"a":2}"#, #"{"a":1.5}"#, #"{"a":{".value":1,".priority":1}}"#, #"{"b":1}"#,
            "null",
        ]
        let digests = try texts.map { text in
            var digest = SnapshotDigest()
            try World.snapshot(at: 1, text).forEachRecord { digest.add($0, namespace: $1, payload: $2) }
            return digest.finish()
        }
        #expect(Set(digests).count == texts.count)
        #expect(digests.allSatisfy { $0.utf8.count == 40 })
    }

    /// A backup of timeline 1 on each of these days, behind the record of that day.
    static func daily(_ days: ClosedRange<Int64>) -> [(Int64, UInt32, UInt64)] {
        days.map { ($0, 1, UInt64($0) + 1) }
    }

    /// Archives a segment for each of ten days.
    /// - Returns: How far the journal is on `source`.
    @discardableResult
    static func fillArchive(
        of world: World, from source: SimulatedDisk = SimulatedDisk(),
        of directory: DirectoryID = DirectoryID(1, 2)
    ) throws -> JournalPosition {
        var options = JournalOptions()
        options.segmentByteLimit = 60
        var state = RecoveredState(access: .open)
        var journal = try Journal.open(
            on: source, newDirectoryID: directory, options: options, into: &state)
        for number in 0..<10 as Range<Int64> {
            try journal.append(
                entry: [
                    JournalRecord(
                        .settings, namespace: 1, timestamp: number * BackupTests.day, payload: [1, 65, 66])
                ])
            try journal.write()
            try journal.sync()
        }
        let names = source.fileNames.filter { $0.hasSuffix(".log") }
        try #require(names.count == 10)
        for name in names {
            world.archive.add(
                name == names[9] ? name + ".partial" : name, try #require(source.contents[name]))
        }
        return journal.writtenPosition
    }

    /// A backup of each of ten days, of which three are kept in the archive.
    private static func makeBackups(of world: World) throws {
        world.options.archiveKeepTime = .seconds(3 * 86_400)
        world.options.retention = BackupRetention(hours: 0, days: 100, weeks: 0)
        world.options.interval = .seconds(86_400)
        for (number, timeline, sequence) in daily(0...8) {
            let header = CheckpointHeader(
                directory: DirectoryID(1, 2), timeline: timeline, sequence: SequenceNumber(sequence),
                timestamp: number * BackupTests.day)
            world.disk.add(BackupName(header).text, header.bytes)
        }
        #expect(try world.writer.write(world.job(at: 9 * BackupTests.day, sequence: 10)))
    }

    /// Without a history in the archive, nothing but the segments says whose they are.
    @Test func backupsCoverNoSegmentsOfAnotherDirectory() throws {
        let world = World()
        try Self.fillArchive(of: world, of: DirectoryID(3, 4))
        try Self.makeBackups(of: world)
        #expect(world.archive.fileNames.count == 10)
    }

    /// From an archive that contradicts the journal nothing is removed, whatever the backups cover; a disk
    /// that is only not there is tried again.
    @Test(
        arguments: [
            // sequences of the journal that are left   is removed from
            (10, true, "its own archive"), (4, false, "an archive that is ahead"),
        ] as [(Int, Bool, String)])
    func onlyTheArchiveOfTheJournalIsTrimmed(count: Int, isTrimmed: Bool, reason: String) throws {
        let world = World()
        let latest = ArchiveTrim.Latest()
        world.trimArchive = { latest.set($0) }
        let source = SimulatedDisk()
        var position = try Self.fillArchive(of: world, from: source)
        for name in source.fileNames.filter({ $0.hasSuffix(".log") }).dropFirst(count) {
            try source.remove(name)
        }
        if count < 10 {
            let name = SegmentName(timeline: 1, firstSequence: SequenceNumber(UInt64(count)))
            position = JournalPosition(
                segment: name, byteOffset: try #require(source.contents[name.text]).count,
                sequence: SequenceNumber(UInt64(count)))
        }
        try Self.makeBackups(of: world)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let metrics = world.metrics
        var isThere = false
        var copier = ArchiveCopier<SimulatedDisk>(
            open: { [archive = world.archive] () throws(BackupDirectory.Failure) in
                guard isThere else { throw .missing("not mounted") }
                let timeline = TimelineHistory(timeline: 1, directory: DirectoryID(1, 2))
                return JournalArchive(of: source, in: archive, timeline: timeline)
            }, metrics: metrics, logger: logger)
        let trimmer = ArchiveTrimmer<SimulatedDisk>(metrics: metrics, logger: logger)
        let isTrimmedAtOnce = copier.trim(latest, with: trimmer, at: position)
        isThere = true
        let isDone = copier.trim(latest, with: trimmer, at: position)
        #expect(!isTrimmedAtOnce && isDone == isTrimmed, "\(reason)")
        #expect(world.archive.fileNames.count == (isTrimmed ? 3 : 10), "\(reason)")
        #expect(metrics.archiveFailures.value(of: .conflict) == (isTrimmed ? 0 : 1))
    }

    /// What only the look at older files has met keeps nothing from being copied.
    @Test func failedTrimStopsNoCopying() throws {
        let world = World()
        let latest = ArchiveTrim.Latest()
        world.trimArchive = { latest.set($0) }
        let source = SimulatedDisk()
        let position = try Self.fillArchive(of: world, from: source)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        var isThere = true
        var copier = ArchiveCopier<SimulatedDisk>(
            open: { [archive = world.archive] () throws(BackupDirectory.Failure) in
                guard isThere else { throw .damaged("the history cannot be read") }
                let timeline = TimelineHistory(timeline: 1, directory: DirectoryID(1, 2))
                return JournalArchive(of: source, in: archive, timeline: timeline)
            }, metrics: world.metrics, logger: logger)
        let isCopied = copier.copy(upTo: position, at: 1000) { false }
        try Self.makeBackups(of: world)
        isThere = false
        let trimmer = ArchiveTrimmer<SimulatedDisk>(metrics: world.metrics, logger: logger)
        let isTrimmed = copier.trim(latest, with: trimmer, at: position)
        #expect(isCopied && !isTrimmed && world.metrics.archiveRemovalFailures.value == 1)
        #expect(copier.segment != nil && copier.archived != nil, "copies go on")
        #expect(world.metrics.archiveFailures.value(of: .damaged) == 0)
    }

    /// A copy whose first record is damaged, and one without records, do not stop the removal of those before
    /// them.
    @Test(arguments: [0, 2, 5] as [Int], [48, 60])
    func archivedSegmentsThatSayNothing(damaged: Int, byteOffset: Int) throws {
        let world = World()
        world.options.archiveKeepTime = .seconds(3 * 86_400)
        world.options.retention = BackupRetention(hours: 0, days: 100, weeks: 0)
        world.options.interval = .seconds(86_400)
        try Self.fillArchive(of: world)
        let name = SegmentName(timeline: 1, firstSequence: SequenceNumber(UInt64(damaged) + 1)).text
        let bytes = try #require(world.archive.contents[name])
        try world.archive.remove(name)
        // Up to there it is a header, and with less the record is cut.
        world.archive.add(name, Array(bytes.prefix(byteOffset)))
        for (number, timeline, sequence) in Self.daily(0...8) {
            let header = CheckpointHeader(
                directory: DirectoryID(1, 2), timeline: timeline, sequence: SequenceNumber(sequence),
                timestamp: number * BackupTests.day)
            world.disk.add(BackupName(header).text, header.bytes)
        }
        #expect(try world.writer.write(world.job(at: 9 * BackupTests.day, sequence: 10)))
        #expect(
            world.archive.fileNames.first
                == SegmentName(timeline: 1, firstSequence: SequenceNumber(8)).text)
    }

    /// An import and a restore leave a copy without records on a timeline that has ended.
    @Test func unfinishedCopyOfAnEarlierTimelineIsRemoved() throws {
        let world = World()
        world.options.archiveKeepTime = .seconds(86_400)
        world.options.interval = .seconds(86_400)
        world.options.retention = BackupRetention(hours: 0, days: 100, weeks: 0)
        world.timeline = TimelineHistory(
            timeline: 2, directory: DirectoryID(1, 2),
            ancestors: [.init(timeline: 1, directory: DirectoryID(1, 2), end: SequenceNumber(10))])
        try Self.fillArchive(of: world)
        let second = SegmentName(timeline: 2, firstSequence: SequenceNumber(12)).text + ".partial"
        world.archive.add(second, [])
        for day in [20, 21] as [Int64] {
            #expect(
                try world.writer.write(
                    world.job(at: day * BackupTests.day, sequence: UInt64(day), timeline: 2)))
        }
        #expect(world.archive.fileNames == [second])
    }

    /// Archived segments go when they are old enough, and a backup that is, too, has their records.
    @Test(
        arguments: [
            // archive keep  backups  of another data directory  passed a restore test  the first that is left
            (0, daily(0...9), 0..<0, nil, 1, "all are kept"),
            (7, daily(0...9), 0..<0, nil, 4, "before the backup that is seven days old"),
            (3, daily(0...9), 0..<0, nil, 8, "before the backup that is three days old"),
            (3, daily(0...9), 1..<9, nil, 1, "a backup of another data directory has none of the records"),
            (30, daily(0...9), 0..<0, nil, 1, "no backup is as old, and none lies before the oldest"),
            (3, daily(0...9), 0..<0, 2, 4, "before the newest backup that has passed a restore test"),
            (3, daily(0...9), 0..<0, 8, 8, "where that is old enough"),
            (7, [(9, 2, 10)], 0..<0, nil, 3, "of an earlier timeline what is older"),
            (7, [(3, 1, 4), (9, 1, 10)], 0..<0, nil, 1, "days without a server do not count"),
            (7, daily(0...5) + [(9000, 1, 10)], 0..<0, nil, 2, "a clock that has jumped counts two days"),
            (1, daily(0...5) + [(9000, 1, 10)], 0..<0, nil, 7, "and leaves what the newest backups need"),
            (
                3, daily(0...7) + [(40_000, 1, 9), (9, 1, 10)], 0..<0, nil, 8,
                "a clock that was ahead for a day"
            ),
            (
                1, [(40_000, 1, 1), (40_001, 1, 2), (9, 1, 10)], 0..<0, nil, 2,
                "all but one are ahead of time"
            ),
        ] as [(Int, [(Int64, UInt32, UInt64)], Range<Int>, Int?, UInt64, String)])
    func archivedSegments(
        keep: Int, backups: [(Int64, UInt32, UInt64)], foreign: Range<Int>, tested: Int?, left: UInt64,
        reason: String
    ) throws {
        let day: Int64 = 86_400_000
        let world = World()
        world.options.archiveKeepTime = .seconds(keep * 86_400)
        world.options.retention = BackupRetention(hours: 0, days: 100, weeks: 0)
        world.options.interval = .seconds(86_400)
        try Self.fillArchive(of: world)
        for (index, (number, timeline, sequence)) in backups.dropLast().enumerated() {
            let header = CheckpointHeader(
                directory: foreign.contains(index) ? DirectoryID(3, 4) : DirectoryID(1, 2),
                timeline: timeline, sequence: SequenceNumber(sequence), timestamp: number * day)
            world.disk.add(BackupName(header).text, header.bytes)
        }
        if let tested {
            let (number, timeline, sequence) = backups[tested]
            let name = BackupName(
                milliseconds: number * day, timeline: timeline, sequence: SequenceNumber(sequence))
            world.options.testInterval = 1
            world.outcome = .failed("different")
            world.disk.add("restore-test.passed", Array("\(name.text) 5\n".utf8))
        }
        let (number, timeline, sequence) = try #require(backups.last)
        #expect(try world.writer.write(world.job(at: number * day, sequence: sequence, timeline: timeline)))
        #expect(world.archive.fileNames.count == 11 - Int(left), "\(reason)")
        #expect(
            world.archive.fileNames.first
                == SegmentName(timeline: 1, firstSequence: SequenceNumber(left)).text)
    }
}

/// A disk on which one file cannot be read, and one cannot be removed, and that notes what is opened.
private final class PartlyFailingDisk: ForwardingDisk, @unchecked Sendable {
    // Used by one thread.
    let base: SimulatedDisk
    var unreadable: String?
    var unremovable: String?
    private(set) var opened: [String] = []

    init(base: SimulatedDisk) { self.base = base }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
        opened.append(name)
        if name == unreadable { throw failure(.open, name) }
        return try base.open(name, mode)
    }

    func remove(_ name: String) throws(DiskFailure) {
        if name == unremovable { throw failure(.remove, name) }
        try base.remove(name)
    }

    private func failure(_ operation: DiskOperation, _ name: String) -> DiskFailure {
        DiskFailure(operation: operation, path: name, errorNumber: 13, errorText: "Permission denied")
    }
}

/// The archive as its thread keeps it.
@Suite struct ArchiveCopierTests {
    @Test func failuresAreCountedAndTriedAgain() throws {
        let (source, target) = (SimulatedDisk(), SimulatedDisk())
        var state = RecoveredState(access: .open)
        var journal = try Journal.open(on: source, newDirectoryID: DirectoryID(1, 2), into: &state)
        let metrics = BackupMetrics()
        var openings = 0
        var copier = ArchiveCopier<SimulatedDisk>(
            open: {
                openings += 1
                return JournalArchive(
                    of: source, in: target,
                    timeline: TimelineHistory(timeline: 1, directory: DirectoryID(1, 2)))
            }, metrics: metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        #expect(copier.copy(upTo: journal.writtenPosition, at: 5000) { false })
        #expect(metrics.archivedTime.value == 5 && openings == 1)
        try journal.append(
            entry: [JournalRecord(.namespaceMade, namespace: 2, timestamp: 1, payload: Array("two".utf8))])
        try journal.write()
        try journal.sync()
        target.failingOperation = target.operationCount
        #expect(!copier.copy(upTo: journal.writtenPosition, at: 5000) { false })
        #expect(metrics.archiveFailures.value(of: .disk) == 1)
        target.failingOperation = nil
        #expect(copier.copy(upTo: journal.writtenPosition, at: 5000) { false })
        #expect(openings == 2, "opened anew after a failure")
        let name = journal.segmentName
        #expect(target.contents[name + ".partial"] == source.contents[name])
        let operations = target.operationCount
        #expect(copier.copy(upTo: journal.writtenPosition, at: 5000) { false })
        #expect(target.operationCount == operations, "nothing new, nothing to do")
    }

    /// Each reason why the archive cannot be opened is counted as what it is.
    @Test(
        arguments: [
            (.missing("no disk"), .missing), (.inUse("by another process"), .missing),
            (.damaged("a history"), .damaged),
            (
                .disk(DiskFailure(operation: .open, path: "a", errorNumber: 5, errorText: "I/O error")),
                .disk
            ),
        ] as [(BackupDirectory.Failure, BackupMetrics.ArchiveFailure)])
    func archiveThatCannotBeOpened(failure: BackupDirectory.Failure, reason: BackupMetrics.ArchiveFailure)
        throws
    {
        let source = SimulatedDisk()
        var state = RecoveredState(access: .open)
        let journal = try Journal.open(on: source, newDirectoryID: DirectoryID(1, 2), into: &state)
        let metrics = BackupMetrics()
        var copier = ArchiveCopier<SimulatedDisk>(
            open: { () throws(BackupDirectory.Failure) in throw failure }, metrics: metrics,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let isCopied = copier.copy(upTo: journal.writtenPosition, at: 5000) { false }
        #expect(!isCopied)
        for other in BackupMetrics.ArchiveFailure.allCases {
            #expect(metrics.archiveFailures.value(of: other) == (other == reason ? 1 : 0))
        }
    }

    /// An archive that was begun later than the journal does not reach back to its first record, also for a
    /// new process.
    @Test func beginIsThatOfTheArchive() throws {
        let (source, target) = (SimulatedDisk(), SimulatedDisk())
        var state = RecoveredState(access: .open)
        var options = JournalOptions()
        options.segmentByteLimit = 60
        var journal = try Journal.open(
            on: source, newDirectoryID: DirectoryID(1, 2), options: options, into: &state)
        for number in 0..<3 as Range<Int64> {
            try journal.append(
                entry: [JournalRecord(.settings, namespace: 1, timestamp: number, payload: [1, 65, 66])])
            try journal.write()
            try journal.sync()
        }
        try source.remove(SegmentName(timeline: 1, firstSequence: SequenceNumber(1)).text)
        for _ in 0..<2 {
            var copier = ArchiveCopier<SimulatedDisk>(
                open: {
                    JournalArchive(
                        of: source, in: target,
                        timeline: TimelineHistory(timeline: 1, directory: DirectoryID(1, 2)))
                }, metrics: BackupMetrics(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            #expect(copier.copy(upTo: journal.writtenPosition, at: 5000) { false })
            #expect(copier.archived == SequenceNumber(1)...SequenceNumber(3))
        }
    }
}
