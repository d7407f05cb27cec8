import PandoEngine
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// How an HTTP connection ends, in each of its stages: the client closes its side, or breaks TLS, the process
/// ends, memory is short, the socket is gone.
@Suite struct ConnectionEndTests {
    /// A connection that waits in a stage, and what each end leads to there.
    struct Row: Sendable, CustomTestStringConvertible {
        let stage: String
        let reach: [Step<HTTPDriver>]
        let peerEnded: [String]
        let endIfIdle: [String]
        let giveUpMemory: [String]
        let closed: [String]

        var testDescription: String { stage }
    }

    private static let announced = request("PUT /a.json", "Host: localhost", "Content-Length: 70000")
    private static let unavailable =
        #"503 { "error" : "The server is overloaded or starting; try again later" }, close"#

    @Test(
        arguments: [
            Row(
                stage: "between requests", reach: [], peerEnded: ["close after flush"],
                endIfIdle: ["close after flush"], giveUpMemory: ["reset"], closed: []),
            Row(
                stage: "in a head", reach: [.client("GET /a")], peerEnded: ["close after flush"],
                endIfIdle: ["close after flush"], giveUpMemory: ["reset"], closed: []),
            Row(
                stage: "in a body",
                reach: [.client("PUT /a.json HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1")],
                peerEnded: ["close after flush"], endIfIdle: ["close after flush"],
                giveUpMemory: ["503", "close after flush"], closed: []),
            Row(
                stage: "while a large body is admitted", reach: [.client(announced, "admit PUT /a")],
                peerEnded: ["close after flush"], endIfIdle: ["close after flush"],
                giveUpMemory: ["503", "close after flush"], closed: ["closed"]),
            Row(
                stage: "while a token is verified",
                reach: [.client(request("GET /a.json?auth=T"), "verify T")],
                peerEnded: [], endIfIdle: [], giveUpMemory: ["reset"], closed: []),
            Row(
                stage: "while the databases work", reach: [.client(request("GET /a.json"), "GET /a")],
                peerEnded: [], endIfIdle: [], giveUpMemory: ["reset"], closed: ["closed"]),
            Row(
                stage: "while another thread reports",
                reach: [
                    .client(request("GET /.inspect/stats.json?access_token=T"), "verify T"),
                    .accepted(administrator, "inspect"),
                ], peerEnded: [], endIfIdle: [], giveUpMemory: ["reset"], closed: ["abandon jobs"]),
            Row(
                stage: "while a thread has the body",
                reach: [
                    .client(
                        write("PUT /a.json", "x", "Content-Encoding: gzip"),
                        "read body of 1 bytes, gzip, for PUT /a")
                ], peerEnded: [], endIfIdle: [], giveUpMemory: [], closed: ["cancel body"]),
            Row(
                stage: "while a response is sent",
                reach: [
                    .clientStopsReading, .client(request("GET /a.json"), "GET /a"),
                    .result(.verbatim([UInt8](repeating: 0x78, count: 300_000)), "200 300000 bytes"),
                ], peerEnded: [], endIfIdle: [], giveUpMemory: ["reset"],
                closed: ["closed"]),
            Row(
                stage: "in an event stream",
                reach: [
                    .client(request("GET /a.json", "Accept: text/event-stream"), "GET /a stream"),
                    .result(.stream, "200 stream", "recheck"),
                ], peerEnded: ["close after flush"], endIfIdle: ["close after flush"],
                giveUpMemory: ["reset"],
                closed: ["abandon jobs", "closed"]),
        ] as [Row])
    func ends(row: Row) {
        func reached() -> HTTPDriver {
            var driver = HTTPDriver()
            for step in row.reach { #expect(step.run(on: &driver) == step.expected, "\(row.stage)") }
            return driver
        }
        /// Of a response only its status.
        func brief(_ lines: [String]) -> [String] {
            lines.map { $0.hasPrefix("503") || $0.hasPrefix("200 {") ? String($0.prefix(3)) : $0 }
        }
        var driver = reached()
        #expect(driver.event { $0.peerEnded(&$1) } == row.peerEnded, "the client closes its side")
        driver = reached()
        #expect(driver.event { $0.endIfIdle(&$1) } == row.endIfIdle, "the process ends")
        driver = reached()
        #expect(brief(driver.event { $0.giveUpMemory(&$1) }) == row.giveUpMemory, "memory is short")
        driver = reached()
        #expect(driver.event { $0.closed(inOrder: false, &$1) } == row.closed, "the socket is gone")
        #expect(driver.machine.heldByteCount == 0, "and nothing is held")
        // The socket is closing before the connection learns of it, and lingers.
        driver = reached()
        driver.base.socket.end("TLS is broken")
        #expect(driver.event { $0.peerEnded(&$1) } == row.closed, "the client has broken TLS")
        #expect(driver.machine.hasEnded && driver.machine.heldByteCount == 0)
        #expect(driver.event { $0.closed(inOrder: false, &$1) } == [], "the end is reported once")
    }

    /// A session by long polling learns at once that its poll is lost, and asks for no further sign of the
    /// responses before it.
    @Test func pollOfClientThatHasBrokenTLS() {
        var driver = HTTPDriver()
        #expect(driver.receive(request("GET /.lp?id=5&pw=k2Jd83hf0Q&ser=9")) == ["poll 9 of 5"])
        _ = driver.event { machine, _ in machine.holdPoll(of: SessionID(5)) }
        driver.base.socket.end("TLS is broken")
        #expect(driver.event { $0.peerEnded(&$1) } == ["poll is lost of 5"])
        #expect(driver.event { $0.closed(inOrder: false, &$1) } == [])
    }

    /// A client that has closed its side, and a process that ends, wait for the response in progress, and no
    /// further request is read.
    @Test(arguments: [true, false])
    func responseInProgressIsFinished(isPeer: Bool) {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json"))
        #expect(driver.event { isPeer ? $0.peerEnded(&$1) : $0.endIfIdle(&$1) } == [])
        #expect(driver.receive(.read(node("1"))) == ["200 1", "close after flush"])
        #expect(driver.machine.hasEnded)
    }

    /// The same for what another thread answers.
    @Test func reportInProgressIsFinished() {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /.inspect/connections.json?access_token=T"))
        #expect(driver.event { $0.verified(.accepted(administrator), &$1) } == ["inspect"])
        #expect(driver.event { $0.peerEnded(&$1) } == [])
        let report = RESTReport(prefix: Array("{}".utf8))
        #expect(driver.event { $0.inspected(report, &$1) } == ["200 {}", "close after flush"])
        #expect(driver.machine.hasEnded)
    }

    /// Answered at once.
    private static let preflight = request("OPTIONS /a.json", "Access-Control-Request-Method: PUT")

    /// Requests that came before the client's end are answered, also where they wait behind another one.
    @Test(
        arguments: [
            HTTPConversation(
                "two requests",
                [
                    .client(request("GET /a.json") + request("GET /b.json"), "GET /a"), .peerEnded(),
                    .result(.read(node("1")), "200 1", "GET /b"),
                    .result(.read(node("2")), "200 2", "close after flush"),
                ]),
            HTTPConversation(
                "behind a request that is answered at once",
                [
                    .client(
                        request("GET /a.json") + preflight + request("GET /b.json")
                            + request("GET /c.json"), "GET /a"),
                    .result(.read(node("1")), "200 1", "200", "GET /b"), .peerEnded(),
                    .result(.read(node("2")), "200 2", "GET /c"),
                    .result(.read(node("3")), "200 3", "close after flush"),
                ]),
            HTTPConversation(
                "a body that waits until it is admitted",
                [
                    .client(
                        write("PUT /a.json", "\"" + String(repeating: "x", count: 70_000) + "\""),
                        "admit PUT /a"),
                    .peerEnded(), .result(.admitted, "read body of 70002 bytes for PUT /a"),
                ]),
            HTTPConversation(
                "a part of a request",
                [
                    .client(request("GET /a.json") + "GET /b", "GET /a"), .peerEnded(),
                    .result(.read(node("1")), "200 1", "close after flush"),
                ]),
            HTTPConversation(
                "none behind one that ends the connection",
                [
                    .client(
                        request("GET /a.json", "Host: localhost", "Connection: close")
                            + request("GET /b.json"), "GET /a"), .peerEnded(),
                    .result(.read(node("1")), "200 1, close", "close after flush"),
                ]),
            HTTPConversation(
                "none behind a stream",
                [
                    .client(
                        request("GET /a.json", "Accept: text/event-stream") + request("GET /b.json"),
                        "GET /a stream"), .peerEnded(), .result(.stream, "200 stream", "recheck"),
                    .events(
                        [.put("/", node("1"))], #"event: put data: {"path":"/","data":1}"#,
                        "close after flush"),
                ]),
            HTTPConversation(
                "none where the process ends",
                [
                    .client(request("GET /a.json") + request("GET /b.json"), "GET /a"), .peerEnded(),
                    .endIfIdle(), .result(.read(node("1")), "200 1", "close after flush"),
                ]),
        ] as [HTTPConversation])
    func requestsBeforeTheEnd(conversation: HTTPConversation) { conversation.check() }

    /// The same where others have their turn in between.
    @Test func requestsOfSeveralTurnsBeforeTheEnd() {
        var driver = HTTPDriver()
        var lines = driver.receive(String(repeating: Self.preflight, count: 90))
        lines += driver.event { $0.peerEnded(&$1) }
        for _ in 0..<2 {
            #expect(lines.last == "next turn")
            lines += driver.event { $0.nextTurn(&$1) }
        }
        #expect(lines.filter { $0.hasPrefix("200") }.count == 90)
        #expect(lines.filter { $0 == "close after flush" }.count == 1 && lines.last == "close after flush")
    }

    /// The databases end the connection of a session that they have ended.
    @Test func databasesEndTheConnection() {
        var driver = HTTPDriver()
        #expect(driver.event { $0.close(.goingAway, &$1) } == ["close after flush"])
    }

    /// A stream that opens after its client has closed its side: the client gets what there is.
    @Test func streamOfClientThatHasClosedItsSide() {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json", "Accept: text/event-stream"))
        #expect(driver.event { $0.peerEnded(&$1) } == [])
        #expect(driver.receive(.stream) == ["200 stream", "recheck"])
        #expect(
            driver.event { $0.receive([.put("/", node("1"))], &$1) } == [
                #"event: put data: {"path":"/","data":1}"#, "close after flush",
            ])
    }

