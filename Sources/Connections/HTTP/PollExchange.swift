import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST

/// The requests of long polling that come over an HTTP connection (realtime §1.5), on their way to their
/// session and back: one at a time, or one after the other where a proxy brings those of many clients.
///
///     none ─▶ asked ─▶ held, until its session answers ─▶ none
///                └──────────▶ refused, or moved with the connection to the loop of its session
struct PollExchange {
    private enum State {
        /// No request is in progress.
        case none
        /// The owner finds its session.
        case asked(ResponseContext)
        /// It waits for what the session has to say.
        case held(ResponseContext, of: SessionID)
    }

    /// What the connection does next.
    enum Step {
        /// Nothing, until something else has happened.
        case wait
        /// Send the response.
        case respond(RESTResponse)
        /// Answer that the session is over, or was never (``PollExchange/answerClosed(_:)``).
        case respondClosed
        /// Read nothing more: the connection moves to another loop, and what follows with it.
        case move
    }

    /// Moves of one connection between loops, each of which makes work; then it is closed behind its
    /// response.
    private static let moveLimit = 256

    private var state = State.none
    /// How often the connection was moved between loops.
    private(set) var moveCount = 0
    private(set) var deliveries = PollDeliveries()
    private var hasAnswered = false

    /// The session whose poll waits here.
    var session: SessionID? { if case .held(_, let session) = state { session } else { nil } }

    /// What the request in progress says of its response; nil where there is none.
    private var response: ResponseContext? {
        switch state {
        case .none: nil
        case .asked(let response), .held(let response, _): response
        }
    }

    // MARK: Requests

    /// Takes a request.
    /// - Parameter rest: What follows it.
    mutating func begin(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) -> Step {
        var response = ResponseContext(head, dateLine: context.dateLine)
        // A script is loaded without a body; behind one that is not read nothing can be.
        // A proxy's connection that has moved so often is given up in favour of a new one.
        if head.hasContent || moveCount >= Self.moveLimit { response.keepsAlive = false }
        guard head.method == .get || head.method == .head else {
            response.keepsAlive = false
            return .respond(Self.refusal(.methodNotAllowed, allowing: "GET, HEAD", response))
        }
        guard !head.hasContent else { return .respond(Self.refusal(.badRequest, response)) }
        let query = head.query(plusIsSpace: false)
        let request: LongPollingRequest
        do throws(LongPollingRequest.Malformed) {
            request = try LongPollingRequest(query)
        } catch {
            return .respond(Self.refusal(error, response))
        }
        state = .asked(response)
        // HEAD changes nothing (RFC 9110 §9.2.1): it begins no session, takes no response of one, ends none.
        switch response.isHead ? request.withoutEffect : request {
        case .start(let start):
            // Clients load it as a script.
            let hasCertificate = context.socket.isAdministrator && head.mayUseCertificate(inScript: true)
            context.append(
                .http(
                    .startPolling(
                        start, host: Array(head.authorityBytes), hasCertificate: hasCertificate)))
            return .wait
        case .ofNoSession(.poll): return .respondClosed
        case .ofNoSession(.disconnectPage): return .respond(Self.page([], response))
        case .ofNoSession(.disconnect): return .respond(Self.nothing(response))
        case .disconnectPage(let address):
            var page: [UInt8] = []
            page.append(disconnectPage: address.id.rawValue, password: address.password)
            return .respond(Self.page(page, response))
        case .poll(let poll):
            if moves(poll.address.id, head, rest, &context) { return .move }
            context.append(.http(.poll(poll, query)))
            if rest.byteCount > 0 { context.append(.http(.hurryPoll(of: poll.address.id))) }
            return .wait
        case .disconnect(let address):
            if moves(address.id, head, rest, &context) { return .move }
            context.append(.http(.disconnectPolling(address)))
            return .respond(Self.nothing(response))
        }
    }

    private static func page(_ bytes: [UInt8], _ response: ResponseContext) -> RESTResponse {
        .verbatim(bytes, contentType: "text/html; charset=utf-8", response)
    }

    private static func nothing(_ response: ResponseContext) -> RESTResponse {
        .verbatim([], contentType: "text/plain; charset=utf-8", response)
    }

    // MARK: Moves

    /// Asks for the move to another loop, if the session is there.
    private func moves(
        _ session: SessionID, _ head: RequestHead, _ rest: RawSpan, _ context: inout ConnectionContext
    ) -> Bool {
        guard session.loop != context.settings.loopIndex, Int(session.loop) < context.settings.loopCount
        else { return false }
        context.append(.http(.move(moved(head, rest: [UInt8](copying: rest)), toLoop: session.loop)))
        return true
    }

    /// A request, as the connection takes it to another loop.
    func moved(_ head: RequestHead, rest: [UInt8]) -> MovedRequest {
        MovedRequest(head: head, rest: rest, moveCount: moveCount + 1)
    }

    /// The connection has come with a request from another loop.
    mutating func arrived(with request: MovedRequest) { moveCount = request.moveCount }

    /// The socket was taken away, to another loop.
    mutating func leave(_ context: inout ConnectionContext) {
        // Of responses to what was sent ahead: they may be on their way still, and to send them twice does no
        // harm.
        deliveries.settle(.lost, &context)
    }

    // MARK: Responses

