import PandoBytes
import PandoEngine
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// A handshake of a WebSocket (RFC 6455 §4.1).
private func handshake(_ target: String = "/.ws?v=5&ns=demo", host: String = "localhost:9000") -> String {
    request(
        "GET \(target)", "Host: \(host)", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
}

/// The upgrade to a WebSocket (realtime §1.1), and connections that move to the loop of their session.
@Suite struct UpgradeTests {
    /// The upgrade that the connection has asked for.
    private func asked(_ driver: HTTPDriver) -> (UpgradeRequest, [UInt8])? {
        for case .http(.upgrade(let request, let rest)) in driver.base.actions { return (request, rest) }
        return nil
    }

    private func answer(_ driver: inout HTTPDriver, mayJoin: Bool = false) -> (
        lines: [String], isUpgraded: Bool
    ) {
        guard let (request, _) = asked(driver) else { return ([], false) }
        var isUpgraded = false
        let lines = driver.event { isUpgraded = $0.upgrade(request, mayJoin: mayJoin, &$1) }
        return (lines, isUpgraded)
    }

    /// What a proxy says of its client counts only from a trusted one.
    @Test(
        arguments: [
            // X-Forwarded-Host      host by a trusted proxy
            ("db.example.com", "db.example.com"),
            ("db.example.com:8443", "db.example.com:8443"),
            ("a.example.com, b.example.com", "a.example.com"),
            ("", "localhost:9000"),
            ("evil/path", "localhost:9000"),
            ("user@host", "localhost:9000"),
        ] as [(String, String)])
    func forwardedHost(value: String, host: String) {
        for isTrusted in [true, false] {
            var driver = HTTPDriver()
            driver.base.socket.isTrustedProxy = isTrusted
            let text = handshake().replacing(
                "Upgrade: websocket",
                with: "X-Forwarded-Host: \(value)\r\nX-Forwarded-For: 1.2.3.4\r\nUpgrade: websocket")
            _ = driver.receive(text)
            #expect(asked(driver)?.0.openRequest.host == Text(isTrusted ? host : "localhost:9000"))
            #expect(driver.machine.forwardedFor == (isTrusted ? Array("1.2.3.4".utf8) : []))
        }
    }

    /// The Admin SDK for Java (realtime §2.3).
    @Test(
        arguments: [
            // User-Agent                                   may be pinged
            ("Firebase/5/9.4.3/17.0.2/AdminJava", false),
            ("Firebase/5/20.3.0/33/Android", true),
            ("AdminJava/5", true),
            ("", true),
        ] as [(String, Bool)])
    func clientsThatFailAtPings(agent: String, answersPings: Bool) throws {
        let lines = ["GET /.ws?v=5 HTTP/1.1", "Host: localhost"]
        #expect(UpgradeRequest(try head(lines + ["User-Agent: \(agent)"])).answersPings == answersPings)
        #expect(UpgradeRequest(try head(lines)).answersPings)
    }

    /// The owner of the state machine writes the response: the log has its status.
    @Test func handshakeRefusedElsewhereIsLogged() {
        var driver = HTTPDriver { $0.logsAccess = true }
        #expect(driver.receive(handshake()) == ["upgrade"])
        #expect(driver.event { $0.upgradeRefused(.tooManyRequests, &$1) } == ["log GET /.ws 429"])
        #expect(driver.event { $0.upgradeRefused(.tooManyRequests, &$1) } == [], "once")
        var silent = HTTPDriver()
        #expect(silent.receive(handshake()) == ["upgrade"])
        #expect(silent.event { $0.upgradeRefused(.tooManyRequests, &$1) } == [])
    }

    @Test func handshakeIsAnswered() {
        var driver = HTTPDriver()
        #expect(driver.receive(handshake() + "frames") == ["upgrade, 6 bytes follow"])
        #expect(driver.machine.hasEnded, "the connection is given away")
        let (lines, isUpgraded) = answer(&driver)
        #expect(lines == ["101"] && isUpgraded)
        #expect(driver.output.heads[0].contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
        // Realtime §1.1: Android demands these values alone, in any case.
        #expect(driver.output.heads[0].lowercased().contains("upgrade: websocket\r\nconnection: upgrade\r\n"))
        #expect(driver.machine.heldByteCount == 0)
    }

    @Test(
        arguments: [
            // head                                                                                    status
            (request("GET /.ws"), "426"),
            (request("POST /.ws", "Upgrade: websocket", "Connection: Upgrade"), "405"),
            (
                request("GET /.ws", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 8"),
                "426"
            ),
            (
                request(
                    "GET /.ws", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                    "Sec-WebSocket-Key: short"), "400"
            ),
        ])
    func refusedHandshake(bytes: String, status: String) {
        var driver = HTTPDriver { $0.logsAccess = true }
        driver.base.context.dateLine = Array("Date: Sat, 28 Nov 2026 02:00:00 GMT\r\n".utf8)
        #expect(driver.receive(bytes) == ["upgrade"])
        let (lines, isUpgraded) = answer(&driver)
        #expect(lines.first?.hasPrefix(status) == true && lines.last == "close after flush", "\(lines)")
        #expect(lines.contains { $0.hasPrefix("log ") && $0.hasSuffix(" /.ws \(status)") }, "\(lines)")
        #expect(lines.contains { $0.contains("\"error\"") }, "\(lines)")
        #expect(driver.output.heads.first?.contains("\r\nDate: Sat, 28 Nov 2026 02:00:00 GMT") == true)
        #expect(!isUpgraded && driver.machine.hasEnded)
    }

    /// Realtime §1.1 and §1.3: the namespace, the host for the handshake, and the session before.
    @Test(
        arguments: [
            // target                     host                     namespace   previous   joins
            ("/.ws?v=5&ns=demo", "localhost:9000", "demo", nil, false),
            ("/.ws?v=5", "localhost:9000", nil, nil, false),
            ("/.ws?v=5&ns=", "demo.firebaseio.com", "demo", nil, false),
            ("/.ws", "demo.firebaseio.com", "demo", nil, false),
            ("/.ws/?ns=a&ls=SID1&p=1:2:web:3", "h", "a", "SID1", false),
            ("/.ws?s=00000000000000010000000000000002", "h", nil, nil, true),
            ("/.ws?s=unknown", "h", nil, nil, true),
        ] as [(String, String, String?, String?, Bool)])
    func readsItsParameters(target: String, host: String, namespace: String?, previous: String?, joins: Bool)
        throws
    {
        let upgrade = UpgradeRequest(try head("GET \(target) HTTP/1.1", "Host: \(host)"))
        #expect(upgrade.openRequest.namespace == namespace && upgrade.openRequest.host.string == host)
        #expect(upgrade.openRequest.previousSession?.string == previous)
        #expect(upgrade.joins == joins && (upgrade.polling != nil) == (joins && !target.contains("unknown")))
    }

    /// Realtime §1.6: where the session does not exist, the socket is closed, and the client goes on by long
    /// polling.
    @Test func sessionThatCannotBeJoined() {
        var driver = HTTPDriver()
        _ = driver.receive(handshake("/.ws?s=00000000000000010000000000000002"))
        let (lines, isUpgraded) = answer(&driver, mayJoin: false)
        #expect(lines == ["101", "close after flush"] && !isUpgraded)
        #expect(ServerFrameReader().read(driver.output.rawBytes) == ["close 1000"])
    }

    @Test(
        arguments: [
            ("/.ws", true), ("/.ws/", true), ("/.ws//", true), ("/.wsx", false), ("/.w", false),
            ("/a/.ws", false),
            ("/.lp", false),
        ])
    func pathOfTheUpgrade(path: String, isUpgrade: Bool) {
        #expect(UpgradeRequest.isPath(Array(path.utf8)[...]) == isUpgrade)
        let polling = path.replacing(".ws", with: ".lp")
        #expect(LongPollingRequest.isPath(Array(polling.utf8)[...]) == (path == "/.lp" || isUpgrade))
    }

    /// An upgrade behind other requests waits for their responses; what is behind it goes with it.
    @Test func upgradeBehindARequest() {
        var driver = HTTPDriver()
        #expect(driver.receive(request("GET /a.json") + handshake() + "frames") == ["GET /a"])
        #expect(driver.receive(.read(node("1"))) == ["200 1", "upgrade, 6 bytes follow"])
        #expect(asked(driver)?.1 == Array("frames".utf8))
        #expect(driver.receive("more") == [], "the owner of the socket takes it to the WebSocket")
    }
}

/// Requests of long polling on their connection (realtime §1.5).
@Suite struct PollConnectionTests {
    private static let poll = "id=5&pw=k2Jd83hf0Q&ser=9"

    private static func driver(loop: UInt8 = 0) -> HTTPDriver {
        HTTPDriver {
            $0.loopIndex = loop
            $0.loopCount = 2
        }
    }

    private static let malformed = #"400 { "error" : "missing or malformed parameter: ser" }"#

    @Test(
        arguments: [
            HTTPConversation(
                "a session begins",
                [.client(request("GET /.lp?start=t&cb=7"), "start polling, callback 7, host localhost")]),
            HTTPConversation("a poll", [.client(request("GET /.lp?\(poll)"), "poll 9 of 5")]),
            HTTPConversation(
                "the page was left: 200 with an empty body (§1.5.3)",
                [.client(request("GET /.lp?disconn=t&id=5&pw=k2Jd83hf0Q"), "disconnect 5", "200")]),
            HTTPConversation(
                "a malformed poll",
                [
                    .client(request("GET /.lp?id=5&pw=k2Jd83hf0Q&ser=x"), malformed),
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                ]),
            HTTPConversation(
                "an id, or a password, that no session has (§1.5.3)",
                [
                    .client(request("GET /.lp?id=5&pw=x&ser=9"), "200 pLPCommand('close');"),
                    .client(request("GET /.lp?id=x&pw=k2Jd83hf0Q&ser=9"), "200 pLPCommand('close');"),
                    .client(request("GET /.lp?disconn=t&id=5&pw=x"), "200"),
                    .client(request("GET /.lp?dframe=t&id=5&pw=%3Cscript%3E"), "200"),
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                ]),
            HTTPConversation(
                "a body is not read, so nothing behind it",
                [
                    .client(
                        request("GET /.lp?\(poll)", "Host: localhost", "Content-Length: 3", body: "abc"),
                        "400 { \"error\" : \"Bad Request\" }, close", "close after flush")
                ]),
            HTTPConversation(
                "the session is over, or was never: 200 with the end (§1.5.3)",
                [
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                    Step("answered", ["200 pLPCommand('close');"]) { driver in
                        driver.event { $0.respondClosed(&$1) }
                    },
                    .client(request("GET /a.json"), "GET /a"),
                ]),
            HTTPConversation(
                "the connection of a poll that waits breaks",
                [
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                    Step("held", []) { driver in
                        driver.event { machine, _ in machine.holdPoll(of: SessionID(5)) }
                    },
                    .closed(inOrder: false, "poll is lost of 5"),
                ]),
            HTTPConversation(
                "its client gives it up",
                [
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                    Step("held", []) { driver in
                        driver.event { machine, _ in machine.holdPoll(of: SessionID(5)) }
                    },
                    .peerEnded("poll is lost of 5", "close after flush"),
                ]),
            HTTPConversation(
                "a poll is refused by its session",
                [
                    .client(request("GET /.lp?\(poll)"), "poll 9 of 5"),
                    Step("refused", [#"400 { "error" : "missing or malformed parameter: seg0" }"#]) {
                        driver in
                        driver.event { $0.refusePoll(LongPollingRequest.Malformed(parameter: "seg0"), &$1) }
                    },
                ]),
        ] as [HTTPConversation])
    func requests(conversation: HTTPConversation) { conversation.check() }

    /// The page that says when it is left (§1.5.3).
    @Test func disconnectPage() {
        var driver = Self.driver()
        let lines = driver.receive(request("GET /.lp?dframe=t&id=5&pw=k2Jd83hf0Q"))
        #expect(lines.count == 1 && lines[0].hasPrefix("200 "))
        #expect(driver.output.heads[0].contains("Content-Type: text/html; charset=utf-8"))
        #expect(text(driver.output.bodies[0]).contains("/.lp?disconn=t&id=5&pw=k2Jd83hf0Q"))
    }

    @Test(arguments: ["POST", "DELETE"])
    func pollWithAnotherMethodIsRefused(method: String) {
        var driver = Self.driver()
        let lines = driver.receive(request("\(method) /.lp?\(Self.poll)"))
        #expect(lines.first?.hasPrefix("405") == true && lines.last == "close after flush")
        #expect(driver.output.heads[0].contains("Allow: GET, HEAD\r\n"))
    }

    /// No session learns of HEAD, which changes nothing (RFC 9110 §9.2.1), also on another loop.
    @Test(
        arguments: [
            // query                                    Content-Type, and Content-Length where it is known
            ("start=t&cb=7", "application/javascript", nil),
            (poll, "application/javascript", nil),
            ("id=5&pw=x&ser=9", "application/javascript", nil),
            ("disconn=t&id=5&pw=k2Jd83hf0Q", "text/plain", "0"),
            ("disconn=t&id=5&pw=x", "text/plain", "0"),
            ("dframe=t&id=5&pw=x", "text/html", "0"),
        ] as [(String, String, String?)], [UInt8(0), 1])
    func headOfLongPolling(row: (query: String, type: String, length: String?), loop: UInt8) throws {
        var driver = Self.driver(loop: loop)
        driver.output.hasNoBodies = true
        #expect(driver.receive(request("HEAD /.lp?\(row.query)")) == ["200"])
        #expect(driver.output.unfinishedByteCount == 0, "no body")
        let head = try #require(driver.output.heads.first)
        #expect(head.contains("Content-Type: \(row.type); charset=utf-8"))
        #expect(head.contains("Content-Length: ") == (row.length != nil))
        if let length = row.length { #expect(head.contains("Content-Length: \(length)\r\n")) }
        #expect(driver.receive(request("HEAD /a.json")) == ["HEAD /a"], "the connection goes on")
    }

    /// The page is the same for HEAD and GET.
    @Test func headOfTheDisconnectPage() {
        var driver = Self.driver()
        _ = driver.receive(request("GET /.lp?dframe=t&id=5&pw=k2Jd83hf0Q"))
        driver.output.hasNoBodies = true
        #expect(driver.receive(request("HEAD /.lp?dframe=t&id=5&pw=k2Jd83hf0Q")) == ["200"])
        #expect(driver.output.heads[0] == driver.output.heads[1])
    }

    private func answer(_ driver: inout HTTPDriver, _ text: String, numbers: [Int]) -> [String] {
        let answer = PollResponse(scripts: [SharedBytes(Array(text.utf8))], numbers: numbers)
        return driver.event { $0.answer(answer, of: SessionID(5), &$1) }
    }

    /// Headers of a script (§1.5), and what is known of its delivery.
    @Test func responseIsKnownToBeReceivedWhenTheClientAsksAgain() {
        var driver = Self.driver()
        driver.base.socket.takesAll = false
        _ = driver.receive(request("GET /.lp?\(Self.poll)"))
        #expect(answer(&driver, "pRTLPCB(0,[]);", numbers: [0]) == ["200 pRTLPCB(0,[]);"])
        let head = driver.output.heads[0]
        #expect(head.contains("Content-Type: application/javascript; charset=utf-8"))
        #expect(head.contains("Cache-Control: no-store") && head.contains("X-Content-Type-Options: nosniff"))
        #expect(driver.machine.awaitsAcknowledgement && driver.machine.needsAcknowledgedByteCount)
        #expect(!driver.machine.sharesOutput)
        #expect(driver.event { $0.noteAcknowledged(&$1) } == [])
        _ = driver.take()
        #expect(driver.event { $0.noteAcknowledged(&$1) } == ["acknowledged [0] of 5, more in doubt"])
        #expect(driver.receive(request("GET /a.json")) == ["received [0] of 5", "GET /a"])
        #expect(!driver.machine.needsAcknowledgedByteCount && driver.machine.sharesOutput)
    }

    /// What is written to a connection that is closing is not sent: the session is to send it again.
    @Test func responseToAConnectionThatIsClosing() {
        var driver = Self.driver()
        _ = driver.receive(request("GET /.lp?\(Self.poll)"))
        _ = driver.event { $0.peerEnded(&$1) }
        driver.base.socket.end("close after flush")
        #expect(answer(&driver, "x", numbers: [3]).contains("lost [3] of 5"))
    }

    /// Where the next request may be for a session of another loop, the client is to take a large response
    /// first.
    @Test func largeResponseIsTakenBeforeTheNextRequest() {
        var driver = Self.driver()
        driver.base.socket.takesAll = false
        _ = driver.receive(request("GET /.lp?\(Self.poll)"))
        _ = answer(&driver, String(repeating: "x", count: 100_000), numbers: [0])
        #expect(driver.receive(request("GET /.lp?\(Self.poll)")) == [])
        #expect(driver.machine.pauses == [.request])
        #expect(driver.take(50_000) == ["poll 9 of 5"])
        #expect(
            driver.machine.pauses == [] && driver.machine.awaitsAcknowledgement,
            "asked ahead: nothing is known")
    }

    /// Behind what was sent ahead the end of the client is not seen: its poll does not wait.
    @Test func pollBehindWhichSomethingComesIsNotHeld() {
        var driver = Self.driver()
        #expect(
            driver.receive(request("GET /.lp?\(Self.poll)") + "G")
                == ["poll 9 of 5", "hurry poll of 5"], "in one read")
        var other = Self.driver()
        #expect(other.receive(request("GET /.lp?\(Self.poll)")) == ["poll 9 of 5"])
        _ = other.event { machine, _ in machine.holdPoll(of: SessionID(5)) }
        #expect(other.receive("G") == ["hurry poll of 5"], "later")
        #expect(other.receive("") == [], "nothing has come")
    }

    // MARK: Moves

    @Test func pollOfAnotherLoopMovesItsConnection() {
        let session = SessionID(loop: 1, slot: 5, generation: 0)
        var driver = Self.driver()
        let poll = "GET /.lp?id=\(session.rawValue)&pw=k2Jd83hf0Q&ser=9"
        #expect(
            driver.receive(request(poll) + request("GET /a.json")).first?.hasPrefix("move to loop 1, ")
                == true)
        var moved: MovedRequest?
        for case .http(.move(let request, 1)) in driver.base.actions { moved = request }
        #expect(driver.event { $0.leaveForOtherLoop(&$1) } == [] && driver.machine.hasEnded)
        guard let moved else {
            Issue.record("no move")
            return
        }
        var other = Self.driver(loop: 1)
        #expect(
            other.event { $0.received(moved, &$1) } == [
                "poll 9 of \(session.rawValue)", "hurry poll of \(session.rawValue)",
            ])
        #expect(other.machine.pauses == [.request], "what came behind it waits")
        #expect(other.event { $0.respondClosed(&$1) } == ["200 pLPCommand('close');", "GET /a"])
    }

    /// A proxy's connection that has moved so often is given up in favour of a new one.
    @Test func connectionThatHasMovedTooOftenEnds() throws {
        let head = try head("GET /.lp?\(Self.poll) HTTP/1.1", "Host: a")
        for (count, isLast) in [(255, false), (256, true)] {
            var driver = Self.driver()
            _ = driver.event { $0.received(MovedRequest(head: head, rest: [], moveCount: count), &$1) }
            let lines = driver.event { $0.respondClosed(&$1) }
            #expect(lines.last == (isLast ? "close after flush" : "200 pLPCommand('close');"))
        }
    }

    @Test func upgradeMovesToo() throws {
        let head = try head("GET /.ws?s=00000000000000010000000000000002 HTTP/1.1", "Host: a")
        var driver = Self.driver()
        let request = MovedRequest(head: head, rest: Array("rest".utf8), moveCount: 1)
        #expect(driver.event { $0.received(request, &$1) } == ["upgrade joining, 4 bytes follow"])
        #expect(driver.machine.move(UpgradeRequest(head), rest: [1]).moveCount == 2)
    }
}