    /// The same, where a worker makes or measures the first event: it is sent, and then the connection ends.
    @Test(arguments: [true, false], [true, false])
    func firstEventOfStreamThatIsMeasured(isWindow: Bool, isLate: Bool) {
        let json = "{" + (0..<300).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
        let window = StreamWindow(Window(Query(order: .key), over: node(json)))
        let large = node("\"" + String(repeating: "v", count: 300 << 10) + "\"")
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json", "Accept: text/event-stream"))
        if !isLate { #expect(driver.event { $0.peerEnded(&$1) } == []) }
        #expect(driver.receive(.stream) == ["200 stream", "recheck"])
        #expect(
            driver.event { isWindow ? $0.receive(window, &$1) : $0.receive([.put("/", large)], &$1) } == [
                isWindow ? "make window" : "measure up to 536870912"
            ])
        if isLate { #expect(driver.event { $0.peerEnded(&$1) } == []) }
        driver.base.socket.takesAll = false
        let made =
            isWindow
            ? NodeSizeCheck(making: window, for: HTTPDriver.id)
            : NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil)
        var lines = driver.event { $0.measured(made, &$1) }
        for _ in 0..<10 where driver.base.socket.end == nil { lines += driver.take() }
        #expect(lines.last == "close after flush")
        #expect(driver.base.log.filter { $0 == "close after flush" }.count == 1)
        #expect(driver.machine.heldByteCount == 0)
    }
}

