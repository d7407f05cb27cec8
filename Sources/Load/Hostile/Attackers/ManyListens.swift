import PandoBytes

/// Holds thousands of listens as deep as paths may be, whose places in the server's tables take memory.
struct DeepListens: Attacker {
    static let connectionCount = 3
    static let listenCount = 20_000
    /// Keys below the location of each listen's own.
    static let depth = 27

    let name = "deep-listens"
    let summary = "3 clients with 20 000 listens each, 31 levels deep"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let levels = String(repeating: "/x", count: Self.depth)
        return (0..<Self.connectionCount).map { connection in
            let burst = realtimeBurst(of: Self.listenCount) { output, number in
                output.append(
                    realtimeRequest: "q", number: number,
                    path: "\(site.root)/deep\(connection)/\(number)\(levels)"
                ) {
                    $0.append(#","h":"""#)
                }
            }
            return AttackRole(
                connections: 1, opening: .webSocket, burst: burst, requests: (Self.listenCount, "listens"),
                reading: .everything, next: .hold)
        }
    }
}

/// Listens to many locations beside one another, and begins and ends a listen above all of them, again and
/// again.
struct CoverUncover: Attacker {
    static let listenCount = 40_000
    /// Listens above the others that begin and end in one burst.
    static let pairCount = 500

    let name = "cover-uncover"
    let summary = "40 000 listens of one client, and one above all of them that begins and ends all the time"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = "\(site.root)/cover"
        let requestCount = Self.listenCount + 2 * Self.pairCount
        let burst = realtimeBurst(of: requestCount) { output, number in
            let isPair = number > Self.listenCount
            let isEnd = isPair && number.isMultiple(of: 2)
            output.append(
                realtimeRequest: isEnd ? "n" : "q", number: number,
                path: isPair ? path : "\(path)/\(number)"
            ) {
                if !isEnd { $0.append(#","h":"""#) }
            }
        }
        return [
            AttackRole(
                connections: 1, opening: .webSocket, burst: burst, requests: (requestCount, "listens"),
                reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}

/// Listens at paths as long as they may be, and writes above them that bring and remove what they listen to.
///
/// A write above such listens once looked up each prefix of each of them: 0.3 ms a listen, before any limit
/// was asked. What a slow reader had missed at such paths took 45 ms, before the requests of all others.
struct LongPaths: Attacker {
    static let connectionCount = 20
    static let listenCount = 64
    /// Keys between the location of all and the key of each listen, and their length: 20 KB together.
    static let depth = 27
    static let keyByteCount = 740

    let name = "long-paths"
    let summary = "20 clients with 64 listens each at paths of 20 KB, and a client that writes above"

    private var key: String { String(repeating: "k", count: Self.keyByteCount) }

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = "\(site.root)/long"
        let levels = String(repeating: "/\(key)", count: Self.depth)
        let bursts = (0..<Self.connectionCount).map { connection in
            realtimeBurst(of: Self.listenCount) { output, number in
                output.append(
                    realtimeRequest: "q", number: number, path: "\(path)\(levels)/\(connection)_\(number)"
                ) {
                    $0.append(#","h":"""#)
                }
            }
        }
        // Nothing is there; a little above all listens; nothing; what each of them listens to.
        let values = ["1", #"{"\#(key)":2}"#, "3", valueOfAllListens]
        let writes = realtimeBurst(of: values.count) { output, number in
            output.append(realtimeRequest: "p", number: number, path: path) {
                $0.append(#","d":"#)
                $0.append(utf8: values[number - 1])
            }
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .webSocket, bursts: bursts,
                requests: (Self.listenCount, "listens"), reading: .everything, next: .hold),
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (values.count, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered),
        ]
    }

    private var valueOfAllListens: String {
        let listens = (0..<Self.connectionCount).flatMap { connection in
            (1...Self.listenCount).map { #""\#(connection)_\#($0)":4"# }
        }
        return String(repeating: #"{"\#(key)":"#, count: Self.depth) + "{\(listens.joined(separator: ","))}"
            + String(repeating: "}", count: Self.depth)
    }
}
