import COperatingSystem

/// Accepts TCP connections on one loop and gives them to several loops, in turn. Confined to its loop.
///
/// With a ``ConnectionLimiter`` the number of connections is bounded below the descriptor limit. At the
/// bound, a loop that gets a connection closes another that has no request under way, or accepting pauses
/// until a connection closes.
package final class Acceptor: Pollable {
    package struct Configuration: Sendable {
        /// Connections that the kernel completes and queues until they are accepted (listen(2)); it reduces
        /// this to net.core.somaxconn.
        package var backlog = ListeningSocket.backlog
        /// Options of the accepted sockets.
        package var options = SocketOptions()
        /// How long accepting pauses when descriptors or memory ran out.
        package var exhaustionPause: Duration = .milliseconds(250)
        /// `onLimit` is called at most this often.
        package var reportInterval: Duration = .seconds(10)

        package init() {}
    }

    /// Most connections accepted in one tick, so that open connections are served between two batches.
    private static let batchLimit = 16

    /// Most of them for which another connection is closed, which costs as much again.
    private static let evictingBatchLimit = 16

    /// The address it listens on, with the port that the system chose if 0 was requested.
    package let address: SocketAddress
    /// Of a Unix socket that is removed when this closes; nil for any other.
    package let path: String?
    private let made: pando_file_identity?
    /// True while accepting pauses because descriptors or memory ran out.
    package private(set) var isExhausted = false
    /// Connections accepted so far.
    package private(set) var acceptedCount: UInt64 = 0

    /// accept4(2). Tests replace it to simulate that descriptors ran out.
    var accept: (_ descriptor: Int32, _ peer: inout pando_address) -> Int32 = { descriptor, peer in
        unsafe pando_accept(descriptor, &peer)
    }

    private let loop: EventLoop
    private let configuration: Configuration
    private let targets: [EventLoop]
    private var nextTarget = 0
    private let adopt: @Sendable (ConnectedSocket, EventLoop) -> Void
    private let onExhausted: (SocketError) -> Void
    private let limiter: ConnectionLimiter?
    private let evict: @Sendable (_ count: Int, _ isReserved: Bool, EventLoop) -> Void
    private let onLimit: (ConnectionLimiter.Report) -> Void
    /// A report was made less than `reportInterval` ago: the next one waits for the timer.
    private var isReportPending = false

    /// Binds and listens at once; accepting begins when the loop runs.
    /// - Parameters:
    ///   - address: Port 0 lets the system choose.
    ///   - loop: Accepts; `onExhausted` and `onLimit` are called on it.
    ///   - targets: The loops that get the connections, in turn; `loop` may be among them. Not empty.
    ///   - adopt: Called on the target loop, typically to `Channel.adopt`.
    ///   - onExhausted: Called once each time accepting pauses (EMFILE, ENFILE, ENOBUFS, ENOMEM), not per
    ///     attempt.
    ///   - limiter: Made for as many loops as there are targets; nil for no limit but the system's.
    ///   - evict: Called on a target loop. It closes `count` connections of its ``EvictionOrder``, in the
    ///     reserve or outside it, and calls ``ConnectionLimiter/didEvict(_:ofReserved:closed:inLoop:)``.
    ///   - onLimit: Called after connections were closed, refused or not accepted because of the limit, at
    ///     most once in ``Configuration/reportInterval``.
    /// - Throws: What socket(2), bind(2) or listen(2) report: EADDRINUSE, EACCES, EADDRNOTAVAIL, EMFILE …
    package convenience init(
        at address: SocketAddress, on loop: EventLoop, targets: [EventLoop],
        configuration: Configuration = Configuration(),
        adopt: @escaping @Sendable (ConnectedSocket, EventLoop) -> Void,
        onExhausted: @escaping (SocketError) -> Void = { _ in },
        limiter: ConnectionLimiter? = nil,
        evict: @escaping @Sendable (_ count: Int, _ isReserved: Bool, EventLoop) -> Void = { _, _, _ in },
        onLimit: @escaping (ConnectionLimiter.Report) -> Void = { _ in }
    ) throws(SocketError) {
        try self.init(
            .open(at: address, backlog: configuration.backlog, options: configuration.options), on: loop,
            targets: targets, configuration: configuration, adopt: adopt, onExhausted: onExhausted,
            limiter: limiter, evict: evict, onLimit: onLimit)
    }

    /// As ``init(at:on:targets:configuration:adopt:onExhausted:limiter:evict:onLimit:)``, on a socket that
    /// listens.
    package init(
        _ socket: ListeningSocket, on loop: EventLoop, targets: [EventLoop],
        configuration: Configuration = Configuration(),
        adopt: @escaping @Sendable (ConnectedSocket, EventLoop) -> Void,
        onExhausted: @escaping (SocketError) -> Void = { _ in },
        limiter: ConnectionLimiter? = nil,
        evict: @escaping @Sendable (_ count: Int, _ isReserved: Bool, EventLoop) -> Void = { _, _, _ in },
        onLimit: @escaping (ConnectionLimiter.Report) -> Void = { _ in }
    ) throws(SocketError) {
        precondition(!targets.isEmpty)
        assert(loop.isCurrent)
        address = socket.address
        path = socket.path
        made = socket.made
        self.targets = targets
        self.configuration = configuration
        self.adopt = adopt
        self.onExhausted = onExhausted
        self.limiter = limiter
        self.evict = evict
        self.onLimit = onLimit
        self.loop = loop
        super.init(descriptor: socket.takeDescriptor())
        limiter?.attach(
            loop.mailbox { [weak self] _ in
                self?.setInterest(PANDO_READABLE)
            })
        try loop.poller.watch(self, PANDO_READABLE)
    }

    /// Stops listening. Accepted connections stay open; connections in the kernel's queue are reset.
    package func close() {
        assert(loop.isCurrent)
        guard descriptor >= 0 else { return }
        // The name first: a client that connects from now on gets the error for a server that does not run.
        if let path, var made { unsafe pando_remove_socket(path, &made) }
        loop.poller.close(self)
    }

    override func loopDidStop() {
        close()
    }

    override func ready(_ events: UInt32) {
        let mustWait = acceptBatch()
        guard let limiter, isWatched else { return }
        while let (index, count) = limiter.requestMissedEvictions(next: nextTarget) {
            let target = targets[index]
            perform(on: target) { [evict] in evict(count, false, target) }
        }
        // Asked again: a connection may have been closed on this loop just now.
        if mustWait, limiter.admission(next: nextTarget) == .wait, limiter.waitForAdmission(next: nextTarget)
        {
            setInterest(0)
        }
        reportLimit()
    }

    /// - Returns: true when the next connection must wait until another closes.
    private func acceptBatch() -> Bool {
        var evictingCount = 0
        for _ in 0..<Self.batchLimit {
            let admission = limiter?.admission(next: nextTarget) ?? .ordinary
            switch admission {
            case .ordinary, .reserved: break
            case .evicting, .replacing:
                guard evictingCount < Self.evictingBatchLimit else { return false }
                evictingCount += 1
            case .wait: return true
            }
            var peer = pando_address()
            let result = accept(descriptor, &peer)
            switch result {
            case 0...: assign(result, SocketAddress(raw: peer).withoutMapping, admission)
            case -PANDO_EAGAIN:
                isExhausted = false
                return false
            case -PANDO_ECONNABORTED, -PANDO_EPROTO: continue  // The peer closed before it was accepted.
            default:
                pause(after: SocketError(code: -result, attempt: "accept on \(address)"))
                return false
            }
            // A callback may have closed the acceptor.
            guard isWatched else { return false }
        }
        return false
    }

    /// Gives an accepted socket to its loop.
    private func assign(_ descriptor: Int32, _ peer: SocketAddress, _ admission: ConnectionLimiter.Admission)
    {
        let (index, evicts, isReserved) =
            switch admission {
            case .ordinary, .wait: (nextTarget, false, false)
            case .reserved: (nextTarget, false, true)
            case .evicting(let loop): (loop, true, false)
            case .replacing(let loop): (loop, true, true)
            }
        let socket = ConnectedSocket(
            descriptor: descriptor, peer: peer, limiter: limiter, isReserved: isReserved)
        isExhausted = false
        acceptedCount += 1
        loop.metrics.accepted.add()
        if evicts { limiter?.requestEviction(from: index, ofReserved: isReserved) }
        let target = targets[index]
        nextTarget = (index + 1) % targets.count
        perform(on: target) { [adopt, evict] in
            // Before `adopt`: the new connection must not be the one that is closed.
            if evicts { evict(1, isReserved, target) }
            adopt(socket, target)
        }
    }

    private func setInterest(_ interest: UInt32) { loop.poller.setInterest(interest, of: self) }

    /// At once where the target is the acceptor's own loop.
    private func perform(on target: EventLoop, _ task: @escaping @Sendable () -> Void) {
        if target === loop { task() } else { target.submit(task) }
    }

    /// Reports what happened at the limit, and again after `reportInterval` if there is more.
    private func reportLimit() {
        guard !isReportPending, let report = limiter?.takeReport() else { return }
        isReportPending = true
        onLimit(report)
        loop.schedule(after: configuration.reportInterval) { [weak self] in
            self?.isReportPending = false
            self?.reportLimit()
        }
    }

    /// Pauses accepting: the kernel would report the queued connection in every tick, and each attempt would
    /// fail. Only the first of consecutive failures is reported.
    private func pause(after error: SocketError) {
        setInterest(0)
        if !isExhausted {
            isExhausted = true
            onExhausted(error)
        }
        loop.schedule(after: configuration.exhaustionPause) { [weak self] in
            self?.setInterest(PANDO_READABLE)
        }
    }
}
