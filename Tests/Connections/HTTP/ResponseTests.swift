import PandoBytes
import PandoREST
import PandoRules
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

private let kibibyte = 1 << 10

/// Data that prints in about so many bytes.
private func large(_ byteCount: Int) -> Node { .string(Text(String(repeating: "v", count: byteCount - 2))) }

/// From the result of a request to the response, and the response to a client that reads at its own pace.
@Suite struct ResponseTests {
    @Test(
        arguments: [
            HTTPConversation(
                "the ETag of small data is computed at once (rest §7)",
                [
                    .client(request("GET /a.json", "X-Firebase-ETag: true"), "GET /a"),
                    .result(.read(node("null")), "200 null"),
                    .holds("null_etag") { $0.output.heads[0].contains("ETag: null_etag") },
                ]),
            HTTPConversation(
                "the same data is not sent again",
                [
                    .client(request("GET /a.json", "if-none-match: null_etag"), "GET /a"),
                    .result(.read(node("null")), "304"),
                ]),
            HTTPConversation(
                "412 has the current value and its ETag",
                [
                    .client(write("PUT /a.json", "1", "if-match: x"), "PUT /a 1"),
                    .result(.stale(node("null")), "412 null"),
                    .holds("null_etag") { $0.output.heads[0].contains("ETag: null_etag") },
                ]),
            HTTPConversation(
                "print=silent (rest §2)",
                [
                    .client(write("PUT /a.json?print=silent", "1"), "PUT /a 1"),
                    .result(.written(node("1")), "204"),
                ]),
            HTTPConversation(
                "a new child has a name (rest §2.2)",
                [
                    .client(write("POST /a.json", "1"), "POST /a 1"),
                    .result(.pushed("-Nx", node("1")), #"200 {"name":"-Nx"}"#),
                ]),
            HTTPConversation(
                "a PATCH repeats the names as they were sent",
                [
                    .client(write("PATCH /a.json", #"{"b/c":1,"d":null}"#), "PATCH /a b/c=1 d=null"),
                    .result(.updated([node("1"), node("null")]), #"200 {"b/c":1,"d":null}"#),
                ]),
            HTTPConversation(
                "a text of the databases",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.failed("1:2: no"), #"400 { "error" : "1:2: no" }"#),
                ]),
            HTTPConversation(
                "JSON as it is",
                [.client(request("GET /a.json"), "GET /a"), .result(.verbatim(Array("{}".utf8)), "200 {}")]),
        ] as [HTTPConversation])
    func small(conversation: HTTPConversation) { conversation.check() }

    @Test(
        arguments: [
            HTTPConversation(
                "large data is measured by a worker before it is sent",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.read(large(300 * kibibyte)), "measure up to 268435456"),
                    .measured("200 307200 bytes"),
                ]),
            HTTPConversation(
                "the worker also computes its ETag",
                [
                    .client(request("GET /a.json", "X-Firebase-ETag: true"), "GET /a"),
                    .result(.read(large(300 * kibibyte)), "measure up to 268435456 with ETag"),
                    .measured(etag: "abc", "200 307200 bytes"),
                    .holds("its ETag") { $0.output.heads[0].contains("ETag: abc") },
                ]),
            HTTPConversation(
                "it is too much (rest §11)",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.read(large(300 * kibibyte)), "measure up to 268435456"),
                    .measured(
                        isTooHeavy: true,
                        #"400 { "error" : "Data requested exceeds the maximum size that can be accessed with a single request." }"#
                    ),
                ]),
            HTTPConversation(
                "what a write has stored is not a read: its size has no limit, and no ETag is wanted",
                [
                    .client(write("PUT /a.json", "1"), "PUT /a 1"),
                    .result(.written(large(300 * kibibyte)), "200 307200 bytes"),
                ]),
            HTTPConversation(
                "a shallow read prints little of large data (rest §4.1)",
                [
                    .client(request("GET /a.json?shallow=true"), "GET /a"),
                    .result(
                        .read(node(#"{"b":"\#(String(repeating: "v", count: 300 * kibibyte))"}"#)),
                        #"200 {"b":true}"#),
                ]),
            HTTPConversation(
                "a query is evaluated by a worker",
                [
                    .client(request(#"GET /a.json?orderBy="$key"&limitToFirst=1"#.quoted), "GET /a"),
                    .result(
                        .filtered(node(#"{"b":1,"c":2}"#), IndexedQuery(Query(order: .key))),
                        "measure query up to 268435456"),
                    .measured(filtered: node(#"{"b":1}"#), #"200 {"b":1}"#),
                ]),
            HTTPConversation(
                "the request is given up while it is measured",
                [
                    .client(request("GET /a.json?timeout=1s"), "wake at 1", "GET /a"),
                    .result(.read(large(300 * kibibyte)), "measure up to 268435456"),
                    .deadline(
                        "abandon jobs", "cancel wake",
                        #"400 { "error" : "The request took longer than its timeout" }, close"#,
                        "close after flush"),
                    .measured(), .closed("closed"),
                ]),
            HTTPConversation(
                "a query that is given up leaves no job behind, whatever its timeout",
                [
                    .client(
                        request(#"GET /a.json?orderBy="$key"&limitToFirst=1&timeout=1ms"#.quoted),
                        "wake at 0.001", "GET /a"),
                    .result(
                        .filtered(node(#"{"b":1,"c":2}"#), IndexedQuery(Query(order: .key))),
                        "measure query up to 268435456"),
                    .deadline(
                        "abandon jobs", "cancel wake",
                        #"400 { "error" : "The request took longer than its timeout" }, close"#,
                        "close after flush"),
                    .closed("closed"),
                ]),
            HTTPConversation(
                "the connection ends while data is measured",
                [
                    .client(request("GET /a.json"), "GET /a"),
                    .result(.read(large(300 * kibibyte)), "measure up to 268435456"),
                    .closed("abandon jobs", "closed"),
                ]),
        ] as [HTTPConversation])
    func measured(conversation: HTTPConversation) { conversation.check() }

    /// Under a low `--max-read-bytes` no worker is needed to know that data is too large.
    @Test func lowLimitOfReads() {
        var driver = HTTPDriver { $0.readByteLimit = 100 }
        _ = driver.receive(request("GET /a.json"))
        #expect(driver.receive(.read(large(200))).first?.hasPrefix("400") == true)
        _ = driver.receive(request("GET /a.json"))
        #expect(driver.receive(.read(large(50))) == ["200 \"" + String(repeating: "v", count: 48) + "\""])
    }

    /// A response of many pieces: four pieces, then others have their turn; no more than 256 KiB before the
    /// client has taken some. However it is taken, it arrives whole, and the next request is read only then.
    @Test(arguments: [true, false])
    func largeResponseInPieces(takesAtOnce: Bool) {
        var driver = HTTPDriver()
        driver.base.socket.takesAll = takesAtOnce
        // A node of many children: one piece prints about 64 KiB.
        let data = node("{" + (0..<100_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        let expected = json(data).utf8.count
        _ = driver.receive(request("GET /a.json") + request("GET /b.json"))
        var lines = driver.receive(.read(data))
        #expect(lines.first?.hasPrefix("measure") == true)
        lines = driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
        var turns = 0
        var found: [String] = []
        while !lines.contains("GET /b"), turns < 100 {
            turns += 1
            found += lines
            #expect(driver.base.socket.unsentByteCount <= (256 + 70) * kibibyte)
            lines = lines.contains("next turn") ? driver.event { $0.nextTurn(&$1) } : driver.take()
        }
        found = (found + lines).filter { $0 != "next turn" }
        #expect(found == ["200 chunked \(expected) bytes", "GET /b"])
        #expect(driver.output.bodies[0].count == expected)
    }

    /// The list of children that a query has selected is held for its response alone: it counts from the
    /// result to the end of the response. Data of the tree does not.
    @Test(arguments: [true, false]) func resultOfQueryIsCounted(isQuery: Bool) {
        var driver = HTTPDriver()
        driver.base.socket.takesAll = false
        // There is no room for a buffer, and the response has to wait for its turn.
        driver.base.context.bufferingCount = 1 << 10
        driver.base.context.printing = PrintingBudget(byteCount: 0)
        let data = node("{" + (0..<100_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        let counted: ClosedRange<Int> =
            isQuery ? data.children.entryByteCount...data.children.entryByteCount + (1 << 20) : 0...1 << 20
        _ = driver.receive(
            request("GET /a.json" + (isQuery ? #"?orderBy="$key"&limitToLast=100000"#.quoted : "")))
        _ = driver.receive(isQuery ? .filtered(data, IndexedQuery(Query(order: .key))) : .read(data))
        #expect(driver.machine.heldByteCount == 0)
        let lines = driver.event {
            $0.measured(
                NodeSizeCheck(
                    session: HTTPDriver.id, filtered: isQuery ? data : nil, isTooHeavy: false, etag: nil), &$1
            )
        }
        #expect(lines == ["next turn"] && counted.contains(driver.machine.heldByteCount))
        _ = driver.event { $0.nextTurn(&$1) }
        #expect(driver.machine.isResponding && counted.contains(driver.machine.heldByteCount))
        for _ in 0..<3 { _ = driver.event { $0.nextTurn(&$1) } }
        #expect(driver.machine.isResponding && counted.contains(driver.machine.heldByteCount))
        _ = driver.event { $0.closed(inOrder: false, &$1) }
        #expect(driver.machine.heldByteCount == 0)
    }

    /// A response that is given up while it waits for its turn counts no longer.
    @Test func resultOfQueryThatWasGivenUpCountsNoLonger() {
        var driver = HTTPDriver()
        driver.base.context.printing = PrintingBudget(byteCount: 0)
        let data = node("{" + (0..<10_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        _ = driver.receive(request(#"GET /a.json?orderBy="$key"&limitToLast=10000&timeout=1s"#.quoted))
        #expect(driver.receive(.read(data)) == ["next turn"])
        #expect(driver.machine.heldByteCount == data.children.entryByteCount)
        _ = driver.event { $0.deadlinePassed(&$1) }
        #expect(driver.machine.heldByteCount == 0)
    }

    /// A drain between two turns writes on, and the turn that was asked for asks for no second one.
    @Test func drainWhileAnotherTurnIsAwaited() {
        var driver = HTTPDriver()
        driver.base.socket.takesAll = false
        let data = node("{" + (0..<200_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        _ = driver.receive(request("GET /a.json"))
        _ = driver.receive(.read(data))
        var lines = driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
        var awaited = 0
        for _ in 0..<200 where !lines.contains(where: { $0.hasPrefix("200") }) {
            awaited += lines.filter { $0 == "next turn" }.count
            #expect(awaited <= 1, "one turn at a time is asked for")
            lines = driver.take()
            if awaited > 0, !lines.contains(where: { $0.hasPrefix("200") }),
                driver.base.socket.unsentByteCount == 0
            {
                awaited -= 1
                lines += driver.event { $0.nextTurn(&$1) }
            }
        }
        #expect(lines.contains { $0.hasPrefix("200 chunked") })
    }

    /// No more responses than memory is set aside for are compressed at a time on one loop; the others are
    /// sent as they are.
    @Test func compressionIsBounded() {
        var driver = HTTPDriver()
        driver.base.socket.takesAll = false
        driver.base.context.compressingCount = 64
        let data = node("{" + (0..<60_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        for (count, isCompressed) in [(64, false), (0, true)] {
            driver.base.context.compressingCount = count
            _ = driver.receive(request("GET /a.json", "Accept-Encoding: gzip"))
            _ = driver.receive(.read(data))
            var lines = driver.event {
                $0.measured(
                    NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
            }
            #expect(driver.base.context.compressingCount == count + (isCompressed ? 1 : 0))
            for _ in 0..<1000 where !lines.contains(where: { $0.hasPrefix("200") }) {
                lines = lines.last == "next turn" ? driver.event { $0.nextTurn(&$1) } : driver.take()
            }
            #expect(driver.output.heads.last?.contains("Content-Encoding: gzip") == isCompressed)
            for _ in 0..<2 { _ = driver.event { $0.nextTurn(&$1) } + driver.take() }
            #expect(driver.base.context.compressingCount == count, "counted no longer")
        }
    }

    @Test func compressionThatIsCutOffIsNotCountedAnyMore() {
        var driver = HTTPDriver()
        driver.base.socket.takesAll = false
        _ = driver.receive(request("GET /a.json", "Accept-Encoding: gzip"))
        // Digits that do not repeat soon: the packed response is larger than what is written at once.
        let data = node(
            "{" + (0..<200_000).map { "\"\($0 &* 2_654_435_761 % 1_000_003)\":\($0)" }.joined(separator: ",")
                + "}")
        _ = driver.receive(.read(data))
        _ = driver.event {
            $0.measured(
                NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: false, etag: nil), &$1)
        }
        #expect(driver.base.context.compressingCount == 1)
        _ = driver.event { $0.closed(inOrder: false, &$1) }
        #expect(driver.base.context.compressingCount == 0)
    }
}

extension String {
    /// As a client writes it in a request line.
    fileprivate var quoted: String {
        String(map { $0 == "\"" ? "%22" : String($0) }.joined())
    }
}

/// Time: silence, slowness, and how long a request may take.
@Suite struct HTTPTimeTests {
    @Test(
        arguments: [
            HTTPConversation("a silent connection is closed", [.tick(after: 75), .tick(after: 1, "close")]),
            HTTPConversation(
                "silence counts from the last request",
                [
                    .wait(70), .client(request("GET /a.json"), "GET /a"), .result(.read(node("1")), "200 1"),
                    .tick(after: 75), .tick(after: 1, "close"),
                ]),
            HTTPConversation(
                "a head has 30 s from its first byte on",
                [
                    .wait(20), .client("GET /a.json"), .wait(25), .client(" HTTP/1.1\r\n"), .tick(after: 5),
                    .tick(after: 1, #"408 { "error" : "Request Timeout" }, close"#, "close after flush"),
                ]),
            HTTPConversation(
                "also where it began behind another request",
                [
                    .client(request("GET /a.json") + "GET", "GET /a"), .wait(100),
                    .result(.read(node("1")), "200 1"), .tick(after: 30),
                    .tick(after: 1, #"408 { "error" : "Request Timeout" }, close"#, "close after flush"),
                ]),
            HTTPConversation(
                "the header of a proxy has the time of a head, from the connection's beginning on",
                [
                    .wait(20), .proxyHeader, .tick(after: 10),
                    .tick(after: 1, #"408 { "error" : "Request Timeout" }, close"#, "close after flush"),
                ]),
            HTTPConversation(
                "and the head behind it has what is left of that",
                [
                    .wait(20), .proxyHeader, .client("GET /a.json"), .tick(after: 10),
                    .tick(after: 1, #"408 { "error" : "Request Timeout" }, close"#, "close after flush"),
                ]),
            HTTPConversation(
                "but later heads have a time of their own",
                [
                    .wait(20), .proxyHeader, .client(request("GET /a.json"), "GET /a"),
                    .result(.read(node("1")), "200 1"), .wait(30), .client("GET"), .tick(after: 30),
                ]),
            HTTPConversation(
                "a read may take the time that it asks for (rest §4)",
                [
                    .client(request("GET /a.json?timeout=1500ms"), "wake at 1.5", "GET /a"), .wait(1.5),
                    .deadline(
                        "cancel wake",
                        #"400 { "error" : "The request took longer than its timeout" }, close"#,
                        "close after flush"),
                    .result(.read(node("1"))),
                ]),
            HTTPConversation(
                "its time ends with its response",
                [
                    .client(request("GET /a.json?timeout=2s"), "wake at 2", "GET /a"),
                    .result(.read(node("1")), "cancel wake", "200 1"), .deadline(),
                ]),
            HTTPConversation(
                "no read takes longer than 15 min",
                [
                    .client(request("GET /a.json"), "GET /a"), .tick(after: 900),
                    .tick(
                        after: 1, #"400 { "error" : "The request took longer than its timeout" }, close"#,
                        "close after flush"),
                ]),
            HTTPConversation(
                "a write is waited for: it may be done all the same",
                [.client(write("PUT /a.json", "1"), "PUT /a 1"), .tick(after: 100, until: 2000)]),
            HTTPConversation(
                "a client that takes nothing of its response is disconnected",
                [
                    .clientStopsReading, .client(request("GET /a.json"), "GET /a"),
                    .result(.read(node("1")), "200 1"), .tick(after: 1, until: 31), .tick(after: 1, "reset"),
                ]),
            HTTPConversation(
                "one that takes it slowly is not",
                [
                    .clientStopsReading, .client(request("GET /a.json"), "GET /a"),
                    .result(.read(large(60_000)), "200 60000 bytes"),
                    .tick(after: 1), .clientTakes(15_500), .tick(after: 29), .clientTakes(15_500),
                    .tick(after: 29), .clientTakes(), .tick(after: 29),
                ]),
        ] as [HTTPConversation])
    func time(conversation: HTTPConversation) { conversation.check() }
}
