import PandoBytes
import PandoEngine
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase

/// Listens are checked a part at a time when a credential or rules have changed (realtime §4.7, §5.4).
@Suite struct ListenCheckTests {
    /// More than are checked at once, of each kind.
    private static let count = 700
    private static let rules =
        #"{"rules":{".write":true,"open":{".read":true},"own":{".read":"auth != null"}}}"#
    private static let user = Credential(authVariable: #"{"uid":"u"}"#)

    private static func request(_ slot: UInt32, _ action: Action, by credential: Credential)
        -> DatabaseMessage
    {
        .request(Bench.session(slot), Request(number: 1, action: action), credential, byteCount: 100)
    }

    private static func put(_ path: Path, _ value: Int64) -> DatabaseMessage {
        request(2, .put(Write(Target(path), Draft(.integer(value)))), by: .anonymous)
    }

    private static func path(_ parent: Key, _ number: Int) -> Path {
        Path([parent, Key(unchecked: Text("k\(number)"))])
    }

    /// Session 1 is signed in, and listens to locations of its own and to open ones; session 2 writes.
    private static func bench() throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2)])
        bench.process([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        bench.process([.credentialChanged(Bench.session(1), user)])
        for number in 0..<count {
            for parent in ["own", "open"] as [Key] {
                let listen = Listen(path: path(parent, number), hash: "")
                bench.process([request(1, .listen(listen, queryText: nil), by: user)])
            }
        }
        bench.work()
        _ = bench.takeMessages()
        return bench
    }

    private static func ofListener(_ messages: [String]) -> [String] {
        messages.filter { $0.hasPrefix("1 ") }.map { String($0.dropFirst(2)) }
    }

    private static func isRevocation(_ message: String) -> Bool {
        message.hasPrefix(#"{"t":"d","d":{"a":"c""#)
    }
    private static func isPush(_ message: String) -> Bool { message.hasPrefix(#"{"t":"d","d":{"a":"d""#) }

    /// What makes the check begin, and what follows it in the same session.
    enum Change: CaseIterable { case signOut, rules }

    private static func begin(_ change: Change, on bench: Bench) throws {
        switch change {
        case .signOut:
            bench.process([
                .credentialChanged(Bench.session(1), .anonymous),
                .reply(Bench.session(1), .unauthenticated(9), byteCount: 10),
            ])
        case .rules:
            let closed = #"{"rules":{".write":true,"open":{".read":true}}}"#
            bench.process([.rules(["demo": try Ruleset(loading: Array(closed.utf8))])])
            bench.process([.reply(Bench.session(1), .unauthenticated(9), byteCount: 10)])
        }
    }

    @Test(arguments: Change.allCases) func nothingLeavesOnAListenThatIsNotChecked(change: Change) throws {
        let bench = try Self.bench()
        try Self.begin(change, on: bench)
        for number in 0..<Self.count {
            bench.process([Self.put(Self.path("own", number), 1), Self.put(Self.path("open", number), 1)])
        }
        let before = Self.ofListener(bench.takeMessages())
        #expect(
            before.allSatisfy(Self.isRevocation),
            "neither a push nor the reply comes before the check is done")
        #expect(before.count < Self.count)
        bench.work()
        let after = Self.ofListener(bench.takeMessages())
        #expect((before + after).count(where: Self.isRevocation) == Self.count)
        let rest = after.filter { !Self.isRevocation($0) }
        #expect(rest.last == #"{"t":"d","d":{"r":9,"b":{"s":"ok","d":"unauthenticated"}}}"#)
        let pushes = rest.dropLast()
        #expect(pushes.allSatisfy { Self.isPush($0) && $0.contains(#""p":"open/k"#) })
        #expect(pushes.count == Self.count, "what was withheld is sent once")
        // From now on as before.
        bench.process([Self.put(Self.path("own", 3), 2), Self.put(Self.path("open", 3), 2)])
        #expect(
            Self.ofListener(bench.takeMessages()) == [#"{"t":"d","d":{"a":"d","b":{"p":"open/k3","d":2}}}"#])
        #expect(bench.host.backlog.isIdle)
    }

    /// A slow reader that has caught up in the middle gets nothing before the check is done.
    @Test func caughtUpMeanwhile() throws {
        let bench = try Self.bench()
        bench.process([.lagging(Bench.session(1))])
        try Self.begin(.signOut, on: bench)
        bench.process([Self.put(Self.path("open", 1), 1), .caughtUp(Bench.session(1))])
        #expect(Self.ofListener(bench.takeMessages()).allSatisfy(Self.isRevocation))
        bench.work()
        #expect(Self.ofListener(bench.takeMessages()).count(where: Self.isPush) == 1)
    }

    @Test func sessionThatLagsDuringItsCheckStillLagsAfterIt() throws {
        let bench = try Self.bench()
        try Self.begin(.signOut, on: bench)
        bench.process([.lagging(Bench.session(1)), Self.put(Self.path("open", 1), 1)])
        bench.work()
        _ = bench.takeMessages()
        bench.process([Self.put(Self.path("open", 1), 2)])
        #expect(Self.ofListener(bench.takeMessages()).count(where: Self.isPush) == 0)
        bench.process([.caughtUp(Bench.session(1))])
        #expect(
            Self.ofListener(bench.takeMessages()) == [#"{"t":"d","d":{"a":"d","b":{"p":"open/k1","d":2}}}"#])
    }

    /// The session may end in the middle, by itself or because the client is back.
    @Test(arguments: [false, true]) func endsMeanwhile(isReplaced: Bool) throws {
        let bench = try Self.bench()
        let publicID = bench.host.processor.sessions[Bench.session(1)]!.publicID!.text.string
        try Self.begin(.signOut, on: bench)
        bench.process([isReplaced ? Bench.open(3, previous: publicID) : .closed(Bench.session(1))])
        bench.work()
        if isReplaced { bench.process([.closed(Bench.session(3))]) }
        bench.work()
        #expect(bench.host.backlog.isIdle)
        bench.process([Self.put("open/k1", 1)])
        _ = bench.takeMessages()
        #expect(bench.host.processor.databases["demo"]!.engine.checkInvariants() == (1, 0))
    }

    @Test func newRulesMeanwhile() throws {
        let bench = try Self.bench()
        try Self.begin(.signOut, on: bench)
        let closed = #"{"rules":{".write":true}}"#
        bench.process([.rules(["demo": try Ruleset(loading: Array(closed.utf8))])])
        bench.process([Self.put(Self.path("open", 1), 1)])
        bench.work()
        let messages = Self.ofListener(bench.takeMessages())
        #expect(messages.count(where: Self.isRevocation) == 2 * Self.count)
        #expect(messages.count(where: Self.isPush) == 0)
        #expect(bench.host.backlog.isIdle)
    }

    @Test func drainMeanwhile() throws {
        let bench = try Self.bench()
        try Self.begin(.signOut, on: bench)
        let drained = Flag()
        bench.process([.drain { drained.isSet = true }])
        bench.work()
        #expect(drained.isSet)
    }

    /// On the thread of the test.
    private final class Flag: @unchecked Sendable { var isSet = false }
}
