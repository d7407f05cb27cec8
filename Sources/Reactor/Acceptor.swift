import CSystem

/// Accepts TCP connections on one loop and deals them out to several, in turn. Confined to its loop.
package final class Acceptor: Pollable {
    package struct Configuration: Sendable {
        /// Connections the kernel may complete ahead of us; it cuts this to net.core.somaxconn.
        package var backlog: Int32 = 4096
        package var options = SocketOptions()
        /// How long to rest when no descriptor is left.
        package var exhaustionPause: Duration = .milliseconds(250)

        package init() {}
    }

    /// Accepted in one tick, for fairness to the connections that already are.
    private static let batchLimit = 64

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

    /// Binds and listens at once; accepting begins when the loop runs.
    /// - Parameters:
    ///   - address: Port 0 lets the system choose.
    ///   - targets: Get the connections in turn; `loop` may be among them. Not empty.
    ///   - adopt: Called on the target loop, typically to `Channel.adopt`.
    ///   - onExhausted: Called once each time accepting pauses (EMFILE, ENFILE, ENOBUFS, ENOMEM), not per
    ///     attempt.
    /// - Throws: EADDRINUSE, EACCES, EADDRNOTAVAIL…
    package init(
        at address: SocketAddress, on loop: EventLoop, targets: [EventLoop],
        configuration: Configuration = Configuration(),
        adopt: @escaping @Sendable (ConnectedSocket, EventLoop) -> Void,
        onExhausted: @escaping (SocketError) -> Void = { _ in }
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
        super.init(descriptor: descriptor, loop: loop)
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
        for _ in 0..<Self.batchLimit {
            var peer = pando_address()
            let result = accept(descriptor, &peer)
            switch result {
            case 0...: deal(ConnectedSocket(descriptor: result, peer: SocketAddress(raw: peer)))
            case -PANDO_EAGAIN:
                isExhausted = false
                return
            case -PANDO_ECONNABORTED, -PANDO_EPROTO: continue  // That one peer gave up.
            default:
                rest(SocketError(code: -result, attempt: "accept on \(address)"))
                return
            }
            // The callback may have closed us.
            guard isWatched else { return }
        }
    }

    private func deal(_ socket: ConnectedSocket) {
        isExhausted = false
        acceptedCount += 1
        let target = targets[nextTarget]
        nextTarget = (nextTarget + 1) % targets.count
        if target === loop {
            adopt(socket, target)
        } else {
            target.submit { [adopt] in adopt(socket, target) }
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
