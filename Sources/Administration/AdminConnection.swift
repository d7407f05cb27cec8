import PandoBytes
import PandoConnections
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoLoops
import PandoMetrics
import PandoREST
import PandoReactor
import PandoRules
import PandoStorage
import PandoTree

/// What the admin port does for a connection.
protocol AdminConnectionDelegate: AnyObject {
    /// The connection has a request now, or has answered it.
    func move(_ connection: AdminConnection, to stage: ShortConnections<AdminConnection>.Stage)
    /// The last call.
    func closed(_ connection: AdminConnection)
}

/// One connection to the admin port: one request, and its response. Confined to the loop of the admin port.
final class AdminConnection: ChannelDelegate {
    /// A request must be there by then. Clients send it with the connection, some behind a TLS handshake.
    private static let headTimeout: Duration = .seconds(5)
    /// From the request on: its response must be taken by then.
    private static let exchangeTimeout: Duration = .seconds(30)

    private let channel: Channel
    private let reports: AdminReports
    private let authenticator: Authenticator
    private let delegate: any AdminConnectionDelegate
    private var reader = RequestHeadReader()
    private var hasRequest = false
    private var isHead = false
    /// Comes back in the response.
    private var requestID: ArraySlice<UInt8>?
    private var filter = DevelopmentFilter()
    /// Ends the connection.
    private var deadline: TimerToken?

    init(
        _ channel: Channel, _ reports: AdminReports, _ authenticator: Authenticator,
        delegate: any AdminConnectionDelegate
    ) {
        self.channel = channel
        self.reports = reports
        self.authenticator = authenticator
        self.delegate = delegate
        wait(for: Self.headTimeout)
    }

    private func wait(for timeout: Duration) {
        cancelDeadline()
        deadline = reports.loop.schedule(after: timeout) { [weak self] in
            self?.deadline = nil
            self?.channel.close()
        }
    }

    private func cancelDeadline() {
        if let deadline = deadline.take() { reports.loop.cancel(deadline) }
    }

    /// Another connection takes its place.
    func cut() { channel.reset() }

