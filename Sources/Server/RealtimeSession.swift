import PandoBytes
import PandoEngine
import PandoReactor
import PandoRules
import PandoTree
import PandoWebSocket
import PandoWire

/// One client on a WebSocket: frames in, requests out; outputs in, frames out. Confined to its loop.
///
/// Requests are handed on strictly in order. While a token is being verified they wait here (wire-protocol §3.4: the
/// authentication is finished before the next message is looked at).
final class RealtimeSession: ClientSession {
    /// Bytes of messages that may wait for a verification before the socket is no longer read: clients send their
    /// listens right behind `auth`.
    private static let waitingByteLimit = 1 << 20

    private var reader: MessageReader
    private var reassembler: Reassembler
    private var closing = CloseHandshake(role: .server)
    private var credential = PandoRules.Credential.anonymous
    /// Messages behind a verification that is under way; nil when none is.
    private var waiting: [WaitingMessage]?
    private var waitingByteCount = 0
    private var isPinged = false
    /// Bytes kept for a message that is not complete, as the loop knows them.
    private var unfinishedByteCount = 0

    private struct WaitingMessage {
        var request: Request
        var byteCount: Int
    }

    override init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        let messageByteLimit = owner.configuration.chunkCountLimit * Segmenter.chunkUnitLimit
        // Text is checked when a message is whole: C++ clients cut inside characters.
        reader = MessageReader(role: .server, messageByteLimit: messageByteLimit, checksText: false)
        reassembler = Reassembler(
            chunkLimit: owner.configuration.chunkCountLimit, messageByteLimit: messageByteLimit)
        super.init(id, on: channel, of: owner)
    }

    override var isOpen: Bool { closing.isOpen }

    // MARK: From the socket

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        received(&bytes, from: 0, on: channel)
    }

    /// Reads what a read event brought, from `offset` on.
    func received(_ bytes: inout MutableRawSpan, from offset: Int, on channel: Channel) {
        lastHeard = owner.loop.now
        isPinged = false
        var offset = offset
        // The reader lends memory of its own, so nobody else may hold it meanwhile.
        var reader = MessageReader(role: .server, messageByteLimit: 0, checksText: false)
        swap(&reader, &self.reader)
        do {
            while let event = try reader.next(&bytes, from: &offset) {
                switch event {
                case .text(let payload): reader.withBytes(of: payload, in: bytes) { receiveFrame($0) }
                case .binary: fail(.unsupportedData)
                case .ping(let payload): reader.withBytes(of: payload, in: bytes) { sendControl(.pong, $0) }
                case .pong: break
                case .close(let code, _): act(closing.receivedClose(code))
                }
            }
        } catch {
            act(closing.failed(error))
        }
        swap(&reader, &self.reader)
        countUnfinished()
        owner.flushOutgoing()
    }

    private func countUnfinished() {
        let byteCount = reader.ownedByteCount + reassembler.byteCount
        guard byteCount != unfinishedByteCount else { return }
        let difference = byteCount - unfinishedByteCount
        unfinishedByteCount = byteCount
        if !owner.keepUnfinished(difference) { fail(.messageTooBig) }
    }

    private func receiveFrame(_ frame: RawSpan) {
        guard closing.isOpen else { return }
        do {
            switch try reassembler.accept(frame) {
            case .nothing: break
            case .payload: receive(frame)
            case .assembled(let message): receive(message.rawSpan)
            }
        } catch {
            fail(.messageTooBig)
        }
    }

    private func receive(_ message: RawSpan) {
        guard closing.isOpen else { return }
        do {
            switch try ClientMessage(parsing: message) {
            case .request(let request): take(request, byteCount: message.byteCount)
            case .ping: sendPong()
            // A WebSocket is never the second transport of a session here (§1.6: refused by ignoring).
            case .upgrade, .endOfTransmission, .unknownControl: break
            }
        } catch {
            // Malformed JSON, or a member that must be there is not: no answer could reach the right request (§4.0).
            fail(.invalidPayload)
        }
    }

    // MARK: Requests

    private func take(_ request: Request, byteCount: Int) {
        guard waiting == nil else {
            waitingByteCount += byteCount
            waiting?.append(WaitingMessage(request: request, byteCount: byteCount))
            if waitingByteCount > Self.waitingByteLimit { pause(.verification) }
            return
        }
        let number = request.number
        switch request.action {
        case .authenticate(let credential): authenticate(credential, number)
        case .unauthenticate:
            credential = .anonymous
            answer(.unauthenticated(number), byteCount)
        case .statistics: answer(.ok(number), byteCount)
        case .appCheck, .dropAppCheck: answer(.ok(number), byteCount)
        case .unknown: answer(.unknownAction(number), byteCount)
        case .invalid(_, let problem): answer(.invalid(number, problem), byteCount)
        case .listen, .unlisten, .get, .put, .merge, .onDisconnectPut, .onDisconnectMerge, .onDisconnectCancel:
            owner.post(.request(id, request, credential, byteCount: byteCount), byteCount: byteCount, for: self)
        }
    }

    private func answer(_ answer: Answer, _ byteCount: Int) {
        owner.post(.answer(id, answer, byteCount: byteCount), byteCount: byteCount, for: self)
    }

    private func authenticate(_ credential: PandoWire.Credential, _ number: Int64) {
        waiting = []
        owner.verifier.verify(credential) { [weak self] verdict in self?.finishVerifying(verdict, number) }
    }

    private func finishVerifying(_ verdict: Verdict, _ number: Int64) {
        switch verdict {
        case .accepted(let credential, let expires):
            self.credential = credential
            answer(.authenticated(number, authVariable: credential.authVariable, expires: expires), 0)
        case .refused(let isExpired, let reason):
            answer(.authenticationFailed(number, isExpired: isExpired, reason: reason), 0)
        }
        let messages = waiting ?? []
        waiting = nil
        resume(.verification)
        waitingByteCount = 0
        // Another `auth` among them closes the queue again, and the rest waits behind it.
        for message in messages { take(message.request, byteCount: message.byteCount) }
        owner.flushOutgoing()
    }

    // MARK: To the socket

    /// More than clients can take in one message (wire-protocol §2.2, §14): a request is answered so; data that a
    /// listen waits for cannot be left out, so the connection says why and ends.
    override func refuse(_ message: LargeMessage) {
        var text: [UInt8] = []
        if let number = message.requestNumber {
            text.append(response: number, .tooBig, .text(Self.oversizedText))
        } else {
            text.append(errorNotice: Self.oversizedText)
        }
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: text.rawSpan)
        channel.write(frame.rawSpan)
        if message.requestNumber == nil { act(closing.close(.messageTooBig)) }
    }

    private static let oversizedText: Text =
        "The specified payload is too large, please request a location with less data."

    /// A text frame, so it has its place in the order of the others (§15.10: none between the chunks of a message).
    private func sendPong() {
        var message: [UInt8] = []
        message.appendPong()
        var frame: [UInt8] = []
        frame.append(frame: .text, payload: message.rawSpan)
        send(frame.rawSpan)
    }

    /// Sends a control frame at once: it may stand between any two frames.
    private func sendControl(_ opcode: Opcode, _ payload: RawSpan) {
        guard closing.isOpen else { return }
        var frame: [UInt8] = []
        frame.append(frame: opcode, payload: payload)
        channel.write(frame.rawSpan)
    }

    // MARK: The end

    override func end(_ reason: OutputBatch.CloseReason) {
        switch reason {
        case .finished, .replaced: act(closing.close(.normal))
        case .goingAway: act(closing.close(.goingAway))
        }
    }

    private func fail(_ code: CloseCode) {
        act(closing.close(code))
    }

    private func act(_ action: CloseHandshake.Action) {
        switch action {
        case .nothing, .awaitEnd: break
        case .send(let code):
            // The server is the one to end the connection; what the client still sends has no meaning for us.
            sendClose(code)
            channel.closeAfterFlush()
        case .sendThenDisconnect(let code), .sendThenAwaitEnd(let code):
            sendClose(code)
            channel.closeAfterFlush()
        case .disconnect: channel.closeAfterFlush()
        }
    }

    private func sendClose(_ code: CloseCode?) {
        var frame: [UInt8] = []
        frame.append(closeFrame: code)
        channel.write(frame.rawSpan)
    }

    /// Asks a silent client whether it lives, and gives up on one that does not answer (§2.3).
    override func checkIdle(at now: MonotonicTime) {
        super.checkIdle(at: now)
        let silence = now - lastHeard
        if silence > owner.configuration.idleTimeout * 1.5, isPinged {
            channel.close()
        } else if silence > owner.configuration.idleTimeout, !isPinged {
            isPinged = true
            sendControl(.ping, [UInt8]().rawSpan)
        }
    }

    override func channelDidEnd(_ channel: Channel) {
        _ = closing.peerVanished()
        channel.closeAfterFlush()
    }

    override func channelDidClose(_ channel: Channel, reason: PandoReactor.CloseReason) {
        _ = closing.peerVanished()
        _ = owner.keepUnfinished(-unfinishedByteCount)
        super.channelDidClose(channel, reason: reason)
    }
}
