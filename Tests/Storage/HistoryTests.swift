import PandoBytes
import PandoEngine
import PandoJournal
import PandoRandom
import PandoRules
import PandoSimulatedDisk
import PandoTree
import Testing

@testable import PandoStorage

/// Histories from the files of a directory that is being written, against a plain list of all that was
/// written.
@Suite struct HistoryTests {
    /// One database that is written to a simulated disk, with segments of some KiB; and the same in plain
    /// words.
    final class World {
        let disk = SimulatedDisk()
        var journal: Journal<SimulatedDisk>
        let database = StoredDatabase(id: 1, name: "default", access: .open)
        let other = StoredDatabase(id: 2, name: "other", access: .open)
        var time: Int64 = 1_000_000
        /// The tree behind each write, and what wrote it.
        var moments:
            [(time: Int64, sequence: SequenceNumber, root: Node, path: Path, credential: Credential)] = []
        var checkpointTimes: [Int64] = []

        init(segmentByteLimit: Int = 4 << 10) throws {
            var options = JournalOptions()
            options.segmentByteLimit = segmentByteLimit
            options.reservationByteCount = 1 << 10
            var state = RecoveredState(access: .open)
            journal = try Journal.open(
                on: disk, newDirectoryID: DirectoryID(1, 2), options: options, into: &state)
            _ = try journal.append(
                entry: [
                    JournalRecord(.namespaceMade, namespace: 2, timestamp: time, payload: Array("other".utf8))
                ])
            try journal.write()
            try journal.sync()
        }

        func put(
            _ path: String, _ json: String, by credential: Credential = .admin,
            in database: StoredDatabase? = nil
        )
            throws
        {
            let database = database ?? self.database
            let draft = Draft(try Node(json: Array(json.utf8).rawSpan))
            let hadQueue = database.engine.hasQueue(SessionID(1))
            let delta = database.engine.decide(
                Command(
                    session: SessionID(1), credential: credential, time: time,
                    operation: .put(Write(Target(Path(stringLiteral: path)), draft))))
            let records = delta.records(hadQueue: hadQueue, by: credential)
            guard !database.engine.commit(delta).isRedundant else { return }
            let sequence = try journal.append(
                entry: records.map {
                    JournalRecord(
                        $0.kind.journalKind, namespace: database.id, timestamp: time, payload: $0.payload)
                })
            try journal.write()
            try journal.sync()
            if database.id == 1 {
                moments.append((time, sequence, database.engine.root, Path(stringLiteral: path), credential))
            }
        }

        func checkpoint(keeping count: Int = 2) throws {
            let header = CheckpointHeader(
                directory: journal.directory, timeline: journal.timeline, sequence: journal.lastAppended,
                timestamp: time)
            var writer = try CheckpointWriter(header, on: disk)
            try Snapshot([database, other], nextNamespace: 3, time: time).forEachRecord {
                try writer.append($0, namespace: $1, payload: $2.rawSpan)
            }
            _ = try writer.finish()
            checkpointTimes.append(time)
            _ = try removeSuperseded(on: disk, timeline: journal.timeline, keepingCheckpoints: count)
        }

        func ask(
            _ path: String, at time: Int64? = nil, limit: Int = 1000, before: SequenceNumber? = nil,
            upTo last: SequenceNumber? = nil
        ) throws(HistoryFailure) -> HistoryResult {
            try HistoryReader.history(
                HistoryQuestion(
                    namespace: 1, path: Path(stringLiteral: path), time: time ?? self.time, limit: limit,
                    before: before, lastSequence: last ?? journal.lastAppended),
                on: disk, cancelled: CancellationFlag())
        }

        /// The writes that concern a path, the newest first.
        func writes(_ path: String, until time: Int64) -> [SequenceNumber] {
            let path = Path(stringLiteral: path)
            return moments.filter {
                $0.time <= time && ($0.path.contains(path) || path.contains($0.path))
            }.map(\.sequence).reversed()
        }

        func value(_ path: String, at time: Int64) -> Node {
            moments.last { $0.time <= time }?.root[Path(stringLiteral: path)] ?? .empty
        }
    }

