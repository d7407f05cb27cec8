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