    // MARK: From the channel

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        guard !hasRequest else { return }
        var offset = 0
        do throws(HTTPError) {
            guard let head = try reader.read(bytes.bytes, from: &offset) else { return }
            begin()
            isHead = head.method == .head
            requestID = head.requestID
            process(head)
        } catch {
            begin()
            isHead = reader.isHead
            respond(error.status, text: "\(error)\n")
        }
    }

    /// What it has sent is answered.
    private func begin() {
        hasRequest = true
        delegate.move(self, to: .busy)
        wait(for: Self.exchangeTimeout)
    }

    func channelDidEnd(_ channel: Channel) {
        // A client may close its side behind the request.
        if !hasRequest { channel.closeAfterFlush() }
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        cancelDeadline()
        delegate.closed(self)
    }

    // MARK: Requests

    private func process(_ head: RequestHead) {
        if reports.configuration.isDevelopment,
            let refusal = filter.refusal(of: head, allowing: reports.configuration.allowedOrigins)
        {
            return respond(.forbidden, text: refusal.reason + "\n")
        }
        // No request has content.
        guard head.framing == .none || head.framing == .length(0) else {
            return respond(.contentTooLarge, text: "content is not accepted\n")
        }
        guard let path = head.path.asciiString, let page = AdminPage(path) else {
            return respond(.notFound, text: AdminPage.list)
        }
        let isDeletion = head.method == .delete && page == .connections
        guard head.method == .get || head.method == .head || isDeletion else {
            return respond(
                .methodNotAllowed, text: "\(head.methodText) is not a method of \(path)\n",
                fields: [("Allow", page == .connections ? "GET, HEAD, DELETE" : "GET, HEAD")])
        }
        let query = head.query(plusIsSpace: true)
        guard page.needsAdministrator, !reports.configuration.isDevelopment else {
            return answer(page, query, isDeletion, head)
        }
        authenticate(head, query) { [self] in answer(page, query, isDeletion, head) }
    }

    /// Goes on with `next` if the request's token, or without one the certificate, is an administrator's.
    private func authenticate(_ head: RequestHead, _ query: QueryString, _ next: @escaping () -> Void) {
        guard let token = RESTCredential(head.fields, query).token else {
            if hasAdministratorsCertificate, head.mayUseCertificate(inScript: false) { return next() }
            return refuse("an administrator's token is needed: Authorization: Bearer …\n", .unauthorized)
        }
        if let result = authenticator.verifyAtOnce(token) { return settle(result, next) }
        let peer = channel.peerAddress.flatMap { $0.isLoopback ? nil : Text($0.host) }
        let answer = FirstResult<VerificationResult>(
            on: reports.loop, timeout: Self.exchangeTimeout, otherwise: .refused(.keysUnavailable)
        ) { [self] result in settle(result, next) }
        Task.detached { [authenticator] in
            answer.giveFromElsewhere(await authenticator.verify(token, at: wallTime() / 1000, from: peer))
        }
    }

    /// As ``SocketStatus/isAdministrator`` at the server's own port: the certificate of a trusted proxy is
    /// not its clients'.
    private var hasAdministratorsCertificate: Bool {
        guard channel.tlsFacts?.isAdministrator == true, let peer = channel.peerAddress else { return false }
        return !reports.configuration.trustedProxies.contains(peer)
    }

    private func settle(_ result: VerificationResult, _ next: () -> Void) {
        guard case .accepted(let identity) = result else {
            return refuse("the token is not valid\n", .unauthorized)
        }
        guard identity.credential.isAdmin else {
            return refuse("the token is not an administrator's token\n", .forbidden)
        }
        next()
    }

    private func refuse(_ text: String, _ status: HTTPStatus) {
        respond(status, text: text, fields: status == .unauthorized ? [("WWW-Authenticate", "Bearer")] : [])
    }

    private func answer(_ page: AdminPage, _ query: QueryString, _ isDeletion: Bool, _ head: RequestHead) {
        switch page {
        case .alive:
            let (isAlive, text) = reports.liveness
            respond(isAlive ? .ok : .serviceUnavailable, text: text + "\n")
        case .ready:
            let (isReady, text) = reports.readiness
            respond(isReady ? .ok : .serviceUnavailable, text: text + "\n")
        case .metrics:
            let accept = head.fields.values(of: "accept").compactMap(\.asciiString).joined(separator: ",")
            let format = ExpositionFormat(accept: accept)
            refresh { [self] in respond(.ok, reports.registry.text(format), type: format.contentType) }
        case .variables:
            refresh { [self] in respond(.ok, reports.variables, type: Self.json) }
        case .slowOperations: respond(.ok, reports.slowOperations, type: Self.json)
        case .usage: reports.pathUsage { [self] list in respond(.ok, list, type: Self.json) }
        case .connections where isDeletion:
            guard let id = query["id"]?.asciiString.flatMap({ SessionID(hexadecimal: $0) }) else {
                return respond(
                    .badRequest, text: "?id= must be the id of a connection, as GET /connz shows it\n")
            }
            reports.disconnect(id) { [self] isFound in
                respond(
                    isFound ? .ok : .notFound,
                    text: isFound ? "disconnected\n" : "there is no such connection\n")
            }
        case .connections:
            guard let request = ConnectionListRequest(query) else {
                return respond(.badRequest, text: ConnectionListRequest.usage + "\n")
            }
            reports.listConnections(request) { [self] list in respond(.ok, list, type: Self.json) }
        }
    }

    /// Prints nothing for a client that is gone: it may have asked many times meanwhile.
    private func refresh(_ print: @escaping () -> Void) {
        reports.refresh { [self] in if !channel.isClosed { print() } }
    }

    private static let json = "application/json; charset=utf-8"

    // MARK: Responses

    private func respond(_ status: HTTPStatus, text: String, fields: [(StaticString, String)] = []) {
        respond(status, Array(text.utf8), type: "text/plain; charset=utf-8", fields: fields)
    }

    private func respond(
        _ status: HTTPStatus, _ body: [UInt8], type: String, fields: [(StaticString, String)] = []
    ) {
        var head: [UInt8] = []
        head.append(statusLine: status)
        head.append(dateLine: WallClock().now() / 1000)
        head.append(field: "Content-Type", text: type)
        head.append(field: "Content-Length", decimal: UInt64(body.count))
        head.append(field: "Cache-Control", "no-store")
        head.append(field: "X-Content-Type-Options", "nosniff")
        for (name, value) in fields { head.append(field: name, text: value) }
        head.append(requestID: requestID)
        head.append(field: "Connection", "close")
        head.appendEndOfHead()
        channel.write(head.rawSpan)
        if !isHead { channel.write(SharedBytes(body)) }
        channel.closeAfterFlush()
        delegate.move(self, to: .answered)
    }
}

/// What the admin port has.
enum AdminPage: String, CaseIterable {
    case metrics = "/metrics"
    case alive = "/livez"
    case ready = "/readyz"
    case variables = "/varz"
    case connections = "/connz"
    case slowOperations = "/slowz"
    case usage = "/topz"

    init?(_ path: String) { self.init(rawValue: path) }

    var needsAdministrator: Bool {
        switch self {
        case .metrics, .alive, .ready: false
        case .variables, .connections, .slowOperations, .usage: true
        }
    }

    static var list: String { allCases.map { $0.rawValue + "\n" }.joined() }
}
