import PandoDatabase
import PandoREST
import PandoTime

// Time that passes, and the end.

extension HTTPConnection {
    /// The time of ``ConnectionAction/wake(at:)`` has come.
    package mutating func deadlinePassed(_ context: inout ConnectionContext) { giveUpRequest(&context) }

    /// Now and then: gives up on a client that is silent, or sends or takes too slowly. Needs
    /// ``SocketStatus/acknowledgedByteCount``.
    package mutating func tick(_ context: inout ConnectionContext) {
        switch stage {
        case .head:
            if let headBegan = input.headBegan, context.now - headBegan > context.settings.requestTimeout {
                return refuse(.requestTimeout, isHead: input.isReadingHEAD, &context)
            }
            if context.socket.unsentByteCount > 0 {
                // The end of the last response is still here: silence begins behind it.
                idleSince = context.now
                checkOutputRate(&context)
            } else if context.now - idleSince > context.settings.idleTimeout {
                context.append(.close)
            }
        case .body(let pending): checkBodyRate(pending, &context)
        case .answering(let pending):
            // Of a poll that waits, the response to the one before it.
            if response.isActive || polls.session != nil && context.socket.unsentByteCount > 0 {
                return checkOutputRate(&context)
            }
            if pending.request?.method.isRead == true, context.now - pending.began > RESTLimits.timeout {
                giveUpRequest(&context)
            }
        case .draining: checkOutputRate(&context)
        case .streaming:
            if context.socket.unsentByteCount > 0 || stream?.isPrinting == true {
                checkOutputRate(&context)
            } else if stream?.isSilent(&context) == true {
                receive([.keepAlive], &context)
            }
        case .admitting, .ended: break
        }
    }

    private mutating func checkBodyRate(_ pending: PendingRequest, _ context: inout ConnectionContext) {
        // A client that is not read cannot be too slow.
        guard pauses.isEmpty else { return input.restartBodyRate(at: context.now) }
        let isTooSlow = input.isBodyTooSlow(at: context.now, window: context.settings.requestTimeout)
        if isTooSlow { refuse(.requestTimeout, isHead: pending.response.isHead, &context) }
    }

    /// Disconnects a client that takes nothing, or next to nothing, of what it is sent.
    private mutating func checkOutputRate(_ context: inout ConnectionContext) {
        if outputRate.isTooSlow(&context) { context.append(.reset) }
    }

    /// A client that has nothing more to ask may still wait for the last response (RFC 9112 §9.6).
    package mutating func peerEnded(_ context: inout ConnectionContext) {
        if let polling = polls.session {
            // What a client has closed its side of it has given up.
            context.append(.http(.pollIsLost(of: polling)))
            return context.append(.closeAfterFlush)
        }
        // It may be a long reading, and most clients that close their side have given up.
        if case .inspecting = work { return context.append(.close) }
        if case .answering = stage { endsAfterResponse = true } else { context.append(.closeAfterFlush) }
    }

    /// The databases have ended the connection.
    package mutating func close(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        context.append(.closeAfterFlush)
    }

    /// The process ends: nothing more is answered but what is in progress.
    package mutating func endIfIdle(_ context: inout ConnectionContext) {
        endsAfterResponse = true
        switch stage {
        case .head, .body, .admitting, .draining, .streaming: context.append(.closeAfterFlush)
        case .answering, .ended: break
        }
    }

    /// Memory is short, and this client holds much. Of a body, only what is still coming is given up: a
    /// worker may be reading what is whole.
    package mutating func giveUpMemory(_ context: inout ConnectionContext) {
        switch stage {
        case .body(let pending), .admitting(let pending):
            takeBody()
            pending.response.keepsAlive = false
            send(.error(.unavailable, pending.response), pending, &context)
        case .answering:
            if case .readingBody = work { break }
            context.append(.reset)
        case .head, .draining, .streaming, .ended: context.append(.reset)
        }
    }

    /// The connection is gone. The last event.
    /// - Parameter inOrder: It was closed by this side.
    package mutating func closed(inOrder: Bool, _ context: inout ConnectionContext) {
        takeBody()
        client.release()
        if isMeasuring { context.append(.abandonJobs) }
        cancelWork(&context)
        unfinishedByteCount = 0
        stream?.end(&context)
        cancelTimeout(&context)
        response.drop(&context)
        releaseLargeUpdate(&context)
        stream = nil
        input.drop()
        if let polling = polls.session { context.append(.http(.pollIsLost(of: polling))) }
        polls.deliveries.end(inOrder: inOrder, &context)
        endSession(&context)
    }

    /// A worker may be measuring data for this connection.
    private var isMeasuring: Bool {
        if case .streaming = stage { return true }
        return switch work {
        case .measuring, .inspecting: true
        case .none, .verifying, .readingBody, .awaitingTurn: false
        }
    }
}
