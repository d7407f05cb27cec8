import Logging
import PandoConnections
import PandoEngine
import PandoReactor
import PandoTime

/// Counts what the sessions of one loop hold beside the data, and decides what becomes of those that hold
/// most when it is too much (``MemoryBudget``, ``MemoryRelief``). Confined to the loop.
final class LoopMemory {
    /// Sessions that are disconnected in one tick.
    private static let cutLimit = 64
    /// Sessions that are chosen at a time: to look at all sessions takes some ten milliseconds where there
    /// are ten thousand.
    private static let chosenLimit = 2048
    /// All sessions are not looked at again for so many times as long as it took.
    private static let pauseFactor = 2
    /// Changes up to this size are not worth an atomic operation at the end of a tick.
    private static let unpublishedByteLimit = 16 << 10
    /// How long it may be too much while those that hold most are not read.
    private static let patience: Duration = .seconds(2)
    /// How long the limit may be exceeded before those are disconnected, too, that hold little each.
    private static let smallPatience: Duration = .milliseconds(250)

    private let table: SessionTable
    private let services: SessionServices
    private let loop: EventLoop
    private let loopCount: Int
    private let memory: MemoryBudget
    private let logger: Logger
    /// Bytes of the loop that ``MemoryBudget`` knows.
    private var publishedByteCount = 0
    /// Sessions are paused because the process holds too much.
    private var isPressing = false
    /// When sessions were last paused or disconnected for it.
    private var pressingBegan = MonotonicTime(nanoseconds: 0)
    /// Since when the process holds more than it may; nil while it does not.
    private var exceededSince: MonotonicTime?
    /// Sessions that are to be disconnected, the next one last.
    private var chosen: [SessionID] = []
    /// Whether those make steady progress, as all that hold much do then.
    private var areSteady = false
    /// Until then all sessions are not looked at again.
    private var pauseEnd = MonotonicTime(nanoseconds: 0)
    /// Sessions that were disconnected since the last report.
    private var cutCount = 0
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

    /// At the end of a tick: publishes what all sessions hold, and acts when the process holds too much.
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
        if level != .exceeded {
            exceededSince = nil
            chosen = []
        }
        switch level {
        case .none:
            // At once when there is room, else after a while: what others hold may stay for hours.
            if isPressing,
                memory.byteCount <= memory.calmByteCount || loop.now - pressingBegan > Self.patience
            {
                resumeAfterPressure()
            }
        case .high:
            // Clients that are not read can take what they have asked for, which helps; what is half received
            // does not get less.
            if !isPressing {
                pauseLargest()
            } else if loop.now - pressingBegan > Self.patience {
                disconnectHolders()
            }
        case .exceeded:
            if exceededSince == nil { exceededSince = loop.now }
            disconnectHolders()
        }
    }

    /// Connections are dealt to the loops in turn, so each has its share of those that hold most.
    private var excessByteCount: Int { memory.excessByteCount / loopCount }

    /// Stops reading from the sessions that hold most. O(sessions); once when the limit comes near.
    private func pauseLargest() {
        beginPressing()
        var holders: [(byteCount: Int, session: LoopSession)] = []
        for case let session? in table.slots {
            let byteCount = session.heldByteCount
            if byteCount > MemoryRelief.smallByteCount { holders.append((byteCount, session)) }
        }
        holders.sort { $0.byteCount > $1.byteCount }
        var excess = excessByteCount
        for (byteCount, session) in holders {
            guard excess > 0 else { break }
            excess -= byteCount
            session.pause(.memory)
        }
    }

    /// Disconnects some sessions, at most once a tick while the limit is exceeded. A system call for each
    /// that holds much, and O(sessions) now and then.
    private func disconnectHolders() {
        beginPressing()
        if chosen.isEmpty, loop.now >= pauseEnd {
            let began = MonotonicTime.now
            choose()
            let end = MonotonicTime.now
            pauseEnd = end + (end - began) * Self.pauseFactor
        }
        for _ in 0..<Self.cutLimit {
            guard let id = chosen.popLast() else { break }
            // It may have read what it holds, or begun to, since it was chosen.
            guard let session = table[id], mayDisconnect(session) else { continue }
            cutCount += 1
            services.metrics.cuts.add(.memory)
            session.isCutForMemory = true
            session.giveUpMemory()
        }
        reportMemoryCuts()
    }

    /// Whether a session that was chosen still holds memory, and has not begun to read since.
    private func mayDisconnect(_ session: LoopSession) -> Bool {
        let byteCount = session.heldByteCount
        guard byteCount > 0 else { return false }
        return areSteady || progress(of: session, holding: byteCount) != .steady
    }

    /// Looks at all sessions for those to be disconnected. O(sessions), and a system call for each that holds
    /// much.
    private func choose() {
        var holders: [MemoryHolder] = []
        for (index, session) in table.slots.enumerated() {
            guard let session else { continue }
            let byteCount = session.heldByteCount
            guard byteCount > 0 else { continue }
            holders.append(
                MemoryHolder(
                    index: index, byteCount: byteCount,
                    progress: progress(of: session, holding: byteCount),
                    lastHeard: session.lastHeard))
        }
        let includesSmall = exceededSince.map { loop.now - $0 > Self.smallPatience } ?? false
        let found = MemoryRelief.choose(
            from: holders, excess: excessByteCount, limit: Self.chosenLimit, includesSmall: includesSmall)
        areSteady = found.first?.progress == .steady
        chosen = found.reversed().compactMap { table.slots[$0.index]?.id }
    }

    /// What listens take does not become less when the client reads.
    private func progress(of session: LoopSession, holding byteCount: Int) -> ClientProgress {
        guard byteCount > MemoryRelief.smallByteCount else { return .unknown }
        return session.databaseByteCount > byteCount / 2 ? .stalled : session.progress
    }

    private func beginPressing() {
        pressingBegan = loop.now
        guard !isPressing else { return }
        isPressing = true
        lookAgain()
    }

    /// Where nothing else happens, this looks again.
    private func lookAgain() {
        loop.schedule(after: Self.patience * 1.5) { [self] in
            publishHeldBytes()
            if isPressing { lookAgain() }
        }
    }

    private func resumeAfterPressure() {
        isPressing = false
        for session in table.slots { session?.resume(.memory) }
    }

    /// Logs how many were disconnected, not more often than once in ten seconds.
    private func reportMemoryCuts() {
        guard cutCount > 0, throttle.mayReport(at: loop.now) else { return }
        logger.warning(
            """
            memory limit: clients hold \(memory.byteCount >> 20) of \(memory.byteLimit >> 20) MiB (--memory-limit); \
            disconnected \(cutCount) of this thread's clients since the last report, first those that read \
            nothing
            """)
        cutCount = 0
    }
}
