import Glibc
import Synchronization
import Testing

@testable import PandoReactor

@Suite struct ConnectionLimiterTests {
    private func limiter(open: Int, reserved: Int = 0, _ pools: [(silent: Int, idle: Int)])
        -> ConnectionLimiter
    {
        let limiter = ConnectionLimiter(
            ceiling: 10, loopCount: pools.count, administratorCount: 2, temporaryExcess: 3)
        for index in 0..<open { limiter.didAccept(isReserved: index < reserved) }
        for (loop, pool) in pools.enumerated() {
            var order = EvictionOrder()
            for slot in 0..<pool.silent { order.append(slot, as: .silent) }
            for slot in 0..<pool.idle { order.append(100 + slot, as: .idle) }
            limiter.publish(order, ofLoop: loop)
        }
        return limiter
    }

    @Test(
        arguments: [
            // open, of those reserved, pools, next, expected, because
            (9, 0, [(0, 0)], 0, .ordinary, "below the ceiling"),
            (11, 2, [(0, 0)], 0, .ordinary, "those in the reserve have no ordinary place"),
            (10, 0, [(1, 0)], 0, .evicting(loop: 0), "a silent one makes place"),
            (10, 0, [(0, 1)], 0, .evicting(loop: 0), "an idle one makes place"),
            (10, 0, [(1, 0), (1, 0)], 1, .evicting(loop: 1), "the loop whose turn it is"),
            (
                10, 0, [(1, 0), (0, 5)], 1, .evicting(loop: 0),
                "a silent one elsewhere before an idle one here"
            ),
            (10, 0, [(0, 0), (0, 5)], 0, .evicting(loop: 1), "an idle one elsewhere"),
            (13, 0, [(5, 0)], 0, .wait, "as many as may be are making place"),
            (10, 0, [(0, 0), (0, 0)], 0, .reserved, "nothing can be closed"),
            (11, 1, [(0, 0)], 0, .reserved, "the second of two"),
            (12, 2, [(0, 0)], 0, .wait, "the reserve is used up"),
            (12, 2, [(1, 0)], 0, .evicting(loop: 0), "and matters nothing where one can be closed"),
        ] as [(Int, Int, [(Int, Int)], Int, ConnectionLimiter.Admission, String)])
    func admission(
        open: Int, reserved: Int, pools: [(Int, Int)], next: Int, expected: ConnectionLimiter.Admission,
        reason: String
    ) {
        let limiter = limiter(open: open, reserved: reserved, pools.map { (silent: $0.0, idle: $0.1) })
        #expect(limiter.admission(next: next) == expected, "\(reason)")
    }

    @Test func silentConnectionInTheReserveIsReplaced() {
        let limiter = limiter(open: 12, reserved: 2, [(0, 0), (0, 0)])
        var order = EvictionOrder()
        order.append(4, as: .reserved)
        #expect(order.first == nil, "it makes no place for others than those of the reserve")
        limiter.publish(order, ofLoop: 1)
        #expect(limiter.admission(next: 0) == .replacing(loop: 1))
        limiter.didAccept(isReserved: true)
        limiter.requestEviction(from: 1, ofReserved: true)
        #expect(limiter.admission(next: 0) == .wait, "once")
        limiter.publish(EvictionOrder(), ofLoop: 1)
        limiter.didClose(isReserved: true)
        limiter.didEvict(1, ofReserved: true, closed: 1, inLoop: 1)
        #expect(limiter.admission(next: 0) == .wait)
        limiter.didClose(isReserved: true)
        #expect(limiter.admission(next: 0) == .reserved)
    }

