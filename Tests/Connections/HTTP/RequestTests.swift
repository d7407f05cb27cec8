import PandoBytes
import PandoEngine
import PandoRandom
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Requests as they come in, one after the other, and when the connection ends behind a response.
@Suite struct RequestTests {
    @Test(
        arguments: [
            HTTPConversation(
                "a read, and another on the same connection (RFC 9112 §9.3)",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.read(node("1")), "200 1"),
                    .client(request("GET /b.json"), "GET /b"),
                    .result(.read(node("null")), "200 null"),
                ]),
            HTTPConversation(
                "a head in three pieces",
                [
                    .client("GET /a.js"), .client("on HTTP/1.1\r\nHost: loc"),
                    .client("alhost\r\n\r\n", "GET /a"),
                ]),
            HTTPConversation(
                "pipelined requests are answered one after the other, in their order",
                [
                    .client(
                        request("GET /1.json") + request("GET /2.json") + request("GET /3.json"), "GET /1"),
                    .holds("the socket is not read") { $0.machine.pauses == [.request] },
                    .result(.read(node("1")), "200 1", "GET /2"),
                    .result(.read(node("2")), "200 2", "GET /3"),
                    .holds("the last is in progress, and the socket is read") { $0.machine.pauses == [] },
                    .result(.read(node("3")), "200 3"),
                ]),
            HTTPConversation(
                "the beginning of the next head waits with the request before it",
                [
                    .client(request("GET /1.json") + "GET /2.js", "GET /1"),
                    .result(.read(node("1")), "200 1"),
                    .client("on HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /2"),
                ]),
            HTTPConversation(
                "Connection: close",
                [
                    .client(request("GET /a.json", "Host: localhost", "Connection: close"), "GET /a"),
                    .result(.read(node("1")), "200 1, close", "close after flush"),
                    .client(request("GET /b.json")),
                ]),
            HTTPConversation(
                "HTTP/1.0 ends with its response (RFC 9112 §9.3)",
                [
                    .client("GET /a.json HTTP/1.0\r\n\r\n", "GET /a"),
                    .result(.read(node("1")), "200 1, close", "close after flush"),
                ]),
            HTTPConversation(
                "HTTP/1.0 with keep-alive goes on",
                [
                    .client("GET /a.json HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /a"),
                    .result(.read(node("1")), "200 1"),
                    .client(request("GET /b.json"), "GET /b"),
                ]),
            HTTPConversation(
                "an empty line before a request is skipped (RFC 9112 §2.2)",
                [.client("\r\n" + request("GET /a.json"), "GET /a")]),
            HTTPConversation(
                "a result without a request is dropped",
                [.result(.read(node("1"))), .client(request("GET /a.json"), "GET /a")]),
            HTTPConversation(
                "a result comes once",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.read(node("1")), "200 1"),
                    .result(.read(node("2"))),
                ]),
        ] as [HTTPConversation])
    func onOneConnection(conversation: HTTPConversation) { conversation.check() }

    /// Which database a request is for (rest §1.2).
    @Test(
        arguments: [
            // target                host                            message
            ("/a.json", "localhost:9000", "GET /a"),
            ("/a.json", "demo.localhost", "GET /a"),
            ("/a.json", "127.0.0.1", "GET /a"),
            ("/a.json?ns=", "localhost", "GET /a"),
            ("/a.json?ns=demo", "localhost", "GET /a in demo"),
            ("/a.json", "demo.firebaseio.com", "GET /a in demo"),
            ("/a.json?ns=other", "demo.firebaseio.com", "GET /a in other"),
            ("/.json", "demo.europe-west1.firebasedatabase.app:443", "GET / in demo"),
        ])
    func database(target: String, host: String, message: String) {
        var driver = HTTPDriver()
        for _ in 0..<2 {
            #expect(driver.receive(request("GET \(target)", "Host: \(host)")) == [message])
            _ = driver.receive(.read(.empty))
        }
        #expect(driver.receive(request("GET /a.json", "Host: third.example.org")) == ["GET /a in third"])
    }

    /// What comes is no HTTP/1.1: the status says why, and nothing behind it is read (rest §11).
    @Test(
        arguments: [
            ("GET /a.json\r\n\r\n", "400"),
            ("GET /a.json HTTP/1.1\r\n\r\n", "400"),
            ("GET /a.json HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
            ("GET /a.json HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
            ("GET /a.json HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", "400"),
            ("GET /a.json HTTP/1.1\r\nHost: a\r\nX: \u{0}\r\n\r\n", "400"),
            ("GET /a.json HTTP/2.0\r\nHost: a\r\n\r\n", "505"),
            ("GET /" + String(repeating: "a", count: 20_000) + ".json HTTP/1.1\r\n", "414"),
            (
                "GET /a.json HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "x", count: 70_000) + "\r\n\r\n",
                "431"
            ),
            (String(repeating: "A", count: 100) + " /a.json HTTP/1.1\r\n\r\n", "501"),
            ("PUT /a.json HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "400"),
            ("PUT /a.json HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"),
            (
                "PUT /a.json HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "400"
            ),
            ("PUT /a.json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n", "501"),
            ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}", "400"),
        ])
    func malformedHead(bytes: String, status: String) {
        var driver = HTTPDriver()
        let lines = driver.receive(bytes + "garbage" + "\r\n\r\n")
        let isCounted = status == "414" || status == "431"
        #expect(lines.contains("count limit headBytes") == isCounted)
        let response = lines.first { !$0.hasPrefix("count") }
        #expect(response?.hasPrefix(status) == true && lines.last == "close after flush", "\(lines)")
        #expect(driver.machine.hasEnded && driver.machine.activity == .idle)
        #expect(driver.receive(request("GET /a.json")) == [], "nothing behind it is read")
    }

    /// A request that is wrong is refused by the databases, in the order of rest §9: an unknown namespace
    /// comes first.
    @Test(
        arguments: [
            // request                                             message
            (request("GET /a"), "refuse 404 append .json to your request URI to use the REST API."),
            (request("GET /a%2Fb.json"), "refuse 400 Invalid path: Invalid token in path"),
            (request("GET /a.json?orderBy=x"), "refuse 400 orderBy must be a valid JSON encoded path"),
            (request("BREW /a.json?ns=demo"), "refuse 405 Method not allowed in demo"),
            (
                request("POST /a.json", "X-HTTP-Method-Override: X"),
                "refuse 400 Unknown method in X-HTTP-Method-Override"
            ),
        ])
    func wrongRequest(bytes: String, message: String) {
        var driver = HTTPDriver()
        #expect(driver.receive(bytes) == [message])
        let lines = driver.receive(.refused(.invalidPath))
        #expect(lines == [#"400 { "error" : "Invalid path: Invalid token in path" }"#])
        #expect(driver.receive(request("GET /b.json")) == ["GET /b"], "the connection goes on")
    }

    /// What is no request, or ends as none, has its line in the access log, and the request's id where its
    /// head was read.
    @Test(
        arguments: [
            // bytes                              log                       id comes back
            ("BREW\r\n\r\n", "log - - 400", false),
            (request("GET /a", "x: \(String(repeating: "x", count: 1 << 20))"), "log - - 431", false),
            (
                request(
                    "PUT /a.json", "X-Request-ID: id-7", "Transfer-Encoding: chunked", body: "x\r\n"),
                "log PUT /a.json 400", true
            ),
        ] as [(String, String, Bool)])
    func refusalsAreLogged(bytes: String, log: String, hasID: Bool) {
        var driver = HTTPDriver { $0.logsAccess = true }
        #expect(driver.receive(bytes).contains(log))
        #expect(driver.output.heads.last?.contains("X-Request-ID: id-7\r\n") == hasID)
        #expect(driver.machine.hasEnded)
    }

    @Test func bodyOfWrongRequestIsNotReadAndTheConnectionEnds() {
        var driver = HTTPDriver()
        #expect(
            driver.receive(write("PUT /a", "1")) == [
                "refuse 404 append .json to your request URI to use the REST API."
            ])
        let lines = driver.receive(.refused(.notREST))
        #expect(lines.last == "close after flush")
    }

    /// A preflight needs no database (rest §3.2).
    @Test func preflightIsAnsweredAtOnce() {
        var driver = HTTPDriver()
        let preflight = request(
            "OPTIONS /a.json", "Origin: http://a.test", "Access-Control-Request-Method: PUT")
        #expect(driver.receive(preflight + preflight + request("GET /a.json")) == ["200", "200", "GET /a"])
        #expect(driver.output.heads[0].contains("Access-Control-Max-Age: 3600"))
    }

    /// A question about the server itself (RFC 9110 §9.3.7) does not end the connection.
    @Test func optionsOfTheServer() {
        var driver = HTTPDriver()
        #expect(driver.receive(request("OPTIONS *") + request("GET /a.json")) == ["200", "GET /a"])
        #expect(
            driver.output.heads[0].contains("\r\nAllow: GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS\r\n"))
    }

    @Test func headIsAGetWithoutBody() {
        var driver = HTTPDriver()
        driver.output.hasNoBodies = true
        #expect(driver.receive(request("HEAD /a.json")) == ["HEAD /a"])
        #expect(driver.receive(.read(node(#"{"b":1}"#))) == ["200"])
        #expect(driver.output.heads[0].contains("Content-Length: 7"))
        #expect(driver.output.unfinishedByteCount == 0)
        #expect(driver.receive("HEAD broken\r\n\r\n").first == "400, close", "a refusal has no body either")
        #expect(driver.output.unfinishedByteCount == 0)
    }

    /// The databases learn of the end of a connection that has posted something, once.
    @Test(
        arguments: [
            ("", []),
            (request("OPTIONS /a.json", "Access-Control-Request-Method: PUT"), []),
            ("GET /a.json HTTP", []),
            (request("GET /a.json"), ["closed"]),
        ] as [(String, [String])])
    func endIsPosted(bytes: String, expected: [String]) {
        var driver = HTTPDriver()
        _ = driver.receive(bytes)
        #expect(driver.event { $0.closed(inOrder: true, &$1) } == expected)
        #expect(driver.event { $0.closed(inOrder: true, &$1) } == [])
    }

    /// Which connections may be closed in favour of others.
    @Test func activityFollowsTheRequests() {
        var driver = HTTPDriver()
        #expect(driver.machine.activity == .silent)
        _ = driver.receive("GET /a.json HTTP/1.1\r\n")
        #expect(driver.machine.activity == .silent, "no complete request yet")
        _ = driver.receive("Host: a\r\n\r\n")
        #expect(driver.machine.activity == .busy)
        _ = driver.receive(.read(.empty))
        #expect(driver.machine.activity == .idle)
    }

    /// Many requests, and writes between them: however the stream is cut, the requests are the same, and so
    /// are the responses.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func cutsChangeNothing(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var stream: [UInt8] = []
        for number in 0..<12 {
            let value = "\"" + String(repeating: "é", count: Int.random(in: 0...200, using: &random)) + "\""
            switch Int.random(in: 0..<6, using: &random) {
            case 0: stream += Array(request("GET /r\(number).json").utf8)
            case 1: stream += Array(write("PUT /w\(number).json", value).utf8)
            case 2:
                stream += Array(
                    request("POST /c\(number).json", "Host: localhost", "Transfer-Encoding: chunked").utf8)
                stream += chunked(Array(value.utf8), using: &random)
            case 3: stream += Array(request("OPTIONS /o.json", "Access-Control-Request-Method: PUT").utf8)
            case 4: stream += Array(request("GET /wrong\(number)").utf8)
            default: stream += Array(write("PATCH /p\(number).json", "{\"k\":\(value)}").utf8)
            }
        }
        let whole = answers(to: [stream])
        for _ in 0..<4 {
            var pieces: [[UInt8]] = []
            var start = 0
            while start < stream.count {
                let length = Int.random(in: 1...(random.next() % 3 == 0 ? 3 : 300), using: &random)
                pieces.append(Array(stream[start..<min(stream.count, start + length)]))
                start += length
            }
            #expect(answers(to: pieces) == whole, "seed \(seed)")
        }
        #expect(whole.count >= 12)
    }

    /// What the pieces of a stream lead to, where each request is answered before the next piece comes.
    private func answers(to pieces: [[UInt8]]) -> [String] {
        var driver = HTTPDriver()
        var found: [String] = []
        for piece in pieces {
            var lines = driver.receive(piece)
            while !lines.isEmpty {
                found += lines
                let isAsked = driver.base.messages.contains { if case .rest = $0 { true } else { false } }
                lines = isAsked ? driver.receive(.refused(.permissionDenied)) : []
            }
        }
        return found
    }
}

/// A body in chunks (RFC 9112 §7.1), of random sizes, with an extension and a trailer now and then.
func chunked(_ body: [UInt8], using random: inout SeededGenerator) -> [UInt8] {
    var bytes: [UInt8] = []
    var start = 0
    while start < body.count {
        let count = min(body.count - start, Int.random(in: 1...64, using: &random))
        let line = String(count, radix: 16, uppercase: Bool.random(using: &random))
        bytes += Array((line + (random.next() % 5 == 0 ? ";a=b" : "") + "\r\n").utf8)
        bytes += body[start..<(start + count)] + Array("\r\n".utf8)
        start += count
    }
    return bytes + Array(("0\r\n" + (random.next() % 3 == 0 ? "X: y\r\n" : "") + "\r\n").utf8)
}
