import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoWebSocket

// Requests of long polling (realtime §1.5) on their way to their session, and their responses; and the upgrade to
// a WebSocket.

extension HTTPConnection {
    /// Moves of one connection between loops, each of which makes work; then it is closed behind its response.
    private static let moveLimit = 256

    // MARK: Requests

    /// Takes a request of long polling.
    /// - Parameter rest: What follows it.
    /// - Returns: Whether that is to be read here.
    mutating func poll(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) -> Bool {
        var response = ResponseContext(head, dateLine: context.dateLine)
        // A script is loaded without a body; behind one that is not read nothing can be.
        let hasBody = head.framing != .none && head.framing != .length(0)
        // A proxy's connection that has moved so often is given up in favour of a new one.
        if hasBody || moveCount >= Self.moveLimit { response.keepsAlive = false }
        let pending = PendingRequest(response, began: context.now)
        if isReserved {
            refuseReserved(pending, &context)
            return true
        }
        // HEAD would take a response and not deliver it.
        guard head.method == .get else {
            pending.response.keepsAlive = false
            refusePoll(.methodNotAllowed, allowing: "GET", pending, &context)
            return true
        }
        guard !hasBody else {
            refusePoll(.badRequest, pending, &context)
            return true
        }
        let query = head.query(plusIsSpace: false)
        let request: LongPollingRequest
        do throws(LongPollingRequest.Malformed) {
            request = try LongPollingRequest(query)
        } catch {
            refuse(error, pending, &context)
            return true
        }
        stage = .answering(pending)
        switch request {
        case .start(let start):
            context.append(.http(.startPolling(start, host: Array(head.authorityBytes))))
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
        var copy: [UInt8] = []
        copy.append(rest)
        let moved = MovedRequest(head: head, rest: copy, moveCount: moveCount + 1)
        context.append(.http(.move(moved, toLoop: session.loop)))
        return true
    }

    /// The socket was taken away, to another loop.
    package mutating func leaveForOtherLoop(_ context: inout ConnectionContext) {
        stage = .ended
        dropInput()
        // Of responses to what was sent ahead: they may be on their way still, and to send them twice does no
        // harm.
        deliveries.settle(.lost, &context)
        endSession(&context)
    }

    // MARK: Responses

    /// The session that was asked for takes the poll, and answers it later.
    package mutating func holdPoll(of session: SessionID) { polling = session }

    /// The poll is about to be answered, or need not be.
    package mutating func releasePoll() { polling = nil }

    /// Answers the request in progress.
    package mutating func answer(
        _ answer: PollAnswer, of session: SessionID, _ context: inout ConnectionContext
    ) {
        writeScripts(answer.scripts, &context)
        hasAnsweredPolls = true
        deliveries.append(answer.numbers, of: session, end: context.socket.writtenByteCount)
        // What is written to a connection that is closing is not sent.
        if !context.socket.isOpen { deliveries.settle(.lost, &context) }
        endPoll(&context)
    }

    /// The session that was asked for is over, or was never.
    package mutating func answerClosed(_ context: inout ConnectionContext) {
        var script: [UInt8] = []
        script.append(closeCommand: nil)
        writeScripts([SharedBytes(script)], &context)
        endPoll(&context)
    }

    private mutating func writeScripts(_ scripts: [SharedBytes], _ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage else { return }
        logAccess(.ok, &context)
        var head: [UInt8] = []
        head.append(statusLine: .ok)
        head.append(field: "Content-Type", "application/javascript; charset=utf-8")
        head.append(field: "X-Content-Type-Options", "nosniff")
        head.append(field: "Cache-Control", "no-store")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head += pending.response.dateLine
        head.append(field: "Content-Length", decimal: UInt64(scripts.reduce(0) { $0 + $1.count }))
        head.append(
            pending.response.keepsAlive
                ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n" as StaticString)
        outputRate.begin(context.socket)
        context.write(head)
        for script in scripts { context.write(script) }
    }

    private mutating func endPoll(_ context: inout ConnectionContext) {
        guard case .answering(let pending) = stage else { return }
        endResponse(closes: !pending.response.keepsAlive, &context)
    }

    /// Refuses the poll in progress.
    package mutating func refusePoll(
        _ error: LongPollingRequest.Malformed, _ context: inout ConnectionContext
    ) {
        guard case .answering(let pending) = stage else { return }
        refuse(error, pending, &context)
    }

    private mutating func refuse(
        _ error: LongPollingRequest.Malformed, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        send(
            .error(
                .badRequest, text: "missing or malformed parameter: \(error.parameter)", pending.response),
            pending, &context)
    }

    private mutating func refusePoll(
        _ status: HTTPStatus, allowing methods: StaticString? = nil, _ pending: PendingRequest,
        _ context: inout ConnectionContext
    ) {
        send(
            .error(status, text: "\(status.reasonPhrase)", allowing: methods, pending.response), pending,
            &context)
    }

    /// Whether the next request must wait until the client has taken what it was answered: where that may be
    /// for a session of another loop, what is not sent by then is copied there.
    func mustDrain(_ context: inout ConnectionContext) -> Bool {
        (moveCount > 0 || hasAnsweredPolls) && context.socket.isOpen && !context.isDrained
    }

    // MARK: Deliveries

    /// Looks what the client's machine has acknowledged. Needs ``SocketStatus/acknowledgedByteCount``.
    package mutating func noteAcknowledged(_ context: inout ConnectionContext) {
        deliveries.noteAcknowledged(&context)
    }

    /// The session waits no longer for a sign that its responses here have arrived.
    package mutating func loseDeliveries(of session: SessionID, _ context: inout ConnectionContext) {
        deliveries.drop(of: session, &context)
    }

    // MARK: The upgrade

    /// Asks for the upgrade to a WebSocket (realtime §1).
    mutating func beginUpgrade(_ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext) {
        if isReserved {
            let response = ResponseContext(head, dateLine: context.dateLine)
            return refuseReserved(PendingRequest(response, began: context.now), &context)
        }
        stage = .ended
        var copy: [UInt8] = []
        copy.append(rest)
        context.append(.http(.upgrade(UpgradeRequest(head), rest: copy)))
    }

    /// Answers the handshake of ``HTTPAction/upgrade(_:rest:)``.
    /// - Parameter mayJoin: Whether the session by long polling that the request names is here, and may move.
    /// - Returns: Whether the connection is a WebSocket from now on; otherwise it ends.
    package mutating func upgrade(
        _ request: UpgradeRequest, mayJoin: Bool, _ context: inout ConnectionContext
    ) -> Bool {
        var response: [UInt8] = []
        do throws(UpgradeRefusal) {
            var handshake = try ServerHandshake(
                request.head, deflate: context.compression == nil ? nil : DeflateOptions())
            if let agreement = handshake.deflate {
                // Without takeover on either side, so the connection has no memory of its own for it.
                if (try? context.compression?.sharedInflater()) == nil {
                    handshake.declineDeflate()
                } else {
                    window = DeflateWindow(windowBits: agreement.server.windowBits)
                }
            }
            handshake.appendResponse(to: &response)
        } catch {
            ServerHandshake.appendRefusal(error, to: &response)
            context.write(response)
            endConnection(&context)
            return false
        }
        if request.joins, !mayJoin {
            // The client goes on by long polling (realtime §1.6).
            response.append(closeFrame: .normal)
            context.write(response)
            endConnection(&context)
            return false
        }
        context.write(response)
        logAccess(.switchingProtocols, &context)
        dropInput()
        return true
    }

    /// Moves the connection, with a request for an upgrade, to the loop of the session that it names.
    package func move(_ request: UpgradeRequest, rest: [UInt8]) -> MovedRequest {
        MovedRequest(head: request.head, rest: rest, moveCount: moveCount + 1)
    }
}
