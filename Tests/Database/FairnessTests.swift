import PandoBytes
import PandoEngine
import PandoRandom
import PandoReactor
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// The order of requests on the database thread. The clock says that each request takes five milliseconds, so
/// every turn ends after a few.
@Suite struct FairnessTests {
    /// - Parameter lightRunCount: Light requests of one session that take those five milliseconds together.
    private static func bench(lightRunCount: Int = 1) throws -> Bench {
        let clock = ScriptedEnvironment(
            startingAt: 1_700_000_000_000, seed: 1, workStep: 5_000_000, lightRunCount: lightRunCount)
        return try Bench(directory: nil, environment: .scripted(clock))
    }

    /// The answers let out, as session and request number.
    private static func answers(_ lines: [String]) -> [String] {
        lines.compactMap { line in
            guard let range = line.firstRange(of: #""r":"#) else { return nil }
            return "\(line.prefix { $0 != " " }):\(line[range.upperBound...].prefix { $0 != "," })"
        }
    }

    @Test func requestOfAnotherSessionWaitsForOneTurnOfTheFlood() throws {
        let bench = try Self.bench()
        bench.process([Bench.open(1), Bench.open(2)])
        while bench.host.hasWork { bench.process([]) }
        _ = bench.takeMessages()
        bench.process(try (0..<500).map { try Bench.put(1, $0, "/a/\($0)", "1") })
        #expect(bench.host.hasWork)
        let before = Self.answers(bench.takeMessages())
        #expect(before.count < 5)
        bench.process([try Bench.put(2, 7, "/b", "1")])
        bench.process([])
        let after = Self.answers(bench.takeMessages())
        #expect(after.contains("2:7"), "\(after)")
        #expect(after.count < 5)
    }

    /// A session loses thousands of listens. Each step of that takes longer than a turn, and others go on
    /// between two of them.
    @Test func endOfManyListensLeavesTurnsToOthers() throws {
        let bench = try Self.bench()
        func turn(_ messages: [DatabaseMessage] = []) {
            var posted: [DatabaseMessage] = []
            bench.mailbox.drain(into: &posted)
            bench.process(posted + messages)
        }
        turn([Bench.open(1), Bench.open(2)])
        let rules = #"{"rules":{".read":"auth != null",".write":true}}"#
        turn([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        let user = Credential(authVariable: #"{"uid":"u"}"#)
        turn([.credentialChanged(Bench.session(1), user)])
        for number in 0..<4000 {
            let listen = Listen(path: Path(["l", Key(unchecked: Text("k\(number)"))]), hash: "")
            let request = Request(number: 1, action: .listen(listen, queryText: nil))
            turn([.request(Bench.session(1), request, user, byteCount: 9)])
        }
        while bench.host.hasWork { turn() }
        _ = bench.takeMessages()
        turn([.credentialChanged(Bench.session(1), .anonymous), try Bench.put(2, 1, "/b", "1")])
        var (answered, turnCount) = (0, 0)
        while bench.host.access.isChecking(Bench.session(1)), turnCount < 100 {
            turnCount += 1
            let isAnswered = Self.answers(bench.takeMessages()).contains("2:\(answered + 1)")
            if isAnswered { answered += 1 }
            turn(isAnswered ? [try Bench.put(2, answered + 1, "/b", "1")] : [])
        }
        #expect(!bench.host.access.isChecking(Bench.session(1)) && turnCount > 5, "\(turnCount)")
        #expect(answered * 3 >= turnCount, "\(answered) requests in \(turnCount) turns")
    }

    /// Eight sessions on two databases: one floods, some hang up in the middle, others write now and then.
    /// Each session gets its replies in the order of its requests; a session with few requests waits for one
    /// round of the others at most; and every write is done that a session had posted before it disconnected.
    @Test(arguments: 0..<10 as Range<UInt64>, [1, 16])
    func orderPerSessionAndNoStarvation(seed: UInt64, lightRunCount: Int) throws {
        var random = SeededGenerator(seed: seed)
        let bench = try Self.bench(lightRunCount: lightRunCount)
        let flooder: UInt32 = 1
        bench.process((1...8).map { Bench.open(UInt32($0), $0 % 2 == 0 ? "demo" : "other") })
        while bench.host.hasWork { bench.process([]) }
        _ = bench.takeMessages()
        var expected: [UInt32: [String]] = [:]
        var messages: [String: [String]] = [:]
        var waitingSince: [UInt32: Int] = [:]
        var closed: Set<UInt32> = []
        var number = 0
        var turn = 0
        func look() {
            turn += 1
            for answer in Self.answers(bench.takeMessages()) {
                let slot = String(answer.prefix { $0 != ":" })
                messages[slot, default: []].append(answer)
                if let slot = UInt32(slot) { waitingSince[slot] = nil }
            }
            for (slot, since) in waitingSince where slot != flooder && !closed.contains(slot) {
                // Every turn does one request at least, and of each other session one comes first in a round.
                #expect(turn - since <= 40, "session \(slot) starves, seed \(seed)")
            }
        }
        for _ in 0..<120 {
            var burst: [DatabaseMessage] = []
            for slot in 1...8 as ClosedRange<UInt32> where !closed.contains(slot) {
                let count = slot == flooder ? 20 : Int.random(in: 0..<10, using: &random) == 0 ? 1 : 0
                for _ in 0..<count {
                    number += 1
                    burst.append(try Bench.put(slot, number, "/s\(slot)/n\(number)", "\(number)"))
                    expected[slot, default: []].append("\(slot):\(number)")
                    waitingSince[slot] = waitingSince[slot] ?? turn
                }
                if slot > 5, Int.random(in: 0..<60, using: &random) == 0 {
                    burst.append(.closed(Bench.session(slot)))
                    closed.insert(slot)
                }
            }
            bench.process(burst)
            look()
        }
        while bench.host.hasWork {
            bench.process([])
            for answer in Self.answers(bench.takeMessages()) {
                messages[String(answer.prefix { $0 != ":" }), default: []].append(answer)
            }
        }
        for (slot, answers) in expected {
            #expect(messages["\(slot)"] == answers, "session \(slot), seed \(seed)")
        }
        #expect(bench.host.backlog.isIdle)
    }

    /// So many light requests of one session are processed in one turn, and no more.
    @Test(arguments: [1, 2, 16]) func lightRequestsOfOneSessionShareATurn(lightRunCount: Int) throws {
        let bench = try Self.bench(lightRunCount: lightRunCount)
        bench.process([Bench.open(1)])
        while bench.host.hasWork { bench.process([]) }
        bench.process(try (0..<200).map { try Bench.put(1, $0, "/a/\($0)", "1") })
        _ = bench.takeMessages()
        for _ in 0..<3 {
            bench.process([])
            #expect(Self.answers(bench.takeMessages()).count == lightRunCount)
        }
    }

    @Test(arguments: [1, 16])
    func readsOfAClosedSessionAreDroppedAndWritesAreDone(lightRunCount: Int) throws {
        let bench = try Self.bench(lightRunCount: lightRunCount)
        bench.process([Bench.open(1), Bench.open(2)])
        while bench.host.hasWork { bench.process([]) }
        bench.process(
            try (0..<100).map {
                $0.isMultiple(of: 2)
                    ? try Bench.put(1, $0, "/a/\($0)", "1")
                    : try Bench.request(1, #"{"t":"d","d":{"r":\#($0),"a":"g","b":{"p":"/a","q":{}}}}"#)
            })
        _ = bench.takeMessages()
        bench.process([.closed(Bench.session(1))])
        var readCount = 0
        while bench.host.hasWork {
            bench.process([])
            readCount += Self.answers(bench.takeMessages()).count { (Int($0.dropFirst(2)) ?? 0) % 2 == 1 }
        }
        #expect(readCount == 0)
        bench.process([try Bench.request(2, #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/a","q":{}}}}"#)])
        let answer = try #require(bench.takeMessages().last)
        #expect(answer.count(where: { $0 == ":" }) - 6 == 50, "\(answer)")
    }

    @Test(arguments: [1, 16])
    func drainComesBehindWritesThatWait(lightRunCount: Int) throws {
        let bench = try Self.bench(lightRunCount: lightRunCount)
        bench.process([Bench.open(1)])
        while bench.host.hasWork { bench.process([]) }
        bench.process(try (0..<50).map { try Bench.put(1, $0, "/a/\($0)", "1") })
        _ = bench.takeMessages()
        let isDrained = Flag()
        bench.process([.drain { isDrained.isSet = true }])
        var answered: [String] = []
        while bench.host.hasWork {
            bench.process([])
            answered += bench.takeMessages()
        }
        #expect(isDrained.isSet)
        #expect(answered.last == "1 close goingAway")
        #expect(Self.answers(answered).count > 40)
    }

    @Test(arguments: [1, 16])
    func windowMarkComesBackBehindTheRepliesBeforeIt(lightRunCount: Int) throws {
        let bench = try Self.bench(lightRunCount: lightRunCount)
        bench.process([Bench.open(1)])
        while bench.host.hasWork { bench.process([]) }
        _ = bench.takeMessages()
        bench.process(
            try (0..<10).map { try Bench.put(1, $0, "/a/\($0)", "1") } + [.windowMark(Bench.session(1))]
                + [Bench.put(1, 10, "/b", "1")])
        var lines: [String] = []
        while bench.host.hasWork {
            bench.process([])
            lines += bench.takeMessages()
        }
        let mark = try #require(lines.firstIndex(of: "1 mark"))
        #expect(Self.answers(Array(lines[mark...])) == ["1:10"])
    }

    // MARK: Compare-and-sets at large locations

    private static let large = "{" + (0..<5000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"

    private static func transaction(_ slot: UInt32, _ number: Int, hash: String) throws -> DatabaseMessage {
        try Bench.request(
            slot, #"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/large","d":1,"h":"\#(hash)"}}}"#)
    }

    /// Does the work that waits elsewhere, and posts its results.
    private static func hash(_ bench: Bench) -> Int {
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        var hashes = HashMemo()
        for job in jobs { job.perform(&hashes) }
        var messages: [DatabaseMessage] = []
        bench.mailbox.drain(into: &messages)
        bench.process(messages)
        return jobs.count
    }

    private static func largeBench() throws -> (Bench, hash: String) {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2), try Bench.put(1, 1, "/large", large)])
        _ = bench.takeMessages()
        return (bench, try Node(json: Array(large.utf8).rawSpan).hash)
    }

    @Test func transactionWaitsForItsHashAndOthersGoOn() throws {
        let (bench, hash) = try Self.largeBench()
        bench.process([
            try Self.transaction(1, 2, hash: hash), try Bench.put(1, 3, "/a", "1"),
            try Bench.put(2, 4, "/b", "1"),
        ])
        #expect(Self.answers(bench.takeMessages()) == ["2:4"])
        #expect(Self.hash(bench) == 1)
        let lines = bench.takeMessages()
        #expect(Self.answers(lines) == ["1:2", "1:3"])
        #expect(lines.allSatisfy { $0.contains(#""s":"ok""#) })
        #expect(bench.host.backlog.isIdle)
    }

    @Test func hashIsKeptUntilTheLocationChanges() throws {
        let (bench, _) = try Self.largeBench()
        bench.process([try Self.transaction(1, 2, hash: "wrong")])
        #expect(Self.hash(bench) == 1)
        for number in 3..<20 { bench.process([try Self.transaction(1, number, hash: "wrong")]) }
        #expect(Self.hash(bench) == 0)
        bench.process([try Bench.put(2, 20, "/elsewhere", "1"), try Self.transaction(1, 21, hash: "wrong")])
        #expect(Self.hash(bench) == 0)
        for path in ["/large/k1", "/large/new/below"] {
            bench.process([try Bench.put(2, 22, path, "77"), try Self.transaction(1, 23, hash: "wrong")])
            #expect(Self.hash(bench) == 1, "\(path)")
        }
        bench.process([
            try Bench.put(2, 24, "/", #"{"large":\#(Self.large)}"#),
            try Self.transaction(1, 25, hash: "wrong"),
        ])
        #expect(Self.hash(bench) == 1)
    }

    /// A write in between makes the transaction stale, also where its hash was right when it arrived.
    @Test func transactionIsStaleWhenItsLocationChangedMeanwhile() throws {
        let (bench, hash) = try Self.largeBench()
        bench.process([try Self.transaction(1, 2, hash: hash), try Bench.put(2, 3, "/large/k1", "0")])
        _ = bench.takeMessages()
        #expect(Self.hash(bench) == 1)
        // No listen covers the location, so the answer brings the value: it is printed elsewhere.
        #expect(bench.takeMessages() == ["1 large"])
    }

    @Test func transactionThatExpectsNothingNeedsNoHash() throws {
        let (bench, _) = try Self.largeBench()
        bench.process([try Bench.listen(1, 2, "/large"), try Self.transaction(1, 3, hash: "")])
        #expect(Self.hash(bench) == 0)
        #expect(bench.takeMessages().last?.contains("datastale") == true)
    }

    @Test func sessionThatEndsWhileItsHashIsComputedIsForgotten() throws {
        let (bench, hash) = try Self.largeBench()
        bench.process([try Self.transaction(1, 2, hash: hash), .closed(Bench.session(1))])
        // What was to be hashed is not.
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        #expect(jobs.count == 1 && bench.abandoned.sessions == [Bench.session(1)])
        for job in jobs { job.finish(.abandoned) }
        var messages: [DatabaseMessage] = []
        bench.mailbox.drain(into: &messages)
        bench.process(messages)
        #expect(bench.host.backlog.isIdle)
        bench.process([try Bench.request(2, #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/large/k1","q":{}}}}"#)])
        #expect(bench.takeMessages().last == #"2 {"t":"d","d":{"r":1,"b":{"s":"ok","d":1}}}"#)
    }

    /// A session that waits for a preparation that was cancelled does not keep the server from stopping.
    @Test func drainWaitsForNoPreparation() throws {
        let (bench, hash) = try Self.largeBench()
        let isDrained = Flag()
        bench.process([try Self.transaction(1, 2, hash: hash), .drain { isDrained.isSet = true }])
        #expect(bench.abandoned.sessions == [Bench.session(1)])
        // What clients go on asking is not done.
        bench.process([try Bench.put(2, 3, "/late", "1")])
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        for job in jobs { job.finish(.abandoned) }
        var messages: [DatabaseMessage] = []
        bench.mailbox.drain(into: &messages)
        bench.process(messages)
        #expect(isDrained.isSet)
        #expect(Self.answers(bench.takeMessages()) == [])
    }

    /// Strings are hashed at once, however long: two snapshots of a leaf cannot be distinguished later.
    @Test func transactionOnALongStringIsDecidedAtOnce() throws {
        let bench = try Bench(directory: nil)
        let text = "\"" + String(repeating: "x", count: 100_000) + "\""
        bench.process([Bench.open(1), try Bench.put(1, 1, "/large", text)])
        _ = bench.takeMessages()
        bench.process([try Self.transaction(1, 2, hash: try Node(json: Array(text.utf8).rawSpan).hash)])
        #expect(bench.takeMessages() == [#"1 {"t":"d","d":{"r":2,"b":{"s":"ok","d":""}}}"#])
    }

    // MARK: Reads of many children

    @Test func queryOverManyChildrenIsLeftToAWorker() throws {
        let (bench, _) = try Self.largeBench()
        let query = #"{"i":".value","l":1,"vf":"r"}"#
        bench.process([
            try Bench.request(1, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/large","q":\#(query)}}}"#)
        ])
        #expect(bench.takeMessages() == ["1 large"])
    }

    private static func filteredListen(_ slot: UInt32, _ number: Int, tag: Int) throws -> DatabaseMessage {
        try Bench.request(
            slot,
            #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"/large","q":{"l":2,"vf":"r","i":".value"},"t":\#(tag),"h":""}}}"#
        )
    }

    @Test(
        arguments: [
            // writes meanwhile                                              what the window begins with
            ([], #"{"k4998":4998,"k4999":4999}"#),
            ([("/large/k7", "9000")], #"{"k4999":4999,"k7":9000}"#),
            ([("/large/k4999", "null"), ("/large/k4998", "null")], #"{"k4996":4996,"k4997":4997}"#),
            ([("/large", #"{"only":1}"#)], #"{"only":1}"#),
            // What it says it holds, nothing, is what is there.
            ([("/large", "null")], nil),
        ] as [([(String, String)], String?)])
    func windowOverManyChildrenIsMadeElsewhereAndCatchesUp(writes: [(String, String)], content: String?)
        throws
    {
        let (bench, _) = try Self.largeBench()
        bench.process([try Self.filteredListen(1, 2, tag: 5), try Bench.put(1, 3, "/a", "1")])
        #expect(bench.takeMessages() == [])
        bench.process(try writes.map { try Bench.put(2, 4, $0.0, $0.1) })
        _ = bench.takeMessages()
        #expect(Self.hash(bench) == 1)
        // A location that is another altogether is looked at once more.
        _ = Self.hash(bench)
        let lines = bench.takeMessages()
        let push = content.map { #"1 {"t":"d","d":{"a":"d","b":{"p":"large","d":\#($0),"t":5}}}"# }
        #expect(lines.first == push || push == nil && lines.count == 2, "\(lines)")
        #expect(Self.answers(lines) == ["1:2", "1:3"])
        // The window lives: what enters it is pushed, and a second listen through it needs no work.
        bench.process([try Bench.put(2, 6, "/large/top", "99999"), try Self.filteredListen(2, 7, tag: 1)])
        let after = bench.takeMessages()
        #expect(after.first?.contains("top") == true && after.first?.contains("99999") == true, "\(after)")
        #expect(Self.hash(bench) == 0)
    }

    @Test func staleListenOfALargeLocationIsLeftToAWorker() throws {
        let (bench, _) = try Self.largeBench()
        bench.process([try Bench.request(1, #"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/large","h":"stale"}}}"#)]
        )
        let lines = bench.takeMessages()
        #expect(lines.first == "1 large" && Self.answers(lines) == ["1:2"])
    }
}

/// Set on the thread of the test.
private final class Flag: @unchecked Sendable {
    var isSet = false
}
