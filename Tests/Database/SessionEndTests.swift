import PandoEngine
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// The end of a session with many onDisconnect writes is prepared by another thread.
@Suite("ends of sessions with many onDisconnect writes") struct SessionEndTests {
    private static let count = Engine.queueCountAtOnce + 1

    private static func bench(_ directory: String? = nil) throws -> Bench {
        let bench = try Bench(directory: directory)
        bench.process([Bench.open(1), Bench.open(2)])
        for number in 0..<count {
            bench.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/l/k\#(number)","d":\#(number)}}}"#)
            ])
        }
        bench.process([try Bench.listen(2, 1, "/l")])
        _ = bench.takeMessages()
        return bench
    }

    private static func list(_ bench: Bench) -> Node {
        bench.host.processor.databases["demo"]!.engine.root["l" as Key]
    }

    /// The messages to session 2 that are pushes.
    private static func pushes(_ bench: Bench) -> [String] {
        bench.takeMessages().filter { $0.hasPrefix("2 ") && !$0.contains(#""r":"#) }
    }

    @Test("others go on meanwhile, and all writes are one push")
    func othersGoOn() throws {
        let bench = try Self.bench()
        bench.process([.closed(Bench.session(1)), try Bench.put(2, 2, "/other", "1")])
        #expect(bench.takeMessages().count == 1 && Self.list(bench).isEmpty)
        var areHeavy: [Bool] = []
        bench.work { job in
            areHeavy.append(SnapshotJob.prepare(job).isHeavier(than: 1 << 30, 1 << 30))
            return true
        }
        #expect(areHeavy == [true], "its rules may take long")
        #expect(Self.list(bench).children.count == Self.count)
        #expect(Self.pushes(bench).count == 1)
        #expect(bench.host.processor.databases["demo"]?.engine.hasQueue(Bench.session(1)) == false)
    }

    @Test("what others write there meanwhile stays, unless the session writes it, too")
    func writesMeanwhile() throws {
        let bench = try Self.bench()
        bench.process([.closed(Bench.session(1))])
        var number = 5
        bench.work { _ in
            bench.process([
                try! Bench.put(2, number, "/l/k\(number)", "true"),
                try! Bench.put(2, 3, "/l/x\(number)", "true"),
            ])
            number += 1
            return true
        }
        #expect(Self.list(bench).children.count == Self.count + number - 5)
        #expect(
            Self.list(bench)["k5" as Key] == .integer(5) && Self.list(bench)["x5" as Key] == .boolean(true))
    }

    @Test("a client that comes back finds its writes done before its own")
    func reconnection() throws {
        let bench = try Self.bench()
        let id = bench.host.processor.sessions[Bench.session(1)]?.publicID?.text.string
        bench.process([
            Bench.open(3, previous: id), try Bench.put(3, 1, "/l", "false"),
            try Bench.put(2, 2, "/other", "1"),
        ])
        #expect(Self.list(bench).isEmpty)
        bench.work()
        #expect(Self.list(bench) == .boolean(false))
        let pushes = Self.pushes(bench)
        #expect(pushes.count == 2 && pushes.last == #"2 {"t":"d","d":{"a":"d","b":{"p":"l","d":false}}}"#)
        #expect(bench.host.processor.sessions[Bench.session(1)] == nil)
    }

    @Test("it is in the journal as one entry")
    func recovery() throws {
        try withDirectory { directory in
            let bench = try Self.bench(directory)
            bench.process([.closed(Bench.session(1))])
            bench.work()
            #expect(Self.list(bench).children.count == Self.count)
            // `work()` may have processed what the journal reported.
            try bench.waitUntilDurable()
            bench.journal?.stop()
            let again = try Bench(directory: directory)
            #expect(Self.list(again).children.count == Self.count)
            #expect(again.host.processor.databases["demo"]?.engine.sessionsWithQueue == [])
            again.journal?.stop()
        }
    }
}
