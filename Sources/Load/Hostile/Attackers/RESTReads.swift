import PandoBytes

/// Opens event streams of query windows of a large node. Half of them disconnect as soon as their request has
/// arrived, and come again; the others stay and read nothing. Another client changes all windows.
///
/// The first event of such a stream was once made by the thread that decides, for each stream anew: 80 to
/// 160 ms for 250 000 children, and 9 MB that counted for no limit.
struct DroppedStreams: Attacker {
    /// Of each kind.
    static let connectionCount = 32
    /// Streams share the event of a window; so many windows are different.
    static let queryCount = 16
    static let leastChildCount = 50_000
    static let writeCount = 2

    let name = "dropped-streams"
    let summary = "32 event streams of 50 000 children, dropped and opened again, and 32 that are not read"
    let needs: Set<PreparedData> = [.children100k]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = PreparedData.children100k.path(at: site)
        let bursts = (0..<Self.queryCount).map { number in
            var text: [UInt8] = []
            text.append(
                restRequest: "GET", site, path: path,
                parameters: #"&orderBy=%22$key%22&limitToLast=\#(Self.leastChildCount + number)"#,
                isStream: true)
            return SharedBytes(text)
        }
        // c99999 is the last child by its key.
        let count = PreparedData.children100k.childCount
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            output.append(realtimeRequest: "p", number: number, path: "\(path)/c\(count - 1)/x") {
                $0.append(#","d":"#)
                $0.append(decimal: Int64(count + number))
            }
        }
        let streams = [AttackRole.Next.hangUp(after: .seconds(1)), .hold].map { next in
            AttackRole(
                connections: Self.connectionCount, opening: .tcp, bursts: bursts, requests: (1, "streams"),
                reading: .nothing, next: next)
        }
        return streams + [
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}

/// Reads a large node, whole and by a query, and gives the server one millisecond for it: the time is over
/// when the work has begun. The server ends the connection then, and another one is opened.
///
/// The job of a query that was given up once stayed in the queue of the workers with its snapshot, outside of
/// the memory budget, and one client could queue any number of them.
struct TimedReads: Attacker {
    static let connectionCount = 100

    let name = "timed-reads"
    let summary = "100 connections that read 100 000 children with a timeout of 1 ms, again and again"
    let needs: Set<PreparedData> = [.children100k]

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let bursts = ["", "&orderBy=%22$key%22&limitToLast=90000"].map { query in
            var text: [UInt8] = []
            text.append(
                restRequest: "GET", site, path: PreparedData.children100k.path(at: site),
                parameters: "\(query)&timeout=1ms")
            return SharedBytes(text)
        }
        return [
            AttackRole(
                connections: Self.connectionCount, opening: .tcp, bursts: bursts, requests: (1, "reads"),
                reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }
}