    /// An eviction is asked for once, and the reserve is not used until it is done.
    @Test func orderedEvictions() throws {
        let limiter = limiter(open: 10, [(1, 0)])
        limiter.didAccept(isReserved: false)
        limiter.requestEviction(from: 0, ofReserved: false)
        #expect(limiter.requestMissedEvictions(next: 0) == nil)
        #expect(limiter.admission(next: 0) == .wait)
        limiter.publish(EvictionOrder(), ofLoop: 0)
        limiter.didEvict(1, ofReserved: false, closed: 0, inLoop: 0)
        #expect(limiter.admission(next: 0) == .reserved, "it was gone before it could be closed")

        // One too many is open: another is closed as soon as one may be.
        #expect(limiter.requestMissedEvictions(next: 0) == nil)
        var order = EvictionOrder()
        for slot in 0..<5 { order.append(slot, as: .silent) }
        limiter.publish(order, ofLoop: 0)
        let missed = try #require(limiter.requestMissedEvictions(next: 0))
        #expect(missed == (0, 1))
        #expect(limiter.requestMissedEvictions(next: 0) == nil, "once")
    }

    @Test func acceptorIsWokenWhenAdmissionMayChange() throws {
        let wakeup = try WakeupEvent()
        let mailbox = Mailbox<ConnectionLimiter.AdmissionChange>(signalling: wakeup)
        let limiter = limiter(open: 12, reserved: 2, [(0, 0), (0, 0)])
        limiter.attach(mailbox)
        func isWoken() -> Bool {
            var woken: [ConnectionLimiter.AdmissionChange] = []
            mailbox.drain(into: &woken)
            return !woken.isEmpty
        }
        limiter.didClose(isReserved: true)
        #expect(!isWoken(), "the acceptor does not wait")
        #expect(!limiter.waitForAdmission(next: 0), "there is place in the reserve")
        limiter.didAccept(isReserved: true)

        #expect(limiter.waitForAdmission(next: 0))
        limiter.didClose(isReserved: false)
        #expect(isWoken())
        limiter.didAccept(isReserved: false)
        limiter.didClose(isReserved: false)
        #expect(!isWoken(), "once")
        limiter.didAccept(isReserved: false)

        // A connection that may be closed wakes the acceptor, too.
        #expect(limiter.waitForAdmission(next: 0))
        var order = EvictionOrder()
        order.append(4, as: .idle)
        limiter.publish(order, ofLoop: 1)
        #expect(isWoken())
        #expect(limiter.admission(next: 0) == .evicting(loop: 1))
        #expect(limiter.takeReport()?.pauses == 2)
        #expect(limiter.takeReport() == nil)
    }
}

@Suite struct ConnectedSocketTests {
    /// A connection that no loop takes, and whose client need not be told why.
    @Test func resetEndsTheConnectionAndItsCount() throws {
        let loop = try EventLoop()
        let limiter = ConnectionLimiter(ceiling: 10, loopCount: 1)
        let acceptor = try Acceptor(
            at: #require(SocketAddress("127.0.0.1", port: 0)), on: loop, targets: [loop],
            adopt: { socket, _ in socket.reset() }, limiter: limiter)
        let thread = try NamedThread.start("loop") { loop.run() }
        do {
            let peer = try Peer(acceptor.address)
            #expect(peer.receive() == nil, "an error, and no regular end")
        } catch let error as SocketError {
            #expect(
                error.code == ECONNRESET, "the reset was faster than the look at the connection's beginning")
        }
        loop.stop()
        thread.join()
        #expect(limiter.openCount == 0)
    }
}

