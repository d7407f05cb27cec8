import PandoBytes
import PandoRandom
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase
@testable import PandoIdentity

/// `put` at the root, and below it.
private func put(_ json: String, at path: Path = "/") -> StreamEvent { .put(path, node(json)) }

/// Event streams on their connection (rest §8).
@Suite struct StreamConnectionTests {
    private static let open: [Step<HTTPDriver>] = [
        .client(request("GET /a.json", "Accept: text/event-stream"), "GET /a stream"),
        .result(.stream, "200 stream", "recheck"),
    ]

    private static func open(as identity: Identity, _ lines: String...) -> [Step<HTTPDriver>] {
        [
            .client(request("GET /a.json?auth=T", "Accept: text/event-stream"), "verify T"),
            .accepted(identity, "GET /a stream as ada"),
            Step("stream", ["200 stream"] + lines + ["recheck"]) { $0.receive(.stream) },
        ]
    }

    private static let first = #"event: put data: {"path":"/","data":1}"#
    private static let keepAlive = "event: keep-alive data: null"
    private static let revoked = "event: auth_revoked data: credential is no longer valid"

    @Test(
        arguments: [
            HTTPConversation(
                "the first event is the whole value; one follows for each write (§8.2)",
                open + [
                    .events([put("1")], first),
                    .events([put(#"{"c":2}"#, at: "b")], #"event: put data: {"path":"/b","data":{"c":2}}"#),
                    .events(
                        [
                            .patch(
                                "/", [.init(key: "k", node: node("2")), .init(key: "m", node: node("null"))])
                        ],
                        #"event: patch data: {"path":"/","data":{"k":2,"m":null}}"#),
                ]),
            HTTPConversation(
                "events before the stream is open are dropped",
                [
                    .client(request("GET /a.json", "Accept: text/event-stream"), "GET /a stream"),
                    .events([put("1")]),
                ]),
            HTTPConversation(
                "a refusal is an ordinary response (§8)",
                [
                    .client(request("GET /a.json", "Accept: text/event-stream"), "GET /a stream"),
                    .result(.refused(.permissionDenied), #"401 { "error" : "Permission denied" }"#),
                    .client(request("GET /b.json"), "GET /b"),
                ]),
            HTTPConversation(
                "silence of 30 s is broken by a keep-alive (§8.1)",
                open + [
                    .events([put("1")], first), .tick(after: 30), .tick(after: 1, keepAlive),
                    .tick(after: 30),
                    .tick(after: 1, keepAlive),
                ]),
            HTTPConversation(
                "the first event is a put, however long it takes (§8.2)",
                open + [.tick(after: 31), .tick(after: 31), .events([put("1")], first)]),
            HTTPConversation(
                "the rules no longer allow reading (§8.3)",
                open + [
                    .events([put("1")], first),
                    .events([.cancel(nil)], "event: cancel data: null", "close after flush"),
                    .events([put("2")]),
                ]),
            HTTPConversation(
                "nothing is sent behind the last event",
                open + [
                    .events([put("1")], first),
                    .events(
                        [.cancel("Permission denied"), put("2")],
                        #"event: cancel data: "Permission denied""#, "close after flush"),
                ]),
            HTTPConversation(
                "the token expires (§8.3)",
                open(as: user("ada", validUntil: 1_700_000_010), "expire at 1700000010") + [
                    .events([put("1")], first), .expired(revoked, "close after flush"),
                    .closed("abandon jobs", "closed"),
                ]),
            HTTPConversation(
                "a connection that ends cancels its expiry",
                open(as: user("ada", validUntil: 1_700_000_010), "expire at 1700000010") + [
                    .closed("abandon jobs", "cancel expiry", "closed")
                ]),
            HTTPConversation(
                "the sign-in is revoked (auth §5.3)",
                open(as: user("ada", signedInAt: 100)) + [
                    .events([put("1")], first),
                    .recheck(revocations("ada", before: 100)),
                    .recheck(revocations("bob", before: 200)),
                    .recheck(revocations("ada", before: 101), revoked, "close after flush"),
                    .recheck(revocations("ada", before: 101)),
                ]),
            HTTPConversation(
                "what the client sends behind the request is not read",
                open + [.client(request("GET /b.json")), .events([put("1")], first)]),
            HTTPConversation(
                "large first data is measured; nothing is sent before (§8.2)",
                open + [
                    .events(
                        [put("\"" + String(repeating: "v", count: 300 << 10) + "\"")],
                        "measure up to 536870912"),
                    .events([put("2", at: "b")]),
                    .measured("307239 bytes", #"event: put data: {"path":"/b","data":2}"#),
                ]),
            HTTPConversation(
                "it is too much (§8.2)",
                open + [
                    .events(
                        [put("\"" + String(repeating: "v", count: 300 << 10) + "\"")],
                        "measure up to 536870912"),
                    .measured(
                        isTooHeavy: true,
                        #"event: cancel data: "Data requested exceeds the maximum size that can be accessed with a single request.""#,
                        "close after flush"),
                ]),
            HTTPConversation(
                "while large data is measured there is no keep-alive",
                open + [
                    .events(
                        [put("\"" + String(repeating: "v", count: 300 << 10) + "\"")],
                        "measure up to 536870912"),
                    .tick(after: 31, until: 310),
                    .measured("307239 bytes"),
                ]),
            HTTPConversation(
                "a client that takes nothing is disconnected",
                open + [
                    .clientStopsReading, .events([put("1")], first), .tick(after: 1, until: 31),
                    .tick(after: 1, "reset"),
                ]),
        ] as [HTTPConversation])
    func streams(conversation: HTTPConversation) { conversation.check() }

    private static func window(_ count: Int) -> StreamWindow {
        let data = node("{" + (0..<count).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}")
        return StreamWindow(Window(Query(order: .key), over: data))
    }

    /// A large query window is made by a worker, and nothing is sent before (§8.2). A stream that comes later
    /// needs no worker.
    @Test func largeWindowIsMadeByAWorker() {
        let window = Self.window(1000)
        var driver = HTTPDriver()
        for step in Self.open { _ = step.run(on: &driver) }
        #expect(driver.event { $0.receive(window, &$1) } == ["make window"])
        #expect(driver.event { $0.receive([put("2", at: "b")], &$1) } == [])
        for _ in 0..<40 {
            driver.base.wait(1)
            #expect(driver.tick() == [], "no keep-alive comes before the first event")
        }
        #expect(driver.machine.heldByteCount >= window.byteCount)
        let made = NodeSizeCheck(making: window, for: HTTPDriver.id)
        let lines = driver.event { $0.measured(made, &$1) }
        #expect(lines.count == 2 && lines.last == #"event: put data: {"path":"/b","data":2}"#)
        #expect(driver.machine.heldByteCount == 0)

        var later = HTTPDriver()
        for step in Self.open { _ = step.run(on: &later) }
        #expect(later.event { $0.receive(window, &$1) } == Array(lines.prefix(1)))
    }

    /// The first event may be too much (§8.2); one that a stream gets when it has caught up may not.
    @Test func windowThatIsTooLargeEndsAStreamThatBegins() {
        let isTooHeavy = NodeSizeCheck(session: HTTPDriver.id, filtered: nil, isTooHeavy: true, etag: nil)
        var driver = HTTPDriver()
        for step in Self.open { _ = step.run(on: &driver) }
        _ = driver.event { $0.receive(Self.window(300), &$1) }
        let lines = driver.event { $0.measured(isTooHeavy, &$1) }
        #expect(lines.first?.hasPrefix("event: cancel") == true && lines.last == "close after flush")
        #expect(driver.machine.heldByteCount == 0)

        driver = HTTPDriver()
        for step in Self.open { _ = step.run(on: &driver) }
        _ = driver.event { $0.receive([put("1")], &$1) }
        let window = Self.window(300)
        #expect(driver.event { $0.receive(window, &$1) } == ["make window"])
        window.make()
        #expect(driver.event { $0.measured(isTooHeavy, &$1) }.count == 1)
        #expect(driver.base.socket.end == nil)
    }

    private static func revocations(_ subject: Text, before: Int64) -> RevocationState {
        var state = RevocationState()
        state.revokedBefore = [subject: before]
        return state
    }

    /// A client that is behind: what is pushed to it is coalesced until it has caught up.
    @Test func clientThatIsBehind() {
        var driver = HTTPDriver()
        for step in Self.open { _ = step.run(on: &driver) }
        driver.base.socket.takesAll = false
        let event = put("\"" + String(repeating: "v", count: 100 << 10) + "\"")
        func append() -> [String] {
            driver.event { $0.receive([event], &$1) }.filter { !$0.hasSuffix("bytes") }
        }
        #expect(append() == [] && append() == [], "up to 256 KiB")
        #expect(append() == ["lagging"], "more is lagging, and is said once")
        #expect(append() == [])
        #expect(driver.machine.waitingByteCount > 0 && driver.machine.heldByteCount > 0)
        for _ in 0..<10 { _ = driver.take(250 << 10) }
        #expect(driver.base.log.filter { $0 == "caught up" }.count == 1)
        #expect(driver.machine.waitingByteCount == 0)
    }

    /// More than may wait: the client is disconnected, and comes back to a fresh root (§8.2).
    @Test func clientThatFallsTooFarBehind() {
        var driver = HTTPDriver { $0.outboundByteLimit = 1 << 20 }
        for step in Self.open { _ = step.run(on: &driver) }
        driver.base.socket.takesAll = false
        let event = put("\"" + String(repeating: "v", count: 100 << 10) + "\"")
        var count = 0
        while driver.base.socket.end == nil, count < 100 {
            count += 1
            _ = driver.event { $0.receive([event], &$1) }
        }
        #expect(driver.base.socket.end == "reset" && (10...16).contains(count), "\(count) events")
    }

    /// Events, drains and measures in any order: the client gets each event once, whole, and in order.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func eventsArriveInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = HTTPDriver()
        for step in Self.open { _ = step.run(on: &driver) }
        driver.base.socket.takesAll = false
        var sent = 0
        var received: [Int] = []
        func note(_ lines: [String]) {
            for line in lines where line.hasPrefix("event: put") {
                received.append(
                    Int(line.dropFirst(#"event: put data: {"path":"/","data":"#.count).dropLast(1)) ?? -1)
            }
        }
        for _ in 0..<2000 {
            if Bool.random(using: &random) {
                let count = Int.random(in: 1...5, using: &random)
                let events = (0..<count).map { put("\(sent + $0)") }
                sent += count
                note(driver.event { $0.receive(events, &$1) })
            } else {
                note(driver.take(Int.random(in: 0...2000, using: &random)))
            }
        }
        for _ in 0..<100 { note(driver.take()) }
        #expect(received == Array(0..<sent), "seed \(seed)")
    }
}

/// The events that wait for one client.
@Suite struct EventStreamTests {
    private func stream(byteLimit: Int = 64 << 20) -> EventStream {
        EventStream(JSONForm(), waitingByteLimit: byteLimit, now: testStart)
    }

    private func drain(_ stream: inout EventStream) -> String {
        var bytes: [UInt8] = []
        while let piece = stream.next() { bytes += piece }
        return text(bytes)
    }

    @Test func printsEventsInTheirOrder() {
        var stream = stream()
        #expect(!stream.hasBegun && stream.next() == nil)
        #expect(stream.append([put("1"), put("2", at: "b")]) == true)
        #expect(stream.hasBegun && stream.waitingCount == 2 && !stream.isPrinting)
        let first = stream.next()
        #expect(first != nil && stream.isPrinting && stream.waitingCount == 1)
        #expect(
            drain(&stream) == "event: put\ndata: {\"path\":\"/b\",\"data\":2}\n\n", "the first was one piece")
        #expect(!stream.isPrinting && !stream.isFinished && stream.waitingCount == 0)
    }

    @Test(
        arguments: [
            ([.cancel(nil)], true), ([.authRevoked], true), ([put("1")], false), ([.keepAlive], false),
        ] as [([StreamEvent], Bool)])
    func endsBehindItsLastEvent(events: [StreamEvent], isEnd: Bool) {
        var stream = stream()
        #expect(stream.append(events) == true && stream.isEnding == isEnd && !stream.isFinished)
        _ = drain(&stream)
        #expect(stream.isFinished == isEnd)
        #expect(stream.append([put("2")]) == true)
        #expect(drain(&stream).isEmpty == isEnd)
    }

    /// What waits is counted while it waits, and no longer: a client that is a little behind for long is no
    /// danger.
    @Test func bytesThatWaitAreCountedUntilTheyAreTaken() {
        var stream = stream(byteLimit: 10_000)
        let event = put("\"" + String(repeating: "v", count: 1000) + "\"")
        #expect(stream.append([event, event]) == true)
        for count in 0..<1000 {
            let isWithin = stream.append([event])
            #expect(isWithin, "event \(count)")
            guard isWithin else { return }
            let taken = stream.waitingCount
            while stream.waitingCount == taken || stream.isPrinting && stream.waitingCount > 2 {
                _ = stream.next()
            }
            #expect(stream.waitingByteCount <= 4 * 1200)
        }
        _ = drain(&stream)
        #expect(stream.waitingByteCount == 0)
    }

    @Test func streamWithTooManyWaitingBytesEnds() {
        var stream = stream(byteLimit: 10_000)
        let event = put("\"" + String(repeating: "v", count: 1000) + "\"")
        var count = 0
        while stream.append([event]), count < 100 { count += 1 }
        #expect((8...10).contains(count), "\(count)")
    }

    /// Rest §8.2: 10 000 waiting events.
    @Test func streamWithTooManyWaitingEventsEnds() {
        var stream = stream()
        var count = 0
        while stream.append([put("1")]), count < 20_000 { count += 1 }
        #expect(count == 10_000)
    }

    /// A listener to operations misses some instead of being cut off, and is sent how many (§8.2, §10).
    @Test func listenerToOperationsMissesSome() {
        var stream = stream()
        for number in 0..<6000 { #expect(stream.append([.log(Array("\(number)".utf8))]) == true) }
        #expect(stream.waitingCount == 5000)
        let lines = drain(&stream).split(separator: "\n").filter { $0.hasPrefix("data: ") }
        #expect(lines.count == 5001 && lines[4999] == "data: 4999")
        #expect(lines[5000] == #"data: {"name":"missed","count":1000}"#)
        #expect(stream.append([.log(Array("7".utf8))]) == true)
        #expect(drain(&stream) == "event: log\ndata: 7\n\n", "said once")
    }

    @Test func missedOperationsAreSaidBeforeTheNext() {
        var stream = stream()
        for _ in 0..<5001 { _ = stream.append([.log([0x31])]) }
        for _ in 0..<20 { _ = stream.next() }
        #expect(stream.append([.log(Array("next".utf8))]) == true)
        let text = drain(&stream)
        #expect(text.hasSuffix("data: {\"name\":\"missed\",\"count\":1}\n\nevent: log\ndata: next\n\n"))
    }

    @Test(arguments: [false, true])
    func firstEventsWaitUntilTheyAreMeasured(isTooHeavy: Bool) {
        var stream = stream()
        stream.awaitMeasure()
        #expect(stream.append([put("1"), .cancel(nil)]) == true)
        #expect(stream.next() == nil && !stream.isFinished)
        stream.measured(isTooHeavy: isTooHeavy)
        let text = drain(&stream)
        #expect(text.contains("event: cancel") && text.contains("event: put") == !isTooHeavy)
        #expect(stream.isFinished)
    }
}