    /// The session that was asked for takes the poll, and answers it later.
    mutating func hold(of session: SessionID) {
        if let response { state = .held(response, of: session) }
    }

    /// Something has come behind the request in progress. While that waits the socket is not read, and the
    /// end of the client would not be seen: a poll is answered at once.
    func hurry(_ context: inout ConnectionContext) {
        if let session { context.append(.http(.hurryPoll(of: session))) }
    }

    /// The poll is about to be answered, or need not be.
    mutating func release() {
        if let response { state = .asked(response) }
    }

    /// Writes the answer to the request in progress.
    /// - Returns: Whether the connection closes behind it.
    mutating func answer(
        _ answer: PollResponse, of session: SessionID, _ context: inout ConnectionContext
    ) -> Bool {
        guard let response else { return true }
        write(answer.scripts, response, &context)
        hasAnswered = true
        if !answer.numbers.isEmpty {
            deliveries.append(answer.sent, of: session, end: context.socket.writtenByteCount)
        }
        // What is written to a connection that is closing is not sent.
        if !context.socket.isOpen { deliveries.settle(.lost, &context) }
        return !response.keepsAlive || deliveries.isFull
    }

    /// Writes that the session that was asked for is over, or was never.
    /// - Returns: Whether the connection closes behind it.
    mutating func answerClosed(_ context: inout ConnectionContext) -> Bool {
        guard let response else { return true }
        var script: [UInt8] = []
        script.append(closeCommand: nil)
        write([SharedBytes(script)], response, &context)
        return !response.keepsAlive
    }

    private func write(
        _ scripts: [SharedBytes], _ response: ResponseContext, _ context: inout ConnectionContext
    ) {
        var head: [UInt8] = []
        head.append(statusLine: .ok)
        head.append(field: "Content-Type", "application/javascript; charset=utf-8")
        head.append(field: "X-Content-Type-Options", "nosniff")
        head.append(field: "Cache-Control", "no-store")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head += response.dateLine
        // To HEAD the length is not said: a GET would get another script (RFC 9110 §8.6).
        if !response.isHead {
            head.append(field: "Content-Length", decimal: UInt64(scripts.reduce(0) { $0 + $1.count }))
        }
        head.append(
            response.keepsAlive
                ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n" as StaticString)
        context.write(head)
        guard !response.isHead else { return }
        for script in scripts { context.write(script) }
    }

    /// The response to the request in progress was written.
    mutating func end() { state = .none }

    /// Whether the next request must wait until the client has taken what it was answered: where that may be
    /// for a session of another loop, what is not sent by then is copied there.
    func mustDrain(_ context: borrowing ConnectionContext) -> Bool {
        (moveCount > 0 || hasAnswered) && context.socket.isOpen && !context.isDrained
    }

    // MARK: Refusals

    /// The response that refuses the request in progress: a parameter is missing, or malformed.
    func refusal(_ error: LongPollingRequest.Malformed) -> RESTResponse? {
        response.map { Self.refusal(error, $0) }
    }

    /// The same, because it exceeds a limit.
    func refusal(_ error: RESTError) -> RESTResponse? { response.map { .error(error, $0) } }

    private static func refusal(
        _ error: LongPollingRequest.Malformed, _ response: ResponseContext
    ) -> RESTResponse {
        .error(.badRequest, text: "missing or malformed parameter: \(error.parameter)", response)
    }

    private static func refusal(
        _ status: HTTPStatus, allowing methods: StaticString? = nil, _ response: ResponseContext
    ) -> RESTResponse {
        .error(status, text: "\(status.reasonPhrase)", allowing: methods, response)
    }

    // MARK: Deliveries

    /// A request has come.
    /// - Parameter isAhead: It was sent before the one before it was answered, and so shows nothing.
    mutating func noteRequest(isAhead: Bool, _ context: inout ConnectionContext) {
        if !isAhead, !deliveries.isEmpty { deliveries.settleAcknowledged(&context) }
    }

    /// Looks what the client's system has acknowledged.
    mutating func noteAcknowledged(_ context: inout ConnectionContext) {
        deliveries.noteAcknowledged(&context)
    }

    /// The session waits no longer for a sign that its responses here have arrived.
    mutating func loseDeliveries(of session: SessionID, _ context: inout ConnectionContext) {
        deliveries.drop(of: session, &context)
    }

    // MARK: The end

    /// The client has closed its side: what it has asked for it has given up.
    /// - Returns: Whether a poll waits here.
    func peerEnded(_ context: inout ConnectionContext) -> Bool {
        guard let session else { return false }
        context.append(.http(.pollIsLost(of: session)))
        return true
    }

    /// The connection is gone.
    /// - Parameter inOrder: It was closed by this side.
    mutating func close(inOrder: Bool, _ context: inout ConnectionContext) {
        if let session { context.append(.http(.pollIsLost(of: session))) }
        state = .none
        deliveries.end(inOrder: inOrder, &context)
    }
}

extension LongPollingRequest {
    /// The request whose response has the same head, and that no session learns of.
    fileprivate var withoutEffect: LongPollingRequest {
        switch self {
        case .start, .poll: .ofNoSession(.poll)
        case .disconnect: .ofNoSession(.disconnect)
        case .disconnectPage, .ofNoSession: self
        }
    }
}
