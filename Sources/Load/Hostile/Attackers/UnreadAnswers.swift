import PandoBytes
import PandoWebSocket

/// Many clients that request a large node again and again and read slowly.
struct LargeGets: Attacker {
    static let connectionCount = 100
    static let requestCount = 50
    static let bytesPerSecond = 100_000

    let name = "many-clients-large-gets"
    let summary = "100 connections with pipelined gets of 5 MB that read 100 KB/s"
    let needs: Set<PreparedData> = [.large5MB]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let burst = realtimeBurst(of: Self.requestCount) { output, number in
            output.append(realtimeRequest: "g", number: number, path: PreparedData.large5MB.path(at: site)) {
                $0.append(#","q":{}"#)
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, burst: burst,
                requests: (Self.requestCount, "gets"), reading: .paced(Self.bytesPerSecond), next: .hold)
        ]
    }
}

/// Clients that leave large responses and many changes unread, and then read on, as on a slow link, and go on
/// with what they asked for.
///
/// What such a client had missed was once looked up and printed as soon as it read on, before the requests of
/// all others, and no client was charged for that work: 1.8 s for forty of them.
struct ResumingReaders: Attacker {
    static let connectionCount = 60
    static let requestCount = 50
    /// More than the locations that a server keeps for a client that reads slowly.
    static let writeCount = 600
    static let silence: Duration = .seconds(1)
    static let bytesPerSecond = 2_000_000

    let name = "resuming-readers"
    let summary = "60 clients with pipelined gets of 5 MB that read nothing for 1 s, then 2 MB/s"
    let needs: Set<PreparedData> = [.large5MB]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let (large, changing) = (PreparedData.large5MB.path(at: site), "\(site.root)/resumed")
        let burst = realtimeBurst(of: Self.requestCount) { output, number in
            if number <= 2 {
                output.append(realtimeRequest: "q", number: number, path: number == 1 ? changing : large) {
                    $0.append(#","h":"""#)
                }
            } else {
                output.append(realtimeRequest: "g", number: number, path: large) { $0.append(#","q":{}"#) }
            }
        }
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            output.append(realtimeRequest: "p", number: number, path: "\(changing)/\(number)/written") {
                $0.append(#","d":{".sv":"timestamp"}"#)
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, burst: burst,
                requests: (Self.requestCount, "requests"),
                reading: .paced(Self.bytesPerSecond, after: Self.silence), next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }
}

/// Clients that request less than would disconnect one of them, and read nothing.
struct UnreadOutput: Attacker {
    static let connectionCount = 120
    /// Of 1 KiB each: 21 MiB.
    static let requestCount = 21 << 10

    let name = "unread-output"
    let summary = "120 connections that request 21 MiB by gets of 1 KiB and read nothing"
    let needs: Set<PreparedData> = [.small1KB]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let burst = realtimeBurst(of: Self.requestCount) { output, number in
            output.append(realtimeRequest: "g", number: number, path: PreparedData.small1KB.path(at: site)) {
                $0.append(#","q":{}"#)
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, burst: burst,
                requests: (Self.requestCount, "gets"), reading: .nothing, next: .hold)
        ]
    }
}

/// WebSocket pings as fast as the server reads; the pongs are not read.
struct Pings: Attacker {
    static let connectionCount = 12
    /// A burst is far above the loop's low-water mark, so that a drained channel is seen.
    static let pingCount = 4000

    let name = "pings"
    let summary = "12 connections that send WebSocket pings of 125 bytes and read nothing"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var frames: [UInt8] = []
        let payload = [UInt8](repeating: UInt8(ascii: "x"), count: 125)
        for _ in 0..<Self.pingCount { frames.append(frame: .ping, payload: payload.rawSpan, maskingKey: 0) }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, burst: SharedBytes(frames),
                requests: (Self.pingCount, "pings"), reading: .nothing, next: .sendAgain)
        ]
    }
}

/// Pings of the realtime protocol and keep-alives as fast as the server reads; the responses are not read.
struct ControlPings: Attacker {
    static let pairCount = 4000

    let name = "control-pings"
    let summary = "12 connections that send control pings and keep-alives and read nothing"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        var frames: [UInt8] = []
        for _ in 0..<Self.pairCount {
            frames.append(clientFrame: Array(#"{"t":"c","d":{"t":"p","d":{}}}"#.utf8))
            frames.append(clientFrame: [UInt8(ascii: "0")])
        }
        return [
            AttackRole(
                connections: Pings.connectionCount, opening: .webSocket, burst: SharedBytes(frames),
                requests: (Self.pairCount, "pings"), reading: .nothing, next: .sendAgain)
        ]
    }
}
