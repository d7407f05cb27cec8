import PandoBytes
import PandoEngine
import PandoReactor
import PandoTime
import PandoTree
import Synchronization
import Testing

@testable import PandoDatabase

/// The jobs of one worker thread, with a clock that each slice moves by 5 ms.
@Suite struct SnapshotJobsTests {
    private final class Answers: Sendable {
        private let all = Mutex<[(session: UInt64, answer: String)]>([])

        func add(_ session: SessionID, _ preparation: Preparation) {
            let answer =
                switch preparation {
                case .hash(let hash): hash
                case .superseded: "superseded"
                case .abandoned: "abandoned"
                default: "other"
                }
            all.withLock { $0.append((session.rawValue, answer)) }
        }

        var sessions: [UInt64] { all.withLock { $0.map(\.session) } }

        func of(_ session: UInt64) -> [String] {
            all.withLock { all in all.filter { $0.session == session }.map(\.answer) }
        }
    }

    private final class Forwarded: Sendable {
        private let all = Mutex<[SnapshotJob]>([])

        func add(_ job: SnapshotJob) { all.withLock { $0.append(job) } }
        var sessions: [UInt64] { all.withLock { $0.map(\.session.rawValue) } }
    }

    private struct Thread {
        var jobs: SnapshotJobs
        let clients = SessionClients()
        let answers = Answers()
        /// The jobs that were given on.
        let forwarded = Forwarded()
        var sliceCount = 0
        private(set) var time: UInt64 = 1 << 60

        /// - Parameter byteLimit: Of the jobs that are done; nil for any.
        init(byteLimit: Int? = nil) throws {
            let overflow = byteLimit.map { [forwarded] byteLimit in
                SnapshotJobs.Overflow(byteLimit: byteLimit, childLimit: 1000) { forwarded.add($0) }
            }
            jobs = SnapshotJobs(
                SnapshotJobs.Resources(
                    encodingBudget: EncodingBudget(byteLimit: .max, signalling: try WakeupEvent()),
                    parsingBudget: ParsingBudget(byteLimit: .max), waits: true, hashByteLimit: 1 << 30,
                    clients: clients, overflow: overflow))
        }

        mutating func hash(_ node: Node, at path: String = "large", for session: UInt64) {
            let answers = answers
            jobs.add(
                .prepare(
                    PreparationJob(
                        session: SessionID(session), work: .hash(node),
                        location: HashedLocation(database: 1, path: Path(trusted: path))
                    ) { answers.add(SessionID(session), $0) }))
        }

        mutating func print(for session: UInt64) {
            let answers = answers
            jobs.add(
                .prepare(
                    PreparationJob(session: SessionID(session), work: .print([.integer(1)], heavierThan: 0)) {
                        answers.add(SessionID(session), $0)
                    }))
        }

        mutating func doSlice() {
            sliceCount += 1
            var time = time
            jobs.performNext {
                time += 5_000_000
                return MonotonicTime(nanoseconds: time)
            }
            self.time = time
        }
    }

    private static func large(_ seed: Int, count: Int = 20_000) -> Node {
        .object(
            Children(
                ascending: (0..<count).map { number in
                    Children.Entry(
                        key: Key(unchecked: Text("k\(100_000 + number)")),
                        node: .integer(Int64(seed * count + number)))
                }))
    }

    @Test(arguments: [1, 4, 20]) func sessionWithLittleWorkWaitsForFewSlices(busyCount: Int) throws {
        var thread = try Thread()
        for session in 1...busyCount {
            thread.hash(Self.large(session), at: "large\(session)", for: UInt64(session))
        }
        // Each has had a slice of several.
        for _ in 0..<busyCount * 3 { thread.doSlice() }
        let before = thread.sliceCount
        thread.print(for: 1000)
        while !thread.answers.sessions.contains(1000), thread.sliceCount < before + 100 { thread.doSlice() }
        #expect(thread.sliceCount - before <= 2)
        while !thread.jobs.isIdle { thread.doSlice() }
        for session in 1...busyCount {
            #expect(thread.answers.of(UInt64(session)) == [Self.large(session).hash])
        }
    }

