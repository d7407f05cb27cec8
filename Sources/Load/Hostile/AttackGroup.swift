import PandoBytes
import PandoReactor

/// The connections of one role: opens them, and those that are missing again, at a bounded rate. Confined to
/// its loop.
final class AttackGroup {
    /// How often missing connections are opened.
    private static let tick: Duration = .milliseconds(16)
    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 256
    /// Connections opened in a tick: at most some 10 000 a second.
    private static let opensPerTick = 256
    /// The time after which an ended connection is opened again.
    private static let reopenPause: Duration = .milliseconds(100)

    let role: AttackRole
    let site: HostileSite
    let loop: EventLoop
    /// What each connection sends; its messages are compressed where the server is to have such.
    let burst: SharedBytes?
    private(set) var count: AttackCount
    private var connections: [ObjectIdentifier: AttackConnection] = [:]
    private var connectingCount = 0
    /// Connections that wait for their pause before they are opened again.
    private var pausedCount = 0
    private(set) var isRunning = false

    init(_ role: AttackRole, at site: HostileSite, on loop: EventLoop) {
        self.role = role
        self.site = site
        self.loop = loop
        let isCompressed = site.target.compresses && role.opening == .webSocket
        burst = isCompressed ? role.burst.map { compressing($0) } : role.burst
        count = AttackCount(role: role.requests.unit)
    }

    func start() {
        isRunning = true
        openMissing()
    }

    func stop() {
        isRunning = false
        for connection in connections.values { connection.cut() }
        connections = [:]
    }

    private func openMissing() {
        guard isRunning else { return }
        var opens = 0
        while opens < Self.opensPerTick, connectingCount < Self.connectingLimit,
            connections.count + connectingCount + pausedCount < role.connections
        {
            opens += 1
            open()
        }
        loop.schedule(after: Self.tick) { [weak self] in self?.openMissing() }
    }

    private func open() {
        connectingCount += 1
        do {
            try site.target.connect(on: loop) { [self] channel in
                connectingCount -= 1
                let made = AttackConnection(channel, of: self)
                guard isRunning else {
                    made.cut()
                    return made
                }
                count.opened += 1
                connections[ObjectIdentifier(made)] = made
                return made
            } onFailure: { [self] _ in
                connectingCount -= 1
                lost(nil, cut: true)
            }
        } catch {
            connectingCount -= 1
            lost(nil, cut: true)
        }
    }

    /// A connection has ended, or could not be made.
    func lost(_ connection: AttackConnection?, cut: Bool) {
        guard isRunning else { return }
        if let connection { connections[ObjectIdentifier(connection)] = nil }
        if cut { count.cut += 1 }
        pausedCount += 1
        loop.schedule(after: Self.reopenPause) { [weak self] in self?.pausedCount -= 1 }
    }

    func sentBurst(_ byteCount: Int) {
        count.sentByteCount += byteCount
        count.requests += role.requests.count
    }

    /// Bytes that were counted as sent and were not.
    func notSent(_ byteCount: Int) { count.sentByteCount -= byteCount }

    func read(_ byteCount: Int) { count.receivedByteCount += byteCount }
}
