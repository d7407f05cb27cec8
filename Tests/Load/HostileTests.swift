import Foundation
import PandoBytes
import PandoReactor
import Testing

@testable import PandoLoad
@testable import PandoTraffic

/// The judgement of a hostile run, and the requests of its attackers.
@Suite struct HostileTests {
    private static let limits = HostileLimits(
        p99Factor: 2, p99Floor: 1_000_000, longestWait: 50_000_000, memoryLimit: 500_000_000,
        memoryAfterFactor: 2)

    /// A bystander that waited these milliseconds, each a hundred times.
    private static func measure(_ milliseconds: [Int]) -> BystanderMeasure {
        var measure = BystanderMeasure()
        for wait in milliseconds { measure.latencies[0].record(UInt64(wait) * 1_000_000, count: 100) }
        return measure
    }

    private static func outcome(_ phases: [HostilePhase]) -> HostileOutcome {
        var quiet = HostilePhase(name: "quiet", kind: .quiet, measure: measure([2]))
        quiet.memoryAfter = 100_000_000
        var outcome = HostileOutcome(phases: [quiet] + phases, limits: limits)
        outcome.memoryStart = 100_000_000
        return outcome
    }

    private static func judged(_ milliseconds: [Int] = [2], _ change: (inout HostilePhase) -> Void = { _ in })
        -> HostilePhase
    {
        var phase = HostilePhase(name: "pings", kind: .judged, measure: measure(milliseconds))
        phase.memoryStart = 100_000_000
        change(&phase)
        return phase
    }

    private struct Case: Sendable {
        let phase: HostilePhase
        let broken: [String]
        let because: String
    }

    private static let cases: [Case] = [
        Case(phase: judged(), broken: [], because: "as in the quiet phase"),
        Case(phase: judged([4]), broken: [], because: "just twice"),
        Case(phase: judged([5]), broken: ["p99"], because: "more than twice"),
        Case(phase: judged([2, 49]), broken: ["p99"], because: "just below the longest wait"),
        Case(phase: judged([50]), broken: ["p99", "longestWait"], because: "below 50 ms was promised"),
        Case(phase: judged([60]), broken: ["p99", "longestWait"], because: "each wait is judged by itself"),
        Case(
            phase: HostilePhase(name: "control", kind: .control, measure: measure([60])), broken: [],
            because: "a control phase shows the machine, not the server"),
        Case(
            phase: judged { $0.memoryPeak = 500_000_000 }, broken: [], because: "as much memory as is allowed"
        ),
        Case(phase: judged { $0.memoryPeak = 500_000_001 }, broken: ["memoryPeak"], because: "a byte above"),
        Case(phase: judged { $0.memoryAfter = 200_000_000 }, broken: [], because: "twice what it was"),
        Case(
            phase: judged { $0.memoryAfter = 200_000_001 }, broken: ["memoryAfter"],
            because: "more than twice"),
        Case(
            phase: judged { ($0.memoryStart, $0.memoryAfter) = (nil, 400_000_000) }, broken: [],
            because: "no attack has begun"),
        Case(
            phase: judged { $0.cuts = ["slow-push: reset", "burst: reset"] }, broken: ["cut", "cut"],
            because: "each honest client that was cut"),
        Case(
            phase: judged { $0.measure.unanswered = 1 }, broken: ["unanswered"],
            because: "a reply is missing"),
        Case(
            phase: judged { $0.measure.refused = 1 }, broken: ["refused"],
            because: "the bystander may do what it does"),
        Case(
            phase: judged { $0.serverLives = false }, broken: ["serverDied"], because: "the process is gone"),
        Case(phase: judged([]), broken: ["nothingMeasured"], because: "no wait at all is no good wait"),
    ]

    @Test(arguments: cases.indices)
    func promises(index: Int) {
        let one = Self.cases[index]
        let names = Self.outcome([one.phase]).broken.map { promise in
            Mirror(reflecting: promise).children.first?.label ?? "\(promise)"
        }
        #expect(names == one.broken, "\(one.because)")
    }

