import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoWebSocket

// Requests of long polling (realtime §1.5) on their way to their session, and their responses; and the
// upgrade to a WebSocket.

extension HTTPConnection {
    // MARK: Requests

    /// Takes a request of long polling.
    /// - Parameter rest: What follows it.
    /// - Returns: Whether that is to be read here.
    mutating func poll(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) -> Bool {
        var response = ResponseContext(head, dateLine: context.dateLine)
        // A script is loaded without a body; behind one that is not read nothing can be.
        let hasBody = head.framing != .none && head.framing != .length(0)
        // A proxy's connection that has moved so often is given up in favour of a new one.
        if hasBody || polls.hasMovedTooOften { response.keepsAlive = false }
        let pending = PendingRequest(response, began: context.now)
        if isReserved {
            refuseReserved(pending, &context)
            return true
        }
        // HEAD would take a response and not deliver it.
        guard head.method == .get else {
            pending.response.keepsAlive = false
            refuse(.status(.methodNotAllowed, allowing: "GET"), pending, &context)
            return true
        }
        guard !hasBody else {
            refuse(.status(.badRequest), pending, &context)
            return true
        }
        let query = head.query(plusIsSpace: false)
        let request: LongPollingRequest
        do throws(LongPollingRequest.Malformed) {
            request = try LongPollingRequest(query)
        } catch {
            refuse(.malformed(error), pending, &context)
            return true
        }
        stage = .answering(pending)
        switch request {
        case .start(let start):
            // Clients load it as a script.
            let hasCertificate = context.socket.isAdministrator && head.mayUseCertificate(inScript: true)
            context.append(
                .http(
                    .startPolling(
                        start, host: Array(head.authorityBytes), hasCertificate: hasCertificate)))
        case .disconnectPage(let address):
            var page: [UInt8] = []
            page.append(disconnectPage: address.id.rawValue, password: address.password)
            send(.verbatim(page, contentType: "text/html; charset=utf-8", response), pending, &context)
        case .poll(let poll):
            guard !moves(poll.address.id, head, rest, &context) else { return false }
            context.append(.http(.poll(poll, query)))
        case .disconnect(let address):
            guard !moves(address.id, head, rest, &context) else { return false }
            context.append(.http(.disconnectPolling(address)))
            send(.verbatim([], contentType: "text/plain; charset=utf-8", response), pending, &context)
        }
        return true
    }

    /// Asks for the move to another loop, if the session is there.
    private mutating func moves(
        _ session: SessionID, _ head: RequestHead, _ rest: RawSpan, _ context: inout ConnectionContext
    ) -> Bool {
        guard session.loop != context.settings.loopIndex, Int(session.loop) < context.settings.loopCount
        else { return false }
        let moved = MovedRequest(head: head, rest: [UInt8](copying: rest), moveCount: polls.moveCount + 1)
        context.append(.http(.move(moved, toLoop: session.loop)))
        return true
    }

    /// The socket was taken away, to another loop.
    package mutating func leaveForOtherLoop(_ context: inout ConnectionContext) {
        stage = .ended
        input.drop()
        // Of responses to what was sent ahead: they may be on their way still, and to send them twice does no
        // harm.
        polls.deliveries.settle(.lost, &context)
        endSession(&context)
    }

    // MARK: Responses

    /// The session that was asked for takes the poll, and answers it later.
    package mutating func holdPoll(of session: SessionID) { polls.session = session }

    /// The poll is about to be answered, or need not be.
    package mutating func releasePoll() { polls.session = nil }

    /// Answers the request in progress.
    package mutating func answer(
        _ answer: PollResponse, of session: SessionID, _ context: inout ConnectionContext
    ) {
        guard case .answering(let pending) = stage else { return }
        beginPollAnswer(&context)
        polls.write(answer, of: session, pending.response, &context)
        endResponse(closes: !pending.response.keepsAlive, &context)
    }

    /// The session that was asked for is over, or was never.
    package mutating func respondClosed(_ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage else { return }
        beginPollAnswer(&context)
        PollExchange.writeClosed(pending.response, &context)
        endResponse(closes: !pending.response.keepsAlive, &context)
    }

    private mutating func beginPollAnswer(_ context: inout ConnectionContext) {
        logAccess(.ok, &context)
        outputRate.begin(context.socket)
    }

    /// Refuses the poll in progress.
    package mutating func refusePoll(
        _ error: LongPollingRequest.Malformed, _ context: inout ConnectionContext
    ) {
        guard case .answering(let pending) = stage else { return }
        refuse(.malformed(error), pending, &context)
    }

    /// Refuses the poll in progress, because it exceeds a limit.
    package mutating func refusePoll(_ error: RESTError, _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage else { return }
        send(.error(error, pending.response), pending, &context)
    }

    private mutating func refuse(
        _ refusal: PollRefusal, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        send(refusal.response(pending.response), pending, &context)
    }

    // MARK: Deliveries

    /// Looks what the client's system has acknowledged. Needs ``SocketStatus/acknowledgedByteCount``.
    package mutating func noteAcknowledged(_ context: inout ConnectionContext) {
        polls.deliveries.noteAcknowledged(&context)
    }

    /// The session waits no longer for a sign that its responses here have arrived.
    package mutating func loseDeliveries(of session: SessionID, _ context: inout ConnectionContext) {
        polls.deliveries.drop(of: session, &context)
    }

    // MARK: The upgrade

    /// Asks for the upgrade to a WebSocket (realtime §1).
    mutating func beginUpgrade(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) {
        if isReserved {
            let response = ResponseContext(head, dateLine: context.dateLine)
            return refuseReserved(PendingRequest(response, began: context.now), &context)
        }
        stage = .ended
        context.append(.http(.upgrade(UpgradeRequest(head), rest: [UInt8](copying: rest))))
    }

    /// Answers the handshake of ``HTTPAction/upgrade(_:rest:)``.
    /// - Parameter mayJoin: Whether the session by long polling that the request names is here, and may move.
    /// - Returns: Whether the connection is a WebSocket from now on; otherwise it ends.
    package mutating func upgrade(
        _ request: UpgradeRequest, mayJoin: Bool, _ context: inout ConnectionContext
    ) -> Bool {
        let response = UpgradeResponse(to: request, mayJoin: mayJoin, context.compression)
        context.write(response.bytes)
        guard response.isAccepted else {
            endConnection(&context)
            return false
        }
        window = response.window
        logAccess(.switchingProtocols, &context)
        input.drop()
        return true
    }

    /// Moves the connection, with a request for an upgrade, to the loop of the session that it names.
    package func move(_ request: UpgradeRequest, rest: [UInt8]) -> MovedRequest {
        MovedRequest(head: request.head, rest: rest, moveCount: polls.moveCount + 1)
    }
}