    static let users = [
        Credential.admin, .anonymous, Credential(authVariable: #"{"uid":"ann"}"#),
        Credential(authVariable: #"{"uid":"bob"}"#),
    ]

    /// Random writes in two databases, checkpoints now and then: at each moment that is kept, each path has
    /// the value and the writers of the plain list; before, the answer says since when.
    @Test(arguments: 0..<12 as Range<UInt64>)
    func historyEqualsAReferenceListOfWrites(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let world = try World()
        let keys = ["a", "b", "c"]
        for _ in 0..<300 {
            world.time += random.pick([0, 0, 1, 5] as [Int64])
            let path = (0..<Int.random(in: 0...3, using: &random)).map { _ in random.pick(keys) }
            let value =
                switch Int.random(in: 0..<4, using: &random) {
                case 0: "null"
                case 1: "{\"\(random.pick(keys))\":{\"\(random.pick(keys))\":1}}"
                default: "\"\(Int.random(in: 0..<1000, using: &random))\(String(repeating: "x", count: 40))\""
                }
            try world.put(path.joined(separator: "/"), value, by: random.pick(Self.users))
            if random.chance(20) { try world.put("a", "\(random.next())", in: world.other) }
            if random.chance(3) { try world.checkpoint() }
        }
        let since = try world.ask("").since ?? 0
        #expect(world.checkpointTimes.isEmpty || since >= 1_000_000)
        for path in ["", "a", "a/b", "a/b/c", "c/c", "never/there"] {
            for _ in 0..<8 {
                let time = Int64.random(in: 999_990...world.time + 3, using: &random)
                let limit = random.pick([1, 3, 1000])
                do throws(HistoryFailure) {
                    let answer = try world.ask(path, at: time, limit: limit)
                    #expect(answer.value == world.value(path, at: time), "seed \(seed), \(path) at \(time)")
                    let expected = world.writes(path, until: time)
                    let found = answer.writes.map(\.sequence)
                    // What is listed ends where the journal begins.
                    #expect(found == Array(expected.prefix(found.count)), "seed \(seed), \(path) at \(time)")
                    #expect(found.count == min(limit, expected.count) || since > 1_000_000)
                    for write in answer.writes {
                        let moment = try! #require(world.moments.first { $0.sequence == write.sequence })
                        #expect(write.touch.authorship?.writer == Writer(moment.credential))
                        #expect(write.time == moment.time && write.touch.first == moment.path)
                    }
                    if let last = answer.writes.last, answer.hasMore {
                        let next = try world.ask(path, at: time, limit: limit, before: last.sequence)
                        #expect(
                            next.writes.map(\.sequence)
                                == Array(expected.dropFirst(limit).prefix(next.writes.count)))
                        #expect(!next.writes.isEmpty, "there were more")
                    }
                } catch {
                    guard case .beyondReach(let reach) = error else {
                        Issue.record("seed \(seed): \(error)")
                        continue
                    }
                    #expect(time < since && reach == since, "seed \(seed), \(path) at \(time)")
                }
            }
        }
    }

    /// Pages of any size are together the whole list, once each.
    @Test func pages() throws {
        let world = try World()
        for number in 0..<100 {
            world.time += 1
            try world.put("a/\(number % 7)", "\(number)")
        }
        for limit in [1, 7, 99, 100, 101] {
            var (all, before): ([SequenceNumber], SequenceNumber?) = ([], nil)
            while true {
                let page = try world.ask("a", limit: limit, before: before)
                #expect(page.writes.count <= limit && page.value == world.value("a", at: world.time))
                all += page.writes.map(\.sequence)
                guard page.hasMore else { break }
                before = page.writes.last?.sequence
            }
            #expect(all == world.writes("a", until: world.time), "pages of \(limit)")
        }
    }

    /// What was perhaps not durable when the question was asked is not in the answer.
    @Test func laterRecordsAreIgnored() throws {
        let world = try World()
        try world.put("a", "1")
        let last = world.journal.lastAppended
        try world.put("a", "2")
        let answer = try world.ask("a", upTo: last)
        #expect(answer.value == .integer(1) && answer.writes.map(\.sequence) == [last])
    }

    @Test func beforeTheFirstRecordThereWasNothing() throws {
        let world = try World()
        world.time += 1000
        try world.put("a", "1")
        let answer = try world.ask("a", at: 5)
        #expect(answer.value == .empty && answer.writes.isEmpty && answer.since == 1_000_000)
    }

    /// Once the journal before two checkpoints is removed, the answer says since when.
    @Test func historyBeforeTheKeptJournalIsUnknown() throws {
        let world = try World()
        for _ in 0..<4 {
            for number in 0..<60 {
                world.time += 1
                try world.put("a", "\"\(number)\(String(repeating: "x", count: 100))\"")
            }
            try world.checkpoint()
        }
        #expect(!world.disk.fileNames.contains("journal-00000001-0000000000000001.log"))
        let since = world.checkpointTimes[2]
        #expect(try world.ask("a", at: since).since == since)
        #expect(try world.ask("a", at: since).value == world.value("a", at: since))
        do {
            _ = try world.ask("a", at: since - 1)
            Issue.record("it answers")
        } catch {
            guard case .beyondReach(let reach) = error, reach == since else {
                Issue.record("\(error)")
                return
            }
        }
        let answer = try world.ask("a")
        #expect(!answer.hasMore && answer.writes.count < 240, "the list ends where the journal begins")
        #expect(
            answer.writes.map(\.sequence) == Array(world.writes("a", until: .max).prefix(answer.writes.count))
        )
    }

