import PandoConnections
import PandoReactor

/// Chooses which connections of one loop are closed when as many are open as may be (``ConnectionLimiter``):
/// first those which have sent no whole request yet, the oldest of this loop first, then those which wait
/// between two requests, the longest idle of this loop first. Up to 8 with pending input are passed over;
/// if there are no others, the first is closed nevertheless. Never WebSockets or event streams. Confined to
/// the loop.
final class ConnectionEvictor {
    /// A connection in the administrators' reserve must have sent an administrator's request by then.
    private static let reservedTimeout: Duration = .seconds(5)
    /// Connections of a list that are looked at for one whose request has not come yet.
    private static let passedOverLimit = 8

    private let loop: EventLoop
    private let loopIndex: Int
    private let table: SessionTable
    private let limiter: ConnectionLimiter
    private var order = EvictionOrder()
    /// Of connections in the administrators' reserve, by slot: until then the request must have come.
    private var reservedDeadlines: [UInt32: TimerToken] = [:]

    init(_ table: SessionTable, on loop: EventLoop, index: UInt8, _ limiter: ConnectionLimiter) {
        self.table = table
        self.loop = loop
        loopIndex = Int(index)
        self.limiter = limiter
    }

    // MARK: What a connection does

    /// A new connection, which has sent nothing yet.
    func accepted(_ connection: HTTPSession) {
        guard connection.channel.isReserved else { return rank(connection, as: .silent) }
        rank(connection, as: .reserved)
        let slot = connection.id.slot
        reservedDeadlines[slot] = loop.schedule(after: Self.reservedTimeout) { [weak self, weak connection] in
            guard let self, let connection else { return }
            reservedDeadlines[slot] = nil
            // One that was answered with a refusal is counted already.
            if !connection.hasEnded { limiter.didRefuse() }
            connection.channel.reset()
        }
    }

    /// What the connection does has changed.
    func changed(_ connection: HTTPSession, to activity: HTTPConnection.Activity) {
        switch activity {
        // A whole request head is there.
        case .busy: remove(connection)
        // A request was answered, or what came was none: the connection waits for another, or to be closed by
        // its client.
        case .idle:
            if !connection.channel.isReserved { rank(connection, as: .idle) }
        case .silent: break
        }
    }

    /// The connection is gone, or has become a WebSocket.
    func forget(_ session: LoopSession) {
        remove(session)
        if session.isReserved { keepReserved(session) }
    }

    /// A connection in the reserve is an administrator's: its request takes its time.
    func keepReserved(_ session: LoopSession) {
        if let deadline = reservedDeadlines.removeValue(forKey: session.id.slot) { loop.cancel(deadline) }
    }

    private func rank(_ connection: HTTPSession, as rank: EvictionOrder.Rank) {
        order.append(Int(connection.id.slot), as: rank)
        limiter.publish(order, ofLoop: loopIndex)
    }

    private func remove(_ session: LoopSession) {
        if order.remove(Int(session.id.slot)) != .none { limiter.publish(order, ofLoop: loopIndex) }
    }

    // MARK: What the acceptor asks for

    /// Closes so many connections, if there are so many that may be closed. O(count).
    /// - Parameter isReserved: Of those in the administrators' reserve; else of all others.
    func evict(_ count: Int, ofReserved isReserved: Bool) {
        var closedCount = 0
        while closedCount < count, let slot = isReserved ? nextToClose(of: .reserved) : nextToClose(),
            let channel = channel(of: slot)
        {
            closedCount += 1
            // A reset leaves nothing in the kernel, where a million closed connections would each stay for a
            // minute.
            if order.remove(slot) == .idle { channel.close() } else { channel.reset() }
        }
        limiter.publish(order, ofLoop: loopIndex)
        limiter.didEvict(count, ofReserved: isReserved, closed: closedCount, inLoop: loopIndex)
    }

    private func channel(of slot: Int) -> Channel? { (table.slots[slot] as? HTTPSession)?.channel }

    /// The connection that is closed next. Where each of those at the front has a request that is read next,
    /// the oldest.
    private func nextToClose() -> Int? {
        nextToClose(of: .silent) ?? nextToClose(of: .idle) ?? order.first
    }

    /// The oldest of a list without a request in its socket, of those near the front. The others become the
    /// last of the list: what they have sent is read in this tick or the next.
    private func nextToClose(of rank: EvictionOrder.Rank) -> Int? {
        for _ in 0..<min(order.count(of: rank), Self.passedOverLimit) {
            guard let slot = order.first(of: rank), let channel = channel(of: slot) else { return nil }
            if channel.isClosed {
                // In this tick: its place is free already.
                order.remove(slot)
            } else if channel.hasPendingInput {
                order.append(slot, as: rank)
            } else {
                return slot
            }
        }
        return nil
    }
}
