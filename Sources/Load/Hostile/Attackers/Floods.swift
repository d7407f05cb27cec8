import PandoBytes
import PandoHTTP
import PandoWebSocket

/// Opens as many TCP connections as it may and sends nothing.
struct FloodConnections: Attacker {
    let limit: Int
    let name = "flood-connections"
    let summary = "bare TCP connections that send nothing"
    let isFlood = true

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        [AttackRole(connections: min(limit, share), opening: .tcp, reading: .everything, next: .hold)]
    }
}

/// Opens as many TCP connections as it may and sends half of a request's head.
struct HalfHeads: Attacker {
    let limit: Int
    let name = "half-heads"
    let summary = "TCP connections that send half of a request's head"
    let isFlood = true

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var head: [UInt8] = []
        head.append(requestLine: "GET", target: site.restTarget(site.root))
        head.append("Host: ")
        let burst = SharedBytes(head)
        return [
            AttackRole(
                connections: min(limit, share), opening: .tcp, burst: burst, reading: .everything, next: .hold
            )
        ]
    }
}

/// Holds unfinished messages on many WebSockets.
struct HalfMessages: Attacker {
    /// Announced, and sent.
    static let byteCounts = (announced: 64_000, sent: 60 << 10)

    let limit: Int
    let name = "half-messages"
    let summary = "WebSockets with 60 KiB of a message that is never finished"
    let isFlood = true

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var part: [UInt8] = []
        part.append(frameHeader: .text, payloadByteCount: Self.byteCounts.announced, maskingKey: 0)
        part.append(contentsOf: repeatElement(UInt8(ascii: "x"), count: Self.byteCounts.sent))
        let count = min(limit, share)
        return [
            AttackRole(
                connections: count, opening: .webSocket, burst: SharedBytes(part), reading: .everything,
                next: .hold)
        ]
    }
}

/// Holds unfinished HTTP bodies on many connections.
struct HalfBodies: Attacker {
    /// Announced, and sent.
    static let byteCounts = (announced: 1 << 20, sent: 60 << 10)

    let limit: Int
    let name = "half-bodies"
    let summary = "PUT requests with 60 KiB of a body that is never finished"
    let isFlood = true

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var part: [UInt8] = []
        part.append(
            restRequest: "PUT", site, path: "\(site.root)/half", contentByteCount: Self.byteCounts.announced)
        part.append(UInt8(ascii: #"""#))
        part.append(contentsOf: repeatElement(UInt8(ascii: "x"), count: Self.byteCounts.sent))
        let count = min(limit, share)
        return [
            AttackRole(
                connections: count, opening: .tcp, burst: SharedBytes(part), reading: .everything, next: .hold
            )
        ]
    }
}
