import PandoBytes
import PandoEngine
import PandoTree
import Testing

@testable import PandoDatabase

/// What a client that reads slowly is sent when it has caught up.
@Suite struct PushCoalescerTests {
    private static func query(_ slot: UInt32, _ number: Int, _ path: String, tag: Int) throws
        -> DatabaseMessage
    {
        try Bench.request(
            slot,
            #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"\#(path)","q":{"l":2,"vf":"r","i":".key"},"t":\#(tag),"h":""}}}"#
        )
    }

    /// Session 1 listens and lags; session 2 writes.
    private static func bench(listening: [DatabaseMessage], at data: String = "null") throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2), try Bench.put(2, 0, "/", data)])
        bench.process(listening + [.lagging(Bench.session(1))])
        _ = bench.takeMessages()
        return bench
    }

    /// What session 1 is sent, without the envelope.
    private static func takeMessages(_ bench: Bench) -> [String] {
        bench.takeMessages().filter { $0.hasPrefix("1 ") }.map { line in
            line.dropFirst(2).replacing(#"{"t":"d","d":"#, with: "").dropLast().description
        }
    }

    @Test(
        arguments: [
            // data                 writes                                        sent                                   because
            (
                "null", [("/q/a", "1"), ("/q/a", "2"), ("/q/a", "3")],
                [#"{"a":"d","b":{"p":"q/a","d":3}}"#], "only the newest value of one place"
            ),
            (
                "null", [("/q/a", "1"), ("/q/b", "2"), ("/q/a", "3")],
                [#"{"a":"m","b":{"p":"q","d":{"a":3,"b":2}}}"#], "several places of one listen in one message"
            ),
            (
                "null", [("/q/a/x", "1"), ("/q/a/y", "2"), ("/q/a", #"{"z":3}"#)],
                [#"{"a":"d","b":{"p":"q/a","d":{"z":3}}}"#], "a place takes in what is below it"
            ),
            (
                "null", [("/q/a", #"{"z":3}"#), ("/q/a/z", "4")],
                [#"{"a":"d","b":{"p":"q/a","d":{"z":4}}}"#], "and what comes later below it"
            ),
            (
                #"{"q":{"a":{"b":1,".priority":3}}}"#, [("/q/a/b", "null"), ("/q/a/b", "1")],
                [#"{"a":"d","b":{"p":"q","d":{"a":{"b":1}}}}"#],
                "a place that vanished in between has lost its priority"
            ),
            (
                #"{"q":{"a":5,"c":1}}"#, [("/q/a/b", "1"), ("/q/a/b", "null")],
                [#"{"a":"d","b":{"p":"q/a","d":null}}"#],
                "a leaf that gave way to children that are gone again"
            ),
            (
                #"{"q":{"a":1}}"#, [("/", #"{"q":{"a":2}}"#)],
                [#"{"a":"d","b":{"p":"q","d":{"a":2}}}"#], "a write above the listen"
            ),
            (#"{"q":{"a":1}}"#, [("/elsewhere", "1")], [], "nothing that it listens to"),
        ] as [(String, [(String, String)], [String], String)])
    func defaultListen(data: String, writes: [(String, String)], sent: [String], because: String) throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")], at: data)
        bench.process(try writes.map { try Bench.put(2, 1, $0.0, $0.1) })
        #expect(Self.takeMessages(bench) == [], "\(because)")
        bench.process([.caughtUp(Bench.session(1))])
        #expect(Self.takeMessages(bench) == sent, "\(because)")
        // It keeps up again.
        bench.process([try Bench.put(2, 2, "/q/new", "1")])
        #expect(Self.takeMessages(bench) == [#"{"a":"d","b":{"p":"q/new","d":1}}"#], "\(because)")
    }

    @Test func windowIsSentWhole() throws {
        let bench = try Self.bench(
            listening: [try Self.query(1, 1, "/q", tag: 7)], at: #"{"q":{"a":1,"b":2,"c":3}}"#)
        bench.process([
            try Bench.put(2, 1, "/q/d", "4"), try Bench.put(2, 2, "/q/d", "null"),
            try Bench.put(2, 3, "/q/c", "null"),
        ])
        bench.process([.caughtUp(Bench.session(1))])
        #expect(Self.takeMessages(bench) == [#"{"a":"d","b":{"p":"q","d":{"a":1,"b":2},"t":7}}"#])
    }

    /// The client that writes while it lags is sent its own echo before the answer (realtime §6.3).
    @Test func echoComesBeforeTheReply() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        bench.process([
            try Bench.put(2, 1, "/q/a", "1"), try Bench.put(1, 5, "/q/b", "2"),
            try Bench.put(2, 2, "/q/a", "3"),
        ])
        #expect(
            Self.takeMessages(bench) == [
                #"{"a":"m","b":{"p":"q","d":{"a":1,"b":2}}}"#, #"{"r":5,"b":{"s":"ok","d":""}}"#,
            ])
        bench.process([.caughtUp(Bench.session(1))])
        #expect(Self.takeMessages(bench) == [#"{"a":"d","b":{"p":"q/a","d":3}}"#])
    }

    @Test func listenThatEndsWhileItsClientLagsIsNotSent() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q"), try Bench.listen(1, 2, "/p")])
        bench.process([try Bench.put(2, 1, "/q/a", "1"), try Bench.put(2, 2, "/p/a", "1")])
        bench.process([
            try Bench.request(1, #"{"t":"d","d":{"r":3,"a":"n","b":{"p":"/q"}}}"#),
            .caughtUp(Bench.session(1)),
        ])
        #expect(
            Self.takeMessages(bench) == [
                #"{"a":"d","b":{"p":"p/a","d":1}}"#, #"{"r":3,"b":{"s":"ok","d":""}}"#,
            ])
    }

    /// However many places change, few are remembered, and the client ends at the final state.
    @Test func manyChangedLocationsAreSentAsTheirParents() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        for number in 0..<1000 {
            bench.process([try Bench.put(2, number, "/q/g\(number % 3)/k\(number)", "\(number)")])
        }
        bench.process([.caughtUp(Bench.session(1))])
        let lines = Self.takeMessages(bench)
        #expect(
            lines.count == 1 && lines[0].hasPrefix(#"{"a":"m","b":{"p":"q","d":{"g0":{"#),
            "\(lines.map(\.count))")
    }

    @Test func sessionThatEndsWhileItLagsIsForgotten() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        bench.process([try Bench.put(2, 1, "/q/a", "1"), .closed(Bench.session(1))])
        #expect(bench.host.processor.coalescer.isEmpty)
        bench.process([.caughtUp(Bench.session(1)), .lagging(Bench.session(1))])
        #expect(bench.host.processor.coalescer.isEmpty)
    }
}
