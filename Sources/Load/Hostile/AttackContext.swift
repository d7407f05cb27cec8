import PandoBytes
import PandoReactor

/// What the connections of one role share: what they do, and what they count. Confined to its loop.
final class AttackContext {
    let role: AttackRole
    let site: HostileSite
    let loop: EventLoop
    /// Their messages are compressed where the server is to have such.
    private let bursts: [SharedBytes]
    private var takenBurstCount = 0
    var count: AttackCount

    init(_ role: AttackRole, at site: HostileSite, on loop: EventLoop) {
        self.role = role
        self.site = site
        self.loop = loop
        let isCompressed = site.target.compresses && role.opening == .webSocket
        bursts = isCompressed ? role.bursts.map { compressing($0) } : role.bursts
        count = AttackCount(role: role.requests.unit)
    }

    /// What a new connection sends.
    func takeBurst() -> SharedBytes? {
        guard !bursts.isEmpty else { return nil }
        defer { takenBurstCount += 1 }
        return bursts[takenBurstCount % bursts.count]
    }

    func sentBurst(_ byteCount: Int) {
        count.sentByteCount += byteCount
        count.requests += role.requests.count
    }

    /// Bytes that were counted as sent and were not.
    func notSent(_ byteCount: Int) { count.sentByteCount -= byteCount }

    func read(_ byteCount: Int) { count.receivedByteCount += byteCount }
}
