import PandoBytes
import PandoHTTP
import PandoLoops
import PandoReactor
import PandoStorage

/// A port without TLS that redirects every request to the port with TLS (`--http-redirect-port`), at one or
/// more addresses. Confined to its loop.
///
/// `@unchecked Sendable`: everything mutable is used on the loop's thread only.
final class RedirectPort: @unchecked Sendable {
    /// Connections at a time, to all addresses together; for more, others are closed (``ShortConnections``).
    static let connectionLimit = 64
    /// A request must be there, and its response taken, by then.
    static let requestTimeout: Duration = .seconds(5)

    /// One address that redirects, and where to.
    struct Redirection {
        var acceptor: Acceptor
        /// The address with TLS.
        var target: SocketAddress
    }

    let redirections: [Redirection]

    /// - Parameters:
    ///   - targets: The addresses with TLS: each is redirected to from the same host. Not empty.
    ///   - port: 0 lets the system choose.
    /// - Throws: As ``Acceptor``.
    init(
        to targets: [SocketAddress], port: UInt16, on loop: EventLoop, trustedProxies: TrustedProxies
    ) throws(SocketError) {
        let clients = RedirectClients(trustedProxies)
        let addresses = targets.map { $0.with(port: port) }
        var redirections: [Redirection] = []
        for (target, address) in zip(targets, addresses) {
            var configuration = Acceptor.Configuration()
            configuration.options.isIPv6Only = ListeningSockets.leavesIPv4(address, addresses)
            let acceptor = try Acceptor(
                at: address, on: loop, targets: [loop], configuration: configuration,
                adopt: { socket, loop in clients.adopt(socket, on: loop, securePort: target.port) })
            redirections.append(Redirection(acceptor: acceptor, target: target))
        }
        self.redirections = redirections
    }

    func close() {
        for redirection in redirections { redirection.acceptor.close() }
    }

    /// Of the addresses with TLS, those whose host is redirected from: each host once, and none that another
    /// one of them stands for. Unix sockets have none.
    static func targets(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let network = addresses.filter { !$0.isUnix }
        var targets: [SocketAddress] = []
        for address in network where !targets.contains(where: { $0.host == address.host }) {
            let isCovered =
                !address.isUnspecified
                && network.contains { other in
                    other.isUnspecified
                        && (other.family == address.family
                            || other.family == 6 && !ListeningSockets.leavesIPv4(other, network))
                }
            if !isCovered { targets.append(address) }
        }
        return targets
    }
}

/// The connections of a ``RedirectPort``.
///
/// `@unchecked Sendable`: used on one loop's thread only.
private final class RedirectClients: @unchecked Sendable {
    let trustedProxies: TrustedProxies
    private var connections = ShortConnections<RedirectConnection>(limit: RedirectPort.connectionLimit)

    init(_ trustedProxies: TrustedProxies) {
        self.trustedProxies = trustedProxies
    }

    func adopt(_ socket: ConnectedSocket, on loop: EventLoop, securePort: UInt16) {
        if connections.isFull {
            guard let other = connections.nextToClose else { return }
            connections.remove(other)
            other.cut()
        }
        let peer = socket.peer
        let readsProxyHeader = trustedProxies.contains(peer)
        _ = try? Channel.adopt(socket, on: loop, readsProxyHeader: readsProxyHeader) { channel in
            loop.schedule(after: RedirectPort.requestTimeout) { [weak channel] in channel?.close() }
            let connection = RedirectConnection(channel, securePort, self)
            connections.add(connection, from: peer)
            return connection
        }
    }

    func answered(_ connection: RedirectConnection) { connections.move(connection, to: .answered) }

    func closed(_ connection: RedirectConnection) { connections.remove(connection) }
}

/// One connection: a request's head, and the response to it.
private final class RedirectConnection: ChannelDelegate {
    private let channel: Channel
    private let securePort: UInt16
    private let clients: RedirectClients
    private var reader = RequestHeadReader()
    private var isAnswered = false

    init(_ channel: Channel, _ securePort: UInt16, _ clients: RedirectClients) {
        self.channel = channel
        self.securePort = securePort
        self.clients = clients
    }

    /// Another connection takes its place.
    func cut() { channel.reset() }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        guard !isAnswered, let response = answer(bytes.bytes) else { return }
        isAnswered = true
        channel.write(response.rawSpan)
        channel.closeAfterFlush()
        clients.answered(self)
    }

    /// - Returns: nil while the head is not complete.
    private func answer(_ bytes: RawSpan) -> [UInt8]? {
        var offset = 0
        do throws(HTTPError) {
            return try reader.read(bytes, from: &offset).map { redirection(of: $0) }
        } catch {
            return Self.response(error.status)
        }
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) { clients.closed(self) }

    private func redirection(of received: RequestHead) -> [UInt8] {
        let isForwarded = channel.peerAddress.map { clients.trustedProxies.contains($0) } ?? false
        let head = isForwarded ? RequestHead(forwarded: received) : received
        // The target stays as it was received, but for bytes that no URI has (RFC 3986 §2): the head reader
        // lets no control character through, and other text than ASCII is percent-encoded.
        var fields: [UInt8] = []
        fields.append(requestID: head.requestID)
        guard let host = head.hostBytes else { return Self.response(.badRequest, fields) }
        fields += Array("Location: https://".utf8) + host + Array(":\(securePort)".utf8)
        fields += Self.encoded(head.pathBytes.isEmpty ? ArraySlice("/".utf8) : head.pathBytes)
        if let query = head.queryBytes { fields += Array("?".utf8) + Self.encoded(query) }
        return Self.response(.permanentRedirect, fields + Array("\r\n".utf8))
    }

    /// With bytes beyond ASCII percent-encoded (RFC 3986 §2.1).
    private static func encoded(_ target: ArraySlice<UInt8>) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return target.flatMap { byte in
            byte < 0x80 ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
    }

    private static func response(_ status: HTTPStatus, _ fields: [UInt8] = []) -> [UInt8] {
        var response: [UInt8] = []
        response.append(statusLine: status)
        response.append(dateLine: WallClock().now() / 1000)
        response += fields
        response.append(field: "Content-Length", "0")
        response.append(field: "Connection", "close")
        response.appendEndOfHead()
        return response
    }
}
