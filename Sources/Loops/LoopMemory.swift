import Logging
import PandoConnections
import PandoEngine
import PandoReactor
import PandoTime

/// Counts what the sessions of one loop hold beside the data, and decides what becomes of those that hold
/// most when it is too much (``MemoryBudget``, ``MemoryRelief``). Confined to the loop.
final class LoopMemory {
    /// Sessions that are disconnected at a time. It may take a hundred microseconds for each.
    private static let cutLimit = 64
    /// After so much time the others wait for the next tick.
    private static let cutDuration: Duration = .milliseconds(1)
    /// Sessions that are looked at in one tick: a fraction of a millisecond.
    private static let visitedCount = 1024
    /// Sessions that are chosen at a time.
    private static let chosenLimit = 2048
    /// Bytes of one read while the limit is exceeded. A client of whose message or body so much is there
    /// then, and not all of it, is not read any further.
    static let shortReadByteCount = 4 << 10
    /// After a scan there is none for so many times as long as its steps took.
    private static let pauseFactor = 2
    /// Changes up to this size are not worth an atomic operation at the end of a tick.
    private static let unpublishedByteLimit = 16 << 10
    /// How long it may be too much while those that hold most are not read; and how long the limit may be
    /// exceeded, while nobody else is disconnected, before those are that make steady progress.
    private static let patience: Duration = .seconds(2)
    /// After the pressure, paused sessions are read again at the latest after this: some have ended.
    private static let resumptionWait: Duration = .milliseconds(500)
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
    /// What becomes of those that hold most.
    private enum Measure {
        case pause
        case disconnect
    }

    /// A look at all sessions, some in each tick.
    private struct Scan {
        let measure: Measure
        var next = 0
        var holders: [MemoryHolder] = []
        /// What its steps have taken.
        var duration: Duration = .zero
    }

    private var scan: Scan?
    /// Sessions that are to be disconnected, the next one last.
    private var chosen: [SessionID] = []
    /// Whether those make steady progress, as all that hold much do then.
    private var areSteady = false
    /// When a session was last disconnected.
    private var lastCut = MonotonicTime(nanoseconds: 0)
    /// Until then no other scan begins.
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
        isShort = level == .exceeded
        switch level {
        case .none:
            scan = nil
            // At once when there is room, else after a while: what others hold may stay for hours.
            if isPressing,
                memory.byteCount <= memory.calmByteCount || loop.now - pressingBegan > Self.resumptionWait
            {
                resumeAfterPressure()
            }
        case .high:
            // Clients that are not read can take what they have asked for, which helps; what is half received
            // does not get less.
            if !isPressing {
                beginPressing()
                scan = scan ?? Scan(measure: .pause)
            } else if loop.now - pressingBegan > Self.patience {
                disconnectHolders()
            }
            continueScan()
        case .exceeded:
            if exceededSince == nil { exceededSince = loop.now }
            disconnectHolders()
            continueScan()
        }
    }

    /// Whether the limit is exceeded: reads are short then, and sessions pause whose input is not complete.
    private var isShort: Bool {
        get { services.isMemoryShort }
        set {
            guard newValue != services.isMemoryShort else { return }
            services.isMemoryShort = newValue
            loop.readByteLimit = newValue ? Self.shortReadByteCount : .max
        }
    }

    /// Connections are dealt to the loops in turn, so each has its share of those that hold most.
    private var excessByteCount: Int { memory.excessByteCount / loopCount }

    // MARK: Looking at all sessions

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
                    index: scan.next, byteCount: byteCount,
                    progress: progress(of: session, holding: byteCount),
                    lastHeard: session.lastHeard))
        }
        scan.duration = scan.duration + (MonotonicTime.now - began)
        guard scan.next >= table.slots.count else { return self.scan = scan }
        switch scan.measure {
        case .pause: pauseLargest(scan.holders)
        case .disconnect: choose(from: scan.holders)
        }
        pauseEnd = MonotonicTime.now + scan.duration * Self.pauseFactor
    }

    /// Stops reading from the sessions that hold most.
    private func pauseLargest(_ holders: [MemoryHolder]) {
        var excess = excessByteCount
        let large = holders.filter { $0.byteCount > MemoryRelief.smallByteCount }
        for holder in large.sorted(by: { $0.byteCount > $1.byteCount }) {
            guard excess > 0 else { break }
            excess -= holder.byteCount
            table.slots[holder.index]?.pause(.memory)
        }
    }

    /// Chooses those to be disconnected.
    private func choose(from holders: [MemoryHolder]) {
        let found = MemoryRelief.choose(
            from: holders, excess: excessByteCount, limit: Self.chosenLimit, upTo: reach)
        areSteady = found.first?.progress == .steady
        chosen = found.reversed().compactMap { table.slots[$0.index]?.id }
    }

    private var reach: MemoryRelief.Reach {
        guard let exceededSince else { return .large }
        if loop.now - max(exceededSince, lastCut) > Self.patience { return .steady }
        return loop.now - exceededSince > Self.smallPatience ? .small : .large
    }

    // MARK: Disconnecting

    /// Disconnects some of those that were chosen; where none are, has all sessions looked at.
    private func disconnectHolders() {
        beginPressing()
        if chosen.isEmpty, scan?.measure != .disconnect, loop.now >= pauseEnd {
            scan = Scan(measure: .disconnect)
        }
        guard !chosen.isEmpty else { return }
        let began = MonotonicTime.now
        for _ in 0..<Self.cutLimit {
            guard let id = chosen.popLast() else { break }
            // It may have read what it holds, or begun to, since it was chosen.
            guard let session = table[id], mayDisconnect(session) else { continue }
            cutCount += 1
            lastCut = loop.now
            services.metrics.cuts.add(.memory)
            session.isCutForMemory = true
            session.giveUpMemory()
            if MonotonicTime.now - began > Self.cutDuration { break }
        }
        reportMemoryCuts()
    }

    /// Whether a session that was chosen still holds memory, and has not begun to read since.
    private func mayDisconnect(_ session: LoopSession) -> Bool {
        let byteCount = session.heldByteCount
        guard byteCount > 0 else { return false }
        return areSteady || progress(of: session, holding: byteCount) != .steady
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
        loop.schedule(after: Self.resumptionWait) { [self] in
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