    @Test func sessionsOfOneAddressAreOneClient() throws {
        var thread = try Thread()
        let addresses = try ["192.0.2.1", "192.0.2.2"].map {
            AddressNetwork(try #require(SocketAddress($0, port: 1)))
        }
        for session in UInt64(1)...30 {
            thread.clients.note(SessionID(session), at: addresses[0])
            thread.hash(Self.large(Int(session), count: 6000), at: "large\(session)", for: session)
        }
        thread.doSlice()
        thread.clients.note(SessionID(1000), at: addresses[1])
        thread.print(for: 1000)
        thread.doSlice()
        thread.doSlice()
        #expect(thread.answers.sessions.contains(1000))
        thread.clients.forget(SessionID(1000))
        #expect(thread.clients[SessionID(1000)] == nil)
    }

    @Test func oneSnapshotIsHashedOnceForAll() throws {
        var thread = try Thread()
        let node = Self.large(1)
        for session in UInt64(1)...40 { thread.hash(node, for: session) }
        while !thread.jobs.isIdle { thread.doSlice() }
        #expect(thread.answers.sessions.count == 40)
        #expect((UInt64(1)...40).allSatisfy { thread.answers.of($0) == [node.hash] })
        #expect(thread.jobs.hashedStepCount <= 21_000)
    }

    /// A later snapshot of a location shows that it has changed: only that one is hashed.
    @Test func earlierSnapshotsAreNotHashed() throws {
        var thread = try Thread()
        var node = Self.large(1)
        thread.hash(node, for: 0)
        while !thread.jobs.isIdle { thread.doSlice() }
        let before = thread.jobs.hashedStepCount
        for session in UInt64(1)...40 {
            node.set(.integer(-Int64(session)), at: Path(trusted: "k1000\(10 + session)"))
            thread.hash(node, for: session)
        }
        #expect((UInt64(1)...39).allSatisfy { thread.answers.of($0) == ["superseded"] })
        while !thread.jobs.isIdle { thread.doSlice() }
        #expect(thread.answers.of(40) == [node.hash])
        // Two pages of 32 children, which have all changes.
        #expect(thread.jobs.hashedStepCount - before <= 3 * 32)
    }

    /// A job that is too large for this thread is weighed when its turn comes, a hash once for all that wait.
    @Test func largeJobsAreGivenOn() throws {
        var thread = try Thread(byteLimit: 50_000)
        let (large, small) = (Self.large(1), Self.large(2, count: 1000))
        for session in UInt64(1)...30 { thread.hash(large, for: session) }
        thread.hash(small, at: "small", for: 31)
        thread.print(for: 32)
        #expect(thread.forwarded.sessions.isEmpty)
        while !thread.jobs.isIdle { thread.doSlice() }
        #expect(thread.forwarded.sessions == Array(1...30))
        #expect(thread.answers.of(31) == [small.hash] && thread.answers.of(32) == ["other"])
        #expect(thread.sliceCount <= 30 + 2)
        // Of these nothing was hashed here, and nothing is left of them.
        #expect(thread.jobs.hashedStepCount <= 1100)
        thread.hash(large, for: 1)
        thread.jobs.abandon(SessionID(1))
        #expect(thread.answers.of(1) == ["abandoned"])
    }

    /// Hashes are forgotten some time after something was hashed, whatever else is done.
    @Test func otherJobsDoNotKeepHashes() throws {
        var thread = try Thread()
        #expect(thread.jobs.hashedAt == nil)
        thread.hash(Self.large(1, count: 100), for: 1)
        thread.doSlice()
        let hashedAt = try #require(thread.jobs.hashedAt)
        thread.print(for: 1)
        thread.doSlice()
        #expect(thread.jobs.hashedAt == hashedAt)
        thread.jobs.forgetHashes()
        #expect(thread.jobs.hashedAt == nil)
    }

    @Test func jobsOfAnEndedSessionAreDropped() throws {
        var thread = try Thread()
        let node = Self.large(1)
        thread.hash(node, for: 1)
        thread.hash(node, for: 2)
        thread.hash(Self.large(2), at: "other", for: 1)
        thread.doSlice()
        thread.jobs.abandon(SessionID(1))
        #expect(thread.answers.of(1) == ["abandoned", "abandoned"])
        thread.hash(Self.large(2), at: "other", for: 3)
        while !thread.jobs.isIdle { thread.doSlice() }
        #expect(thread.answers.of(2) == [node.hash])
        #expect(thread.answers.of(3) == [Self.large(2).hash])
    }

    /// The databases answer a transaction whose location has a later snapshot as one that has come too late.
    @Test func transactionIsStaleWhenALaterSnapshotIsHashed() throws {
        let bench = try Bench(directory: nil)
        let text = "{" + (0..<5000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"
        let hash = try Node(json: Array(text.utf8).rawSpan).hash
        func transaction(_ slot: UInt32, _ number: Int) throws -> DatabaseMessage {
            try Bench.request(
                slot,
                #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/large","d":1,"h":"\#(hash)"}}}"#)
        }
        bench.process([Bench.open(1), Bench.open(2), try Bench.put(1, 1, "/large", text)])
        bench.process([try transaction(1, 2), try Bench.put(2, 3, "/large/k1", "0")])
        bench.process([try transaction(2, 4)])
        _ = bench.takeMessages()
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        #expect(jobs.count == 2 && jobs[0].location == jobs[1].location && jobs[0].location != nil)
        var hashes = HashMemo()
        jobs[0].finish(.superseded)
        jobs[1].perform(&hashes)
        var messages: [DatabaseMessage] = []
        bench.mailbox.drain(into: &messages)
        bench.process(messages)
        // No listen covers the location, so the answers bring the value: it is printed elsewhere.
        #expect(bench.takeMessages() == ["1 large", "2 large"])
        #expect(bench.host.backlog.isIdle)
    }
}
