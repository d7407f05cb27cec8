import Logging
import PandoConnections
import PandoEngine
import PandoReactor
import PandoTime

/// Counts what the sessions of one loop hold beside the data, and decides what becomes of those that hold
/// most when it is too much (``MemoryBudget``, ``MemoryRelief``). Confined to the loop.
///
///     calm ──3/4 of the limit──▶ pressed ──2 s──▶ relieving        one scan chooses the sessions, which are
///                                  └───the limit───▶ │             disconnected in steps; again until 3/4 is left
///       ◀──────────below 3/4, after a moment─────────┘
///
/// All of it is done in steps of a fraction of a millisecond: there may be ten thousands of sessions.
final class LoopMemory {
    private enum Stage {
        case calm
        /// Those that hold most are not read.
        case pressed
        /// Those that hold most are disconnected.
        case relieving
    }

    /// Most bytes of one read while the limit is exceeded.
    private static let shortReadByteCount = 4 << 10
    /// While the limit is exceeded, a session with so many bytes of incomplete input is not read.
    static let incompleteInputLimit = 4 << 10
    /// Sessions that are looked at in one step.
    private static let visitedCount = 1024
    /// Sessions that are resumed in one step: a system call for some.
    private static let resumedCount = 256
    /// Sessions that one scan chooses, at most.
    private static let chosenLimit = 2048
    /// A step disconnects so many sessions at most, and ends earlier after ``disconnectDuration``: it may
    /// take a hundred microseconds to free what one of them holds.
    private static let disconnectLimit = 64
    private static let disconnectDuration: Duration = .milliseconds(1)
    /// After a scan that chooses sessions, no other one begins for so many times as long as it took.
    private static let pauseFactor = 2
    /// Changes up to this size are not worth an atomic operation at the end of a tick.
    private static let unpublishedByteLimit = 16 << 10
    /// How long more than 3/4 may be held while those that hold most are not read.
    private static let pressedPatience: Duration = .seconds(2)
    /// How long the limit may be exceeded before sessions that hold little are disconnected, too.
    private static let smallPatience: Duration = .milliseconds(250)
    /// Sessions that make steady progress are disconnected when the limit has been exceeded for so long
    /// without another disconnection, or for ``longestSteadyPatience`` in any case: what others held takes a
    /// moment to be freed.
    private static let steadyPatience: Duration = .seconds(2)
    private static let longestSteadyPatience: Duration = .seconds(10)
    /// How long after the pressure, or after the last disconnection, paused sessions are read again. Where
    /// nothing else wakes the loop, it looks again after the same time.
    private static let resumptionWait: Duration = .milliseconds(500)

    private let table: SessionTable
    private let services: SessionServices
    private let loop: EventLoop
    private let loopCount: Int
    private let memory: MemoryBudget
    private let logger: Logger
    /// Bytes of the loop that ``MemoryBudget`` knows.
    private var publishedByteCount = 0
    private var stage = Stage.calm
    /// When the stage began, or a session was last disconnected.
    private var stageTime = MonotonicTime(nanoseconds: 0)
    /// A timer will look again (``lookAgain()``).
    private var willLookAgain = false
    /// Since when the limit is exceeded; nil while it is not.
    private var exceededSince: MonotonicTime?
    /// When it was last exceeded, while sessions may be paused for it; nil after they were resumed.
    private var lastExceeded: MonotonicTime?

    /// What becomes of the sessions that a scan finds.
    private enum Measure {
        case pause
        case disconnect
    }

    /// A look at all sessions, some in each step.
    private struct Scan {
        let measure: Measure
        /// The next slot of the table.
        var next = 0
        /// Those that hold anything, by their index in ``ids``: the slot of one that ends may get another.
        var holders: [MemoryHolder] = []
        var ids: [SessionID] = []
        /// What its steps have taken.
        var duration: Duration = .zero
    }

    private var scan: Scan?
    /// Sessions that are to be disconnected, with what they held when they were chosen; the next one last.
    private var chosen: [(id: SessionID, byteCount: Int)] = []
    /// Whether those make steady progress, as all that hold much do then.
    private var areSteady = false
    /// No scan that chooses sessions begins before this time.
    private var pauseEnd = MonotonicTime(nanoseconds: 0)
    /// Sessions from this slot on are still to be resumed; nil while none is.
    private var resumption: (reasons: PauseReasons, next: Int)?
    /// When a session without steady progress was last disconnected.
    private var lastDisconnection = MonotonicTime(nanoseconds: 0)
    /// Sessions that were disconnected since the last report.
    private var disconnectedCount = 0
    private var throttle = ReportThrottle()