/// Several acceptors share one limiter (`--listen` more than once).
@Suite struct SeveralAcceptorsTests {
    /// One acceptor finds that it may accept, before the thread that has made it so looks at whether any
    /// waits: the other one, which waits since before, is woken all the same.
    @Test func acceptorThatNeedNotWaitWakesTheOther() throws {
        let wakeup = try WakeupEvent()
        let mailboxes = (0..<2).map { _ in Mailbox<ConnectionLimiter.AdmissionChange>(signalling: wakeup) }
        func wokenCounts() -> [Int] {
            mailboxes.map { mailbox in
                var woken: [ConnectionLimiter.AdmissionChange] = []
                mailbox.drain(into: &woken)
                return woken.count
            }
        }
        let limiter = ConnectionLimiter(ceiling: 10, loopCount: 1, administratorCount: 0, temporaryExcess: 3)
        for mailbox in mailboxes { limiter.attach(mailbox) }
        for _ in 0..<10 { limiter.didAccept(isReserved: false) }
        var order = EvictionOrder()
        order.append(0, as: .silent)
        limiter.publish(order, ofLoop: 0)
        // The loop is asked to close its silent connection for another one.
        limiter.didAccept(isReserved: false)
        limiter.requestEviction(from: 0, ofReserved: false)
        #expect(limiter.waitForAdmission(next: 0), "the first acceptor waits")
        // Another silent connection changes the admission. That wakes no acceptor, since the loop had one
        // before: what a thread leaves that is between its change and its look at the flag.
        order.append(1, as: .silent)
        limiter.publish(order, ofLoop: 0)
        #expect(wokenCounts() == [0, 0])
        #expect(!limiter.waitForAdmission(next: 0), "the second acceptor need not wait")
        #expect(wokenCounts() == [1, 1])
        limiter.didEvict(1, ofReserved: false, closed: 1, inLoop: 0)
        #expect(wokenCounts() == [0, 0], "once")
    }
}

/// A loop whose connections are closed for others, as a server's loop does it, without any bytes.
private final class LimitedLoop: @unchecked Sendable {
    let loop: EventLoop
    let number: Int
    let limiter: ConnectionLimiter
    /// The list for new connections; `.none` for no list.
    let rank: EvictionOrder.Rank
    /// Those in the reserve count as silent.
    let replacesReserved: Bool
    /// In the order accepted.
    private var channels: [Channel] = []
    private var order = EvictionOrder()
    let accepted: Log<Bool>

    init(
        _ number: Int, _ limiter: ConnectionLimiter, rank: EvictionOrder.Rank, replacesReserved: Bool,
        accepted: Log<Bool>
    ) throws {
        self.replacesReserved = replacesReserved
        loop = try EventLoop()
        self.number = number
        self.limiter = limiter
        self.rank = rank
        self.accepted = accepted
    }

    func adopt(_ socket: ConnectedSocket) {
        let slot = channels.count
        _ = try? Channel.adopt(socket, on: loop) { channel in
            channels.append(channel)
            if channel.isReserved {
                if replacesReserved { order.append(slot, as: .reserved) }
            } else if rank != .none {
                order.append(slot, as: rank)
            }
            let delegate = Scripted(log: Log())
            delegate.onClose = { [unowned self] _ in
                order.remove(slot)
                limiter.publish(order, ofLoop: number)
            }
            return delegate
        }
        limiter.publish(order, ofLoop: number)
        accepted.add(socket.isReserved)
    }

    func evict(_ count: Int, ofReserved isReserved: Bool) {
        var closed = 0
        while closed < count, let slot = isReserved ? order.first(of: .reserved) : order.first {
            order.remove(slot)
            channels[slot].close()
            closed += 1
        }
        limiter.publish(order, ofLoop: number)
        limiter.didEvict(count, ofReserved: isReserved, closed: closed, inLoop: number)
    }
}

/// An acceptor with a limit, over several loops.
private final class LimitedHost {
    let limiter: ConnectionLimiter
    let accepted = Log<Bool>()
    let reports = Log<ConnectionLimiter.Report>()
    let address: SocketAddress
    private let loops: [LimitedLoop]
    private let threads: [NamedThread]

    init(ceiling: Int, loopCount: Int, rank: EvictionOrder.Rank, replacesReserved: Bool = false) throws {
        let limiter = ConnectionLimiter(
            ceiling: ceiling, loopCount: loopCount, administratorCount: 2, temporaryExcess: 3)
        self.limiter = limiter
        let loops = try (0..<loopCount).map { [accepted] in
            try LimitedLoop($0, limiter, rank: rank, replacesReserved: replacesReserved, accepted: accepted)
        }
        self.loops = loops
        let reports = reports
        let acceptor = try Acceptor(
            at: #require(SocketAddress("127.0.0.1", port: 0)), on: loops[0].loop, targets: loops.map(\.loop),
            adopt: { socket, loop in loops.first { $0.loop === loop }?.adopt(socket) }, limiter: limiter,
            evict: { count, isReserved, loop in
                loops.first { $0.loop === loop }?.evict(count, ofReserved: isReserved)
            }, onLimit: { reports.add($0) })
        address = acceptor.address
        threads = try loops.map { loop in try NamedThread.start("loop") { loop.loop.run() } }
    }