    /// Checkpoints, rotations and removals between any two calls of the disk change no answer.
    @Test func filesAreRemovedWhileItReads() throws {
        let world = try World()
        for number in 0..<100 {
            world.time += 1
            try world.put("a/\(number % 5)", "\"\(number)\(String(repeating: "x", count: 100))\"")
        }
        try world.checkpoint()
        for number in 0..<100 {
            world.time += 1
            try world.put("a/\(number % 5)", "\"\(number)\(String(repeating: "y", count: 100))\"")
        }
        for count in 0..<60 {
            let (time, last) = (world.time, world.journal.lastAppended)
            let changing = ChangingDisk(world.disk, after: count) {
                world.time += 1
                try? world.put("b", "\"\(count)\(String(repeating: "z", count: 3000))\"")
                try? world.put("a/9", "\(count)")
                try? world.checkpoint()
            }
            let expected = world.value("a", at: time)
            let answer = try HistoryReader.history(
                HistoryQuestion(
                    namespace: 1, path: "a", time: time, limit: 10, before: nil, lastSequence: last),
                on: changing, cancelled: CancellationFlag())
            #expect(answer.value == expected, "a change after \(count) calls")
            #expect(answer.writes.allSatisfy { $0.sequence <= last })
        }
    }

    /// `pando check data` beside a server finds no damage, whatever the server removes meanwhile.
    @Test func filesAreRemovedWhileTheyAreInspected() throws {
        let world = try World()
        for number in 0..<100 {
            world.time += 1
            try world.put("a/\(number % 5)", "\"\(number)\(String(repeating: "x", count: 200))\"")
            if number % 40 == 0 { try world.checkpoint() }
        }
        for count in 0..<60 {
            let changing = ChangingDisk(world.disk, after: count) {
                for number in 0..<3 {
                    try? world.put("b", "\"\(count) \(number)\(String(repeating: "z", count: 3000))\"")
                }
                for _ in 0..<2 {
                    world.time += 1
                    try? world.put("a/9", "\(world.time)")
                    try? world.checkpoint()
                }
            }
            let report = try inspect(changing) { _, _ in }
            let damage = report.problems.filter(\.isDamage)
            #expect(damage.isEmpty, "a change after \(count) calls: \(damage)")
            #expect(report.segmentCount > 0)
        }
    }

    @Test func aCancelledQuestionEndsAtOnce() throws {
        let world = try World()
        try world.put("a", "1")
        let flag = CancellationFlag()
        flag.isSet = true
        do {
            _ = try HistoryReader.history(
                HistoryQuestion(
                    namespace: 1, path: "a", time: world.time, limit: 1, before: nil,
                    lastSequence: world.journal.lastAppended), on: world.disk, cancelled: flag)
            Issue.record("it answers")
        } catch {
            guard case .cancelled = error else {
                Issue.record("\(error)")
                return
            }
        }
    }

    /// Damage is an error, and no value.
    @Test func damageIsReported() throws {
        let world = try World(segmentByteLimit: 2 << 10)
        for number in 0..<100 { try world.put("a/\(number)", "\"\(String(repeating: "x", count: 60))\"") }
        let name = try #require(world.disk.fileNames.sorted().first { $0.hasPrefix("journal-") })
        world.disk.flipBit(of: name, at: 8 * 400)
        do {
            _ = try world.ask("a")
            Issue.record("it answers")
        } catch {
            guard case .unreadable = error else {
                Issue.record("\(error)")
                return
            }
        }
    }

    /// At most so many questions at once; those beyond are refused, and each gets exactly one answer.
    @Test func questionsAreLimited() throws {
        let world = try World()
        try world.put("a", "1")
        let disk = world.disk
        let gate = Gate()
        let thread = try HistoryThread { () throws(DiskFailure) in
            gate.wait()
            return disk
        }
        let answers = Answers()
        let question = HistoryQuestion(
            namespace: 1, path: "a", time: world.time, limit: 1, before: nil,
            lastSequence: world.journal.lastAppended)
        for session in 0..<UInt64(HistoryLimits.questionCount + 3) {
            thread.ask(question, for: SessionID(session)) { answers.append($0) }
        }
        thread.ask(question, for: SessionID(0)) { answers.append($0) }
        #expect(answers.count { if case .failure(.busy) = $0 { true } else { false } } == 4)
        thread.cancel(SessionID(2))
        gate.open()
        answers.wait(until: HistoryLimits.questionCount + 4)
        #expect(answers.count { if case .failure(.cancelled) = $0 { true } else { false } } == 1)
        #expect(
            answers.count { if case .success(let answer) = $0 { answer.value == .integer(1) } else { false } }
                == HistoryLimits.questionCount - 1)
        thread.stop()
    }
}
