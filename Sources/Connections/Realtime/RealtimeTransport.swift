import PandoBytes
import PandoDatabase
import PandoIdentity
import PandoWire

/// What to do with bytes that were offered to a connection.
package enum SendOutcome {
    /// The client is gone: nothing.
    case drop
    /// Write the bytes to the socket.
    case write
    /// Write the bytes to the socket, then carry out what the context holds.
    case writeAndCarryOut
    /// The connection keeps the bytes: carry out what the context holds.
    case carryOut
}

/// What carries the messages of a ``RealtimeSession``: a WebSocket, or long polling. Outputs are sent in
/// order. What waits, and what is unsent, is bounded: a client with much to take is paused, and one that
/// takes nothing is disconnected.
protocol RealtimeTransport {
    var session: RealtimeSession { get set }
    var outputs: OutputSequence { get set }
    var pauses: PauseReasons { get set }
    /// The databases coalesce what they push to this client, until it has taken what is unsent.
    var isLagging: Bool { get set }

    /// Whether outputs still reach the client.
    var isOpen: Bool { get }
    /// Whether messages about the session may be posted to the databases: until its end was posted, and not
    /// before the session was moved to this connection (``Handover``).
    var maySendToDatabases: Bool { get }
    /// Bytes handed over that the client has not taken, as far as is known.
    func unsentByteCount(_ context: inout ConnectionContext) -> Int
    /// Whether a message that is encoded can be sent at all.
    func canSend(_ message: LargeMessage, _ context: inout ConnectionContext) -> Bool
    /// Hands whole frames over.
    mutating func write(_ frames: [UInt8], _ context: inout ConnectionContext)
    /// Hands over what others get, too, in the form that the connection takes (``OutputForm``).
    mutating func write(_ shared: SharedBytes, _ context: inout ConnectionContext)
    mutating func write(_ piece: OutputSequence.Piece, _ context: inout ConnectionContext)
    /// A piece of a large message was written, and more follow.
    mutating func pieceWasWritten(_ context: inout ConnectionContext)
    /// Whether the next piece follows at once: compressed ones may be so small that no drain is reported.
    func mayWriteNextPiece(_ context: inout ConnectionContext) -> Bool
    /// No output waits for another any more.
    mutating func outputsWereWritten(_ context: inout ConnectionContext)
    /// The client has taken nearly everything.
    mutating func outputDrained(_ context: inout ConnectionContext)
    /// The session takes messages again.
    mutating func inputMayContinue(_ context: inout ConnectionContext)
    /// As ``inputMayContinue(_:)``, when a mark of the request window came back: requests that wait are read
    /// in a later turn, behind the outputs of other sessions.
    mutating func inputMayContinueInTurn(_ context: inout ConnectionContext)
    /// No reason to pause is left.
    mutating func readingResumed(_ context: inout ConnectionContext)
    /// A message is larger than can be sent; the request that asked for it gets a reply that says so.
    mutating func refuse(_ message: LargeMessage, _ context: inout ConnectionContext)
    /// Ends the connection, as its protocol does.
    mutating func end(_ reason: DisconnectReason, _ context: inout ConnectionContext)
    /// Ends the connection at once.
    mutating func cut(_ context: inout ConnectionContext)
}

/// Outputs that may wait behind a large one before the client is paused; small replies that came together are
/// one.
private let waitingCountLimit = 1000

// MARK: - Outputs

extension RealtimeTransport {
    /// Sends whole frames in their place among the outputs.
    mutating func sendInOrder(_ frames: [UInt8], _ context: inout ConnectionContext) {
        guard isOpen else { return }
        guard outputs.isReady else { return wait(.bytes(frames), byteCount: frames.count, &context) }
        write(frames, &context)
        pauseIfMuchIsUnsent(&context)
    }

