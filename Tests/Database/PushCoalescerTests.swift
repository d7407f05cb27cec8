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
                [#"{"a":"d","b":{"p":"q/a","d":{"z":3}}}"#],
                "a write at a location replaces the noted locations below it"
            ),
            (
                "null", [("/q/a", #"{"z":3}"#), ("/q/a/z", "4")],
                [#"{"a":"d","b":{"p":"q/a","d":{"z":4}}}"#],
                "a later write below a noted location is part of it"
            ),
            (
                #"{"q":{"a":{"b":1,".priority":3}}}"#, [("/q/a/b", "null"), ("/q/a/b", "1")],
                [#"{"a":"d","b":{"p":"q","d":{"a":{"b":1}}}}"#],
                "a place that vanished in between has lost its priority"
            ),
            (
                #"{"q":{"a":5,"c":1}}"#, [("/q/a/b", "1"), ("/q/a/b", "null")],
                [#"{"a":"d","b":{"p":"q/a","d":null}}"#],
                "a leaf was replaced by children, which were then removed"
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

    // MARK: Many locations

    private static func merge(_ slot: UInt32, _ number: Int, _ base: String, _ paths: [String]) throws
        -> DatabaseMessage
    {
        let entries = paths.map { "\"\($0)\":\(number)" }.joined(separator: ",")
        return try Bench.request(
            slot, #"{"t":"d","d":{"r":\#(number),"a":"m","b":{"p":"\#(base)","d":{\#(entries)}}}}"#)
    }

    /// To note a push takes as long for one location as for many: sessions that lag share what it changed.
    @Test func sessionsShareTheLocationsOfAPush() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        for slot: UInt32 in 3..<8 {
            bench.process([
                Bench.open(slot), try Bench.listen(slot, 1, "/q"), .lagging(Bench.session(slot)),
            ])
        }
        bench.process([try Self.merge(2, 7, "/q", (0..<100).map { "a\($0)/b/c" })])
        let changes = [1, 3, 4, 5, 6, 7].map {
            bench.host.processor.coalescer.missedChanges(of: Bench.session($0))?.changes ?? []
        }
        #expect(changes.allSatisfy { $0.count == 1 && $0[0] === changes[0][0] })
        #expect(changes[0][0].paths.count == 100)
        #expect(changes[0][0].coarse?.paths == ["q"])
        bench.process([.caughtUp(Bench.session(1))])
        let lines = Self.takeMessages(bench)
        #expect(lines.count == 1 && lines[0].hasPrefix(#"{"a":"m","b":{"p":"q","d":{"a0/b/c":7"#), "\(lines)")
    }

    /// However many writes of many locations a client misses, few locations are kept for it.
    @Test func keptLocationsAreBounded() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        for number in 0..<300 {
            bench.process([try Self.merge(2, number, "/q", (0..<200).map { "a\(number)/b\($0)/c" })])
            let missed = try #require(bench.host.processor.coalescer.missedChanges(of: Bench.session(1)))
            #expect(missed.changes.count < 2 * PushCoalescer.changeLimit)
            // The latest push may be over the limit, until the next one comes.
            let kept = missed.changes.reduce(0) { $0 + $1.paths.count }
            #expect(kept <= PushCoalescer.pathLimit + ChangedLocations.limit, "after \(number) pushes")
            #expect(missed.changedPaths.count <= PushCoalescer.pathLimit)
        }
        bench.process([.caughtUp(Bench.session(1))])
        #expect(Self.takeMessages(bench).count == 1)
    }

    /// Of a write of very many locations, the one that the writer named is kept.
    @Test func manyLocationsOfOnePushAreSentWhole() throws {
        let count = ChangedLocations.visitedEntryLimit + 1
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        bench.process([try Self.merge(2, 7, "/q/r", (0..<count).map { "a\($0)/b" })])
        let missed = try #require(bench.host.processor.coalescer.missedChanges(of: Bench.session(1)))
        #expect(missed.changes.map(\.paths) == [["q/r"]])
    }

    /// A path may have 24 KiB: of one with more than Firebase allows, a location above is kept and sent.
    @Test func longPathsAreSentAsLocationsAbove() throws {
        let long = (0..<30).map { "\($0)" + String(repeating: "k", count: 700) }
        let bench = try Self.bench(
            listening: [
                try Bench.listen(1, 1, "/q"),
                try Bench.listen(1, 2, "/p/" + long[..<5].joined(separator: "/")),
            ])
        for number in 0..<100 {
            for base in ["q", "p"] {
                let path = "/\(base)/\(long.joined(separator: "/"))/\(number)"
                bench.process([try Bench.put(2, number, path, "1")])
            }
        }
        let missed = try #require(bench.host.processor.coalescer.missedChanges(of: Bench.session(1)))
        #expect(missed.changedPaths == [Path(trusted: "p/" + long[0]), Path(trusted: "q/" + long[0])])
        bench.process([.caughtUp(Bench.session(1))])
        let lines = Self.takeMessages(bench)
        #expect(lines.count == 2)
        for line in lines {
            // Each of the keys that all have in common is there once.
            #expect(line.utf8.count < 2 * 30 * 710, "\(line.utf8.count)")
            #expect((0..<100).allSatisfy { line.contains("\"\($0)\":1") })
        }
    }

    /// Many locations of many bytes are joined to fewer ones above them, even where they are not very many.
    @Test func keptBytesAreBounded() throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        for number in 0..<300 {
            let key = String(repeating: "k", count: 600)
            bench.process([try Bench.put(2, number, "/q/\(key)\(number % 7)/\(number)", "1")])
            let missed = try #require(bench.host.processor.coalescer.missedChanges(of: Bench.session(1)))
            let byteCount = missed.changedPaths.reduce(0) { $0 + $1.keyByteCount }
            #expect(byteCount <= PushCoalescer.pathByteLimit)
        }
        bench.process([.caughtUp(Bench.session(1))])
        #expect(Self.takeMessages(bench).count == 1)
    }

    @Test func topmostLocationsCoverAll() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let paths = (0..<Int.random(in: 1...60, using: &generator)).map { _ in
                Path(
                    (0..<Int.random(in: 0...5, using: &generator)).map { _ in
                        Key(unchecked: Text("k\(Int.random(in: 0..<3, using: &generator))"))
                    })
            }
            let limit = Int.random(in: 1...20, using: &generator)
            let topmost = paths.topmost(atMost: limit)
            #expect(topmost.count <= limit && topmost == topmost.sorted())
            #expect(paths.allSatisfy { path in topmost.contains { $0.contains(path) } })
            for path in topmost {
                #expect(topmost.count { $0.contains(path) } == 1, "\(topmost) of \(paths)")
                #expect(paths.contains { path.contains($0) })
            }
            let all = paths.topmost(atMost: .max)
            #expect(all.count > limit || all == topmost, "no fewer than may be")
            let byteLimit = Int.random(in: 0...60, using: &generator)
            let small = paths.topmost(atMost: .max, keyBytes: byteLimit)
            func byteCount(_ paths: [Path]) -> Int { paths.reduce(0) { $0 + $1.keyByteCount } }
            #expect(byteCount(small) <= byteLimit && small == small.sorted())
            #expect(paths.allSatisfy { path in small.contains { $0.contains(path) } })
            #expect(byteCount(all) > byteLimit || all == small, "no fewer than may be")
        }
    }

    // MARK: Order

    /// What was coalesced comes before the reply to any request, also to one that no database is asked about
    /// (realtime §6.1).
    @Test(arguments: [
        SessionReply.ok(5), .unauthenticated(5), .authenticated(5, authVariable: nil, expires: nil),
        .authenticationFailed(5, isExpired: false, reason: "no"), .unknownAction(5), .invalid(5, .tooDeep),
        .tooBig(5),
    ])
    func newestStateComesBeforeTheReply(reply: SessionReply) throws {
        let bench = try Self.bench(listening: [try Bench.listen(1, 1, "/q")])
        bench.process([
            try Bench.put(2, 1, "/q/a", "1"), .reply(Bench.session(1), reply, byteCount: 10),
            try Bench.put(2, 2, "/q/a", "2"),
        ])
        let lines = Self.takeMessages(bench)
        #expect(lines.count == 2)
        #expect(lines.first == #"{"a":"d","b":{"p":"q/a","d":1}}"#)
    }
}
