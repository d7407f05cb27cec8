import Synchronization

/// Counts the open client connections of all loops, and decides how the next one is accepted. Those in the
/// administrators' reserve are *reserved*, all others *ordinary*.
///
///     ordinary < ceiling                                    ──▶ ordinary
///     else a loop has a silent or idle connection           ──▶ evicting: the loop closes one of them; until it has done so,
///                                                               up to `temporaryExcess` connections exceed the ceiling
///     else reserved < administratorCount                    ──▶ reserved: only an administrator's request is answered
///     else a connection in the reserve has sent no request  ──▶ replacing: as reserved, and the loop closes that one
///     else                                                  ──▶ wait: it stays in the kernel's backlog until another closes
///
/// A connection costs one atomic addition when it is accepted and one subtraction when its descriptor is
/// closed.
package final class ConnectionLimiter: Sendable {
    /// How the next connection is accepted.
    package enum Admission: Equatable, Sendable {
        /// Without conditions.
        case ordinary
        /// The loop with this number closes another connection for it.
        case evicting(loop: Int)
        /// In the administrators' reserve: only an administrator's request is answered.
        case reserved
        /// As `reserved`; the loop with this number closes another connection of the reserve for it.
        case replacing(loop: Int)
        /// Not now: it stays in the kernel's backlog.
        case wait
    }

    /// What happened at the limit since the last report.
    package struct Report: Equatable, Sendable {
        /// Connections open now.
        package var open = 0
        /// Connections that may be open.
        package var ceiling = 0
        /// Connections closed so that others could be accepted.
        package var evicted: UInt64 = 0
        /// Connections accepted in the administrators' reserve.
        package var reserved: UInt64 = 0
        /// Of those, connections whose request was refused.
        package var refused: UInt64 = 0
        /// How often accepting stopped until a connection closed.
        package var pauses: UInt64 = 0
    }

    /// A message to the acceptors: ``admission(next:)`` may have changed.
    struct AdmissionChange: Sendable {}

    private let currentCeiling: Atomic<Int>
    private let administratorCount: Int
    private let temporaryExcess: Int
    /// Connections that each loop could close.
    private let pools: [EvictablePool]
    private let open = Atomic<Int>(0)
    /// Of `open`, those in the administrators' reserve.
    private let reserved = Atomic<Int>(0)
    /// One acceptor or several wait until a connection closes, or becomes one that may be closed. One flag
    /// for all: who clears it wakes all of them.
    private let isAwaited = Atomic<Bool>(false)
    private let acceptors = Mutex<[Mailbox<AdmissionChange>]>([])
    private let evictedCount = Atomic<UInt64>(0)
    private let reservedTotal = Atomic<UInt64>(0)
    private let refusedCount = Atomic<UInt64>(0)
    private let pauseCount = Atomic<UInt64>(0)
    private let exceededTotal = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - ceiling: Connections that may be open, the reserve not counted. Positive.
    ///   - loopCount: I/O loops; they are numbered from 0.
    ///   - administratorCount: Connections in the administrators' reserve.
    ///   - temporaryExcess: How far the ceiling may be exceeded while loops close others. Positive.
    package init(
        ceiling: Int, loopCount: Int, administratorCount: Int = DescriptorBudget.administratorReserve,
        temporaryExcess: Int = DescriptorBudget.acceptingReserve
    ) {
        precondition(ceiling > 0 && loopCount > 0 && administratorCount >= 0 && temporaryExcess > 0)
        currentCeiling = Atomic(ceiling)
        self.administratorCount = administratorCount
        self.temporaryExcess = temporaryExcess
        pools = (0..<loopCount).map { _ in EvictablePool() }
    }

    /// Connections that a loop closes in one step, where the ceiling was lowered: some ten microseconds.
    private static let evictedAtOnce = 8

    /// Connections that may be open, the reserve not counted.
    package var ceiling: Int { currentCeiling.load(ordering: .sequentiallyConsistent) }

    /// Any thread: changes the ceiling. Connections above a lower one stay open; while there are any, the
    /// loops close silent and idle ones for those that are accepted.
    package func setCeiling(_ ceiling: Int) {
        precondition(ceiling > 0)
        currentCeiling.store(ceiling, ordering: .sequentiallyConsistent)
        wakeAcceptors()
    }

    /// Connections open now, those in the reserve included.
    package var openCount: Int { open.load(ordering: .relaxed) }

    /// Connections that were closed for others, and requests that were refused, since the start.
    package var exceededCount: UInt64 { exceededTotal.load(ordering: .relaxed) }

    // MARK: The acceptor

    /// How the next connection is to be accepted. O(loops).
    /// - Parameter next: The number of the loop that would get it.
    package func admission(next: Int) -> Admission {
        // In this order: a connection that closes in between is counted as ordinary, never left out.
        let openCount = open.load(ordering: .sequentiallyConsistent)
        let reservedCount = reserved.load(ordering: .sequentiallyConsistent)
        let ordinaryCount = openCount - reservedCount
        if ordinaryCount < ceiling { return .ordinary }
        if let loop = loopToEvictFrom(next) {
            return ordinaryCount < ceiling + temporaryExcess ? .evicting(loop: loop) : .wait
        }
        // A loop that was asked to close connections does so, or reports that it could not.
        if pools.contains(where: { $0.requestedCount > 0 }) { return .wait }
        if reservedCount < administratorCount { return .reserved }
        // While the replaced ones are being closed, the reserve holds up to twice as many.
        if reservedCount < 2 * administratorCount,
            let loop = loops(from: next).first(where: { pools[$0].hasReserved })
        {
            return .replacing(loop: loop)
        }
        return .wait
    }

    /// A loop with a silent connection; else a loop with an idle one.
    private func loopToEvictFrom(_ next: Int) -> Int? {
        loops(from: next).first { pools[$0].hasSilent } ?? loops(from: next).first { pools[$0].hasAny }
    }

    /// The numbers of all loops, from `next` on.
    private func loops(from next: Int) -> some Sequence<Int> {
        let count = pools.count
        return (0..<count).lazy.map { (next + $0) % count }
    }

    /// A connection was accepted.
    func didAccept(isReserved: Bool) {
        if isReserved {
            reserved.add(1, ordering: .sequentiallyConsistent)
            reservedTotal.add(1, ordering: .relaxed)
        }
        open.add(1, ordering: .sequentiallyConsistent)
    }

    /// Notes that a loop is asked to close one connection, for the one that was just accepted.
    func requestEviction(from loop: Int, ofReserved isReserved: Bool) {
        pools[loop].requestEvictions(1, ofReserved: isReserved)
    }

    /// Evictions to ask a loop for because connections were accepted for which none was closed: the ones to
    /// be closed had closed themselves, or had sent a request in between. Call it until it gives nil.
    func requestMissedEvictions(next: Int) -> (loop: Int, count: Int)? {
        let ordinaryCount =
            open.load(ordering: .sequentiallyConsistent) - reserved.load(ordering: .sequentiallyConsistent)
        let missing = ordinaryCount - ceiling - pools.reduce(0) { $0 + $1.requestedCount }
        guard missing > 0, let loop = loopToEvictFrom(next) else { return nil }
        let count = min(missing, pools[loop].availableCount, Self.evictedAtOnce)
        guard count > 0 else { return nil }
        pools[loop].requestEvictions(count, ofReserved: false)
        return (loop, count)
    }

    /// Asks for an ``AdmissionChange`` when ``admission(next:)`` may give something else than `wait`.
    /// - Returns: false when it gives something else already: then the caller goes on, and need not wait for
    ///   the message.
    func waitForAdmission(next: Int) -> Bool {
        isAwaited.store(true, ordering: .sequentiallyConsistent)
        guard admission(next: next) == .wait else {
            // The flag may be another acceptor's, too, which waits since before and has not been woken: the
            // thread that has changed the admission is between its change and its look at the flag, and would
            // find it cleared. So all are woken here, and one that still cannot accept waits again. A wake-up
            // is lost in no order: each thread changes the counts before it looks at the flag, an acceptor
            // sets the flag before it looks at the counts, and the flag is cleared only by who then posts to
            // all acceptors.
            wakeAcceptors()
            return false
        }
        pauseCount.add(1, ordering: .relaxed)
        return true
    }

    /// - Parameter mailbox: Of one of the acceptors.
    func attach(_ mailbox: Mailbox<AdmissionChange>) {
        acceptors.withLock { $0.append(mailbox) }
    }

    private func wakeAcceptors() {
        guard isAwaited.load(ordering: .sequentiallyConsistent),
            isAwaited.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        for acceptor in acceptors.withLock({ $0 }) { acceptor.post(AdmissionChange()) }
    }

    // MARK: Loops

    /// A connection's descriptor was closed.
    func didClose(isReserved: Bool) {
        if isReserved { reserved.subtract(1, ordering: .sequentiallyConsistent) }
        open.subtract(1, ordering: .sequentiallyConsistent)
        wakeAcceptors()
    }

    /// Publishes how many connections a loop could close. Called on that loop, when its order has changed.
    package func publish(_ order: borrowing EvictionOrder, ofLoop loop: Int) {
        // Acceptors wait only while no loop has any: they are woken when this loop's first ones appear.
        let (silent, idle, reserved) = (order.silentCount, order.idleCount, order.reservedCount)
        if pools[loop].publish(silent: silent, idle: idle, reserved: reserved) { wakeAcceptors() }
    }

    /// A loop has closed connections as it was asked to.
    /// - Parameters:
    ///   - count: Evictions that it was asked for.
    ///   - isReserved: Whether they were in the administrators' reserve.
    ///   - closed: Connections that it has closed for them, at most `count`.
    package func didEvict(_ count: Int, ofReserved isReserved: Bool, closed: Int, inLoop loop: Int) {
        evictedCount.add(UInt64(closed), ordering: .relaxed)
        exceededTotal.add(UInt64(closed), ordering: .relaxed)
        pools[loop].requestEvictions(-count, ofReserved: isReserved)
        wakeAcceptors()
    }

    /// A request on a connection in the administrators' reserve was refused: it was not an administrator's.
    package func didRefuse() {
        refusedCount.add(1, ordering: .relaxed)
        exceededTotal.add(1, ordering: .relaxed)
    }

    // MARK: Reports

    /// What has happened at the limit since the last report, which resets the counts; nil for nothing.
    package func takeReport() -> Report? {
        let report = Report(
            open: openCount, ceiling: ceiling, evicted: evictedCount.exchange(0, ordering: .relaxed),
            reserved: reservedTotal.exchange(0, ordering: .relaxed),
            refused: refusedCount.exchange(0, ordering: .relaxed),
            pauses: pauseCount.exchange(0, ordering: .relaxed))
        return report.evicted + report.reserved + report.refused + report.pauses > 0 ? report : nil
    }
}