    /// The same of what others get, too, in the form that the connection takes.
    mutating func sendInOrder(_ shared: SharedBytes, _ context: inout ConnectionContext) {
        guard isOpen else { return }
        guard outputs.isReady else { return wait(.shared(shared), byteCount: shared.count, &context) }
        write(shared, &context)
        pauseIfMuchIsUnsent(&context)
    }

    mutating func sendInOrder(_ message: LargeMessage, _ context: inout ConnectionContext) {
        guard isOpen else { return }
        guard outputs.isReady else {
            return wait(.large(message), byteCount: message.waitingByteCount, &context)
        }
        outputs.begin(message)
        context.append(.encode(message))
    }

    /// A mark keeps its place among the outputs: what waits before it is not sent yet.
    mutating func returnWindowMarkInOrder(_ context: inout ConnectionContext) {
        guard outputs.isReady else { return wait(.windowMark, byteCount: 0, &context) }
        session.windowMarkReturned()
        inputMayContinueInTurn(&context)
    }

    mutating func closeInOrder(_ reason: DisconnectReason, _ context: inout ConnectionContext) {
        // Where the server has said why, that is sent first.
        if outputs.isReady || reason != .finished {
            end(reason, &context)
        } else {
            wait(.close(reason), byteCount: 0, &context)
        }
    }

    /// Keeps an output. A client that lets too much gather is treated as one that takes nothing. It is also
    /// paused while a second answer waits behind a large one: each may hold a snapshot of its own, with all
    /// that was replaced since, which is many times what is counted.
    private mutating func wait(
        _ output: OutputSequence.Output, byteCount: Int, _ context: inout ConnectionContext
    ) {
        guard outputs.waitingByteCount + byteCount <= context.settings.outboundByteLimit else {
            return cut(&context)
        }
        outputs.append(output, byteCount: byteCount)
        noteLag(&context)
        if outputs.hasWaitingSnapshot || outputs.waitingCount > waitingCountLimit
            || outputs.waitingByteCount > ConnectionLimits.pausedAtByteCount
        {
            pauses.insert(.unsentOutput)
        }
    }

    /// A worker has encoded a large message.
    mutating func sendEncoded(_ message: LargeMessage, _ context: inout ConnectionContext) {
        guard outputs.endEncoding(of: message) else { return }
        if message.pieces == nil || !canSend(message, &context) {
            refuse(message, &context)
            sendWaiting(&context)
        } else if message.pieces?.isEmpty == true {
            sendWaiting(&context)
        } else {
            outputs.send(message)
            sendPiece(&context)
        }
    }

    /// Sends the next piece of a large message: when the client can take it.
    mutating func sendPiece(_ context: inout ConnectionContext) {
        repeat {
            guard isOpen, let piece = outputs.nextPiece() else { return }
            write(piece, &context)
            if outputs.isReady { return sendWaiting(&context) }
            pieceWasWritten(&context)
        } while mayWriteNextPiece(&context)
    }

    /// Sends what waited, up to the next large message.
    private mutating func sendWaiting(_ context: inout ConnectionContext) {
        while isOpen, let output = outputs.removeFirst() {
            switch output {
            case .bytes(let bytes): sendInOrder(bytes, &context)
            case .shared(let bytes): sendInOrder(bytes, &context)
            case .large(let message): sendInOrder(message, &context)
            case .windowMark: returnWindowMarkInOrder(&context)
            case .close(let reason): end(reason, &context)
            }
        }
        if outputs.isEmpty { outputsWereWritten(&context) }
        catchUpIfDrained(&context)
    }

    /// Drops what waits to be sent.
    mutating func dropOutputs(_ context: inout ConnectionContext) {
        if outputs.removeAll() { context.append(.abandonJobs) }
    }

    // MARK: A client that falls behind

    /// The client has taken nearly all that was handed over.
    mutating func outputWasTaken(_ context: inout ConnectionContext) {
        sendPiece(&context)
        catchUpIfDrained(&context)
        if !outputs.hasWaitingSnapshot { resume(.unsentOutput, &context) }
        outputDrained(&context)
    }

