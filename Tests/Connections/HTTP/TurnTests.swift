import PandoEngine
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// How much one connection does before others have their turn.
@Suite struct HTTPTurnTests {
    private static let answeredAtOnce = request("OPTIONS /a.json", "Access-Control-Request-Method: PUT")

    private func responses(_ lines: [String]) -> Int { lines.filter { $0.hasPrefix("200") }.count }

    /// Requests that are answered without the databases, so many in one read: 32 in each turn. What comes
    /// meanwhile waits behind them.
    @Test func pipelinedRequestsAreReadInTurns() {
        var driver = HTTPDriver()
        var lines = driver.receive(String(repeating: Self.answeredAtOnce, count: 90))
        #expect(responses(lines) == 32 && lines.last == "next turn")
        #expect(driver.machine.pauses == [.request], "the socket is not read meanwhile")
        #expect(driver.receive(Self.answeredAtOnce + "GET /last.js") == [], "read before the pause")
        lines = driver.event { $0.nextTurn(&$1) }
        #expect(responses(lines) == 32 && lines.last == "next turn")
        lines = driver.event { $0.nextTurn(&$1) }
        #expect(responses(lines) == 27 && !lines.contains("next turn"))
        #expect(driver.machine.pauses == [])
        #expect(driver.receive("on HTTP/1.1\r\nHost: localhost\r\n\r\n") == ["GET /last"])
        #expect(driver.event { $0.nextTurn(&$1) } == [], "a turn that was not asked for")
    }

    /// A poll of a session that is over is answered at once: the next one is read in the same turn.
    @Test func pollsThatAreAnsweredAtOnceAreReadInTurns() {
        var driver = HTTPDriver()
        let poll = request("GET /.lp?id=4278190080&ser=1&pw=aaaaaaaaaa")
        var lines = driver.receive(String(repeating: poll, count: 90))
        for turn in 0..<2 {
            var answeredCount = 0
            while !lines.contains("next turn"), answeredCount < 90 {
                lines = driver.event { $0.respondClosed(&$1) }
                answeredCount += 1
            }
            #expect(answeredCount == 32, "in turn \(turn)")
            lines = driver.event { $0.nextTurn(&$1) }
        }
    }

    /// As many as are read in one turn need no other.
    @Test func noTurnIsAskedForWhereNothingIsLeft() {
        var driver = HTTPDriver()
        let lines = driver.receive(String(repeating: Self.answeredAtOnce, count: 32))
        #expect(responses(lines) == 32 && !lines.contains("next turn"))
        #expect(driver.machine.pauses == [])
    }

    /// Heads of many bytes take longer.
    @Test func bytesOfHeadsCountToo() {
        var driver = HTTPDriver()
        let long = request(
            "OPTIONS /\(String(repeating: "a", count: 700)).json?\(String(repeating: "a", count: 6000))")
        let lines = driver.receive(String(repeating: long, count: 9))
        #expect(responses(lines) == 3 && lines.last == "next turn", "three times 6.7 KB are more than 16 KiB")
    }

