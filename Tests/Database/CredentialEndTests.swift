import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase

/// A credential expires or is revoked while requests of its session wait (auth §4.2, §5.3).
@Suite struct CredentialEndTests {
    private static let rules = #"""
        {"rules":{"open":{".read":true},"own":{".read":"auth != null",".write":"auth != null"},
          "big":{".read":"auth != null",".write":"auth != null"}}}
        """#
    private static let large = "{" + (0..<5000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"
    private static let user = Credential(authVariable: #"{"uid":"u"}"#)
    private static let other = Credential(authVariable: #"{"uid":"v"}"#)
    private static let session = Bench.session(1)

    private static func request(
        _ number: Int64, _ action: Action, under credentialNumber: UInt32 = 1, signIn: UInt32 = 0,
        by credential: Credential = user
    ) -> DatabaseMessage {
        .request(
            session, Request(number: number, action: action), credential,
            credentialNumber: credentialNumber, signIn: signIn, byteCount: 100)
    }

    private static func write(_ path: Path, _ value: Int64 = 1) -> Write {
        Write(Target(path), Draft(.integer(value)))
    }

    /// Its session waits until ``Bench/work(_:)``.
    private static func transaction(_ number: Int64) -> DatabaseMessage {
        request(
            number,
            .transaction(
                Write(Target("big"), Draft(.integer(1))), expectedHash: "wrong", wantsCurrentValue: false))
    }

    /// Another client writes.
    private static func put(_ path: Path, _ value: Int64) -> DatabaseMessage {
        .request(
            Bench.session(2), Request(number: 9, action: .put(write(path, value))), .admin, byteCount: 100)
    }

    /// Session 1 is signed in as the user, and listens.
    private static func bench(listeningTo paths: [Path] = []) throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2), try Bench.put(2, 1, "/big", large)])
        bench.process([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        bench.process([.credentialChanged(session, user, number: 1)])
        for path in paths {
            bench.process([request(1, .listen(Listen(path: path, hash: ""), queryText: nil))])
        }
        bench.work()
        _ = bench.takeMessages()
        return bench
    }

    private static func ofSession(_ bench: Bench) -> [String] {
        bench.takeMessages().filter { $0.hasPrefix("1 ") }.map { String($0.dropFirst(2)) }
    }

    private static func reply(_ number: Int, _ status: String) -> String {
        let text = status == "ok" ? "" : "Permission denied"
        return #"{"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","d":"\#(text)"}}}"#
    }

    private static func isRevocation(_ message: String) -> Bool {
        message.hasPrefix(#"{"t":"d","d":{"a":"c""#)
    }
    private static func isPush(_ message: String) -> Bool { message.hasPrefix(#"{"t":"d","d":{"a":"d""#) }

    @Test func theEndOvertakesRequestsThatWait() throws {
        let bench = try Self.bench(listeningTo: ["own", "open"])
        bench.process([
            Self.transaction(2), Self.request(3, .put(Self.write("own/a"))),
            Self.request(4, .get("own", Query())),
            Self.request(5, .listen(Listen(path: "own/b", hash: ""), queryText: nil)),
            Self.request(6, .merge("own", [Self.write("own/c")])),
            Self.request(7, .onDisconnectPut(Self.write("own/gone")), signIn: 1),
            Self.request(8, .unlisten("open", nil, tag: nil)),
        ])
        bench.process([.credentialEnded(Self.session, number: 1)])
        bench.process([Self.put("own/x", 1), Self.put("open/x", 1)])
        let before = Self.ofSession(bench)
        #expect(before.count == 2, "\(before)")
        #expect(
            before.first.map(Self.isRevocation) == true, "the listen is over before the requests are done")
        #expect(before.last == #"{"t":"d","d":{"a":"d","b":{"p":"open/x","d":1}}}"#)
        bench.work()
        #expect(
            Self.ofSession(bench) == (2...7).map { Self.reply($0, "permission_denied") }
                + [Self.reply(8, "ok")], "in order; what ends a listen is done")
        #expect(bench.host.processor.databases["demo"]!.engine.root["own" as Key].children.count == 1)
        #expect(bench.host.processor.databases["demo"]!.engine.hasQueue(Self.session) == false)
        // A later sign-in counts, and nothing of before is left.
        bench.process([
            .credentialChanged(Self.session, Self.user, number: 2),
            Self.request(9, .put(Self.write("own/a")), under: 2),
        ])
        bench.work()
        #expect(Self.ofSession(bench) == [Self.reply(9, "ok")])
        #expect(bench.host.backlog.isIdle)
    }

    /// The listens are many: nothing leaves on one that is not checked, and what the session waits for
    /// otherwise may be done before or behind the check.
    @Test func manyListens() throws {
        let count = 700
        let bench = try Self.bench(
            listeningTo: (0..<count).map { Path(["own", Key(unchecked: Text("k\($0)"))]) })
        bench.process([Self.transaction(2)])
        bench.process([.credentialEnded(Self.session, number: 1)])
        #expect(bench.host.access.isChecking(Self.session))
        for number in 0..<count {
            bench.process([Self.put(Path(["own", Key(unchecked: Text("k\(number)"))]), 1)])
        }
        let before = Self.ofSession(bench)
        #expect(before.allSatisfy(Self.isRevocation) && before.count < count)
        bench.work()
        let after = Self.ofSession(bench)
        #expect((before + after).count(where: Self.isRevocation) == count)
        #expect(after.last == Self.reply(2, "permission_denied"))
        #expect(!after.contains(where: Self.isPush))
        #expect(bench.host.backlog.isIdle)
    }

    /// The session had another credential when its requests were sent; the sign-in that has ended was waiting
    /// behind them.
    @Test func signInThatHasEndedBeforeItsTurn() throws {
        let bench = try Self.bench(listeningTo: ["own"])
        bench.process([
            Self.transaction(2), .credentialChanged(Self.session, Self.other, number: 2),
            Self.request(3, .put(Self.write("own/a")), under: 2, by: Self.other),
            .credentialChanged(Self.session, .anonymous),
            Self.request(4, .get("open", Query()), under: 0, by: .anonymous),
        ])
        bench.process([.credentialEnded(Self.session, number: 2), Self.put("own/x", 1)])
        #expect(Self.ofSession(bench).allSatisfy(Self.isRevocation))
        bench.work()
        let replies = Self.ofSession(bench)
        #expect(replies.count == 3 && replies[1] == Self.reply(3, "permission_denied"))
        #expect(replies.last?.contains(#""r":4,"b":{"s":"ok""#) == true, "it was sent after the sign-out")
        #expect(bench.host.processor.sessions[Self.session]?.credential == .anonymous)
    }

    /// What a revoked sign-in has queued is dropped at once, and what it has asked to queue is refused; that
    /// of another sign-in stays, and so does what the same one asks for when it is accepted again.
    @Test func revokedSignInsQueueNothing() throws {
        let bench = try Self.bench()
        func queue(_ number: Int64, _ path: Path, under credentialNumber: UInt32, signIn: UInt32)
            -> DatabaseMessage
        {
            Self.request(
                number, .onDisconnectPut(Self.write(path)), under: credentialNumber, signIn: signIn)
        }
        bench.process([queue(2, "own/first", under: 1, signIn: 1)])
        bench.process([
            Self.transaction(3), queue(4, "own/second", under: 1, signIn: 1),
            .credentialChanged(Self.session, Self.other, number: 2),
            queue(5, "own/third", under: 2, signIn: 2),
        ])
        _ = bench.takeMessages()
        #expect(bench.host.processor.databases["demo"]!.engine.queueSize(of: Self.session).count == 1)
        bench.process([.revoked(Self.session, [1], upTo: 2)])
        #expect(bench.host.processor.databases["demo"]!.engine.queueSize(of: Self.session).count == 0)
        bench.work()
        let replies = Self.ofSession(bench)
        #expect(replies.count == 3)
        #expect(replies.dropFirst() == [Self.reply(4, "permission_denied"), Self.reply(5, "ok")])
        bench.process([
            .credentialChanged(Self.session, Self.user, number: 3),
            queue(6, "own/fourth", under: 3, signIn: 1),
            .closed(Self.session),
        ])
        bench.work()
        let own = bench.host.processor.databases["demo"]!.engine.root["own" as Key]
        #expect(own.description == #"{"fourth":1,"third":1}"#)
    }

    /// What was queued before a mere expiry runs at the end of the session.
    @Test func queuedWritesOutliveAnExpiry() throws {
        let bench = try Self.bench()
        bench.process([Self.request(2, .onDisconnectPut(Self.write("own/gone")), signIn: 1)])
        bench.process([.credentialEnded(Self.session, number: 1), .closed(Self.session)])
        bench.work()
        #expect(
            bench.host.processor.databases["demo"]!.engine.root["own" as Key].description == #"{"gone":1}"#)
    }

    /// An end that comes late, or for a session that is not there, does nothing.
    @Test func endsWithoutEffect() throws {
        let bench = try Self.bench(listeningTo: ["own"])
        bench.process([
            .credentialChanged(Self.session, Self.other, number: 2),
            .credentialEnded(Self.session, number: 1),
            .credentialEnded(Bench.session(7), number: 1), Self.put("own/x", 1),
            Self.request(2, .put(Self.write("own/y")), under: 2, by: Self.other),
        ])
        let messages = Self.ofSession(bench)
        #expect(messages.count(where: Self.isPush) == 2 && messages.last == Self.reply(2, "ok"))
    }
}
