import PandoBytes
import PandoIdentity
import PandoRandom
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Any sequence of events: the machine does not trap, answers no request twice, and gives everything back in
/// the end.
@Suite struct HTTPRandomTests {
    private static let requests = [
        request("GET /a.json"), request("GET /a.json?auth=T"), request("GET /a.json?timeout=1s"),
        request("GET /a.json", "Accept: text/event-stream"), request("GET /a.json", "X-Firebase-ETag: true"),
        request("GET /a.json", "Accept-Encoding: gzip"), write("PUT /a.json", "1"),
        write("PUT /a.json?auth=T", "{\"b\":1}"),
        write("PUT /a.json", "x", "Content-Encoding: gzip"),
        write("PUT /a.json", String(repeating: "1", count: 70_000)),
        request("PUT /a.json", "Host: a", "Content-Length: 70000", "Expect: 100-continue"),
        request("PUT /a.json", "Host: a", "Transfer-Encoding: chunked") + "2\r\n12\r\n0\r\n\r\n",
        request("OPTIONS /a.json", "Access-Control-Request-Method: PUT"), request("GET /wrong"),
        request("GET /.lp?id=5&pw=k2Jd83hf0Q&ser=9"), request("GET /.lp?id=5"),
        request("GET /.settings/rules.json?auth=T"),
        "GET /a.json HTTP/1.0\r\n\r\n", "\u{0}\r\n\r\n", "1\r\n", "GET /",
    ]

    private static let results: [RESTCallResult] = [
        .read(.integer(1)), .read(.string(Text(String(repeating: "v", count: 300_000)))),
        .written(.integer(1)), .admitted,
        .stream, .refused(.permissionDenied), .failed("text"), .stale(.integer(2)),
        .filtered(.integer(1), IndexedQuery(Query(order: .key))),
        .verbatim([UInt8](repeating: 0x20, count: 400_000)),
    ]

    private static let events: [StreamEvent] = [
        .put("/", .integer(1)), .put("/", .string(Text(String(repeating: "v", count: 300_000)))), .keepAlive,
        .patch("/", [.init(key: "a", node: .integer(1))]), .cancel(nil), .authRevoked, .log([0x31]),
    ]

    @Test(arguments: 0..<20 as Range<UInt64>)
    func anyEvents(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = HTTPDriver(isReserved: seed % 7 == 0, readsOutput: false) {
            $0.isDevelopment = seed % 3 == 0
        }
        driver.base.socket.takesAll = seed % 2 == 0
        var jobs = Jobs()
        for _ in 0..<1000 {
            step(&driver, &random)
            jobs.note(driver.base.takeActions().actions)
            #expect(jobs.isSound, "seed \(seed)")
            guard jobs.isSound else { return }
            #expect(driver.machine.heldByteCount <= 4 << 20, "seed \(seed): what is held is bounded")
            // The owner of the socket closes what has ended, and a new connection comes.
            guard driver.base.socket.end != nil, Int.random(in: 0..<4, using: &random) == 0 else { continue }
            end(&driver, &random, seed)
            driver = HTTPDriver(isReserved: random.next() % 7 == 0, readsOutput: false) {
                $0.isDevelopment = seed % 3 == 0
            }
            driver.base.socket.takesAll = Bool.random(using: &random)
            jobs = Jobs()
        }
        end(&driver, &random, seed)
    }

    private func end(_ driver: inout HTTPDriver, _ random: inout SeededGenerator, _ seed: UInt64) {
        _ = driver.event { $0.closed(inOrder: true, &$1) }
        #expect(driver.machine.heldByteCount == 0, "seed \(seed): nothing is held")
        #expect(driver.base.context.compressingCount == 0, "seed \(seed)")
        #expect(driver.base.context.bufferingCount == 0, "seed \(seed)")
        #expect(driver.base.log.filter { $0 == "closed" }.count <= 1, "seed \(seed): the end is posted once")
    }

    private func step(_ driver: inout HTTPDriver, _ random: inout SeededGenerator) {
        switch Int.random(in: 0..<22, using: &random) {
        case 0...5:
            var bytes = Array((Self.requests.randomElement(using: &random) ?? "").utf8)
            if Int.random(in: 0..<5, using: &random) == 0 {
                bytes = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))
            }
            // A socket that is not read brings nothing.
            guard driver.machine.pauses.isEmpty, driver.base.socket.end == nil else { return }
            _ = driver.receive(bytes)
        case 6...9: _ = driver.receive(Self.results.randomElement(using: &random) ?? .admitted)
        case 10:
            let events = (0..<Int.random(in: 0...3, using: &random)).compactMap { _ in
                Self.events.randomElement(using: &random)
            }
            _ = driver.event { $0.receive(events, &$1) }
        case 11: _ = driver.event { $0.verified(.accepted(administrator), &$1) }
        case 12:
            _ = driver.event {
                $0.verified(.refused(TokenError.allCases.randomElement(using: &random) ?? .expired), &$1)
            }
        case 13:
            let size = NodeSizeCheck(
                session: HTTPDriver.id, filtered: nil, endOfPage: nil,
                isTooHeavy: Bool.random(using: &random), etag: nil)
            _ = driver.event { $0.measured(size, &$1) }
        case 14:
            let content: BodyResult.Content =
                Bool.random(using: &random) ? .refused(.invalidGzip) : .data(.value(Draft(.integer(1))))
            _ = driver.event {
                $0.bodyRead(BodyResult(session: HTTPDriver.id, content: content, byteCount: 1), &$1)
            }
        case 15:
            driver.base.wait(Double.random(in: 0...20, using: &random))
            _ = driver.tick()
        case 16: _ = driver.event { $0.deadlinePassed(&$1) }
        case 17: _ = driver.event { $0.nextTurn(&$1) }
        case 18: _ = driver.take(Int.random(in: 0...500_000, using: &random))
        case 19:
            _ = driver.event { machine, _ in
                if Bool.random(using: &random) {
                    machine.pause(.memory)
                } else {
                    machine.resume(after: .memory)
                }
            }
        case 20: _ = driver.event { $0.respondClosed(&$1) }
        default:
            switch Int.random(in: 0..<12, using: &random) {
            case 0: _ = driver.event { $0.peerEnded(&$1) }
            case 1: _ = driver.event { $0.endIfIdle(&$1) }
            case 2: _ = driver.event { $0.giveUpMemory(&$1) }
            case 3: _ = driver.event { $0.expired(&$1) }
            case 4: _ = driver.event { $0.close(.finished, &$1) }
            case 5: _ = driver.event { $0.loseDeliveries(of: .init(5), &$1) }
            default: break
            }
        }
    }

    /// Actions that go in pairs: what was asked for is asked for once at a time.
    private struct Jobs {
        private var isWaking = false
        private var hasBody = false
        private(set) var isSound = true

        mutating func note(_ actions: [ConnectionAction]) {
            for action in actions {
                switch action {
                case .wake(let time):
                    if time == nil, !isWaking { isSound = false }
                    isWaking = time != nil
                case .readBody: hasBody = true
                case .cancelBody:
                    if !hasBody { isSound = false }
                    hasBody = false
                default: break
                }
            }
        }
    }
}
