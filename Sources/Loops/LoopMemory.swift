import Logging
import PandoBytes
import PandoConnections
import PandoEngine
import PandoReactor
import PandoTime

/// Counts what the sessions of one loop hold beside the data, and pauses and disconnects those that hold most
/// when it is too much: when, ``MemoryStages`` decides, and whom, ``MemoryRelief``. Confined to the loop.
///
///     relieving ──▶ a scan of all sessions ──▶ those that were chosen are disconnected ──┐
///                        ▲                                                             │
///                        └───────────────until 3/4 of the limit is left────────────────┘
///
/// All of it is done in steps of a fraction of a millisecond: there may be tens of thousands of sessions.
final class LoopMemory {
    /// Most bytes of one read while the limit is exceeded.
    private static let shortReadByteCount = 4 << 10
    /// Sessions that one step of a scan visits.
    private static let visitedCount = 1024
    /// Sessions that are paused or resumed in one step: a system call for some.
    private static let pausedCount = 256
    /// Sessions that one scan chooses, at most.
    private static let chosenLimit = 2048
    /// A step disconnects so many sessions at most, and ends earlier after ``disconnectDuration``: it may
    /// take a hundred microseconds to free what one of them holds.
    private static let disconnectLimit = 64
    private static let disconnectDuration: Duration = .milliseconds(1)
    /// After a scan that chooses sessions to disconnect, no other one begins for so many times as long as it
    /// took.
    private static let restFactor = 4
    /// Changes up to this size are not worth an atomic operation at the end of a tick.
    private static let unpublishedByteLimit = 16 << 10

    private let table: SessionTable
    private let services: SessionServices
    private let loop: EventLoop
    private let loopIndex: Int
    private let loopCount: Int
    private let others: [EventLoop]
    private let memory: MemoryBudget
    private let logger: Logger
    /// Bytes of the loop that ``MemoryBudget`` knows.
    private var publishedByteCount = 0
    private var stages = MemoryStages()
    /// The tick of the last step.
    private var lastTick: UInt64 = 0
    /// See ``scheduleCheck()``.
    private var isCheckScheduled = false

    /// What becomes of the sessions that a scan chooses.
    private enum Measure {
        case pause
        case disconnect
    }

    /// A session that a scan has chosen.
    private struct Chosen {
        let id: SessionID
        let byteCount: Int
        let progress: ClientProgress
    }

    /// A visit of all sessions, of some in each step.
    private struct Scan {
        let measure: Measure
        /// The next slot of the table.
        var next = 0
        var relief = MemoryRelief(limit: chosenLimit)
        /// What its steps have taken.
        var duration: Duration = .zero
    }

    private var scan: Scan?
    /// What is done with ``chosen``.
    private var measure = Measure.pause
    /// Those that the last scan has chosen; the next one last.
    private var chosen: [Chosen] = []
    /// No scan that chooses sessions to disconnect begins before this time.
    private var restEnd = MonotonicTime(nanoseconds: 0)
    /// A timer wakes the loop at an earlier ``restEnd``, or at this one.
    private var isRestTimed = false
    /// Sessions from this slot on are still to be resumed; nil while none is.
    private var resumption: (reasons: PauseReasons, next: Int)?
    /// Sessions that were disconnected since the last report.
    private var disconnectedCount = 0
    private var throttle = ReportThrottle()

    init(
        _ table: SessionTable, _ services: SessionServices, loopIndex: Int, of loops: [EventLoop],
        _ memory: MemoryBudget, _ logger: Logger
    ) {
        self.table = table
        self.services = services
        loop = services.loop
        self.loopIndex = loopIndex
        loopCount = loops.count
        others = loops.indices.filter { $0 != loopIndex }.map { loops[$0] }
        self.memory = memory
        self.logger = logger
    }

    /// Twice in each tick: publishes what all sessions hold; and once, acts when the process holds too much.
    func publishHeldBytes() {
        let byteCount =
            loop.ownedOutputByteCount + services.waitingByteCount + services.unfinishedByteCount
            + services.databaseByteCount
        if abs(byteCount - publishedByteCount) > Self.unpublishedByteLimit {
            memory.change(by: byteCount - publishedByteCount)
            publishedByteCount = byteCount
            services.metrics.heldBytes.set(byteCount)
        }
        follow(stages.observe(memory.pressure, at: loop.now))
        scheduleCheck()
        if loop.tickCount != lastTick {
            lastTick = loop.tickCount
            act()
            continueScan()
            continueResumption()
        }
        // Other events are handled between two steps; without any, the next step follows at once.
        let mayScan = stages.stage == .relieving && memory.excessByteCount > 0 && loop.now >= restEnd
        if mayScan || scan != nil || !chosen.isEmpty || resumption != nil { loop.wakeup.signal() }
    }

    private func follow(_ step: MemoryStages.Step) {
        if step.endsRelief {
            memory.noteUnsteady(0, ofLoop: loopIndex)
            scan = nil
            chosen = []
        }
        if step.beginsPausing { scan = Scan(measure: .pause) }
        // Resuming for memory begins again at the first slot. Resuming for incomplete input alone does not
        // interrupt a resumption that is under way.
        if step.resumes.contains(.memory) || !step.resumes.isEmpty && resumption == nil {
            resumption = (step.resumes, 0)
        }
        // While the limit is exceeded reads are short, and sessions with incomplete input pause themselves.
        guard stages.isExceeded != services.isMemoryLimitExceeded else { return }
        // Idle loops must look for clients without progress, too.
        if stages.isExceeded { for other in others { other.wakeup.signal() } }
        services.isMemoryLimitExceeded = stages.isExceeded
        loop.readByteLimit = stages.isExceeded ? Self.shortReadByteCount : .max
    }

