import PandoBytes
import PandoTraffic

/// Sessions by long polling that listen to a node in which another client writes, and poll late, or never
/// again.
///
/// What they have not polled waits in the server. Each session once copied and escaped each push for itself:
/// one write of 30 KB held up an I/O thread for 0.35 s where 2000 of them listened.
struct LatePolls: Attacker {
    /// Of each kind.
    static let sessionCount = 200
    static let pause: Duration = .seconds(1)
    /// Of a value that is written.
    static let byteCount = 3000
    static let writeCount = 4

    let name = "late-polls"
    let summary = "400 sessions by long polling beside a writer: half poll once a second, half never again"

    func roles(at site: HostileSite, share: Int) -> [AttackRole] {
        let path = "\(site.root)/polled"
        let listen = pollData(listeningTo: path, at: site)
        let writes = realtimeBurst(of: Self.writeCount) { output, number in
            output.append(realtimeRequest: "p", number: number, path: "\(path)/v\(number % 3)") {
                $0.append(#","d":"#)
                $0.append(stringOf: Self.byteCount + number)
            }
        }
        let polling = [Self.pause, nil].map { pause in
            AttackRole(
                connections: Self.sessionCount, opening: .polling(every: pause), burst: listen,
                requests: (1, "polls"), reading: .everything, next: .hold)
        }
        return polling + [
            AttackRole(
                connections: 1, opening: .webSocket, burst: writes, requests: (Self.writeCount, "writes"),
                reading: .everything, next: .sendAgainWhenAnswered)
        ]
    }

    /// As much of it as fits the URL of one poll: all of it, unless the token has more than a kilobyte.
    private func pollData(listeningTo path: String, at site: HostileSite) -> SharedBytes {
        var segments = PollSegments()
        if let token = site.token {
            var text: [UInt8] = []
            text.append(authentication: token, number: 0)
            segments.append(text.rawSpan)
        }
        var text: [UInt8] = []
        text.append(realtimeRequest: "q", number: 1, path: path) { $0.append(#","h":"""#) }
        segments.append(text.rawSpan)
        var data: [UInt8] = []
        segments.appendURLData(to: &data)
        return SharedBytes(data)
    }
}