@Suite struct DevelopmentConnectionTests {
    private static func development() -> HTTPDriver { HTTPDriver { $0.isDevelopment = true } }

    /// Under `--dev` everybody may have the names of the databases, and nothing else of `/.inspect`
    /// (rest §10).
    @Test(
        arguments: [
            ("GET /.inspect/databases.json?ns=demo", "list databases"),
            ("GET /.inspect/databases.json?ns=demo&access_token=", "list databases"),
            ("GET /.inspect/denials.json", "refuse 401 Unauthorized request."),
            ("GET /.settings/rules.json", "refuse 401 Unauthorized request."),
        ])
    func namesOfDatabases(line: String, message: String) {
        var driver = Self.development()
        #expect(driver.receive(request(line, "Host: localhost")) == [message])
        driver = HTTPDriver()
        #expect(driver.receive(request(line, "Host: localhost")) != ["list databases"], "only under --dev")
    }

    /// Under `--dev` pages from elsewhere are refused (rest §11: 403), also a handshake and a poll of theirs.
    @Test(
        arguments: [
            (request("GET /a.json", "Host: localhost", "Origin: http://evil.test"), false),
            (request("GET /a.json", "Host: evil.test"), false),
            (request("GET /.ws?v=5", "Host: evil.test"), false),
            (request("GET /.lp?start=t", "Host: localhost", "Sec-Fetch-Site: cross-site"), false),
            (write("PUT /a.json", "1", "Origin: http://evil.test"), false),
            (request("GET /a.json", "Host: localhost", "Origin: http://localhost:3000"), true),
        ] as [(String, Bool)])
    func pagesFromElsewhere(bytes: String, isServed: Bool) {
        var driver = Self.development()
        let lines = driver.receive(bytes + request("GET /b.json"))
        if isServed {
            #expect(lines == ["GET /a"])
        } else {
            #expect(lines.first == "report foreign request" && lines[1].hasPrefix("403"), "\(lines)")
            #expect(lines.last == "close after flush", "a body is not read, so nothing behind it")
        }
        driver = HTTPDriver()
        #expect(driver.receive(bytes).contains("report foreign request") == false, "only under --dev")
    }
}
