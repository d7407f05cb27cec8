import Logging
import PandoBytes
import PandoConnections
import PandoHTTP
import PandoReactor
import PandoSettings
import PandoStorage
import PandoTime
import Synchronization

/// Counts the connections of one address on one loop, and refuses those beyond the limit
/// (`--max-connections-per-address`). Of an address that is connected directly its sessions by long polling
/// are counted apart, up to the same limit: one connection may begin any number of them.
///
/// They are refused at once, so that the client learns why. Before a TLS handshake nothing is said: it would
/// cost more than the refusal saves. Until its client has taken the response, such a connection counts as
/// open, so only some wait for that: others are closed without a word, and an address beyond its limit does
/// not take the places of other clients. Confined to the loop.
final class AddressAdmissions {
    /// The status of ``refusal``.
    static let refusalStatus = HTTPStatus.tooManyRequests

    /// The response to a connection that is refused.
    private static var refusal: [UInt8] {
        let body: StaticString = "{\"error\":\"Too many connections from this address\"}\r\n"
        var response: [UInt8] = []
        response.append(statusLine: refusalStatus)
        response.append(dateLine: wallTime() / 1000)
        response.append(field: "Content-Type", "application/json")
        response.append(field: "Content-Length", decimal: UInt64(body.utf8CodeUnitCount))
        response.append(field: "Retry-After", "1")
        response.append(field: "Connection", "close")
        response.appendEndOfHead()
        response.append(body)
        return response
    }

    /// How long the client has to take the response.
    private static let refusalTimeout: Duration = .seconds(1)

    private let loop: EventLoop
    private let addresses: AddressLimiter
    private let pollingSessions: AddressLimiter?
    private let speaksTLS: Bool
    private let metrics: SessionMetrics
    private let logger: Logger
    private let lingering = LingeringRefusals()
    /// Connections that were refused since the last report.
    private var refusedCount = 0
    private var throttle = ReportThrottle()

    init(
        _ addresses: AddressLimiter, pollingSessions: AddressLimiter?, on loop: EventLoop, speaksTLS: Bool,
        _ metrics: SessionMetrics, _ logger: Logger
    ) {
        self.addresses = addresses
        self.pollingSessions = pollingSessions
        self.loop = loop
        self.speaksTLS = speaksTLS
        self.metrics = metrics
        self.logger = logger
    }

    /// Counts a connection that was just accepted.
    /// - Returns: nil where there are too many of its address.
    func admit(_ socket: borrowing ConnectedSocket) -> AddressLimiter.Grant? { addresses.admit(socket.peer) }

    /// Refuses a connection that was just accepted.
    func refuse(_ socket: ConnectedSocket) {
        noteRefusal()
        guard !speaksTLS, !lingering.isFull else { return socket.reset() }
        // Out of memory for one more epoll entry: the socket is closed.
        _ = try? Channel.adopt(socket, on: loop) { channel in
            refuse(channel)
            return RefusedConnection()
        }
    }

    /// Whether ``refuse(_:)`` sends the client ``refusal``.
    func sendsRefusal(on channel: Channel) -> Bool {
        !lingering.isFull && (!speaksTLS || channel.tlsFacts != nil)
    }

    /// Refuses a connection whose client is known only now.
    func refuse(_ channel: Channel) {
        guard !lingering.isFull else { return channel.reset() }
        if sendsRefusal(on: channel) { channel.write(Self.refusal.rawSpan) }
        channel.grant = lingering.begin()
        channel.closeAfterFlush()
        loop.schedule(after: Self.refusalTimeout) { [weak channel] in channel?.reset() }
    }

    /// A proxy has said who its client is: it is counted, unless that is a proxy itself.
    func learnedClient(of session: ChannelSession) {
        guard !session.isTrustedProxy, let client = session.channel.peerAddress else { return }
        guard let grant = addresses.admit(client) else {
            noteRefusal()
            return refuse(session.channel)
        }
        session.channel.grant = grant
    }

    /// Counts a client of which its proxy has said where it is, as long as the object exists.
    /// - Parameter client: nil where that is not known.
    func admit(_ client: SocketAddress?) -> AddressAdmission { admit(client, by: addresses) }

    /// Counts a session by long polling of a client that is connected directly, as long as the object exists.
    /// - Parameter client: nil where it has no address.
    func admitPollingSession(of client: SocketAddress?) -> AddressAdmission {
        admit(client, by: pollingSessions)
    }

    private func admit(_ client: SocketAddress?, by limiter: AddressLimiter?) -> AddressAdmission {
        guard let client, let limiter else { return .uncounted }
        guard let grant = limiter.admit(client) else {
            noteRefusal()
            return .refused
        }
        return .granted(grant)
    }

    /// Counts a refusal, and reports such from time to time.
    private func noteRefusal() {
        metrics.limits.add(.connectionsPerAddress)
        refusedCount += 1
        guard throttle.mayReport(at: loop.now) else { return }
        let connections = refusedCount == 1 ? "1 connection" : "\(refusedCount) connections"
        logger.warning(
            "refused \(connections): more than \(addresses.limit) from one address (--max-connections-per-address)"
        )
        refusedCount = 0
    }
}

/// Refused connections of one loop that are open because their client has not taken the response.
final class LingeringRefusals: Sendable {
    /// At a time. A flood of connections from one address so holds at most this share of all places, for each
    /// loop.
    static let limit = 64

    /// Only the loop's thread changes it.
    private let count = Atomic<Int>(0)

    var isFull: Bool { count.load(ordering: .relaxed) >= Self.limit }

    /// - Returns: What counts the connection until it is freed.
    func begin() -> AddressLimiter.Grant {
        count.add(1, ordering: .relaxed)
        return AddressLimiter.Grant { [self] in count.subtract(1, ordering: .relaxed) }
    }
}

/// Whether there may be one more connection of a client's address.
enum AddressAdmission {
    /// It is not counted: the address is not known, or there is no limit.
    case uncounted
    case granted(AddressLimiter.Grant)
    case refused

    /// For state machines, which do not know the limiter.
    var forMachines: ClientAdmission {
        switch self {
        case .uncounted: .uncounted
        case .granted(let grant): .granted(grant)
        case .refused: .refused
        }
    }
}

/// Drops what the client sends.
private final class RefusedConnection: ChannelDelegate {
    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {}
    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {}
}
