import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoTime

// Events of an HTTP connection that come from the databases, the workers, sessions by long polling, the
// clock, and the end of its socket.

extension HTTPConnection {
    // MARK: Of a REST request

    /// The databases have finished a request.
    package mutating func receive(_ result: RESTCallResult, _ context: inout ConnectionContext) {
        guard case .rest = state else { return }
        input.beginTurn()
        carryOut(rest.receive(result, &context), &context)
        // It was admitted, and what has come of its body meanwhile is read.
        if case .rest = state, rest.awaitsBody { readAhead(&context) }
    }

    /// The token of the request was verified.
    package mutating func verified(_ result: VerificationResult, _ context: inout ConnectionContext) {
        carryOut(rest.verified(result, &context), &context)
    }

    /// The body was inflated and parsed.
    package mutating func bodyRead(_ body: BodyResult, _ context: inout ConnectionContext) {
        carryOut(rest.bodyRead(body, &context), &context)
    }

    /// A worker has measured the data of a response, or a stream's first event, or has made an event.
    package mutating func measured(_ size: NodeSizeCheck, _ context: inout ConnectionContext) {
        switch state {
        case .rest: carryOut(rest.measured(size, &context), &context)
        case .streaming:
            stream?.measured(isTooHeavy: size.isTooHeavy)
            sendEvents(&context)
        case .head, .poll, .draining, .ended: break
        }
    }

    /// Another thread has done what the databases have deferred.
    package mutating func inspected(_ report: RESTReport, _ context: inout ConnectionContext) {
        carryOut(rest.inspected(report, &context), &context)
    }

    /// The time of ``ConnectionAction/wake(at:)`` has come: the request's own time is over.
    package mutating func deadlinePassed(_ context: inout ConnectionContext) {
        carryOut(rest.giveUp(&context), &context)
    }

    // MARK: Of a request of long polling

    /// The session that was asked for takes the poll, and answers it later.
    package mutating func holdPoll(of session: SessionID) { polls.hold(of: session) }

    /// The poll is about to be answered, or need not be.
    package mutating func releasePoll() { polls.release() }

    /// Answers the request in progress.
    package mutating func answer(
        _ answer: PollResponse, of session: SessionID, _ context: inout ConnectionContext
    ) {
        guard case .poll = state else { return }
        beginPollAnswer(&context)
        endResponse(closes: polls.answer(answer, of: session, &context), &context)
    }

    /// The session that was asked for is over, or was never.
    package mutating func respondClosed(_ context: inout ConnectionContext) {
        guard case .poll = state else { return }
        beginPollAnswer(&context)
        endResponse(closes: polls.answerClosed(&context), &context)
    }

    private mutating func beginPollAnswer(_ context: inout ConnectionContext) {
        output.announce(.ok, &context)
        output.rate.begin(context.socket)
    }

    /// Refuses the poll in progress.
    package mutating func refusePoll(
        _ error: LongPollingRequest.Malformed, _ context: inout ConnectionContext
    ) {
        if case .poll = state, let response = polls.refusal(error) { send(response, &context) }
    }

    /// Refuses the poll in progress, because it exceeds a limit.
    package mutating func refusePoll(_ error: RESTError, _ context: inout ConnectionContext) {
        if case .poll = state, let response = polls.refusal(error) { send(response, &context) }
    }

    /// Looks what the client's system has acknowledged. Needs ``SocketStatus/acknowledgedByteCount``.
    package mutating func noteAcknowledged(_ context: inout ConnectionContext) {
        polls.noteAcknowledged(&context)
    }

    /// The session waits no longer for a sign that its responses here have arrived.
    package mutating func loseDeliveries(of session: SessionID, _ context: inout ConnectionContext) {
        polls.loseDeliveries(of: session, &context)
    }

    // MARK: Of an event stream

    /// The databases have events for the stream.
    package mutating func receive(_ events: [StreamEvent], _ context: inout ConnectionContext) {
        guard case .streaming = state else { return }
        added(stream?.append(events, &context), &context)
    }

    /// The databases have the events of a write of many locations for the stream.
    package mutating func receive(_ update: StreamUpdate, _ context: inout ConnectionContext) {
        guard case .streaming = state else { return }
        added(stream?.append(update), &context)
    }

    /// The databases have a large query window for the stream, which is one event.
    package mutating func receive(_ window: StreamWindow, _ context: inout ConnectionContext) {
        guard case .streaming = state else { return }
        added(stream?.append(window, &context), &context)
    }

    /// Sends what was added to the stream.
    /// - Parameter hasSpace: false when more waits than may: the client is disconnected.
    private mutating func added(_ hasSpace: Bool?, _ context: inout ConnectionContext) {
        if hasSpace == false { return context.append(.reset) }
        sendEvents(&context)
        stream?.noteLag(&context)
    }

    private mutating func sendEvents(isTurn: Bool = false, _ context: inout ConnectionContext) {
        guard case .streaming = state else { return }
        let goesOn = stream?.send(isTurn: isTurn, &output.rate, &context) != false
        // A client that has closed its side gets what there is: it cannot be seen whether it still reads.
        if !goesOn || endsAfterResponse && stream?.isCaughtUp == true { context.append(.closeAfterFlush) }
    }

    /// The credential of the stream has expired.
    package mutating func expired(_ context: inout ConnectionContext) {
        stream?.expired()
        receive([.authRevoked], &context)
    }

