import PandoReactor
import PandoTime
import PandoWebSocket
import Synchronization

/// What the connections and the scenario of one worker share: its plan, its loop and clock, and what they
/// count and find. Confined to the loop, but for the counts that say so.
final class WorkerContext {
    /// The worker's number.
    let index: Int
    let plan: Plan
    let loop: EventLoop
    let maskingKeys = MaskingKeys()
    private(set) lazy var compression = plan.target.compresses ? SharedCompression() : nil
    var findings = Findings() {
        didSet { errors.store(findings.total, ordering: .relaxed) }
    }
    let statistics: WorkerStatistics
    /// Shared by all workers.
    let leaveTimes: LeaveTimes
    /// The moment of the event that is being handled: a read, a command or the timer. All messages of one
    /// read have the moment of that read, however long handling them takes, and the clock is read once for
    /// all.
    private(set) var moment = 0
    /// Counts events, so that the coordinator sees when nothing moves; and errors. Any thread may read them.
    private let movement = Atomic<Int>(0)
    private let errors = Atomic<Int>(0)
    private let origin: UInt64

    /// - Parameter origin: When the run began, on the machine's clock.
    init(_ index: Int, _ plan: Plan, on loop: EventLoop, origin: UInt64, leaveTimes: LeaveTimes) {
        self.index = index
        self.plan = plan
        self.loop = loop
        self.origin = origin
        self.leaveTimes = leaveTimes
        statistics = WorkerStatistics(seriesCount: plan.series.count)
    }

    /// Reads the clock: nanoseconds since the run began, as in stamps and plans.
    var now: Int { Int(truncatingIfNeeded: MonotonicTime.now.nanoseconds &- origin) }

    /// The same on the machine's clock.
    func machineTime(_ nanoseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: origin &+ UInt64(max(0, nanoseconds)))
    }

    /// Sets ``moment``. Called first wherever the loop calls for something that is measured.
    func readClock() { moment = now }

    /// Counts an event.
    func noteProgress() {
        // Only this thread writes.
        movement.store(movement.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    }

    /// Any thread may read it.
    var movementSeen: Int { movement.load(ordering: .relaxed) }

    /// Any thread may read it.
    var errorsSeen: Int { errors.load(ordering: .relaxed) }
}