/// How many connections one loop could close. Written by that loop and read by the acceptor's, which may see
/// counts that are a moment old.
private final class EvictablePool: Sendable {
    private let silent = Atomic<Int>(0)
    private let idle = Atomic<Int>(0)
    private let reserved = Atomic<Int>(0)
    /// Evictions that were requested of the loop and not done yet.
    private let requested = Atomic<Int>(0)
    private let requestedOfReserved = Atomic<Int>(0)

    var requestedCount: Int { requested.load(ordering: .sequentiallyConsistent) }
    var hasSilent: Bool { silent.load(ordering: .sequentiallyConsistent) > requestedCount }
    var hasAny: Bool { availableCount > 0 }
    var hasReserved: Bool {
        reserved.load(ordering: .sequentiallyConsistent)
            > requestedOfReserved.load(ordering: .sequentiallyConsistent)
    }

    var availableCount: Int {
        silent.load(ordering: .sequentiallyConsistent) + idle.load(ordering: .sequentiallyConsistent)
            - requestedCount
    }

    /// - Returns: Whether there are silent, idle or reserved connections where there were none.
    func publish(silent silentCount: Int, idle idleCount: Int, reserved reservedCount: Int) -> Bool {
        // Only the loop writes.
        let before = silent.load(ordering: .relaxed) + idle.load(ordering: .relaxed)
        let reservedBefore = reserved.load(ordering: .relaxed)
        let isNew = before == 0 && silentCount + idleCount > 0 || reservedBefore == 0 && reservedCount > 0
        guard isNew else {
            silent.store(silentCount, ordering: .relaxed)
            idle.store(idleCount, ordering: .relaxed)
            if reservedCount != reservedBefore { reserved.store(reservedCount, ordering: .relaxed) }
            return false
        }
        silent.store(silentCount, ordering: .sequentiallyConsistent)
        idle.store(idleCount, ordering: .sequentiallyConsistent)
        reserved.store(reservedCount, ordering: .sequentiallyConsistent)
        return true
    }

    /// - Parameter count: Evictions that are requested of the loop; negative for those it has done.
    func requestEvictions(_ count: Int, ofReserved isReserved: Bool) {
        if isReserved {
            requestedOfReserved.add(count, ordering: .sequentiallyConsistent)
        } else {
            requested.add(count, ordering: .sequentiallyConsistent)
        }
    }
}

extension ConnectionLimiter.Report: CustomStringConvertible {
    package var description: String {
        """
        connection limit: \(open) of \(ceiling) connections are open. Since the last report: closed \(evicted) without a request or idle to accept \
        others; accepted \(reserved) in the administrators' reserve and refused \(refused) of them; stopped accepting \(pauses) times. \
        A higher `ulimit -Hn` or --max-connections allows more
        """
    }
}
