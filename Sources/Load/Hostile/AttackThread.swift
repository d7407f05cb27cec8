import Glibc
import PandoReactor

/// Counts of the connections of one role.
struct AttackCount: Sendable {
    let role: String
    var opened = 0
    /// Ended by the server, or failed.
    var cut = 0
    var requests = 0
    var sentByteCount = 0
    var receivedByteCount = 0

    /// `12 connections, 481 000 pings, 64 MB sent, 0 MB read, 3 cut`
    var words: String {
        var parts = ["\(opened) connections"]
        if requests > 0 { parts.append("\(requests) \(role)") }
        parts.append("\(sentByteCount / 1_000_000) MB sent")
        if receivedByteCount >= 1_000_000 { parts.append("\(receivedByteCount / 1_000_000) MB read") }
        if cut > 0 { parts.append("\(cut) cut") }
        return parts.joined(separator: ", ")
    }
}

/// A thread with attackers' connections on a loop.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs and
/// after it was joined.
final class AttackThread: @unchecked Sendable {
    /// The results of a phase.
    struct Report: Sendable {
        var counts: [AttackCount] = []
        /// Processor time of this thread.
        var nanoseconds = 0
    }

    /// How often missing connections are opened.
    fileprivate static let tick: Duration = .milliseconds(16)
    /// Slices in which a control phase uses the processor.
    private static let burningTick: Duration = .milliseconds(8)

    private let loop: EventLoop
    private let site: HostileSite
    private var groups: [AttackGroup] = []
    private var isBurning = false
    private var processorTimeBefore = 0
    private var thread: NamedThread?

    init(_ site: HostileSite) throws(SocketError) {
        self.site = site
        var configuration = EventLoop.Configuration()
        // Bursts are shared memory: what waits for a server that does not read costs next to nothing.
        configuration.outboundByteLimit = 1 << 30
        loop = try EventLoop(configuration)
    }

    /// - Parameter niceness: Added to the thread's.
    func run(niceness: Int) throws(SocketError) {
        thread = try NamedThread.start("attacker") { [self] in
            changeNiceness(by: niceness)
            loop.run()
        }
    }

    /// Ends the loop and waits for the thread.
    func end() {
        loop.stop()
        thread?.join()
        groups = []
    }

    /// Any thread: begins to attack.
    func start(_ roles: [AttackRole]) {
        loop.submit { [self] in
            processorTimeBefore = threadNanoseconds()
            groups = roles.map { AttackGroup($0, at: site, on: loop) }
            for group in groups { group.start() }
        }
    }

    /// Any thread: uses this share of a processor and sends nothing.
    func burn(share: Double) {
        loop.submit { [self] in
            processorTimeBefore = threadNanoseconds()
            isBurning = true
            burnOn(share: min(1, share))
        }
    }

    /// Any thread: ends all connections; `report` is called on the loop.
    func stop(_ report: @escaping @Sendable (Report) -> Void) {
        loop.submit { [self] in
            isBurning = false
            for group in groups { group.stop() }
            let used = threadNanoseconds() - processorTimeBefore
            report(Report(counts: groups.map(\.count), nanoseconds: used))
            groups = []
        }
    }

    private func burnOn(share: Double) {
        guard isBurning, share > 0 else { return }
        let slice = Double(Self.burningTick / .nanoseconds(1)) * share
        let start = MonotonicTime.now
        while Double(MonotonicTime.now.nanoseconds &- start.nanoseconds) < slice {}
        // From the beginning of this slice; the loop's timers are as fine as that.
        loop.schedule(at: start + Self.burningTick) { [weak self] in self?.burnOn(share: share) }
    }
}

/// Changes the calling thread's niceness; below what it was only where the system allows it, as it does for
/// root.
func changeNiceness(by difference: Int) {
    let kind = __priority_which_t(PRIO_PROCESS.rawValue)
    // On Linux niceness is a thread's own, and 0 stands for the caller.
    setpriority(kind, 0, getpriority(kind, 0) + Int32(clamping: difference))
}

/// Processor time of the calling thread.
private func threadNanoseconds() -> Int {
    var time = timespec()
    // Fills the structure that it is given for the call.
    guard unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return 0 }
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The connections of one role: opens them, and those that are missing again, at a bounded rate. Confined to
/// its loop.
final class AttackGroup {
    /// Attempts to connect at a time; a server's backlog takes as many.
    private static let connectingLimit = 256
    /// Connections opened in a tick: at most some 10 000 a second.
    private static let opensPerTick = 256
    /// The time after which an ended connection is opened again.
    private static let reopenPause: Duration = .milliseconds(100)

    let role: AttackRole
    let site: HostileSite
    let loop: EventLoop
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
        loop.schedule(after: AttackThread.tick) { [weak self] in self?.openMissing() }
    }

    private func open() {
        connectingCount += 1
        do {
            try Connector.connect(to: site.target.address, on: loop) { [self] channel in
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