    init(
        _ table: SessionTable, _ services: SessionServices, loopCount: Int, _ memory: MemoryBudget,
        _ logger: Logger
    ) {
        self.table = table
        self.services = services
        loop = services.loop
        self.loopCount = loopCount
        self.memory = memory
        self.logger = logger
    }

    /// Twice in each tick: publishes what all sessions hold, and acts when the process holds too much.
    func publishHeldBytes() {
        let byteCount =
            loop.ownedOutputByteCount + services.waitingByteCount + services.unfinishedByteCount
            + services.databaseByteCount
        if abs(byteCount - publishedByteCount) > Self.unpublishedByteLimit {
            memory.change(by: byteCount - publishedByteCount)
            publishedByteCount = byteCount
            services.metrics.heldBytes.set(byteCount)
        }
        let level = memory.pressure
        noteExceeded(level == .exceeded)
        switch level {
        case .none: endPressure()
        case .high:
            // Clients that are not read can take what they have asked for, which helps; what is half received
            // does not get less.
            if stage == .calm {
                begin(.pressed)
                scan = Scan(measure: .pause)
            } else if stage == .pressed, loop.now - stageTime > Self.pressedPatience {
                begin(.relieving)
            }
        case .exceeded: if stage != .relieving { begin(.relieving) }
        }
        if stage == .relieving { disconnectHolders() }
        continueScan()
        continueResumption()
        // Other events are handled between two steps; without any, the next step follows at once.
        if scan != nil || !chosen.isEmpty || resumption != nil { loop.wakeup.signal() }
    }

    private func begin(_ next: Stage) {
        stage = next
        stageTime = loop.now
        lookAgain()
    }

    /// Where nothing else happens, this looks again, until the stage is calm.
    private func lookAgain() {
        guard !willLookAgain, stage != .calm else { return }
        willLookAgain = true
        loop.schedule(after: Self.resumptionWait) { [self] in
            willLookAgain = false
            publishHeldBytes()
            lookAgain()
        }
    }

    /// Less than 3/4 of the limit is held: no further session is disconnected. Paused sessions are read
    /// again: at once below half of the limit, else after ``resumptionWait``, since others may hold memory
    /// for hours.
    private func endPressure() {
        guard stage != .calm else { return }
        scan = nil
        chosen = []
        guard memory.byteCount <= memory.calmByteCount || loop.now - stageTime > Self.resumptionWait else {
            return
        }
        stage = .calm
        lastExceeded = nil
        resumption = ([.memory, .incompleteInput], 0)
    }

    /// While the limit is exceeded reads are short, and sessions with incomplete input pause themselves. They
    /// are read again some time after it, also where more than 3/4 is held for long.
    private func noteExceeded(_ isExceeded: Bool) {
        if isExceeded {
            exceededSince = exceededSince ?? loop.now
            lastExceeded = loop.now
        } else {
            exceededSince = nil
            if let last = lastExceeded, loop.now - last > Self.resumptionWait {
                lastExceeded = nil
                resumption = resumption ?? (.incompleteInput, 0)
            }
        }
        guard isExceeded != services.isMemoryLimitExceeded else { return }
        services.isMemoryLimitExceeded = isExceeded
        loop.readByteLimit = isExceeded ? Self.shortReadByteCount : .max
    }

    private func continueResumption() {
        guard let (reasons, next) = resumption else { return }
        let end = min(table.slots.count, next + Self.resumedCount)
        for index in min(next, end)..<end { table.slots[index]?.resume(reasons) }
        resumption = end < table.slots.count ? (reasons, end) : nil
    }

    // MARK: Looking at all sessions

    /// Connections are dealt to the loops in turn, so each has its share of those that hold most.
    private var excessByteCount: Int { memory.excessByteCount / loopCount }

