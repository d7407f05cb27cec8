import PandoEngine
import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

/// What the official JavaScript client does over long polling (realtime §1.5): at most two requests at a
/// time, a new poll for each response, responses put in order by their number, and segments in the query of
/// the next request.
struct PollingBrowser {
    private struct Script {
        var number: Int
        var messages: [Int]
        var closes: Int?
    }

    var serial: UInt64 = 100
    private var nextConnection: UInt64 = 10
    private var segment = 0
    private(set) var sentCount = 0
    /// Requests that were sent and whose response has not come: on which connection, and the target.
    var underWay: [(connection: SessionID, target: String)] = []
    private var next = 0
    private var early: [Int: [Int]] = [:]
    /// Numbers in the messages of the server, in the order in which the page gets them.
    private(set) var received: [Int] = []
    private(set) var isClosed = false
    private var seenResponses = 0

    mutating func start(_ world: inout PollingWorld) {
        request("/.lp?start=t&ser=1&cb=7&v=5", &world)
    }

    /// Sends a request on a free connection.
    mutating func request(_ target: String, _ world: inout PollingWorld) {
        let busy = Set(underWay.map(\.connection))
        let connection: SessionID
        if let free = world.openConnections.first(where: { !busy.contains($0) }) {
            connection = free
        } else {
            connection = SessionID(nextConnection)
            nextConnection += 1
            world.connect(connection)
        }
        underWay.append((connection, target))
        // The second response on a connection is read behind the first: its system has acknowledged that one.
        world.take(on: connection)
        world.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n", on: connection)
    }

    /// Polls, with requests for the databases where the test has some to send.
    mutating func poll(_ count: Int, _ world: inout PollingWorld) {
        let messages = (0..<count).map { putMessage(sentCount + $0) }
        sentCount += count
        serial += 1
        let (query, next) = segments(messages, from: segment, length: 40)
        segment = next
        request("/.lp?id=5&pw=\(PollingWorld.password)&ser=\(serial)" + query, &world)
    }

    /// Says `n` behind all that it has sent (§1.6).
    mutating func end(_ world: inout PollingWorld) {
        serial += 1
        let (query, next) = segments([control("n")], from: segment, length: 40)
        segment = next
        request("/.lp?id=5&pw=\(PollingWorld.password)&ser=\(serial)" + query, &world)
    }

    /// Asks a request again whose connection broke.
    mutating func lose(_ index: Int, isDelivered: Bool, asksAgain: Bool, _ world: inout PollingWorld) {
        let (connection, target) = underWay.remove(at: index)
        if isDelivered { world.take(on: connection) }
        world.close(connection, inOrder: false)
        if asksAgain { request(target, &world) }
    }

    /// Reads the responses that have come.
    mutating func read(_ world: PollingWorld) {
        for (connection, body) in world.responses[seenResponses...] {
            guard let index = underWay.firstIndex(where: { $0.connection == connection }) else { continue }
            underWay.remove(at: index)
            take(body)
        }
        seenResponses = world.responses.count
    }

    private mutating func take(_ body: String) {
        for line in body.split(separator: "\n") {
            if line.hasPrefix("pLPCommand('close'") { isClosed = true }
            guard line.hasPrefix("pRTLPCB(") else { continue }
            let parts = line.dropFirst("pRTLPCB(".count).split(separator: ",", maxSplits: 1)
            guard let number = Int(parts[0]), number >= next else { continue }
            early[number] = parts[1].split(separator: "{").compactMap { part in
                part.hasPrefix("\"n\":") ? Int(part.dropFirst(4).prefix { $0.isNumber }) : nil
            }
        }
        while let messages = early.removeValue(forKey: next) {
            received += messages
            next += 1
        }
    }
}
