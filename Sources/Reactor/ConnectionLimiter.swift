import Synchronization

/// How many connections of clients are open, over all loops, and what becomes of the next one.
///
///     open < ceiling                              ──▶ ordinary
///     else a loop can close one of little use     ──▶ evicting, at most `accepting` above the ceiling until it is closed
///     else reserved < administrators              ──▶ reserved: only an administrator's request is answered
///     else one of those has sent nothing yet      ──▶ replacing: as reserved, and the loop closes that one
///     else                                        ──▶ wait: the kernel's backlog holds it until a connection closes
///
/// A connection costs one atomic addition when it is accepted and one subtraction when its descriptor is
/// closed.
package final class ConnectionLimiter: Sendable {
    /// What becomes of the next connection.
    package enum Admission: Equatable, Sendable {
        case ordinary
        /// The loop of this number closes another for it.
        case evicting(loop: Int)
        case reserved
        /// As `reserved`; the loop of this number closes another of the reserve for it.
        case replacing(loop: Int)
        case wait
    }

    /// What there is to say about the limit since it was last said.
    package struct Report: Equatable, Sendable {
        /// Connections open now.
        package var open = 0
        package var ceiling = 0
        /// Closed to make place.
        package var evicted: UInt64 = 0
        /// Accepted in the administrators' reserve.
        package var reserved: UInt64 = 0
        /// Of those, not answered.
        package var refused: UInt64 = 0
        /// Times that accepting stopped until a connection closed.
        package var pauses: UInt64 = 0
    }

    /// Wakes the acceptor.
    struct RoomAgain: Sendable {}

    /// Connections that may be open.
    package let ceiling: Int
    private let administratorCount: Int
    private let acceptingCount: Int
    /// What each loop could close.
    private let pools: [EvictablePool]
    private let open = Atomic<Int>(0)
    /// Of those, in the administrators' reserve.
    private let reserved = Atomic<Int>(0)
    /// The acceptor waits for a connection to close, or to become one that may be closed.
    private let isAwaited = Atomic<Bool>(false)
    private let acceptor = Mutex<Mailbox<RoomAgain>?>(nil)
    private let evictedCount = Atomic<UInt64>(0)
    private let reservedTotal = Atomic<UInt64>(0)
    private let refusedCount = Atomic<UInt64>(0)
    private let pauseCount = Atomic<UInt64>(0)

    package init(
        ceiling: Int, loopCount: Int, administratorCount: Int = DescriptorBudget.administratorReserve,
        acceptingCount: Int = DescriptorBudget.acceptingReserve
    ) {
        precondition(ceiling > 0 && loopCount > 0 && administratorCount >= 0 && acceptingCount > 0)
        self.ceiling = ceiling
        self.administratorCount = administratorCount
        self.acceptingCount = acceptingCount
        pools = (0..<loopCount).map { _ in EvictablePool() }
    }

    /// Connections open now, those in the reserve included.
    package var openCount: Int { open.load(ordering: .relaxed) }

    // MARK: The acceptor

    /// - Parameter next: The loop whose turn it is.
    package func admission(next: Int) -> Admission {
        // In this order: of one that closes in between too many are counted, not too few.
        let openCount = open.load(ordering: .sequentiallyConsistent)
        let reservedCount = reserved.load(ordering: .sequentiallyConsistent)
        let ordinaryCount = openCount - reservedCount
        if ordinaryCount < ceiling { return .ordinary }
        if let loop = loopToEvictFrom(next) {
            return ordinaryCount < ceiling + acceptingCount ? .evicting(loop: loop) : .wait
        }
        // They make place, or say that they could not.
        if pools.contains(where: { $0.orderedCount > 0 }) { return .wait }
        if reservedCount < administratorCount { return .reserved }
        // While those that are replaced are being closed, there may be twice as many.
        if reservedCount < 2 * administratorCount,
            let loop = loops(from: next).first(where: { pools[$0].hasReserved })
        {
            return .replacing(loop: loop)
        }
        return .wait
    }

    /// One that has nothing to close but idle connections is asked when none has a silent one.
    private func loopToEvictFrom(_ next: Int) -> Int? {
        loops(from: next).first { pools[$0].hasSilent } ?? loops(from: next).first { pools[$0].hasAny }
    }

    /// All loops, in turn.
    private func loops(from next: Int) -> some Sequence<Int> {
        let count = pools.count
        return (0..<count).lazy.map { (next + $0) % count }
    }

    func didAccept(isReserved: Bool) {
        if isReserved {
            reserved.add(1, ordering: .sequentiallyConsistent)
            reservedTotal.add(1, ordering: .relaxed)
        }
        open.add(1, ordering: .sequentiallyConsistent)
    }

    /// A loop is asked for one eviction, for the connection that was just accepted.
    func orderEviction(from loop: Int, ofReserved isReserved: Bool) {
        pools[loop].order(1, ofReserved: isReserved)
    }

    /// Evictions to ask a loop for because connections were accepted for which none was closed: those that
    /// were to be closed had gone by themselves, or asked something in between. Again until nil.
    func orderMissedEvictions(next: Int) -> (loop: Int, count: Int)? {
        let ordinaryCount =
            open.load(ordering: .sequentiallyConsistent) - reserved.load(ordering: .sequentiallyConsistent)
        let missing = ordinaryCount - ceiling - pools.reduce(0) { $0 + $1.orderedCount }
        guard missing > 0, let loop = loopToEvictFrom(next) else { return nil }
        let count = min(missing, pools[loop].availableCount)
        guard count > 0 else { return nil }
        pools[loop].order(count, ofReserved: false)
        return (loop, count)
    }

    /// Has the acceptor woken when ``admission(next:)`` may give something else than `wait`.
    /// - Returns: false when it does already.
    func awaitRoom(next: Int) -> Bool {
        isAwaited.store(true, ordering: .sequentiallyConsistent)
        guard admission(next: next) == .wait else {
            isAwaited.store(false, ordering: .sequentiallyConsistent)
            return false
        }
        pauseCount.add(1, ordering: .relaxed)
        return true
    }

    func attach(_ mailbox: Mailbox<RoomAgain>) {
        acceptor.withLock { $0 = mailbox }
    }

    private func wakeAcceptor() {
        guard isAwaited.load(ordering: .sequentiallyConsistent),
            isAwaited.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        _ = acceptor.withLock { $0 }?.post(RoomAgain())
    }

    // MARK: Loops

    /// A descriptor is closed.
    func didClose(isReserved: Bool) {
        if isReserved { reserved.subtract(1, ordering: .sequentiallyConsistent) }
        open.subtract(1, ordering: .sequentiallyConsistent)
        wakeAcceptor()
    }

    /// How many connections a loop could close.
    package func publish(_ order: borrowing EvictionOrder, ofLoop loop: Int) {
        // The acceptor sleeps only where there was none; else it need not be looked after.
        let (silent, idle, reserved) = (order.silentCount, order.idleCount, order.reservedCount)
        if pools[loop].publish(silent: silent, idle: idle, reserved: reserved) { wakeAcceptor() }
    }

    /// A loop has done what it was asked for.
    /// - Parameters:
    ///   - count: Evictions that were ordered.
    ///   - isReserved: They were for the administrators' reserve.
    ///   - closed: Connections that were closed for them.
    package func didEvict(_ count: Int, ofReserved isReserved: Bool, closed: Int, inLoop loop: Int) {
        evictedCount.add(UInt64(closed), ordering: .relaxed)
        pools[loop].order(-count, ofReserved: isReserved)
        wakeAcceptor()
    }

    /// A connection in the administrators' reserve was not answered.
    package func didRefuse() {
        refusedCount.add(1, ordering: .relaxed)
    }

    // MARK: What is said

    /// What has happened since the last report; nil for nothing.
    package func takeReport() -> Report? {
        let report = Report(
            open: openCount, ceiling: ceiling, evicted: evictedCount.exchange(0, ordering: .relaxed),
            reserved: reservedTotal.exchange(0, ordering: .relaxed),
            refused: refusedCount.exchange(0, ordering: .relaxed),
            pauses: pauseCount.exchange(0, ordering: .relaxed))
        return report.evicted + report.reserved + report.refused + report.pauses > 0 ? report : nil
    }
}