    func stop() {
        for loop in loops { loop.loop.stop() }
        for thread in threads { thread.join() }
        #expect(limiter.openCount == 0, "each is counted once")
    }
}

@Suite struct LimitedAcceptorTests {
    /// No connection may be closed: two are accepted for administrators, the others wait in the kernel until
    /// a connection closes.
    @Test(arguments: [1, 3])
    func acceptingWaitsForAConnectionToClose(loopCount: Int) throws {
        let host = try LimitedHost(ceiling: 4, loopCount: loopCount, rank: .none)
        defer { host.stop() }
        var peers: [Peer] = []
        for _ in 0..<9 { peers.append(try Peer(host.address)) }
        let first = host.accepted.wait("the ceiling and the reserve") { $0.count == 6 }
        // Given to several loops, they come in any order.
        #expect(first.count { $0 } == 2)
        let report = host.reports.wait("what is said") { !$0.isEmpty }[0]
        #expect(report.ceiling == 4 && report.open <= 6)
        for count in 7...9 {
            // Of the first six one is closed, and the next is accepted, whichever it was.
            peers.removeFirst().close()
            host.accepted.wait("connection \(count)") { $0.count == count }
        }
        #expect(host.limiter.openCount == 6)
    }

    /// A silent connection in the reserve is closed for the next one, which need not wait for its timeout.
    @Test(arguments: [1, 3])
    func silentConnectionsInTheReserveAreReplaced(loopCount: Int) throws {
        let host = try LimitedHost(ceiling: 4, loopCount: loopCount, rank: .none, replacesReserved: true)
        defer { host.stop() }
        var peers: [Peer] = []
        for count in 1...40 {
            peers.append(try Peer(host.address))
            host.accepted.wait("connection \(count)") { $0.count == count }
        }
        #expect(host.accepted.all.count { !$0 } == 4)
        for peer in peers[4..<30] { #expect(peer.receive()?.isEmpty ?? true) }
        #expect(host.limiter.openCount <= 4 + 4)
    }

    /// Silent or idle connections are closed for new ones, the oldest first.
    @Test(arguments: [1, 3], [EvictionOrder.Rank.silent, .idle])
    func oldestConnectionsAreClosedFirst(loopCount: Int, rank: EvictionOrder.Rank) throws {
        let host = try LimitedHost(ceiling: 6, loopCount: loopCount, rank: rank)
        defer { host.stop() }
        var peers: [Peer] = []
        for count in 1...60 {
            peers.append(try Peer(host.address))
            host.accepted.wait("connection \(count)") { $0.count == count }
        }
        #expect(!host.accepted.all.contains(true), "the reserve is for when none can be closed")
        // Their peers see the end of the connection.
        for peer in peers.dropLast(6 + loopCount) { #expect(peer.receive()?.isEmpty ?? true) }
        #expect(host.limiter.openCount <= 6 + 3)
    }

    /// Many connections open and close, one after the other and at once; the counts are zero afterwards.
    @Test(arguments: [1, 2])
    func manyThreadsLeaveTheCountsAtZero(loopCount: Int) throws {
        let host = try LimitedHost(ceiling: 8, loopCount: loopCount, rank: .silent)
        defer { host.stop() }
        var accepted = 0
        for round in 0..<60 {
            var peers: [Peer] = []
            for _ in 0..<20 { peers.append(try Peer(host.address)) }
            accepted += 20
            host.accepted.wait("round \(round)") { $0.count >= accepted }
        }
        let last = try Peer(host.address)
        host.accepted.wait("one more") { $0.count == accepted + 1 }
        withExtendedLifetime(last) {}
        #expect(host.limiter.openCount <= 8 + 3)
    }
}