    /// Until the stage is calm the pressure is checked now and then, also where no event wakes the loop.
    private func scheduleCheck() {
        guard !isCheckScheduled, stages.stage != .calm else { return }
        isCheckScheduled = true
        loop.schedule(after: MemoryStages.resumptionWait) { [self] in
            isCheckScheduled = false
            publishHeldBytes()
            scheduleCheck()
        }
    }

    private func continueResumption() {
        guard let (reasons, next) = resumption else { return }
        let end = min(table.slots.count, next + Self.pausedCount)
        for index in min(next, end)..<end { table.slots[index]?.resumeAfterMemory(reasons) }
        resumption = end < table.slots.count ? (reasons, end) : nil
    }

    // MARK: Choosing

    /// What this loop's sessions have to give: by what they hold, and equally of what clients of all loops
    /// share.
    private var excessByteCount: Int {
        let shared = Double(memory.sharedByteCount) / Double(loopCount)
        let share = (Double(publishedByteCount) + shared) / Double(max(1, memory.byteCount))
        return Int(Double(memory.excessByteCount) * min(max(share, 0), 1))
    }

    /// Visits some sessions more, where a scan is under way. Sessions are paused only after all that were
    /// paused before have been resumed: else those in the last slots might never be.
    private func continueScan() {
        guard var scan, scan.measure == .disconnect || resumption == nil else { return }
        self.scan = nil
        let began = MonotonicTime.now
        let end = min(table.slots.count, scan.next + Self.visitedCount)
        while scan.next < end {
            defer { scan.next += 1 }
            guard let session = table.slots[scan.next] else { continue }
            let byteCount = session.heldByteCount
            guard byteCount > 0 else { continue }
            scan.relief.add(
                MemoryHolder(
                    number: session.id.rawValue, byteCount: byteCount,
                    progress: progress(of: session, holding: byteCount), lastHeard: session.lastHeard))
        }
        scan.duration = scan.duration + (MonotonicTime.now - began)
        guard scan.next >= table.slots.count else { return self.scan = scan }
        choose(from: &scan.relief, for: scan.measure)
        guard scan.measure == .disconnect else { return }
        restEnd = MonotonicTime.now + scan.duration * Self.restFactor
        guard !isRestTimed else { return }
        isRestTimed = true
        // The time of a tick is that of its beginning.
        loop.schedule(after: restEnd - loop.now) { [self] in
            isRestTimed = false
            publishHeldBytes()
        }
    }

    /// Chooses those to be paused or disconnected.
    private func choose(from relief: inout MemoryRelief, for measure: Measure) {
        let found: [MemoryHolder]
        switch measure {
        case .pause: found = relief.largest(covering: excessByteCount)
        case .disconnect:
            memory.noteUnsteady(relief.unsteadyByteCount, ofLoop: loopIndex)
            let reach = stages.reach(
                at: loop.now, whileOthersRelieve: memory.hasUnsteady(besides: loopIndex))
            found = relief.chosen(covering: excessByteCount, upTo: reach)
        }
        self.measure = measure
        chosen = found.reversed().map {
            Chosen(id: SessionID($0.number), byteCount: $0.byteCount, progress: $0.progress)
        }
        if measure == .disconnect, found.isEmpty { stages.noteNoneToDisconnect(at: loop.now) }
    }

    /// Pauses or disconnects some of those that were chosen. Where none are left to be disconnected, a scan
    /// begins.
    private func act() {
        if !chosen.isEmpty, measure == .pause { return pauseChosen() }
        // Below 3/4 of the limit it goes on relieving for a moment, with nothing to do.
        guard stages.stage == .relieving, memory.excessByteCount > 0 else { return }
        if chosen.isEmpty {
            if scan == nil, loop.now >= restEnd { scan = Scan(measure: .disconnect) }
        } else {
            disconnectChosen()
        }
    }

    /// Stops reading from some of the sessions that hold most.
    private func pauseChosen() {
        for _ in 0..<Self.pausedCount {
            guard let next = chosen.popLast() else { break }
            if let session = table[next.id], stillHolds(session, next) { session.pause(.memory) }
        }
    }

    // MARK: Disconnecting

    /// Disconnects some of those that were chosen.
    private func disconnectChosen() {
        let began = MonotonicTime.now
        for _ in 0..<Self.disconnectLimit {
            guard let next = chosen.popLast() else { break }
            // It may have read what it holds, or begun to, since it was chosen.
            guard let session = table[next.id], mayDisconnect(session, next) else { continue }
            stages.noteDisconnection(ofSteady: next.progress == .steady, at: loop.now)
            if !session.isCutForMemory {
                disconnectedCount += 1
                services.metrics.cuts.add(.memory)
            }
            session.isCutForMemory = true
            session.giveUpMemory()
            if MonotonicTime.now - began > Self.disconnectDuration { break }
        }
        reportDisconnections()
    }

    /// Whether a session that was chosen still holds at least half of what it was chosen for.
    private func stillHolds(_ session: LoopSession, _ chosen: Chosen) -> Bool {
        let byteCount = session.heldByteCount
        return byteCount > 0 && byteCount >= chosen.byteCount / 2
    }

    /// Whether it also has not begun to read since.
    private func mayDisconnect(_ session: LoopSession, _ chosen: Chosen) -> Bool {
        guard stillHolds(session, chosen) else { return false }
        return chosen.progress == .steady
            || progress(of: session, holding: session.heldByteCount) != .steady
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