/// What one loop could close, as the acceptor sees it from another: a moment old, and good enough to choose
/// by.
private final class EvictablePool: Sendable {
    private let silent = Atomic<Int>(0)
    private let idle = Atomic<Int>(0)
    private let reserved = Atomic<Int>(0)
    /// Evictions that were ordered and are not done.
    private let ordered = Atomic<Int>(0)
    private let orderedOfReserved = Atomic<Int>(0)

    var orderedCount: Int { ordered.load(ordering: .sequentiallyConsistent) }
    var hasSilent: Bool { silent.load(ordering: .sequentiallyConsistent) > orderedCount }
    var hasAny: Bool { availableCount > 0 }
    var hasReserved: Bool {
        reserved.load(ordering: .sequentiallyConsistent)
            > orderedOfReserved.load(ordering: .sequentiallyConsistent)
    }

    var availableCount: Int {
        silent.load(ordering: .sequentiallyConsistent) + idle.load(ordering: .sequentiallyConsistent)
            - orderedCount
    }

    /// - Returns: Whether there are some where there were none.
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

    /// - Parameter count: Negative for those that are done.
    func order(_ count: Int, ofReserved isReserved: Bool) {
        if isReserved {
            orderedOfReserved.add(count, ordering: .sequentiallyConsistent)
        } else {
            ordered.add(count, ordering: .sequentiallyConsistent)
        }
    }
}

extension ConnectionLimiter.Report: CustomStringConvertible {
    package var description: String {
        """
        connection limit: \(open) of \(ceiling) connections are open. Since the last report: closed \(evicted) without a request or idle to make \
        room; accepted \(reserved) in the administrators' reserve and refused \(refused) of them; stopped accepting \(pauses) times. \
        A higher `ulimit -Hn` allows more
        """
    }
}