    /// Where nothing waits and the socket takes what it is given, no drain is reported.
    mutating func catchUpIfDrained(_ context: inout ConnectionContext) {
        guard isLagging || pauses.contains(.unsentOutput), outputs.isEmpty,
            unsentByteCount(&context) <= context.settings.outboundLowWaterByteCount
        else { return }
        if isLagging { catchUp(&context) }
        guard pauses.contains(.unsentOutput) else { return }
        resume(.unsentOutput, &context)
        outputDrained(&context)
    }

    /// Posts to the databases that the client has fallen behind; ``catchUpIfDrained(_:)`` posts that it has
    /// caught up.
    mutating func noteLag(_ context: inout ConnectionContext) {
        guard maySendToDatabases, !isLagging,
            unsentByteCount(&context) + outputs.waitingByteCount > ConnectionLimits.laggingByteCount
                || outputs.waitingCount > waitingCountLimit / 2
        else { return }
        isLagging = true
        context.post(.lagging(session.id))
    }

    /// The client has taken nearly everything: posts that, unless the session has ended.
    mutating func catchUp(_ context: inout ConnectionContext) {
        isLagging = false
        if maySendToDatabases { context.post(.caughtUp(session.id)) }
    }

    mutating func pauseIfMuchIsUnsent(_ context: inout ConnectionContext) {
        let byteCount = unsentByteCount(&context)
        // Nearly always: a client lags before it is paused.
        guard byteCount + outputs.waitingByteCount > ConnectionLimits.laggingByteCount else { return }
        noteLag(&context)
        if byteCount > ConnectionLimits.pausedAtByteCount { pauses.insert(.unsentOutput) }
    }

    // MARK: The end of a pause

    mutating func resume(_ reason: PauseReasons, _ context: inout ConnectionContext) {
        guard pauses.contains(reason) else { return }
        pauses.remove(reason)
        if pauses.isEmpty { readingResumed(&context) }
    }
}

// MARK: - The session

extension RealtimeTransport {
    /// Sends what the session says by itself: a pong, or that its credential has ended.
    mutating func sendMessage(_ message: [UInt8], _ context: inout ConnectionContext) {
        var frames: [UInt8] = []
        guard frames.append(framesOf: message.rawSpan) else { return cut(&context) }
        sendInOrder(frames, &context)
    }

    /// Answers a ping of the protocol, in the order of the other messages (realtime §15.10: none between the
    /// chunks of one). While more than the low-water mark is unsent the pong is postponed, and one then
    /// answers all pings.
    mutating func sendPong(_ context: inout ConnectionContext) {
        guard unsentByteCount(&context) <= context.settings.outboundLowWaterByteCount else {
            return session.isPongOwed = true
        }
        session.isPongOwed = false
        var message: [UInt8] = []
        message.appendPong()
        sendMessage(message, &context)
    }

    /// The credential has ended.
    mutating func signOut(_ reason: RealtimeSession.SignOutReason, _ context: inout ConnectionContext) {
        guard isOpen else { return }
        sendMessage(session.signOut(reason, &context), &context)
    }

    /// Keys or revocations have changed: ends the sign-in if it is not valid any more.
    mutating func recheck(signIn revocations: RevocationState, _ context: inout ConnectionContext) {
        guard maySendToDatabases else { return }
        if session.recheck(revocations, &context) { signOut(.revoked, &context) }
    }

    /// The time of a write that has waited for its rate has come.
    mutating func finishDelay(_ context: inout ConnectionContext) {
        guard isOpen else { return }
        session.delayIsOver(&context)
        inputMayContinue(&context)
    }

    /// A token was verified. The result is dropped if the session has ended meanwhile.
    mutating func finishVerifying(_ result: VerificationResult, _ context: inout ConnectionContext) {
        guard maySendToDatabases else { return }
        session.verified(result, &context)
        inputMayContinue(&context)
    }
}
