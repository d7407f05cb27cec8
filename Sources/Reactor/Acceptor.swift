import CSystem

/// Accepts TCP connections on one loop and deals them out to several, in turn. Confined to its loop.
///
/// With a ``ConnectionLimiter`` it stops before the descriptors do: then a loop that gets a connection closes
/// one of little use for it, or accepting waits until one closes.
package final class Acceptor: Pollable {
    package struct Configuration: Sendable {
        /// Connections the kernel may complete ahead of us; it cuts this to net.core.somaxconn.
        package var backlog: Int32 = 4096
        package var options = SocketOptions()
        /// How long to rest when no descriptor is left.
        package var exhaustionPause: Duration = .milliseconds(250)
        /// What happens at the limit of connections is said at most this often.
        package var reportInterval: Duration = .seconds(10)

        package init() {}
    }

    /// Accepted in one tick, for fairness to the connections that already are.
    private static let batchLimit = 16

    /// Of those, with another closed for each: closing costs as much again.
    private static let evictingBatchLimit = 16

    /// Where it listens, with the port that the system chose if 0 was asked for.
    package let address: SocketAddress
    /// True while it rests because descriptors or memory ran out.
    package private(set) var isExhausted = false
    /// Connections accepted so far.
    package private(set) var acceptedCount: UInt64 = 0

    /// accept4, and its stand-in for tests that must run out of descriptors without doing so.
    var accept: (_ descriptor: Int32, _ peer: inout pando_address) -> Int32 = { descriptor, peer in
        unsafe pando_accept(descriptor, &peer)
    }

    private let configuration: Configuration
    private let targets: [EventLoop]
    private var nextTarget = 0
    private let adopt: @Sendable (ConnectedSocket, EventLoop) -> Void
    private let onExhausted: (SocketError) -> Void
    private let limiter: ConnectionLimiter?
    private let evict: @Sendable (_ count: Int, _ isReserved: Bool, EventLoop) -> Void
    private let onLimit: (ConnectionLimiter.Report) -> Void
    /// Until its timer has fired nothing is said.
    private var isReportPending = false

    /// Binds and listens at once; accepting begins when the loop runs.
    /// - Parameters:
    ///   - address: Port 0 lets the system choose.
    ///   - targets: Get the connections in turn; `loop` may be among them. Not empty.
    ///   - adopt: Called on the target loop, typically to `Channel.adopt`.
    ///   - onExhausted: Called once each time accepting pauses (EMFILE, ENFILE, ENOBUFS, ENOMEM), not per
    ///     attempt.
    ///   - limiter: Of as many loops as there are targets; nil for no limit but the system's.
    ///   - evict: Called on a target loop: it closes so many connections of its ``EvictionOrder``, of the
    ///     reserve or of the others, and calls ``ConnectionLimiter/didEvict(_:ofReserved:closed:inLoop:)``.
    ///   - onLimit: Called when the limit was felt, at most once in ``Configuration/reportInterval``.
    /// - Throws: EADDRINUSE, EACCES, EADDRNOTAVAIL…
    package init(
        at address: SocketAddress, on loop: EventLoop, targets: [EventLoop],
        configuration: Configuration = Configuration(),
        adopt: @escaping @Sendable (ConnectedSocket, EventLoop) -> Void,
        onExhausted: @escaping (SocketError) -> Void = { _ in },
        limiter: ConnectionLimiter? = nil,
        evict: @escaping @Sendable (_ count: Int, _ isReserved: Bool, EventLoop) -> Void = { _, _, _ in },
        onLimit: @escaping (ConnectionLimiter.Report) -> Void = { _ in }
    ) throws(SocketError) {
        precondition(!targets.isEmpty)
        assert(loop.isCurrent)
        var wanted = address.raw
        var options = configuration.options.raw
        let descriptor = try checked(
            unsafe pando_listen(&wanted, configuration.backlog, &options), "listen on \(address)")
        var chosen = pando_address()
        let result = unsafe pando_local_address(descriptor, &chosen)
        self.address = result > 0 ? SocketAddress(raw: chosen) : address
        self.targets = targets
        self.configuration = configuration
        self.adopt = adopt
        self.onExhausted = onExhausted
        self.limiter = limiter
        self.evict = evict
        self.onLimit = onLimit
        super.init(descriptor: descriptor, loop: loop)
        limiter?.attach(
            loop.mailbox { [weak self] _ in
                self?.setInterest(PANDO_READABLE)
            })
        try watch(PANDO_READABLE)
    }

    /// Stops listening; accepted connections live on. Connections the kernel had completed are reset.
    package func close() {
        assert(loop.isCurrent)
        closeDescriptor()
    }

    override func loopDidStop() {
        close()
    }

    override func ready(_ events: UInt32) {
        let mustWait = acceptSome()
        guard let limiter, isWatched else { return }
        while let (index, count) = limiter.orderMissedEvictions(next: nextTarget) {
            let target = targets[index]
            run(on: target) { [evict] in evict(count, false, target) }
        }
        // What was closed on this loop just now has made place already.
        if mustWait, limiter.admission(next: nextTarget) == .wait, limiter.awaitRoom(next: nextTarget) {
            setInterest(0)
        }
        reportLimit()
    }

    /// - Returns: true when the next connection must wait until another closes.
    private func acceptSome() -> Bool {
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
            case 0...: deal(result, SocketAddress(raw: peer), admission)
            case -PANDO_EAGAIN:
                isExhausted = false
                return false
            case -PANDO_ECONNABORTED, -PANDO_EPROTO: continue  // That one peer gave up.
            default:
                rest(SocketError(code: -result, attempt: "accept on \(address)"))
                return false
            }
            // The callback may have closed us.
            guard isWatched else { return false }
        }
        return false
    }

    private func deal(_ descriptor: Int32, _ peer: SocketAddress, _ admission: ConnectionLimiter.Admission) {
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
        if evicts { limiter?.orderEviction(from: index, ofReserved: isReserved) }
        let target = targets[index]
        nextTarget = (index + 1) % targets.count
        run(on: target) { [adopt, evict] in
            // Before it is one of those that could be closed.
            if evicts { evict(1, isReserved, target) }
            adopt(socket, target)
        }
    }

    /// Now, where the target is our own loop.
    private func run(on target: EventLoop, _ task: @escaping @Sendable () -> Void) {
        if target === loop { task() } else { target.submit(task) }
    }

    /// Says now what there is to say, and looks again when it may be said.
    private func reportLimit() {
        guard !isReportPending, let report = limiter?.takeReport() else { return }
        isReportPending = true
        onLimit(report)
        loop.schedule(after: configuration.reportInterval) { [weak self] in
            self?.isReportPending = false
            self?.reportLimit()
        }
    }

    /// The kernel would report the waiting connection for ever, and each attempt would fail: look away for a
    /// while. Reports the first of a row of failures only.
    private func rest(_ error: SocketError) {
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
