import COperatingSystem
import PandoTLS

/// One attempt to connect. Its loop keeps it until it has succeeded or failed.
package final class Connector: Pollable {
    private let loop: EventLoop
    private let address: SocketAddress
    private let tls: TLSConnection?
    private let makeDelegate: (Channel) -> any ChannelDelegate
    private let onFailure: (SocketError) -> Void
    private var timeout: TimerToken?

    private init(
        descriptor: Int32, address: SocketAddress, loop: EventLoop, tls: TLSConnection?,
        makeDelegate: @escaping (Channel) -> any ChannelDelegate, onFailure: @escaping (SocketError) -> Void
    ) {
        self.address = address
        self.tls = tls
        self.makeDelegate = makeDelegate
        self.onFailure = onFailure
        self.loop = loop
        super.init(descriptor: descriptor)
    }

    /// Connects without blocking. Loop only. Exactly one of the two closures is called, later, on the loop;
    /// neither if the loop stops first.
    /// - Parameters:
    ///   - tls: A client's side of TLS; its handshake begins when the connection is established.
    ///   - timeout: After this the attempt fails with ETIMEDOUT.
    ///   - makeDelegate: Called when the connection is established, as in `Channel.adopt`.
    ///   - onFailure: Called when it cannot be established.
    /// - Throws: What is known at once: ENETUNREACH, EMFILE, ENFILE …
    package static func connect(
        to address: SocketAddress, on loop: EventLoop, options: SocketOptions = SocketOptions(),
        tls: TLSConnection? = nil, timeout: Duration = .seconds(10),
        makeDelegate: @escaping (Channel) -> any ChannelDelegate,
        onFailure: @escaping (SocketError) -> Void
    ) throws(SocketError) {
        assert(loop.isCurrent)
        var raw = address.raw
        var options = options.raw
        let descriptor = try checked(unsafe pando_connect(&raw, &options), "connect to \(address)")
        let connector = Connector(
            descriptor: descriptor, address: address, loop: loop, tls: tls, makeDelegate: makeDelegate,
            onFailure: onFailure)
        try loop.poller.watch(connector, PANDO_WRITABLE)
        connector.timeout = loop.schedule(after: timeout) { [weak connector] in
            connector?.finish(PANDO_ETIMEDOUT)
        }
    }

    override func ready(_ events: UInt32) {
        finish(pando_socket_error(descriptor))
    }

    private func finish(_ code: Int32) {
        guard isWatched else { return }
        if let timeout { loop.cancel(timeout) }
        guard code == 0 else {
            loop.poller.close(self)
            onFailure(SocketError(code: code, attempt: "connect to \(address)"))
            return
        }
        let socket = ConnectedSocket(descriptor: loop.poller.surrender(self), peer: address)
        do {
            try Channel.adopt(socket, on: loop, tls: tls, makeDelegate: makeDelegate)
        } catch {
            onFailure(error)
        }
    }

    override func loopDidStop() {
        loop.poller.close(self)
    }
}
