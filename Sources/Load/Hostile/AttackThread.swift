import Glibc
import PandoReactor
import PandoTime

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