    /// Looks at some sessions more, where a scan is under way.
    private func continueScan() {
        guard var scan = scan.take() else { return }
        let began = MonotonicTime.now
        let end = min(table.slots.count, scan.next + Self.visitedCount)
        while scan.next < end {
            defer { scan.next += 1 }
            guard let session = table.slots[scan.next] else { continue }
            let byteCount = session.heldByteCount
            guard byteCount > 0 else { continue }
            scan.holders.append(
                MemoryHolder(
                    index: scan.ids.count, byteCount: byteCount,
                    progress: progress(of: session, holding: byteCount),
                    lastHeard: session.lastHeard))
            scan.ids.append(session.id)
        }
        scan.duration = scan.duration + (MonotonicTime.now - began)
        guard scan.next >= table.slots.count else { return self.scan = scan }
        switch scan.measure {
        case .pause: pauseLargest(scan)
        case .disconnect:
            choose(from: scan)
            pauseEnd = MonotonicTime.now + scan.duration * Self.pauseFactor
        }
    }

    /// Stops reading from the sessions that hold most.
    private func pauseLargest(_ scan: Scan) {
        var excess = excessByteCount
        let large = scan.holders.filter { $0.byteCount > MemoryRelief.smallByteCount }
        for holder in large.sorted(by: { $0.byteCount > $1.byteCount }) {
            guard excess > 0 else { break }
            excess -= holder.byteCount
            table[scan.ids[holder.index]]?.pause(.memory)
        }
    }

    /// Chooses those to be disconnected.
    private func choose(from scan: Scan) {
        let found = MemoryRelief.choose(
            from: scan.holders, excess: excessByteCount, limit: Self.chosenLimit, upTo: reach)
        areSteady = found.first?.progress == .steady
        chosen = found.reversed().map { (scan.ids[$0.index], $0.byteCount) }
        // Below the limit, no session that is left may be disconnected. They may still read what they hold.
        if found.isEmpty, exceededSince == nil { begin(.pressed) }
    }

    private var reach: MemoryRelief.Reach {
        guard let exceededSince else { return .large }
        let duration = loop.now - exceededSince
        if loop.now - max(exceededSince, lastDisconnection) > Self.steadyPatience
            || duration > Self.longestSteadyPatience
        {
            return .steady
        }
        return duration > Self.smallPatience ? .small : .large
    }

    // MARK: Disconnecting

    /// Disconnects some of those that were chosen; where none are left, begins to look at all sessions.
    private func disconnectHolders() {
        guard !chosen.isEmpty else {
            if scan == nil, loop.now >= pauseEnd { scan = Scan(measure: .disconnect) }
            return
        }
        let began = MonotonicTime.now
        for _ in 0..<Self.disconnectLimit {
            guard let (id, byteCount) = chosen.popLast() else { break }
            // It may have read what it holds, or begun to, since it was chosen.
            guard let session = table[id], mayDisconnect(session, chosenFor: byteCount) else { continue }
            stageTime = loop.now
            if !areSteady { lastDisconnection = loop.now }
            disconnectedCount += 1
            services.metrics.cuts.add(.memory)
            session.isCutForMemory = true
            session.giveUpMemory()
            if MonotonicTime.now - began > Self.disconnectDuration { break }
        }
        reportDisconnections()
    }

    /// Whether a session that was chosen still holds at least half of what it was chosen for, and has not
    /// begun to read since.
    private func mayDisconnect(_ session: LoopSession, chosenFor chosenByteCount: Int) -> Bool {
        let byteCount = session.heldByteCount
        guard byteCount > 0, byteCount >= chosenByteCount / 2 else { return false }
        return areSteady || progress(of: session, holding: byteCount) != .steady
    }

    /// What listens take does not become less when the client reads.
    private func progress(of session: LoopSession, holding byteCount: Int) -> ClientProgress {
        guard byteCount > MemoryRelief.smallByteCount else { return .unknown }
        return session.databaseByteCount > byteCount / 2 ? .stalled : session.progress
    }

    /// Logs how many were disconnected, not more often than once in ten seconds.
    private func reportDisconnections() {
        guard disconnectedCount > 0, throttle.mayReport(at: loop.now) else { return }
        logger.warning(
            """
            memory limit: clients hold \(memory.byteCount >> 20) of \(memory.byteLimit >> 20) MiB (--memory-limit); \
            disconnected \(disconnectedCount) of this thread's clients since the last report, first those that read \
            nothing
            """)
        disconnectedCount = 0
    }
}
