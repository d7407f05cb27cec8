import PandoBytes
import PandoWebSocket

/// Queries the last child of a large node by a member, thousands of times at once, and disconnects.
struct PipelinedGets: Attacker {
    let node: PreparedData
    let requestCount: Int
    let summary = "pipelined ordered gets on a large node, then disconnects, again and again"

    var name: String { node == .children20k ? "pipelined-gets" : "pipelined-gets-200k" }
    var needs: Set<PreparedData> { [node] }

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let burst = realtimeBurst(of: requestCount) { output, number in
            output.append(realtimeRequest: "g", number: number, path: node.path(at: site)) {
                $0.append(#","q":{"i":"x","l":1,"vf":"r"}"#)
            }
        }
        return [
            AttackRole(
                connections: 1, opening: .webSocket, burst: burst, requests: (requestCount, "gets"),
                reading: .nothing,
                next: .hangUp(after: .seconds(1)))
        ]
    }
}

/// Listens to a large node with a wrong hash, thousands of times at once, and disconnects.
struct StaleListens: Attacker {
    static let requestCount = 20_000

    let name = "stale-listens"
    let summary = "listens with a stale hash on a large node, then disconnects, again and again"
    let needs: Set<PreparedData> = [.children20k]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let burst = realtimeBurst(of: Self.requestCount) { output, number in
            output.append(realtimeRequest: "q", number: number, path: PreparedData.children20k.path(at: site))
            {
                $0.append(#","h":"c3RhbGU=""#)
            }
        }
        return [
            AttackRole(
                connections: 1, opening: .webSocket, burst: burst, requests: (Self.requestCount, "listens"),
                reading: .nothing, next: .hangUp(after: .seconds(1)))
        ]
    }
}

/// Transactions on a large node with a wrong hash, and small writes between them, so that the hash of the
/// node changes each time.
struct FailingTransactions: Attacker {
    static let requestCount = 2000
    /// One of this many requests is a small write.
    static let writeSpacing = 20

    let node: PreparedData
    let summary = "transactions with a wrong hash on a large node, small writes between them"

    var name: String { node == .children20k ? "failing-transactions" : "failing-transactions-200k" }
    var needs: Set<PreparedData> { [node] }

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = node.path(at: site)
        let burst = realtimeBurst(of: Self.requestCount) { output, number in
            if number.isMultiple(of: Self.writeSpacing) {
                output.append(realtimeRequest: "p", number: number, path: "\(path)/written") {
                    $0.append(#","d":"#)
                    $0.append(decimal: Int64(number))
                }
            } else {
                output.append(realtimeRequest: "p", number: number, path: path) {
                    $0.append(#","d":1,"h":"d3Jvbmc=""#)
                }
            }
        }
        return [
            AttackRole(
                connections: 1, opening: .webSocket, burst: burst,
                requests: (Self.requestCount, "transactions"),
                reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}

/// Writes of millions of nodes in one message.
struct BigMessages: Attacker {
    /// `0,` each.
    static let elementCount = 8_000_000
    static let connectionCount = 10

    let name = "big-messages"
    let summary = "realtime writes of 16 MB with 8 million elements"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var text: [UInt8] = []
        text.append(realtimeRequest: "p", number: 1, path: "\(site.root)/big") {
            $0.append(#","d":"#)
            $0.append(zeros: Self.elementCount)
        }
        var frame: [UInt8] = []
        frame.append(clientFrame: text)
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, burst: SharedBytes(frame),
                requests: (1, "writes"), reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}

/// The same over REST.
struct BigBodies: Attacker {
    let name = "big-bodies"
    let summary = "REST writes of 16 MB with 8 million elements"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var body: [UInt8] = []
        body.append(zeros: BigMessages.elementCount)
        var text: [UInt8] = []
        text.append(restRequest: "PUT", site, path: "\(site.root)/big", contentByteCount: body.count)
        text.append(contentsOf: body)
        return [
            AttackRole(
                connections: BigMessages.connectionCount, opening: .tcp, burst: SharedBytes(text),
                requests: (1, "writes"), reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}

extension [UInt8] {
    /// Appends a client's frame with the masking key 0, so that the payload is unchanged.
    mutating func append(clientFrame text: [UInt8]) {
        append(frameHeader: .text, payloadByteCount: text.count, maskingKey: 0)
        append(contentsOf: text)
    }

    /// Appends a JSON array of zeros.
    mutating func append(zeros elementCount: Int) {
        append("[0")
        for _ in 1..<Swift.max(1, elementCount) {
            append(UInt8(ascii: ","))
            append(UInt8(ascii: "0"))
        }
        append("]")
    }
}
