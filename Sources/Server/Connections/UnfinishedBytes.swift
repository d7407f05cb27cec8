import PandoReactor

// What the sessions of a loop hold beside the data, and what becomes of those that hold most when it is too
// much (``MemoryBudget``).

extension IOLoop {
    /// A body or message up to this size is read on the loop itself; a larger one takes milliseconds, and a
    /// worker. A session that holds no more than this is never paused for others' sake.
    static let smallByteCount = 64 << 10
    /// Sessions that are disconnected in one tick: then what is left is looked at anew.
    private static let cutCount = 64
    /// Changes up to this size are not worth an atomic operation at the end of a tick.
    private static let unpublishedByteLimit = 16 << 10

    /// Notes how much a session holds of a message or body that is not complete, or not looked at.
    func keepUnfinished(_ byteCount: Int, for session: ClientSession) {
        unfinishedByteCount += byteCount - session.unfinishedByteCount
        session.unfinishedByteCount = byteCount
    }

    /// At the end of a tick: publishes what all sessions hold, and acts when the process holds too much.
    func publishHeldBytes() {
        let byteCount = loop.ownedOutputByteCount + waitingByteCount + unfinishedByteCount
        if abs(byteCount - publishedByteCount) > Self.unpublishedByteLimit {
            memory.change(by: byteCount - publishedByteCount)
            publishedByteCount = byteCount
        }
        let pressure = memory.pressure
        if pressure != .exceeded { exceededSince = nil }
        switch pressure {
        case .none:
            // At once when there is room, else after a while: what others hold may stay for hours.
            if isPressing,
                memory.byteCount <= memory.calmByteCount || loop.now - pressingSince > Self.patience
            {
                resumeAfterPressure()
            }
        case .high:
            // Those who are not read can take what they have asked for, which helps; what is half there does
            // not get less.
            if !isPressing {
                relieve(cuts: false)
            } else if loop.now - pressingSince > Self.patience {
                relieve(cuts: true)
            }
        case .exceeded:
            if exceededSince == nil { exceededSince = loop.now }
            relieve(cuts: true)
        }
    }

    /// How long it may be too much while those who hold most are not read.
    private static let patience: Duration = .seconds(2)

    /// How long the limit may be exceeded before those are disconnected too who hold little each.
    private static let smallPatience: Duration = .milliseconds(250)

    /// Stops reading from the sessions that hold most, or disconnects them. O(sessions); at most once a tick
    /// while the limit is exceeded, and once when it comes near.
    private func relieve(cuts: Bool) {
        if !isPressing {
            isPressing = true
            lookAgain()
        }
        pressingSince = loop.now
        var debtors: [(byteCount: Int, session: ClientSession)] = []
        for case let session? in sessions {
            let byteCount = session.heldByteCount
            if byteCount > Self.smallByteCount { debtors.append((byteCount, session)) }
        }
        debtors.sort { $0.byteCount > $1.byteCount }
        // Where many hold little each, the limit holds all the same; on another loop there may be some who
        // hold much.
        if cuts, debtors.isEmpty, let exceededSince, loop.now - exceededSince > Self.smallPatience {
            debtors = smallDebtors()
        }
        // Connections are dealt to the loops in turn, so each has its share of those who hold most.
        var excess = memory.excessByteCount / allLoops.count
        for (byteCount, session) in debtors.prefix(cuts ? Self.cutCount : debtors.count) {
            guard excess > 0 else { break }
            excess -= byteCount
            if cuts {
                memoryCutCount += 1
                session.giveUpHeldBytes()
            } else {
                session.pause(.memory)
            }
        }
        if cuts { reportMemoryCuts() }
    }

    /// Those who hold anything at all; first who has sent nothing for longest.
    private func smallDebtors() -> [(byteCount: Int, session: ClientSession)] {
        var debtors: [(byteCount: Int, session: ClientSession)] = []
        for case let session? in sessions {
            let byteCount = session.heldByteCount
            if byteCount > 0 { debtors.append((byteCount, session)) }
        }
        debtors.sort { $0.session.lastHeard < $1.session.lastHeard }
        return debtors
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
        for session in sessions { session?.resume(.memory) }
    }

    /// Says how many were disconnected, not more often than once in ten seconds.
    private func reportMemoryCuts() {
        guard memoryCutCount > 0, lastMemoryReport.map({ loop.now - $0 > Self.reportInterval }) ?? true else {
            return
        }
        logger.warning(
            """
            memory limit: clients hold \(memory.byteCount >> 20) of \(memory.byteLimit >> 20) MiB (--memory-limit); \
            disconnected \(memoryCutCount) of this thread's clients that held most since the last report
            """)
        lastMemoryReport = loop.now
        memoryCutCount = 0
    }

    /// Between two reports of the same kind in the log.
    static let reportInterval: Duration = .seconds(10)
}