    /// Keys or revocations have changed.
    package mutating func recheck(_ revocations: RevocationState, _ context: inout ConnectionContext) {
        if stream?.recheck(revocations) == true { receive([.authRevoked], &context) }
    }

    // MARK: Turns

    /// Other connections have had their turn.
    package mutating func nextTurn(_ context: inout ConnectionContext) {
        output.turnCame()
        input.beginTurn()
        stream?.turnCame()
        switch state {
        case .rest, .poll:
            if output.isActive { return sendMore(isTurn: true, &context) }
            carryOut(rest.nextTurn(&context), &context)
        case .streaming: sendEvents(isTurn: true, &context)
        case .head where input.isYielding && !endsAfterResponse: readAhead(&context)
        case .head, .draining, .ended: break
        }
    }

    /// The client has taken nearly all that was written.
    package mutating func drained(_ context: inout ConnectionContext) {
        sendMore(&context)
        if case .draining = state { endResponse(closes: endsAfterResponse, &context) }
        sendEvents(&context)
    }

    // MARK: Time

    /// The header that a proxy has begun is not complete: as a part of the first head it has the time of one,
    /// from the beginning of the connection on.
    package mutating func noteProxyHeader() { input.noteHead(since: idleSince) }

    /// Now and then: gives up on a client that is silent, or sends or takes too slowly. Needs
    /// ``SocketStatus/acknowledgedByteCount``.
    package mutating func tick(_ context: inout ConnectionContext) {
        switch state {
        case .head:
            if let headBegan = input.headBegan, context.now - headBegan > context.settings.requestTimeout {
                return refuseHead(.requestTimeout, &context)
            }
            if context.socket.unsentByteCount > 0 {
                // The end of the last response is still here: silence begins behind it.
                idleSince = context.now
                checkOutputRate(&context)
            } else if context.now - idleSince > context.settings.idleTimeout {
                context.append(.close)
            }
        case .rest, .poll:
            // Of a poll that waits, the response to the one before it.
            if output.isActive || polls.session != nil && context.socket.unsentByteCount > 0 {
                return checkOutputRate(&context)
            }
            carryOut(rest.tick(isRead: pauses.isEmpty, &context), &context)
        case .draining: checkOutputRate(&context)
        case .streaming:
            if context.socket.unsentByteCount > 0 || stream?.isPrinting == true {
                checkOutputRate(&context)
            } else if stream?.isSilent(&context) == true {
                receive([.keepAlive], &context)
            }
        case .ended: break
        }
    }

    /// Disconnects a client that takes nothing, or next to nothing, of what it is sent. It is not judged
    /// while the kernel has accepted everything: then it is the server that has to print more.
    private mutating func checkOutputRate(_ context: inout ConnectionContext) {
        guard context.socket.unsentByteCount > 0 else { return output.rate.end() }
        if output.rate.isTooSlow(&context) { context.append(.reset) }
    }

    // MARK: The end

    /// A client that has nothing more to ask may still wait for the last response (RFC 9112 §9.6).
    package mutating func peerEnded(_ context: inout ConnectionContext) {
        // It has broken TLS, and the socket is closing: no response would be sent.
        guard context.socket.isOpen else {
            release(inOrder: false, &context)
            (state, activity) = (.ended, .idle)
            return
        }
        if polls.peerEnded(&context) { return context.append(.closeAfterFlush) }
        // Others wait for their readings, and most clients that close their side have given up (rest §10.1).
        if case .readingHistory = rest.work { return context.append(.close) }
        // TLS reads the end together with what came before it.
        if hasRequestsAhead { return endsBehindInput = true }
        if isResponseDue { endsAfterResponse = true } else { context.append(.closeAfterFlush) }
    }

    /// A request was read to its end, and its response, or a stream's first event, is due or on its way.
    private var isResponseDue: Bool {
        switch state {
        case .rest: rest.isDue
        case .poll: true
        case .streaming: stream?.isMeasuring == true
        case .head, .draining, .ended: false
        }
    }

    /// The databases have ended the connection.
    package mutating func close(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        context.append(.closeAfterFlush)
    }

    /// The process ends: nothing more is answered but what is in progress.
    package mutating func endIfIdle(_ context: inout ConnectionContext) {
        endsAfterResponse = true
        if !hasEnded, !isResponseDue { context.append(.closeAfterFlush) }
    }

    /// Memory is short, and this client holds much.
    package mutating func giveUpMemory(_ context: inout ConnectionContext) {
        guard case .rest = state else { return context.append(.reset) }
        switch rest.giveUpMemory(&context) {
        case .none: break
        case .reset: context.append(.reset)
        case .refuse(let response): send(response, &context)
        }
    }

    /// The connection is gone. The last event.
    /// - Parameter inOrder: It was closed by this side.
    package mutating func closed(inOrder: Bool, _ context: inout ConnectionContext) {
        release(inOrder: inOrder, &context)
    }

    /// Ends what is in progress. A second call does nothing.
    private mutating func release(inOrder: Bool, _ context: inout ConnectionContext) {
        // A worker may be measuring its first event.
        if case .streaming = state { context.append(.abandonJobs) }
        stream?.end(&context)
        stream = nil
        rest.close(&context)
        output.drop(&context)
        input.drop()
        polls.close(inOrder: inOrder, &context)
        rest.endSession(&context)
    }
}
