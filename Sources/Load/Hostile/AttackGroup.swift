import PandoReactor

/// The connections of one role: opens them, and those that are missing again, at a bounded rate. Confined to
/// its loop.
final class AttackGroup: AttackConnectionDelegate {
    /// How often missing connections are opened.
    private static let tick: Duration = .milliseconds(16)
    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 256
    /// Connections opened in a tick: at most some 10 000 a second.
    private static let opensPerTick = 256
    /// The time after which an ended connection is opened again.
    private static let reopenPause: Duration = .milliseconds(100)

    private let context: AttackContext
    private let loop: EventLoop
    private var connections: [ObjectIdentifier: AttackConnection] = [:]
    private var connectingCount = 0
    /// Connections that wait for their pause before they are opened again.
    private var pausedCount = 0
    private(set) var isRunning = false

    init(_ role: AttackRole, at site: HostileSite, on loop: EventLoop) {
        context = AttackContext(role, at: site, on: loop)
        self.loop = loop
    }

    /// What its connections have done until now.
    var count: AttackCount { context.count }

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
            connections.count + connectingCount + pausedCount < context.role.connections
        {
            opens += 1
            open()
        }
        loop.schedule(after: Self.tick) { [weak self] in self?.openMissing() }
    }

    private func open() {
        connectingCount += 1
        do {
            try context.site.target.connect(on: loop) { [self] channel in
                connectingCount -= 1
                let made = AttackConnection(channel, context, delegate: self)
                guard isRunning else {
                    made.cut()
                    return made
                }
                context.count.opened += 1
                connections[ObjectIdentifier(made)] = made
                return made
            } onFailure: { [self] _ in
                connectingCount -= 1
                noteLoss(of: nil, cut: true)
            }
        } catch {
            connectingCount -= 1
            noteLoss(of: nil, cut: true)
        }
    }

    /// A connection has ended, or could not be made: another is opened after a pause.
    private func noteLoss(of connection: AttackConnection?, cut: Bool) {
        guard isRunning else { return }
        if let connection { connections[ObjectIdentifier(connection)] = nil }
        if cut { context.count.cut += 1 }
        pausedCount += 1
        loop.schedule(after: Self.reopenPause) { [weak self] in self?.pausedCount -= 1 }
    }

    func lost(_ connection: AttackConnection, cut: Bool) { noteLoss(of: connection, cut: cut) }
}
