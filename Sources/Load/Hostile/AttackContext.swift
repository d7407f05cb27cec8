import PandoBytes
import PandoReactor

/// What the connections of one role share: what they do, and what they count. Confined to its loop.
final class AttackContext {
    let role: AttackRole
    let site: HostileSite
    let loop: EventLoop
    /// What each connection sends; its messages are compressed where the server is to have such.
    let burst: SharedBytes?
    var count: AttackCount

    init(_ role: AttackRole, at site: HostileSite, on loop: EventLoop) {
        self.role = role
        self.site = site
        self.loop = loop
        let isCompressed = site.target.compresses && role.opening == .webSocket
        burst = isCompressed ? role.burst.map { compressing($0) } : role.burst
        count = AttackCount(role: role.requests.unit)
    }

    func sentBurst(_ byteCount: Int) {
        count.sentByteCount += byteCount
        count.requests += role.requests.count
    }

    /// Bytes that were counted as sent and were not.
    func notSent(_ byteCount: Int) { count.sentByteCount -= byteCount }

    func read(_ byteCount: Int) { count.receivedByteCount += byteCount }
}