    /// The response that a request behind a body waits for may lead to many others.
    @Test func requestsBehindAResponseAreReadInTurns() {
        var driver = HTTPDriver()
        #expect(
            driver.receive(request("GET /a.json") + String(repeating: Self.answeredAtOnce, count: 40)) == [
                "GET /a"
            ])
        let lines = driver.receive(.read(node("1")))
        #expect(responses(lines) == 1 + 32 && lines.last == "next turn")
        #expect(responses(driver.event { $0.nextTurn(&$1) }) == 8)
        #expect(driver.machine.pauses == [])
    }

    @Test func connectionThatEndsNeedsItsTurnNoMore() {
        var driver = HTTPDriver()
        _ = driver.receive(String(repeating: Self.answeredAtOnce, count: 90))
        #expect(driver.event { $0.endIfIdle(&$1) } == ["close after flush"])
        _ = driver.event { $0.closed(inOrder: true, &$1) }
        #expect(driver.event { $0.nextTurn(&$1) } == [])
    }

    // MARK: Printing

    private static let data = node("{" + (0..<2000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")

    /// Responses of others have used up what the loop prints in this tick: a large one takes turns, a small
    /// one is not kept waiting.
    @Test(arguments: [nil, "Accept-Encoding: gzip"])
    func largeResponsesWaitWhereTheLoopHasPrintedEnough(field: String?) {
        var driver = HTTPDriver()
        driver.base.context.printing = PrintingBudget(byteCount: 10_000)
        func get(_ path: String) -> String {
            field.map { request("GET \(path).json", $0) } ?? request("GET \(path).json")
        }
        #expect(driver.receive(get("/a")) == ["GET /a"])
        #expect(responses(driver.receive(.read(Self.data))) == 1, "it was not known how much that is")
        #expect(driver.receive(get("/b")) == ["GET /b"])
        #expect(driver.receive(.read(Self.data)) == ["next turn"])
        #expect(
            responses(driver.event { $0.nextTurn(&$1) }) == 1, "its turn, however much was printed before")
        #expect(driver.receive(get("/c")) == ["GET /c"])
        #expect(driver.receive(.read(node("1"))) == ["200 1"])
        driver.base.context.printing.refill()
        #expect(driver.receive(get("/d")) == ["GET /d"])
        #expect(responses(driver.receive(.read(Self.data))) == 1, "another tick")
    }

    /// One piece in each turn, where there is no more to print in a tick. A response of up to 1 MiB has a
    /// Content-Length, so what is printed of it waits; that is counted as the client's.
    @Test(arguments: [(150_000, "gzip"), (150_000, "identity"), (50_000, "identity")])
    func piecesOfALargeResponseTakeTurns(childCount: Int, coding: String) {
        var driver = HTTPDriver()
        let data = node("{" + (0..<childCount).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        driver.base.context.printing = PrintingBudget(byteCount: 1)
        _ = driver.receive(request("GET /a.json", "Accept-Encoding: \(coding)"))
        _ = driver.receive(.read(data))
        var lines = driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
        var (turnCount, responseCount, mostWaiting) = (0, responses(lines), 0)
        while lines.contains("next turn"), turnCount < 1000 {
            turnCount += 1
            mostWaiting = max(mostWaiting, driver.machine.waitingByteCount / RESTLimits.pieceByteCount)
            lines = driver.event { $0.nextTurn(&$1) }
            responseCount += responses(lines)
        }
        #expect(responseCount == 1, "\(lines.map { $0.prefix(60) })")
        #expect(turnCount >= json(data).utf8.count / RESTLimits.pieceByteCount)
        let pieceCount =
            (min(json(data).utf8.count, RESTLimits.wholeResponseByteCount) - 1)
            / RESTLimits.pieceByteCount
        #expect(coding == "gzip" ? mostWaiting <= 4 : mostWaiting >= pieceCount, "\(mostWaiting)")
        #expect(driver.machine.waitingByteCount == 0)
    }

    /// Asks for a value of some pieces, of which one is printed.
    private static func beginLargeResponse(_ driver: inout HTTPDriver, version: String = "1.1") -> [String] {
        driver.base.context.printing = PrintingBudget(byteCount: 1)
        let data = node("{" + (0..<50_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        _ = driver.receive("GET /a.json HTTP/\(version)\r\nHost: localhost\r\n\r\n")
        _ = driver.receive(.read(data))
        return driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
    }

    /// While 16 responses of a loop are buffered until their length is known, a further one is sent in
    /// chunks, and is not buffered. A client with HTTP/1.0 needs the Content-Length to know whether it has
    /// the whole body.
    @Test(arguments: [
        (0, "1.1", "\r\nContent-Length: "), (15, "1.1", "\r\nContent-Length: "),
        (16, "1.1", "\r\nTransfer-Encoding: chunked"), (16, "1.0", "\r\nContent-Length: "),
    ])
    func seventeenthLargeResponseIsChunked(othersCount: Int, version: String, framing: String) {
        var driver = HTTPDriver()
        driver.base.context.bufferingCount = othersCount
        var lines = Self.beginLargeResponse(&driver, version: version)
        let isBuffered = framing.contains("Length")
        #expect(driver.base.context.bufferingCount == othersCount + (isBuffered ? 1 : 0))
        // Its turn comes late: that is not the client's fault.
        _ = driver.tick()
        driver.base.wait(1000)
        #expect(!driver.tick().contains("reset"))
        for _ in 0..<100 where lines.contains("next turn") { lines = driver.event { $0.nextTurn(&$1) } }
        #expect(driver.output.heads.last?.contains(framing) == true)
        #expect(driver.base.context.bufferingCount == othersCount)
    }

    @Test func disconnectingEndsTheBuffering() {
        var driver = HTTPDriver()
        _ = Self.beginLargeResponse(&driver)
        #expect(driver.base.context.bufferingCount == 1)
        _ = driver.event { $0.closed(inOrder: false, &$1) }
        #expect(driver.base.context.bufferingCount == 0)
    }

    /// Nothing more is printed for a client that is being disconnected.
    @Test func nothingIsPrintedForAClosedSocket() {
        var driver = HTTPDriver()
        _ = Self.beginLargeResponse(&driver)
        #expect(driver.machine.isResponding && driver.machine.heldByteCount > 0)
        _ = driver.event {
            $1.socket.isOpen = false
            $0.nextTurn(&$1)
        }
        #expect(!driver.machine.isResponding && driver.machine.heldByteCount == 0)
        #expect(driver.base.context.bufferingCount == 0)
    }

    @Test func requestThatIsGivenUpNeedsItsTurnNoMore() {
        var driver = HTTPDriver()
        driver.base.context.printing = PrintingBudget(byteCount: 0)
        _ = driver.receive(request("GET /a.json?timeout=5s"))
        #expect(driver.receive(.read(Self.data)) == ["next turn"])
        let refusal = driver.event { $0.deadlinePassed(&$1) }
        #expect(refusal.contains("close after flush"))
        #expect(driver.event { $0.nextTurn(&$1) } == [])
    }

    /// Events of a stream are printed, too.
    @Test func eventStreamsTakeTurns() {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json", "Accept: text/event-stream"))
        _ = driver.receive(.stream)
        driver.base.context.printing = PrintingBudget(byteCount: 0)
        let events: [StreamEvent] = [.put("/", node("1")), .put("/", node("2"))]
        #expect(driver.event { $0.receive(events, &$1) } == ["next turn"])
        #expect(
            driver.event { $0.receive([.put("/", node("3"))], &$1) } == [], "one turn at a time is asked for")
        for number in 1...3 {
            let lines = driver.event { $0.nextTurn(&$1) }
            #expect(lines.first == #"event: put data: {"path":"/","data":\#(number)}"#)
            #expect(lines.contains("next turn") || number == 3)
        }
        #expect(driver.event { $0.nextTurn(&$1) } == [])
    }

    /// A stream waits for its turn, and its client has taken all of it. How much the client has acknowledged
    /// is known only while something is unsent: what the context has then is another connection's.
    @Test func clientOfAStreamIsNotJudgedWhileNothingIsUnsent() {
        var driver = HTTPDriver()
        let data = node("{" + (0..<150_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        driver.base.socket.takesAll = false
        _ = driver.receive(request("GET /a.json", "Accept: text/event-stream"))
        _ = driver.receive(.stream)
        _ = driver.event { $0.receive([.put("/", data)], &$1) }
        _ = driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
        for _ in 0..<4 { _ = driver.take() }
        #expect(driver.base.socket.unsentByteCount > 0)
        #expect(!driver.tick().contains("reset"), "its account begins")
        driver.base.context.printing = PrintingBudget(byteCount: 0)
        #expect(driver.take(driver.base.socket.unsentByteCount - 1000) == ["next turn"])
        _ = driver.take()
        #expect(driver.base.socket.unsentByteCount == 0 && driver.machine.stream?.isPrinting == true)
        driver.base.wait(1)
        let lines = driver.event {
            $1.socket.acknowledgedByteCount = 0
            $0.tick(&$1)
        }
        #expect(!lines.contains("reset"))
    }
}
