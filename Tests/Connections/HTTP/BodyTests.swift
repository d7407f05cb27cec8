import PandoBytes
import PandoRandom
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

private let kibibyte = 1 << 10

/// A JSON string of so many bytes.
private func value(byteCount: Int) -> String { "\"" + String(repeating: "v", count: byteCount - 2) + "\"" }

/// A write with a body of this length, which does not come yet.
private func announced(_ line: String, _ byteCount: Int, _ fields: String...) -> String {
    ([line + " HTTP/1.1", "Host: localhost"] + fields + ["Content-Length: \(byteCount)", "", ""]).joined(
        separator: "\r\n")
}

/// Bodies as they come in (rest §1.5): fixed and chunked, small and large, announced, refused, compressed.
@Suite struct BodyTests {
    @Test(
        arguments: [
            HTTPConversation(
                "a body of a known length", [.client(write("PUT /a.json", "{\"b\":1}"), "PUT /a {\"b\":1}")]),
            HTTPConversation(
                "a body in pieces",
                [.client(announced("PUT /a.json", 7)), .client("{\"b\""), .client(":1}", "PUT /a {\"b\":1}")]),
            HTTPConversation(
                "a body in chunks",
                [
                    .client(request("PUT /a.json", "Host: localhost", "Transfer-Encoding: chunked")),
                    .client("3\r\n{\"b\r\n"), .client("4\r\n\":1}\r\n0\r\n\r\n", "PUT /a {\"b\":1}"),
                ]),
            HTTPConversation(
                "what is behind a body is the next request",
                [
                    .client(write("PUT /a.json", "1") + request("GET /b.json"), "PUT /a 1"),
                    .result(.written(node("1")), "200 1", "GET /b"),
                ]),
            HTTPConversation(
                "a body of no length is not there: rest §11 names the error",
                [.client(request("PUT /a.json"), "refuse 400 Error: No data supplied.")]),
            HTTPConversation(
                "an empty body", [.client(write("PUT /a.json", ""), "refuse 400 Error: No data supplied.")]),
            HTTPConversation(
                "no JSON",
                [
                    .client(
                        write("PUT /a.json", "{bad"),
                        "refuse 400 Invalid data; couldn't parse JSON object, array, or value.")
                ]),
            HTTPConversation(
                "PATCH wants an object (rest §2.3)",
                [
                    .client(
                        write("PATCH /a.json", "[1]"),
                        "refuse 400 Invalid data; couldn't parse JSON object. Are you sending a JSON object with "
                            + "valid key names?")
                ]),
            HTTPConversation(
                "PATCH, each update by its name",
                [.client(write("PATCH /a.json", #"{"b/c":1,"d":null}"#), "PATCH /a b/c=1 d=null")]),
            HTTPConversation(
                "the body of a DELETE is ignored (rest §2.4)",
                [.client(write("DELETE /a.json", "{bad"), "DELETE /a null")]),
            HTTPConversation(
                "the body of a GET is read and not looked at",
                [
                    .client(write("GET /a.json", "{bad") + request("GET /b.json"), "GET /a"),
                    .result(.read(node("1")), "200 1", "GET /b"),
                ]),
            HTTPConversation(
                "a bad chunk: what is behind it cannot be read",
                [
                    .client(
                        request("PUT /a.json", "Host: localhost", "Transfer-Encoding: chunked") + "x\r\n",
                        "400 { \"error\" : \"Bad Request\" }, close", "close after flush")
                ]),
            HTTPConversation(
                "a coding that is not supported, in the order of rest §9; the connection ends",
                [
                    .client(
                        write("PUT /a.json", "1", "Content-Encoding: br"),
                        "refuse 415 Content-Encoding br is not supported"),
                    .result(
                        .refused(.unsupportedCoding("br")),
                        "415 { \"error\" : \"Content-Encoding br is not supported\" }, close",
                        "close after flush"),
                ]),
            HTTPConversation(
                "a condition that a write cannot have is found before the body is posted (rest §7)",
                [
                    .client(
                        write("PATCH /a.json", "{}", "if-match: x"),
                        "refuse 400 if-match is not supported for this method")
                ]),
        ] as [HTTPConversation])
    func small(conversation: HTTPConversation) { conversation.check() }

    /// Before a large body is read it must be known that the request may succeed at all.
    @Test(
        arguments: [
            HTTPConversation(
                "a large body is announced: first it is admitted",
                [
                    .client(announced("PUT /a.json", 100 * kibibyte), "admit PUT /a"),
                    .result(.admitted),
                    .client(value(byteCount: 100 * kibibyte), "read body of 102400 bytes for PUT /a"),
                    .bodyRead(.data(.value(Draft(node("1")))), byteCount: 102_400, "PUT /a 1"),
                    .result(.written(node("1")), "200 1"),
                ]),
            HTTPConversation(
                "what comes meanwhile waits",
                [
                    .client(announced("PUT /a.json", 70 * kibibyte), "admit PUT /a"),
                    .client(value(byteCount: 70 * kibibyte)),
                    .holds("the socket is not read") { $0.machine.pauses == [.request] },
                    .result(.admitted, "read body of 71680 bytes for PUT /a"),
                    .holds("the socket is read") { $0.machine.pauses == [] },
                ]),
            HTTPConversation(
                "in chunks it is known to be large when it has become so",
                [
                    .client(request("PUT /a.json", "Host: localhost", "Transfer-Encoding: chunked")),
                    .client(
                        "10001\r\n" + String(value(byteCount: 70 * kibibyte).prefix(65_537)) + "\r\n",
                        "admit PUT /a"),
                    .result(.admitted),
                    .client("2\r\n v\r\n"),
                    .client("1\r\n\"\r\n0\r\n\r\n", "read body of 65540 bytes for PUT /a"),
                ]),
            HTTPConversation(
                "a large body that comes as a whole in one read is posted without a question",
                [
                    .client(
                        request("PUT /a.json", "Host: localhost", "Transfer-Encoding: chunked") + "11800\r\n"
                            + value(byteCount: 70 * kibibyte) + "\r\n0\r\n\r\n",
                        "read body of 71680 bytes for PUT /a")
                ]),
            HTTPConversation(
                "it is refused: the rest of it is not read, so the connection ends",
                [
                    .client(announced("PUT /a.json", 100 * kibibyte), "admit PUT /a"),
                    .client(String(repeating: "v", count: 1000)),
                    .result(
                        .refused(.permissionDenied),
                        "401 { \"error\" : \"Permission denied\" }, close", "close after flush"),
                    .holds("nothing is held") { $0.machine.unfinishedByteCount == 0 },
                ]),
            HTTPConversation(
                "the client waits to be asked (RFC 9110 §10.1.1)",
                [
                    .client(announced("PUT /a.json", 3, "Expect: 100-continue"), "100"),
                    .client("123", "PUT /a 123"),
                ]),
            HTTPConversation(
                "nothing is asked for where there is no body",
                [.client(announced("DELETE /a.json", 0, "Expect: 100-continue"), "DELETE /a null")]),
            HTTPConversation(
                "a large body is asked for when it is admitted",
                [
                    .client(announced("PUT /a.json", 100 * kibibyte, "Expect: 100-continue"), "admit PUT /a"),
                    .result(.admitted, "100"),
                ]),
            HTTPConversation(
                "a body that is refused is not asked for",
                [
                    .client(announced("PUT /a.json", 100 * kibibyte, "Expect: 100-continue"), "admit PUT /a"),
                    .result(
                        .refused(.permissionDenied),
                        "401 { \"error\" : \"Permission denied\" }, close", "close after flush"),
                ]),
        ] as [HTTPConversation])
    func large(conversation: HTTPConversation) { conversation.check() }

    @Test(
        arguments: [
            HTTPConversation(
                "gzip goes to a thread whatever its length",
                [
                    .client(
                        write("PUT /a.json", "packed", "Content-Encoding: gzip"),
                        "read body of 6 bytes, gzip, for PUT /a"),
                    .bodyRead(.refused(.invalidGzip), "refuse 400 Invalid data; the body is not valid gzip."),
                ]),
            HTTPConversation(
                "the rules are stored as they are sent (rest §10)",
                [
                    .client(
                        write("PUT /.settings/rules.json?auth=T", "{ /* */ }", "Content-Encoding: gzip"),
                        "verify T"),
                    .accepted(administrator, "read body of 9 bytes, gzip, for PUT rules"),
                ]),
            HTTPConversation(
                "a small source of rules needs no thread",
                [
                    .client(write("PUT /.settings/rules.json?auth=T", "{ /* */ }"), "verify T"),
                    .accepted(administrator, "PUT rules { /* */ } as administrator"),
                ]),
        ] as [HTTPConversation])
    func compressedOrVerbatim(conversation: HTTPConversation) { conversation.check() }

    /// Bytes of a body are bounded as they travel (rest §11: 413).
    @Test(arguments: [false, true])
    func overTheLimit(isChunked: Bool) {
        var driver = HTTPDriver { $0.writeByteLimit = 1000 }
        let body = value(byteCount: 1001)
        let lines =
            isChunked
            ? driver.receive(
                request("PUT /a.json", "Host: localhost", "Transfer-Encoding: chunked")
                    + "3e9\r\n\(body)\r\n0\r\n\r\n")
            : driver.receive(write("PUT /a.json", body))
        #expect(lines == ["count limit bodyBytes", "refuse 413 Payload too large"])
        #expect(
            driver.receive(.refused(.payloadTooLarge)) == [
                "413 { \"error\" : \"Payload too large\" }, close", "close after flush",
            ])
    }

    /// What was here of a large body is freed by another thread when its client is gone, or memory is short.
    @Test(arguments: [false, true])
    func abandonedBodyIsReleased(isMemoryShort: Bool) {
        var driver = HTTPDriver()
        let byteCount = ByteBlocks.blockByteCount + 1
        #expect(driver.receive(announced("PUT /a.json", 2 * byteCount)) == ["admit PUT /a"])
        #expect(driver.receive(.admitted) == [])
        #expect(driver.receive(String(repeating: " ", count: byteCount)) == [])
        #expect(driver.machine.unfinishedByteCount == byteCount)
        let lines = driver.event {
            isMemoryShort ? $0.giveUpMemory(&$1) : $0.closed(inOrder: false, &$1)
        }
        #expect(lines.contains("release a body of \(byteCount) bytes"))
        #expect(driver.machine.unfinishedByteCount == 0)
    }

    /// What the thread has is counted until its result is there; a result that comes too late is dropped.
    @Test func bodyOfTheThreadIsCounted() {
        var driver = HTTPDriver()
        _ = driver.receive(write("PUT /a.json", String(repeating: "x", count: 500), "Content-Encoding: gzip"))
        #expect(driver.machine.unfinishedByteCount == 500 && driver.machine.heldByteCount == 500)
        #expect(driver.event { $0.closed(inOrder: false, &$1) } == ["cancel body"])
        #expect(driver.machine.unfinishedByteCount == 0)
        let late = BodyResult(session: HTTPDriver.id, content: .refused(.invalidGzip), byteCount: 0)
        #expect(driver.event { $0.bodyRead(late, &$1) } == [])
    }

    /// To free the body of a PATCH of many paths takes milliseconds: another thread does it, also for a
    /// client that has gone before its response.
    @Test(arguments: [(4095, false), (4096, true)])
    func bodiesOfManyPathsAreFreedElsewhere(count: Int, isFreedElsewhere: Bool) {
        let body = "{" + (0..<count).map { "\"\($0)\":\($0)" }.joined(separator: ",") + "}"
        for hangsUp in [false, true] {
            var driver = HTTPDriver()
            _ = driver.receive(write("PATCH /a.json", body))
            let lines =
                hangsUp
                ? driver.event { $0.closed(inOrder: false, &$1) } : driver.receive(.updated(nil))
            #expect(lines.contains("release an update of \(count) paths") == isFreedElsewhere)
        }
    }

    /// A body comes as fast as it may; a head, and what is between two requests, in small reads.
    @Test func readsAreLargeWhileABodyComes() {
        var driver = HTTPDriver()
        #expect(driver.machine.readByteLimit == 64 * kibibyte)
        _ = driver.receive(announced("PUT /a.json", 10))
        #expect(driver.machine.readByteLimit == .max)
        _ = driver.receive("1234567890")
        _ = driver.receive(.written(node("1")))
        #expect(driver.machine.readByteLimit == 64 * kibibyte)
    }

    /// A body that comes at 500 B/s over each 30 s is waited for, also where it began fast; a slower one is
    /// not.
    @Test(
        arguments: [
            // bytes a second: at first, then     408 at     because
            (600, 600, nil, "slow, and fast enough"),
            (0, 0, 31, "nothing comes"),
            (100, 100, 31, "too slow from the start"),
            (10_000, 100, 62, "what came fast before buys no time"),
        ] as [(Int, Int, Int?, String)])
    func slowBody(first: Int, then: Int, refusedAt: Int?, because: String) {
        var driver = HTTPDriver()
        _ = driver.receive(announced("PUT /a.json", 60 * kibibyte))
        var found: Int?
        for second in 1...70 where found == nil {
            driver.base.wait(1)
            let count = second < 5 ? first : then
            if count > 0 { _ = driver.receive([UInt8](repeating: 0x20, count: count)) }
            if driver.tick() == [#"408 { "error" : "Request Timeout" }, close"#, "close after flush"] {
                found = second
            }
        }
        #expect(found == refusedAt, "\(because)")
    }

    /// A client that is not read, because the databases are behind, is not slow.
    @Test func pausedBodyIsNotSlow() {
        var driver = HTTPDriver()
        _ = driver.receive(announced("PUT /a.json", 100))
        _ = driver.event { machine, _ in machine.pause(.congestion) }
        for _ in 0..<100 {
            driver.base.wait(1)
            #expect(driver.tick() == [])
        }
        _ = driver.event { machine, _ in machine.resume(after: .congestion) }
        driver.base.wait(29)
        #expect(driver.tick() == [], "its time begins when it is read again")
        driver.base.wait(2)
        #expect(driver.tick().first?.hasPrefix("408") == true)
    }
}

@Suite struct RequestContentTests {
    /// Any cut of a body gives the same bytes, and nothing of what follows it.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func cutsChangeNothing(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let body = (0..<Int.random(in: 0...2000, using: &random)).map { _ in
            UInt8.random(in: 0...255, using: &random)
        }
        let isChunked = Bool.random(using: &random)
        let stream = (isChunked ? chunked(body, using: &random) : body) + Array("GET /next".utf8)
        let fields = isChunked ? "Transfer-Encoding: chunked" : "Content-Length: \(body.count)"
        let head = try head("PUT /a.json HTTP/1.1", "Host: a", fields)
        var content = try RequestContent(of: head, byteLimit: 2000)
        var (start, isComplete) = (0, false)
        while !isComplete {
            let end = min(stream.count, start + Int.random(in: 1...100, using: &random))
            var offset = 0
            isComplete = try content.append(Array(stream[start..<end]).rawSpan, from: &offset)
            #expect(isComplete || offset == end - start, "all of a piece is read before the end")
            start += offset
        }
        #expect(content.takeBytes().joined() == body && content.bytes.isEmpty, "seed \(seed)")
        #expect(text(stream[start...]) == "GET /next")
    }

    @Test(
        arguments: [
            // fields                                      coding
            ([], false),
            (["Content-Encoding: identity"], false),
            (["Content-Encoding: gzip"], true),
            (["Content-Encoding: X-GZIP"], true),
            (["Content-Encoding: "], false),
        ] as [([String], Bool)])
    func codings(fields: [String], isGzip: Bool) throws {
        let head = try head(["PUT /a.json HTTP/1.1", "Host: a", "Content-Length: 1"] + fields)
        #expect(try RequestContent(of: head, byteLimit: 10).isGzip == isGzip)
    }

    @Test(
        arguments: [
            (["Content-Encoding: deflate"], "deflate"), (["Content-Encoding: gzip, gzip"], "gzip, gzip"),
            (["Content-Encoding: gzip", "Content-Encoding: br"], "gzip, br"),
        ] as [([String], String)])
    func unsupportedCodings(fields: [String], coding: String) throws {
        let head = try head(["PUT /a.json HTTP/1.1", "Host: a", "Content-Length: 1"] + fields)
        do {
            _ = try RequestContent(of: head, byteLimit: 10)
            Issue.record("\(coding) was accepted")
        } catch RequestContent.Refusal.request(let error) {
            #expect(error == .unsupportedCoding(coding))
        }
    }
}
