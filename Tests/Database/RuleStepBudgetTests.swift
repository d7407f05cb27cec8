import PandoBytes
import PandoEngine
import PandoHTTP
import PandoREST
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// Rules that take longer than the databases have at once: over stored texts, whose size no request shows.
@Suite("rules that take long") struct RuleStepBudgetTests {
    private static let rules = #"""
        {"rules":{"t":{".write":true},"n":{".write":true},
          "w":{".write":true,".validate":"!root.child('t').val().contains('z')"},
          "v":{".write":true,".validate":"root.child('t').val().contains('z')"},
          "s":{".write":"newData.val() >= 0 && !root.child('t').val().contains('z')"},
          "seen":{".read":"root.child('t').val().contains('z')"},
          "own":{"$k":{".read":"root.child('t').val().contains('z')",".write":true}},
          "secret":{".read":"\#(six)"}}}
        """#
    /// Together more steps than a read may take.
    private static let six = Array(repeating: "root.child('t').val().contains('z')", count: 6)
        .joined(separator: " && ")
    /// Bytes of text that take more steps than there are at once, and fewer than there are for a request.
    private static let byteCount = 3 << 20

    private static func bench() throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2)])
        bench.process([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        try put(bench, 1, "/t", #""\#(String(repeating: "x", count: byteCount))""#)
        bench.work()
        _ = bench.takeMessages()
        return bench
    }

    private static func put(_ bench: Bench, _ number: Int, _ path: String, _ value: String) throws {
        bench.process([try Bench.put(1, number, path, value)])
    }

    private static func reply(_ slot: Int, _ number: Int, _ status: String) -> String {
        let text = status == "ok" ? "" : "Permission denied"
        return #"\#(slot) {"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","d":"\#(text)"}}}"#
    }

    @Test("another thread judges the write; other sessions go on, and the session keeps its order")
    func writesAreJudgedElsewhere() throws {
        let bench = try Self.bench()
        bench.process([
            try Bench.put(1, 2, "/w", "1"), try Bench.put(1, 3, "/n", "1"), try Bench.put(2, 4, "/n", "2"),
        ])
        #expect(bench.takeMessages() == [Self.reply(2, 4, "ok")])
        var areHeavy: [Bool] = []
        bench.work { job in
            areHeavy.append(SnapshotJob.prepare(job).isHeavier(than: 1 << 30, 1 << 30))
            return true
        }
        #expect(areHeavy == [true], "a small write whose rules take long")
        #expect(bench.takeMessages() == [Self.reply(1, 2, "ok"), Self.reply(1, 3, "ok")])
        bench.process([try Bench.put(1, 5, "/v", "1")])
        #expect(bench.takeMessages().isEmpty)
        bench.work()
        #expect(bench.takeMessages() == [Self.reply(1, 5, "permission_denied")])
        let root = bench.host.processor.databases["demo"]!.engine.root
        #expect(root["w" as Key] == .integer(1) && root["v" as Key].isEmpty)
        #expect(bench.host.processor.metrics.requests.value(of: .put) == 5, "each is counted once")
    }

    @Test("updates, compare-and-set and onDisconnect writes as well")
    func otherWrites() throws {
        let bench = try Self.bench()
        for (number, action) in [
            (2, #""a":"m","b":{"p":"/","d":{"w":1,"n":2}}"#),
            (3, #""a":"p","b":{"p":"/w","d":2,"h":"\#(Node.integer(1).hash)"}"#),
            (4, #""a":"o","b":{"p":"/w","d":7}"#),
            (5, #""a":"om","b":{"p":"/","d":{"n":7}}"#),
        ] {
            bench.process([try Bench.request(1, #"{"t":"d","d":{"r":\#(number),\#(action)}}"#)])
            if number < 5 { #expect(bench.takeMessages().isEmpty, "\(action)") }
            bench.work()
            #expect(bench.takeMessages() == [Self.reply(1, number, "ok")], "\(action)")
        }
        bench.process([.closed(Bench.session(1))])
        bench.work()
        let root = bench.host.processor.databases["demo"]!.engine.root
        #expect(root["w" as Key] == .integer(7) && root["n" as Key] == .integer(7))
    }

    @Test("what a rule has read has changed meanwhile: it is judged again")
    func changesMeanwhile() throws {
        let bench = try Self.bench()
        bench.process([try Bench.put(1, 2, "/w", "1")])
        var isFirst = true
        bench.work { _ in
            if isFirst {
                isFirst = false
                let text = String(repeating: "x", count: Self.byteCount) + "z"
                let put = Action.put(Write(Target("t"), Draft(.string(Text(text)))))
                bench.process([
                    .request(
                        Bench.session(2), Request(number: 3, action: put), .admin, byteCount: 100)
                ])
            }
            return true
        }
        #expect(
            bench.takeMessages().filter { $0.hasPrefix("1 ") } == [Self.reply(1, 2, "permission_denied")])
    }

    @Test("increments are added to the numbers that the rules were asked about")
    func increments() throws {
        let bench = try Self.bench()
        try Self.put(bench, 1, "/s", "1")
        bench.work()
        _ = bench.takeMessages()
        let less = #"{".sv":{"increment":-1}}"#
        bench.process([try Bench.put(1, 2, "/s", less), try Bench.put(2, 3, "/s", less)])
        bench.work()
        #expect(
            bench.takeMessages().sorted() == [
                Self.reply(1, 2, "ok"), Self.reply(2, 3, "permission_denied"),
            ])
        #expect(bench.host.processor.databases["demo"]!.engine.root["s" as Key] == .integer(0))
    }

    @Test("a read that takes so long is denied")
    func reads() throws {
        let bench = try Self.bench()
        let text = String(repeating: "x", count: Self.byteCount) + "z"
        try Self.put(bench, 2, "/t", "\"\(text)\"")
        bench.work()
        _ = bench.takeMessages()
        bench.process([try Bench.request(2, #"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/secret"}}}"#)])
        #expect(bench.takeMessages() == [Self.reply(2, 3, "permission_denied")])
        bench.process([try Bench.request(2, #"{"t":"d","d":{"r":4,"a":"g","b":{"p":"/seen"}}}"#)])
        #expect(bench.takeMessages() == [#"2 {"t":"d","d":{"r":4,"b":{"s":"ok","d":null}}}"#])
    }

    private static func patch(_ target: String, _ json: String) throws -> DatabaseMessage {
        var reader = RequestHeadReader()
        var offset = 0
        let bytes = Array("PATCH \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        guard let head = try reader.read(bytes.rawSpan, from: &offset) else { throw TruncatedBytes() }
        let request = try RESTRequest(head)
        let body = try request.readBody(Array(json.utf8).rawSpan)
        return .rest(
            Bench.session(9),
            RESTCall(namespace: "demo", action: .data(request, body, .anonymous)),
            byteCount: json.utf8.count)
    }

    @Test("all that the response to an update shows takes no more steps than one read")
    func responsesToUpdates() throws {
        let bench = try Self.bench()
        let text = String(repeating: "x", count: Self.byteCount) + "z"
        try Self.put(bench, 2, "/t", "\"\(text)\"")
        bench.work()
        _ = bench.takeMessages()
        let members = (0..<5).map { #""k\#($0)":{".sv":"timestamp"}"# }.joined(separator: ",")
        let database = try #require(bench.host.processor.databases["demo"])
        _ = database.engine.takeRuleStepCount()
        bench.process([try Self.patch("/own.json?ns=demo", "{\(members)}")])
        #expect(database.engine.takeRuleStepCount() <= RulesLimits.readStepCount + RulesLimits.stepsAtOnce)
        let messages = bench.takeMessages()
        #expect(messages.count == 1)
        // The first is shown as it is stored: there are steps for one search.
        #expect(messages.first?.ranges(of: "timestamp").count == 4, "\(messages)")
        #expect(database.engine.root["own" as Key].children.count == 5)
    }
}
