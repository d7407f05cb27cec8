import PandoBytes
import PandoRandom
import PandoWebSocket
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase
@testable import PandoIdentity

/// Messages of a client on a WebSocket: frames in, requests to the databases out (realtime §2, §3, §4).
@Suite struct WebSocketMessageTests {
    @Test(
        arguments: [
            WebSocketConversation("a request", [.client(putMessage(1), "request 1 put /a 1")]),
            WebSocketConversation(
                "requests are posted in the order in which they came (§3.4)",
                [
                    .clientSends(
                        .clientText(putMessage(1)) + .clientText(ask(2, "q", #"{"p":"/b","h":""}"#))
                            + .clientText(ask(3, "n", #"{"p":"/b"}"#)),
                        "request 1 put /a 1", "request 2 listen /b", "request 3 unlisten /b")
                ]),
            WebSocketConversation(
                "what needs no database keeps its place among the replies",
                [
                    .client(ask(1, "s", #"{"c":{}}"#), "reply 1 ok"),
                    .client(ask(2, "appcheck", #"{"token":"x"}"#), "reply 2 ok"),
                    .client(ask(3, "unauth", "{}"), "identity", "reply 3 unauthenticated"),
                    .client(ask(4, "zz", "{}"), "reply 4 unknown action"),
                    .client(ask(5, "p", #"{"p":"/a.b","d":1}"#), "reply 5 invalid"),
                ]),
            WebSocketConversation(
                "a ping is answered (§2.4)", [.client(control("p"), pong), .client(control("p"), pong)]),
            WebSocketConversation(
                "keep-alive, empty frames and other controls are ignored (§2.2, §2.3, §3.2)",
                [
                    .client("0"), .client(""), .client("-1"), .client(control("zz")), .client(control("a")),
                    .client(control("n")), .client(putMessage(1), "request 1 put /a 1"),
                ]),
            WebSocketConversation(
                "a message in chunks (§2.1)",
                [
                    .client("3"), .client(String(putMessage(1).prefix(10))),
                    .client(String(putMessage(1).dropFirst(10).prefix(5))),
                    .client(String(putMessage(1).dropFirst(15)), "request 1 put /a 1"),
                ]),
            WebSocketConversation(
                "one chunk is legal (§2.2)",
                [
                    .client("1"), .client(putMessage(1), "request 1 put /a 1"),
                    .client(putMessage(2), "request 2 put /a 1"),
                ]),
            WebSocketConversation(
                "a message in fragments, with a ping between them (RFC 6455 §5.4)",
                [
                    .clientSends(.clientFrame(.text, putMessage(1).utf8.prefix(9), isFinal: false)),
                    .clientSends(.clientFrame(.ping, "hi".utf8), "pong hi"),
                    .clientSends(
                        .clientFrame(.continuation, putMessage(1).utf8.dropFirst(9)), "request 1 put /a 1"),
                ]),
            WebSocketConversation(
                "an unsolicited pong is ignored (RFC 6455 §5.5.3)",
                [.clientSends(.clientFrame(.pong, "x".utf8)), .client(putMessage(1), "request 1 put /a 1")]),
        ] as [WebSocketConversation])
    func messages(conversation: WebSocketConversation) { conversation.check() }

    /// What ends the connection, and with which code (RFC 6455 §7.4.1). The session ends with it, once.
    @Test(
        arguments: [
            // frames                                                     code   because
            (.clientText("{"), "1007", "no JSON: no reply could reach the right request (§4.0)"),
            (.clientText(#"{"t":"x","d":{}}"#), "1007", "neither control nor data"),
            (.clientText(#"{"t":"d","d":{"a":"p"}}"#), "1007", "no number"),
            (.clientText("[1]"), "1007", "no object"),
            (.clientText("7777"), "1009", "more chunks than a message has"),
            (.clientFrame(.binary, [1, 2]), "1003", "binary"),
            ([0x81, 0x01, 0x41], "1002", "not masked (RFC 6455 §5.1)"),
            ([0xC1, 0x80, 0, 0, 0, 0], "1002", "a reserved bit (RFC 6455 §5.2)"),
            ([0x83, 0x80, 0, 0, 0, 0], "1002", "a reserved opcode (RFC 6455 §5.2)"),
            ([0x09, 0x80, 0, 0, 0, 0], "1002", "a control frame in fragments (RFC 6455 §5.5)"),
            (.clientFrame(.continuation, [0x41]), "1002", "nothing to continue (RFC 6455 §5.4)"),
            (.clientFrame(.text, [0xFF, 0xFE]), "1007", "no UTF-8 (RFC 6455 §8.1)"),
        ] as [([UInt8], String, String)])
    func violations(bytes: [UInt8], code: String, because: String) {
        var driver = WebSocketDriver()
        let lines = driver.receive(bytes + .clientText(putMessage(1)))
        let counts = code == "1009" ? ["count limit messageBytes"] : []
        #expect(lines == counts + ["close \(code)", "close after flush", "closed"], "\(because)")
        #expect(!driver.machine.isOpen)
        #expect(driver.receive(putMessage(2)) == [] && driver.event { $0.closed(&$1) } == [], "\(because)")
        #expect(driver.machine.heldByteCount == 0, "\(because)")
    }

    /// A message that is larger than the limit ends the connection, as a frame, in fragments and in chunks.
    @Test(arguments: [0, 1, 2])
    func oversizedMessage(form: Int) {
        var driver = WebSocketDriver { $0.messageByteLimit = 20_000 }
        let half = String(repeating: "a", count: 10_001)
        let bytes: [UInt8] =
            switch form {
            case 0: .clientText(half + half)
            case 1: .clientFrame(.text, half.utf8, isFinal: false) + .clientFrame(.continuation, half.utf8)
            default: .clientText("2") + .clientText(half) + .clientText(half)
            }
        #expect(
            driver.receive(bytes) == [
                "count limit messageBytes", "close 1009", "close after flush", "closed",
            ])
    }

    /// A large message is parsed by a worker; what follows it waits for the result.
    @Test(
        arguments: [
            WebSocketConversation(
                "what follows waits, and then goes on in order",
                [
                    .client(large(1), "parse 70051 bytes"), .client(putMessage(2)),
                    .holds("the socket is not read") { $0.machine.pauses == [.input] },
                    .holds("both are counted") { $0.machine.unfinishedByteCount > 70_051 },
                    .parsed(large(1, 1), "request 1 put /a \"v\"", "request 2 put /a 1"),
                    .holds("the socket is read") {
                        $0.machine.pauses == [] && $0.machine.unfinishedByteCount == 0
                    },
                ]),
            WebSocketConversation(
                "two large messages are parsed one after the other",
                [
                    .clientSends(.clientText(large(1)) + .clientText(large(2)), "parse 70051 bytes"),
                    .parsed(large(1, 1), "parse 70051 bytes", "request 1 put /a \"v\""),
                    .parsed(large(2, 1), "request 2 put /a \"v\""),
                ]),
            WebSocketConversation(
                "it is malformed",
                [
                    .client(large(1), "parse 70051 bytes"),
                    .parsed("{", "close 1007", "close after flush", "closed"),
                ]),
            WebSocketConversation(
                "the connection ends meanwhile",
                [
                    .client(large(1), "parse 70051 bytes"), .closed("abandon jobs", "closed"),
                    .parsed(large(1, 1)),
                ]),
        ] as [WebSocketConversation])
    func largeMessages(conversation: WebSocketConversation) { conversation.check() }

    private static func large(_ number: Int, _ byteCount: Int = 70_000) -> String {
        putMessage(number, "/a", "\"" + String(repeating: "v", count: byteCount) + "\"")
    }

    /// One stream of frames, cut in any way, gives the same requests and the same answers.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func cutsChangeNothing(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var stream: [UInt8] = []
        for number in 0..<20 {
            let message = putMessage(
                number, "/k\(number)",
                "\"" + String(repeating: "é", count: Int.random(in: 0...400, using: &random)) + "\"")
            switch Int.random(in: 0..<6, using: &random) {
            case 0: stream += .clientText(message)
            case 1:
                // In chunks, cut between bytes as C++ clients do (§2.1).
                let bytes = Array(message.utf8)
                let at = Int.random(in: 1..<bytes.count, using: &random)
                stream +=
                    .clientText("2") + .clientFrame(.text, bytes[..<at]) + .clientFrame(.text, bytes[at...])
            case 2:
                let bytes = Array(message.utf8)
                let at = Int.random(in: 0...bytes.count, using: &random)
                stream += .clientFrame(.text, bytes[..<at], isFinal: false)
                stream += .clientFrame(.continuation, bytes[at...])
            case 3: stream += .clientFrame(.ping, "\(number)".utf8)
            case 4: stream += .clientText(control("p"))
            default: stream += .clientText("0")
            }
        }
        if Bool.random(using: &random) {
            stream += .clientFrame(.close, [0x03, 0xE8]) + .clientText(putMessage(99))
        }
        var whole = WebSocketDriver()
        let expected = whole.receive(stream)
        for _ in 0..<4 {
            var driver = WebSocketDriver()
            var start = 0
            while start < stream.count {
                let length = Int.random(in: 1...(random.next() % 3 == 0 ? 2 : 500), using: &random)
                _ = driver.receive(Array(stream[start..<min(stream.count, start + length)]))
                start += length
            }
            // Of one event what is written comes first, then the messages; so both are compared by
            // themselves.
            for isMessage in [true, false] {
                let found = driver.base.log.filter { $0.hasPrefix("request") == isMessage }
                #expect(found == expected.filter { $0.hasPrefix("request") == isMessage }, "seed \(seed)")
            }
            #expect(driver.machine.unfinishedByteCount == 0, "seed \(seed)")
        }
    }

    /// Small reads between messages; large ones while a message is gathered that does not fit.
    @Test func readsAreLargeWhileAMessageIsGathered() {
        var driver = WebSocketDriver()
        let frame = [UInt8].clientText(
            putMessage(1, "/a", "\"" + String(repeating: "v", count: 30_000) + "\""))
        #expect(driver.machine.readByteLimit == 16 << 10)
        _ = driver.receive(Array(frame[..<16_384]))
        #expect(driver.machine.readByteLimit == .max && driver.machine.unfinishedByteCount >= 16_000)
        _ = driver.receive(Array(frame[16_384...]))
        #expect(driver.machine.readByteLimit == 16 << 10 && driver.machine.unfinishedByteCount == 0)
    }
}

/// Whose a session is (realtime §4.7, auth §4).
@Suite struct SignInTests {
    private static let auth = #"{"cred":"T"}"#

    @Test(
        arguments: [
            WebSocketConversation(
                "the authentication is finished before the next message is looked at (§3.4)",
                [
                    .clientSends(
                        .clientText(ask(1, "auth", auth)) + .clientText(putMessage(2))
                            + .clientText(ask(3, "auth", auth)),
                        "verify T"),
                    .holds("the socket is not read") { $0.machine.pauses == [.input] },
                    .accepted(
                        user("ada"), "verify T", "identity as ada", #"reply 1 authenticated {"uid":"ada"}"#,
                        "request 2 put /a 1 as ada"),
                    .accepted(user("bob"), "identity as bob", #"reply 3 authenticated {"uid":"bob"}"#),
                    .holds("the socket is read") { $0.machine.pauses == [] },
                ]),
            WebSocketConversation(
                "the client signs out",
                [
                    .client(ask(1, "auth", auth), "verify T"),
                    .accepted(user("ada"), "identity as ada", #"reply 1 authenticated {"uid":"ada"}"#),
                    .client(ask(2, "unauth", "{}"), "identity", "reply 2 unauthenticated"),
                    .client(putMessage(3), "request 3 put /a 1"),
                ]),
            WebSocketConversation(
                "a refusal leaves the credential as it was",
                [
                    .client(ask(1, "auth", auth), "verify T"),
                    .accepted(user("ada"), "identity as ada", #"reply 1 authenticated {"uid":"ada"}"#),
                    .client(ask(2, "auth", auth), "verify T"),
                    .refused(.badSignature, "reply 2 invalid_token: Could not parse auth token."),
                    .client(putMessage(3), "request 3 put /a 1 as ada"),
                ]),
            WebSocketConversation(
                "the token expires: the client is signed out, and says so to fetch another (auth §4.2)",
                [
                    .client(ask(1, "auth", auth), "verify T"),
                    .accepted(
                        user("ada", validUntil: 1_700_000_100), "expire at 1700000100", "identity as ada",
                        #"reply 1 authenticated {"uid":"ada"} until 1700000100"#),
                    .expired("cancel expiry", revoked("Auth token is expired."), "credential 1 ended"),
                    .client(putMessage(2), "request 2 put /a 1"),
                ]),
            WebSocketConversation(
                "a fresh token replaces the expiry",
                [
                    .client(ask(1, "auth", auth), "verify T"),
                    .accepted(
                        user("ada", validUntil: 1_700_000_100), "expire at 1700000100", "identity as ada",
                        #"reply 1 authenticated {"uid":"ada"} until 1700000100"#),
                    .client(ask(2, "auth", auth), "verify T"),
                    .accepted(
                        user("ada", validUntil: 1_700_000_200), "expire at 1700000200", "identity as ada",
                        #"reply 2 authenticated {"uid":"ada"} until 1700000200"#),
                    .closed("cancel expiry", "closed"),
                ]),
            WebSocketConversation(
                "an administrator acts as a user, or as signed out (auth §2.4)",
                [
                    .client(ask(1, "gauth", #"{"cred":"T","authvar":{"uid":"bob"}}"#), "verify T"),
                    .accepted(administrator, "identity as bob", #"reply 1 authenticated {"uid":"bob"}"#),
                    .client(ask(2, "gauth", #"{"cred":"T","noauth":true}"#), "verify T"),
                    .accepted(administrator, "identity", "reply 2 authenticated null"),
                ]),
            WebSocketConversation(
                "no other client may",
                [
                    .client(ask(1, "auth", #"{"cred":"T","authvar":{"uid":"bob"}}"#), "verify T"),
                    .accepted(user("ada"), "reply 1 invalid_token: Access denied."),
                    .client(putMessage(2), "request 2 put /a 1"),
                ]),
            WebSocketConversation(
                "a verdict that was not asked for is dropped", [.accepted(administrator), .refused(.expired)]),
            WebSocketConversation(
                "the connection ends while a token is verified",
                [
                    .client(ask(1, "auth", auth), "verify T"), .client(putMessage(2)), .closed("closed"),
                    .accepted(administrator),
                ]),
        ] as [WebSocketConversation])
    func signIns(conversation: WebSocketConversation) { conversation.check() }

    private static func revoked(_ reason: String) -> String {
        #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"\#(reason)"}}}"#
    }

    /// What a client learns of a token that is refused (auth §4.1).
    @Test(
        arguments: [
            (.expired, "expired_token: Auth token is expired."),
            (.badSignature, "invalid_token: Could not parse auth token."),
            (.revoked, "invalid_token: Could not parse auth token."),
            (.keysUnavailable, "unavailable: The token cannot be verified at the moment."),
            (.tooManyFailures, "unavailable: Too many bad credentials from this address."),
        ] as [(TokenError, String)])
    func refusals(error: TokenError, reply: String) {
        var driver = WebSocketDriver()
        #expect(driver.receive(ask(1, "auth", Self.auth)) == ["verify T"])
        #expect(driver.event { $0.verified(.refused(error), &$1) } == ["reply 1 " + reply])
    }

    /// The client hangs up while its token is being verified: its session is over, and stays so.
    @Test(arguments: [false, true])
    func tokenVerifiedAfterTheEndIsIgnored(isClosed: Bool) {
        var driver = WebSocketDriver()
        #expect(driver.receive(ask(1, "auth", Self.auth)) == ["verify T"])
        #expect(driver.event { $0.peerEnded(&$1) } == ["close after flush", "closed"])
        if isClosed { _ = driver.event { $0.closed(&$1) } }
        #expect(driver.event { $0.verified(.accepted(user("ada")), &$1) } == [])
    }

    /// A client that shows nothing but bad tokens is ended; one good token between them counts anew.
    @Test(arguments: [false, true])
    func tooManyRefusals(hasGoodOne: Bool) {
        var driver = WebSocketDriver()
        var lines: [String] = []
        for number in 1...64 {
            #expect(driver.receive(ask(number, "auth", Self.auth)) == ["verify T"])
            let isGood = hasGoodOne && number == 30
            lines = driver.event {
                $0.verified(isGood ? .accepted(user("ada")) : .refused(.badSignature), &$1)
            }
        }
        #expect(lines.contains("finished") == !hasGoodOne)
        #expect(driver.receive(putMessage(99)).isEmpty == !hasGoodOne, "nothing more is read")
    }

    /// What a revoked sign-in has queued is dropped, also where another one is in force by now; what another
    /// has queued stays (auth §5.3).
    @Test func revokedSignInsLoseWhatTheyHaveQueued() {
        var driver = WebSocketDriver()
        let queue = #"{"p":"/a","d":1}"#
        for (number, name) in [(1, "ada"), (3, "bob")] {
            _ = driver.receive(ask(number, "auth", Self.auth))
            _ = driver.event { $0.verified(.accepted(user(name, signedInAt: 100)), &$1) }
            #expect(
                driver.receive(ask(number + 1, "o", queue)) == [
                    "request \(number + 1) onDisconnect put /a as \(name), sign-in \(number == 1 ? 1 : 2)"
                ])
        }
        var state = RevocationState()
        state.revokedBefore = ["ada": 200]
        #expect(driver.event { $0.recheck(state, &$1) } == ["revoked [1]"], "the session is bob's")
        state.revokedBefore = ["bob": 200]
        let lines = driver.event { $0.recheck(state, &$1) }
        #expect(lines.contains("revoked [2]") && lines.contains("credential 2 ended"), "bob is signed out")
        #expect(lines.contains(Self.revoked("Auth token is no longer accepted.")))
        #expect(
            driver.receive(ask(5, "om", #"{"p":"/a","d":{"b":1}}"#)) == ["request 5 onDisconnect merge /a"])
    }

    /// One sign-in has one number, however often its token is refreshed; there is a limit to how many queue
    /// something.
    @Test func signInsOfOneConnectionAreBounded() {
        var driver = WebSocketDriver()
        var last: [String] = []
        for number in 0...256 {
            _ = driver.receive(ask(number, "auth", Self.auth))
            _ = driver.event { $0.verified(.accepted(user("ada", signedInAt: Double(number))), &$1) }
            for _ in 0..<2 {
                while driver.machine.session.isFull { _ = driver.event { $0.windowMarkReturned(&$1) } }
                last = driver.receive(ask(number, "o", #"{"p":"/a","d":1}"#))
            }
            if number < 256 { #expect(last.first?.hasSuffix("sign-in \(number + 1)") == true) }
            while driver.machine.session.isFull { _ = driver.event { $0.windowMarkReturned(&$1) } }
        }
        #expect(last.first == "finished", "the connection ends, and the client comes back")
    }
}
