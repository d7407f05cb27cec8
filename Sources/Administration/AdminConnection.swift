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

/// One connection to the admin port: one request, and its response. Confined to the admin server's loop.
final class AdminConnection: ChannelDelegate {
    private let server: AdminServer
    private let channel: Channel
    private var reader = RequestHeadReader()
    private var hasRequest = false
    private var isHead = false
    /// Comes back in the response.
    private var requestID: ArraySlice<UInt8>?
    private var filter = DevelopmentFilter()
    /// Ends the connection.
    private var deadline: TimerToken?

    init(_ server: AdminServer, _ channel: Channel) {
        self.server = server
        self.channel = channel
        wait(for: AdminServer.headTimeout)
    }

    private func wait(for timeout: Duration) {
        cancelDeadline()
        deadline = server.loop.schedule(after: timeout) { [weak self] in
            self?.deadline = nil
            self?.channel.close()
        }
    }

    private func cancelDeadline() {
        if let deadline = deadline.take() { server.loop.cancel(deadline) }
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
            respond(error.status, text: "\(error)\n")
        }
    }

    /// What it has sent is answered.
    private func begin() {
        hasRequest = true
        server.move(self, to: .busy)
        wait(for: AdminServer.exchangeTimeout)
    }

    func channelDidEnd(_ channel: Channel) {
        // A client may close its side behind the request.
        if !hasRequest { channel.closeAfterFlush() }
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        cancelDeadline()
        server.closed(self)
    }

    // MARK: Requests

    private func process(_ head: RequestHead) {
        if server.configuration.isDevelopment,
            let refusal = filter.refusal(of: head, allowing: server.configuration.allowedOrigins)
        {
            return respond(.forbidden, text: refusal.reason + "\n")
        }
        // No request has content.
        guard head.framing == .none || head.framing == .length(0) else {
            return respond(.contentTooLarge, text: "content is not accepted\n")
        }
        let path = String(decoding: head.pathBytes, as: UTF8.self)
        guard let page = AdminPage(path) else { return respond(.notFound, text: AdminPage.list) }
        let isDeletion = head.method == .delete && page == .connections
        guard head.method == .get || head.method == .head || isDeletion else {
            return respond(
                .methodNotAllowed, text: "\(head.methodText) is not a method of \(path)\n",
                fields: [("Allow", page == .connections ? "GET, HEAD, DELETE" : "GET, HEAD")])
        }
        let query = head.query(plusIsSpace: true)
        guard page.needsAdministrator, !server.configuration.isDevelopment else {
            return answer(page, query, isDeletion, head)
        }
        authenticate(head, query) { [self] in answer(page, query, isDeletion, head) }
    }

    /// Goes on with `next` if the request's token, or without one the certificate, is an administrator's.
    private func authenticate(_ head: RequestHead, _ query: QueryString, _ next: @escaping () -> Void) {
        guard let token = RESTCredential(head.fields, query).token else {
            if channel.tlsFacts?.isAdministrator == true, head.mayUseCertificate(inScript: false) {
                return next()
            }
            return refuse("an administrator's token is needed: Authorization: Bearer …\n", .unauthorized)
        }
        if let result = server.authenticator.verifyAtOnce(token) { return settle(result, next) }
        let peer = channel.peerAddress.flatMap { $0.isLoopback ? nil : Text($0.host) }
        let answer = FirstResult<VerificationResult>(
            on: server.loop, timeout: AdminServer.exchangeTimeout, otherwise: .refused(.keysUnavailable)
        ) { [self] result in settle(result, next) }
        Task.detached { [authenticator = server.authenticator] in
            answer.giveFromElsewhere(await authenticator.verify(token, at: wallTime() / 1000, from: peer))
        }
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
        case .alive: respond(.ok, text: "alive\n")
        case .ready:
            let (isReady, text) = server.readiness
            respond(isReady ? .ok : .serviceUnavailable, text: text + "\n")
        case .metrics:
            let accept = head.fields.values(of: "accept").joined(separator: ",")
            let format = ExpositionFormat(accept: accept)
            refresh { [self] in respond(.ok, server.registry.text(format), type: format.contentType) }
        case .variables:
            refresh { [self] in respond(.ok, server.variables, type: Self.json) }
        case .slowOperations: respond(.ok, server.slowOperations, type: Self.json)
        case .usage: server.pathUsage { [self] list in respond(.ok, list, type: Self.json) }
        case .connections where isDeletion:
            guard let id = query["id"].flatMap({ SessionID(hexadecimal: $0) }) else {
                return respond(
                    .badRequest, text: "?id= must be the id of a connection, as GET /connz shows it\n")
            }
            server.disconnect(id) { [self] isFound in
                respond(
                    isFound ? .ok : .notFound,
                    text: isFound ? "disconnected\n" : "there is no such connection\n")
            }
        case .connections:
            guard let request = ConnectionListRequest(query) else {
                return respond(.badRequest, text: ConnectionListRequest.usage + "\n")
            }
            server.listConnections(request) { [self] list in respond(.ok, list, type: Self.json) }
        }
    }

    /// Prints nothing for a client that is gone: it may have asked many times meanwhile.
    private func refresh(_ print: @escaping () -> Void) {
        server.refresh { [self] in if !channel.isClosed { print() } }
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
        server.move(self, to: .answered)
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