    @Test func brokenPromisesOfTheWholeRun() {
        var outcome = Self.outcome([Self.judged()])
        outcome.lostWrites = 3
        outcome.problems = ["slow reader 2: its state is not what a get gives"]
        #expect(
            outcome.broken == [
                .lostWrites(count: 3), .other("slow reader 2: its state is not what a get gives"),
            ])
    }

    @Test func quietP99HasAFloor() {
        #expect(Self.limits.p99Allowed(quiet: 10) == 2_000_000)
        #expect(Self.limits.p99Allowed(quiet: 3_000_000) == 6_000_000)
    }

    @Test func memoryBaselineHasAMinimum() {
        #expect(Self.limits.memoryAllowedAfter(start: 1) == 2 * HostileLimits.leastMemoryStart)
        #expect(Self.limits.memoryAllowedAfter(start: 100_000_000) == 200_000_000)
    }

    // MARK: Reports

    private static func plan() throws -> HostilePlan {
        let address = try #require(SocketAddress("127.0.0.1", port: 9000))
        let target = LoadTarget(
            name: "pando", wireProtocol: .realtime, address: address, host: "127.0.0.1:9000")
        return HostilePlan(
            site: HostileSite(target: target, namespace: "default", token: nil, root: "pando-load/x"),
            attackers: [],
            honest: [], phaseDuration: 1_000_000_000, rate: 100, patience: 1, settling: 1, slowReaders: 0,
            slowReaderPace: 1, writerRate: 1, attackThreads: 1, attackerNiceness: 0, hasControl: false,
            limits: limits,
            serverProcess: nil)
    }

    @Test func reportsNameBrokenPromises() throws {
        let outcome = Self.outcome([
            Self.judged([60]) {
                $0.work = "12 connections, 8000 pings"
                $0.memoryPeak = 692_000_000
            }
        ])
        let text = HostileReport.text(outcome, try Self.plan())
        #expect(
            text.contains("BROKEN: 3") && text.contains("12 connections, 8000 pings") && text.contains("692"))
        let json = HostileReport.json(outcome, try Self.plan())
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        let phases = try #require(object["phases"] as? [[String: Any]])
        #expect(phases.map { $0["phase"] as? String } == ["quiet", "pings"])
        #expect((phases[1]["broken"] as? [String])?.count == 3 && (object["broken"] as? [String])?.count == 3)
        #expect((phases[1]["bystander"] as? [String: Double])?["count"] == 100)
    }

    @Test func reportsOfACleanRun() throws {
        let text = HostileReport.text(Self.outcome([Self.judged()]), try Self.plan())
        #expect(text.contains("every promise was kept") && !text.contains("BROKEN"))
    }

    // MARK: What attackers send

    @Test func attackersHaveDifferentNames() {
        let names = allAttackers(connections: 1, halfMessages: 1).map(\.name)
        #expect(Set(names).count == names.count && names.contains("pings") && names.contains("many-windows"))
    }

    @Test func floodsOpenNoMoreThanTheirShare() throws {
        let site = try Self.plan().site
        for attacker in allAttackers(connections: 100, halfMessages: 100) where attacker.isFlood {
            #expect(attacker.roles(at: site, share: 30).map(\.connections) == [30], "\(attacker.name)")
            #expect(attacker.roles(at: site, share: 3000).map(\.connections) == [100], "\(attacker.name)")
        }
    }

    @Test func burstIsClientFramesOfNumberedRequests() {
        let burst = realtimeBurst(of: 2) { output, number in
            output.append(realtimeRequest: "g", number: number, path: "a") { $0.append(#","q":{}"#) }
        }
        let texts = [1, 2].map { #"{"t":"d","d":{"r":\#($0),"a":"g","b":{"p":"/a","q":{}}}}"# }
        // FIN and text, masked with the key 0, which changes nothing.
        let frames = texts.flatMap { text -> [UInt8] in
            [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0] + Array(text.utf8)
        }
        #expect(burst.array == frames)
    }

    /// The texts of a burst's frames, whose masking key is 0.
    private static func texts(of burst: SharedBytes) -> [[UInt8]] {
        let bytes = burst.array
        var texts: [[UInt8]] = []
        var start = 0
        while start + 2 <= bytes.count, bytes[start] == 0x81 {
            let short = Int(bytes[start + 1] & 0x7F)
            let lengthByteCount = short == 126 ? 2 : short == 127 ? 8 : 0
            let end = start + 2 + lengthByteCount
            let length =
                lengthByteCount == 0 ? short : bytes[(start + 2)..<end].reduce(0) { $0 << 8 | Int($1) }
            texts.append(Array(bytes[(end + 4)..<(end + 4 + length)]))
            start = end + 4 + length
        }
        return start == bytes.count ? texts : []
    }

    private static let measured = Set([
        "windows-behind", "growing-windows", "many-orders", "long-paths", "resuming-readers", "late-polls",
    ])

    @Test func requestsOfWebSocketsAreJSONAndAreCounted() throws {
        let site = try Self.plan().site
        let attackers = allAttackers(connections: 1, halfMessages: 1).filter {
            Self.measured.contains($0.name)
        }
        #expect(attackers.count == Self.measured.count)
        for attacker in attackers {
            for role in attacker.roles(at: site, share: 1) where role.opening == .webSocket {
                for burst in role.bursts {
                    let texts = Self.texts(of: burst)
                    #expect(texts.count == role.requests.count, "\(attacker.name)")
                    let bodies = try [texts.first, texts.last].compactMap(\.self).map {
                        text -> [String: Any] in
                        let object = try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any]
                        return try #require((object?["d"] as? [String: Any])?["b"] as? [String: Any])
                    }
                    for body in bodies {
                        let path = try #require(body["p"] as? String)
                        #expect(path.hasPrefix("/pando-load/x/"), "\(attacker.name): all data is the run's")
                        #expect(
                            path.split(separator: "/").count < 32, "\(attacker.name): a path may be so deep")
                    }
                }
            }
        }
    }

    /// The windows that share a query would share the work.
    @Test(arguments: ["windows-behind", "growing-windows", "many-orders"])
    func windowsAreAllDifferent(name: String) throws {
        let site = try Self.plan().site
        let attacker = try #require(allAttackers(connections: 1, halfMessages: 1).first { $0.name == name })
        let listens = try #require(attacker.roles(at: site, share: 1).first)
        #expect(listens.bursts.count == listens.connections)
        var queries: Set<String> = []
        for text in listens.bursts.flatMap(Self.texts) {
            let text = String(decoding: text, as: UTF8.self)
            let (start, end) = (text.range(of: #""q":{"#), text.range(of: #"},"t":"#))
            queries.insert(String(text[try #require(start).upperBound..<(try #require(end).lowerBound)]))
        }
        #expect(queries.count == listens.connections * listens.requests.count)
    }

    @Test func connectionsTakeBurstsInTurn() throws {
        let bursts = [SharedBytes([1]), SharedBytes([2])]
        let role = AttackRole(connections: 3, opening: .tcp, bursts: bursts, reading: .nothing, next: .hold)
        let context = AttackContext(role, at: try Self.plan().site, on: try EventLoop())
        #expect((0..<3).map { _ in context.takeBurst()?.array } == [[1], [2], [1]])
        let silent = AttackRole(connections: 1, opening: .tcp, reading: .nothing, next: .hold)
        #expect(AttackContext(silent, at: try Self.plan().site, on: try EventLoop()).takeBurst() == nil)
    }

    @Test func requestsOfEventStreamsAndTimedReads() throws {
        let site = try Self.plan().site
        func texts(_ attacker: any Attacker) -> [String] {
            attacker.roles(at: site, share: 1).filter { $0.opening == .tcp }.flatMap(\.bursts)
                .map { String(decoding: $0.array, as: UTF8.self) }
        }
        let path = "/pando-load/x/data/children100k.json?ns=default"
        let streams = texts(DroppedStreams())
        #expect(
            Set(streams).count == DroppedStreams.queryCount && streams.count == 2 * DroppedStreams.queryCount)
        for text in streams {
            #expect(text.hasPrefix("GET \(path)&orderBy=%22$key%22&limitToLast=500"))
            #expect(text.contains("\r\nAccept: text/event-stream\r\n") && text.hasSuffix("\r\n\r\n"))
        }
        let reads = texts(TimedReads())
        #expect(reads.count == 2 && Set(reads).count == 2)
        #expect(reads.allSatisfy { $0.hasPrefix("GET \(path)") && $0.contains("&timeout=1ms HTTP/1.1\r\n") })
    }

    // MARK: Long polling

    private static let startResponse = """
        HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nContent-Length: 95\r\n\r\n\
        function pLPCommand(c,a){}
        pLPCommand('start','5124373','k2Jd83hf0Q');
        pRTLPCB(0,[{"t":"c"}]);

        """

    /// Whole, and in pieces of every length.
    @Test func credentialsOfASession() throws {
        let bytes = Array(Self.startResponse.utf8)
        for pieceByteCount in 1...bytes.count {
            var start = PollingStart()
            var found: [PollingStart.Credentials] = []
            for offset in stride(from: 0, to: bytes.count, by: pieceByteCount) {
                let piece = Array(bytes[offset..<min(bytes.count, offset + pieceByteCount)])
                if let credentials = try start.read(piece.rawSpan) { found.append(credentials) }
            }
            #expect(found == [.init(id: "5124373", password: "k2Jd83hf0Q")], "\(pieceByteCount)")
        }
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\npLPCommand('close');",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
        "no HTTP\r\n\r\n",
    ])
    func responsesWithoutASession(text: String) {
        var start = PollingStart()
        #expect(throws: (any Error).self) { try start.read(Array(text.utf8).rawSpan) }
    }

    @Test func aPollHasTheListen() throws {
        let site = try Self.plan().site
        let roles = LatePolls().roles(at: site, share: 1).filter { $0.opening != .webSocket }
        #expect(roles.map(\.opening) == [.polling(every: LatePolls.pause), .polling(every: nil)])
        let data = String(decoding: try #require(roles.first?.bursts.first).array, as: UTF8.self)
        #expect(data.hasPrefix("&seg0=0&ts0=1&d0="))
        let text = data.dropFirst("&seg0=0&ts0=1&d0=".count)
            .replacing("-", with: "+").replacing("_", with: "/").replacing(".", with: "=")
        let message = String(decoding: try #require(Data(base64Encoded: String(text))), as: UTF8.self)
        #expect(message == #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/pando-load/x/polled","h":""}}}"#)
    }

    @Test(arguments: PreparedData.allCases)
    func preparedDataIsJSON(data: PreparedData) throws {
        let site = try Self.plan().site
        var children = 0
        for index in 0..<data.writeCount {
            let write = data.write(index, at: site)
            #expect(write.path.hasPrefix("pando-load/x/data/"))
            let value = try JSONSerialization.jsonObject(with: Data(write.body), options: .fragmentsAllowed)
            children += (value as? [String: Any])?.count ?? 1
        }
        let expected: [PreparedData: Int] = [
            .children20k: 20_000, .children100k: 100_000, .children200k: 200_000, .windows: 1000,
            .large5MB: 5, .large12MB: 12,
            .small1KB: 1,
        ]
        #expect(children == expected[data])
    }

    @Test func zerosAreAnArray() throws {
        var bytes: [UInt8] = []
        bytes.append(zeros: 3)
        #expect(bytes == Array("[0,0,0]".utf8))
    }

    // MARK: Chunks

    private enum Step: Equatable {
        case whole, partial, complete(String), tooLong
    }

    @Test(
        arguments: [
            (["{}"], [.whole], "a message of one frame"),
            (
                ["2", "ab", "cd", "{}"], [.partial, .partial, .complete("abcd"), .whole],
                "a count, its chunks, and the next"
            ),
            (["1", "7"], [.partial, .complete("7")], "digits in a chunk are no count"),
            (["0", "x"], [.whole, .whole], "no chunks follow"),
            (["1234567"], [.whole], "too long for a count"),
            ([""], [.whole], "an empty frame"),
        ] as [([String], [Step], String)])
    private func chunks(texts: [String], steps: [Step], because: String) {
        var message = ChunkedMessage()
        let found = texts.map { text -> Step in
            switch message.append(Array(text.utf8).rawSpan) {
            case .whole: .whole
            case .partial: .partial
            case .complete(let bytes): .complete(String(decoding: bytes, as: UTF8.self))
            case .tooLong: .tooLong
            }
        }
        #expect(found == steps, "\(because)")
    }
}
