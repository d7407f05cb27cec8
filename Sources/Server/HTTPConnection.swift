import PandoBytes
import PandoEngine
import PandoHTTP
import PandoREST
import PandoReactor
import PandoTree
import PandoWebSocket
import PandoWire

/// A connection that speaks HTTP: REST requests one after the other, an event stream, or the upgrade to a WebSocket.
///
///     head ──▶ body ──▶ answering ──▶ head …
///       └─▶ WebSocket (another object)   └─▶ streaming, until the connection ends
///
/// A request is looked at when the one before it is answered, so answers need no other order; what a client sends
/// ahead waits, and the socket is not read meanwhile.
final class HTTPConnection: ClientSession {
    private enum Stage {
        case head
        case body(PendingRequest, BodyReader)
        case answering(PendingRequest)
        case streaming(JSONForm)
        case ended
    }

    /// A request whose answer is owed.
    private struct PendingRequest {
        /// Nil for one that was refused before it was understood.
        var request: RESTRequest?
        var context: AnswerContext
        var namespace: String?
        var updates: [RESTUpdate] = []
    }

    /// Where the realtime protocol lives (wire-protocol §1.1).
    private static let realtimePath = "/.ws"
    /// A head that is not finished by then is given up (slow-loris).
    private static let headTimeout: Duration = .seconds(30)
    /// Silence of an event stream after which it says that it lives (rest-api §8.1).
    private static let keepAliveInterval: Duration = .seconds(30)
    /// Bytes of an answer handed to the socket before it must take some.
    private static let unsentByteLimit = 256 << 10
    /// Events that may wait for a client to read; one that is further behind is cut off.
    private static let waitingEventLimit = 10_000

    private var stage = Stage.head
    private var reader = RequestHeadReader()
    private var content: [UInt8] = []
    /// What the client sent behind a request that is under way.
    private var ahead: [UInt8] = []
    private var answer: RESTAnswer?
    /// Events that are not printed yet, and the one that is being sent.
    private var events: [StreamEvent] = []
    private var printer: ValuePrinter?
    /// About what the events hold that came while others waited; a lower bound.
    private var waitingEventByteCount = 0
    private var lastSent: MonotonicTime
    private var headBegan: MonotonicTime?
    private var endsAfterAnswer = false

    override init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        lastSent = owner.loop.now
        super.init(id, on: channel, of: owner)
    }

    // MARK: Reading

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        lastHeard = owner.loop.now
        switch stage {
        case .answering: ahead.append(bytes.bytes)
        case .streaming, .ended: break
        case .head, .body:
            var offset = 0
            read(&bytes, from: &offset)
        }
        owner.flushOutgoing()
    }

    /// Reads until the bytes are used up or a request is under way, behind which they wait.
    private func read(_ bytes: inout MutableRawSpan, from offset: inout Int) {
        while true {
            switch stage {
            case .head:
                guard readHead(&bytes, from: &offset) else { return }
            case .body(let pending, var body):
                guard readBody(pending, &body, bytes.bytes, from: &offset) else { return }
            case .answering:
                ahead.append(bytes.bytes.extracting(offset..<bytes.byteCount))
                return
            case .streaming, .ended: return
            }
        }
    }

    /// - Returns: false when more bytes are needed, or none of them any more.
    private func readHead(_ bytes: inout MutableRawSpan, from offset: inout Int) -> Bool {
        let head: RequestHead
        do throws(HTTPError) {
            guard let found = try reader.read(bytes.bytes, from: &offset) else {
                if headBegan == nil, !reader.isIdle { headBegan = owner.loop.now }
                return false
            }
            head = found
        } catch {
            refuse(error)
            return false
        }
        reader = RequestHeadReader()
        headBegan = nil
        if isRealtime(head.path) {
            upgrade(head, &bytes, offset)
            return false
        }
        begin(head)
        return true
    }

    private func begin(_ head: RequestHead) {
        let context = AnswerContext(head)
        let address = RESTAddress(head)
        if address.isPreflight, head.framing == .none || head.framing == .length(0) {
            return send(.preflight(head), PendingRequest(context: context))
        }
        var pending = PendingRequest(
            context: context, namespace: address.namespace ?? NamespaceName.fromHost(address.host, labels: 2))
        do throws(RESTError) {
            pending.request = try RESTRequest(head, address)
        } catch {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { pending.context.keepsAlive = false }
            return post(.refuse(error), pending, byteCount: 0)
        }
        if let coding = head.header("content-encoding"), coding.lowercased() != "identity" {
            // Nor is what it holds read.
            pending.context.keepsAlive = false
            return send(.error(.badRequest, text: "Content-Encoding \(coding) is not supported", pending.context), pending)
        }
        do throws(HTTPError) {
            let body = try BodyReader(head.framing, byteLimit: UInt64(owner.configuration.writeByteLimit))
            if head.expectsContinue {
                channel.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8).rawSpan)
            }
            stage = .body(pending, body)
        } catch {
            pending.context.keepsAlive = false
            send(.error(.payloadTooLarge, pending.context), pending)
        }
    }

    /// - Returns: false when more bytes are needed.
    private func readBody(
        _ pending: PendingRequest, _ body: inout BodyReader, _ bytes: RawSpan, from offset: inout Int
    ) -> Bool {
        do throws(HTTPError) {
            while let event = try body.next(bytes, from: &offset) {
                switch event {
                case .data(let range):
                    content.append(bytes.extracting(range))
                    unfinishedByteCount += range.count
                    guard owner.keepUnfinished(range.count) else {
                        _ = takeContent()
                        send(.error(.payloadTooLarge, closing(pending).context), closing(pending))
                        return true
                    }
                case .end:
                    run(pending)
                    return true
                }
            }
        } catch .contentTooLarge {
            send(.error(.payloadTooLarge, closing(pending).context), closing(pending))
            return true
        } catch {
            refuse(error)
            return false
        }
        stage = .body(pending, body)
        return false
    }

    private func closing(_ pending: PendingRequest) -> PendingRequest {
        var pending = pending
        pending.context.keepsAlive = false
        return pending
    }

    /// Bytes of `content`, as the loop counts them.
    private var unfinishedByteCount = 0

    private func takeContent() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &content)
        _ = owner.keepUnfinished(-unfinishedByteCount)
        unfinishedByteCount = 0
        return taken
    }

    // MARK: Requests

    private func run(_ pending: PendingRequest) {
        let content = takeContent()
        guard let request = pending.request else { return }
        do throws(RESTError) {
            let credential = try credential(of: request)
            switch request.location {
            case .data:
                var pending = pending
                let body = request.method.isRead ? nil : try request.readBody(content.rawSpan, byteLimit: owner.configuration.writeByteLimit)
                try request.checkConditions()
                if case .update(let updates)? = body { pending.updates = updates }
                post(.data(request, body, credential), pending, byteCount: content.count)
            case .settings("rules"):
                post(.rules(request, source: content, credential), pending, byteCount: content.count)
            case .inspect("databases", isPage: false):
                post(.listDatabases(credential), pending, byteCount: 0)
            case .settings(let name):
                post(.setting(name, request, value: content, credential), pending, byteCount: content.count)
            case .inspect: throw .invalidPath
            }
        } catch {
            post(.refuse(error), pending, byteCount: 0)
        }
    }

    /// Who asks (auth.md §1). Without `--dev` no credential is any good yet.
    private func credential(of request: RESTRequest) throws(RESTError) -> Credential {
        var credential = Credential.anonymous
        if let token = request.credential.token {
            var verdict: Verdict?
            owner.verifier.verify(PandoWire.Credential(token: token)) { verdict = $0 }
            guard case .accepted(let accepted, _)? = verdict else { throw request.credential.refusal }
            credential = accepted
        }
        guard let override = request.authVariableOverride else { return credential }
        guard credential.isAdmin else { throw .unauthorized }
        return override.claims == nil ? .anonymous : Credential(authVariable: override.json)
    }

    private func post(_ action: RESTCall.Action, _ pending: PendingRequest, byteCount: Int) {
        stage = .answering(pending)
        pause(.request)
        let call = RESTCall(namespace: pending.namespace, action: action)
        owner.post(.rest(id, call, byteCount: byteCount), byteCount: byteCount, for: self)
    }

    // MARK: Answers

    override func receive(_ outcome: RESTOutcome) {
        guard case .answering(let pending) = stage else { return }
        if case .stream = outcome, let request = pending.request {
            stage = .streaming(JSONForm(streaming: request.form))
            var head = RESTAnswer.stream()
            if let bytes = head.next() { channel.write(bytes.rawSpan) }
            resume(.request)
            return
        }
        send(outcome.answer(to: pending.request, pending.updates, pending.context), pending)
    }

    private func send(_ answer: RESTAnswer, _ pending: PendingRequest) {
        stage = .answering(pending)
        self.answer = answer
        sendAnswer()
        // What the client sends ahead of an answer that it does not read must not gather here.
        if self.answer != nil { pause(.request) }
    }

    /// Hands the socket as much of the answer as it may; the rest follows as the client reads.
    private func sendAnswer() {
        while answer != nil, channel.outboundByteCount < Self.unsentByteLimit {
            guard let bytes = answer?.next() else { return finishAnswer() }
            lastProgress = owner.loop.now
            channel.write(bytes.rawSpan)
        }
    }

    private func finishAnswer() {
        let closes = answer?.closesConnection ?? true
        answer = nil
        guard !closes, !endsAfterAnswer else {
            stage = .ended
            return channel.closeAfterFlush()
        }
        stage = .head
        resume(.request)
        guard !ahead.isEmpty else { return }
        var bytes: [UInt8] = []
        swap(&bytes, &ahead)
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        var offset = 0
        read(&raw, from: &offset)
        owner.flushOutgoing()
    }

    override func channelDidDrain(_ channel: Channel) {
        if answer != nil { sendAnswer() }
        sendEvents()
        super.channelDidDrain(channel)
    }

    /// An answer to what is no request. Nothing can be read behind it.
    private func refuse(_ error: HTTPError) {
        stage = .ended
        var response: [UInt8] = []
        var body: [UInt8] = []
        body.append("{\n  \"error\" : \"")
        body.append(error.status.reasonPhrase)
        body.append("\"\n}\n")
        response.append(statusLine: error.status)
        response.append(field: "Content-Type", RESTAnswer.jsonType)
        response.append(field: "Content-Length", decimal: UInt64(body.count))
        response.append(field: "Connection", "close")
        response.appendEndOfHead()
        channel.write(response.rawSpan)
        channel.write(body.rawSpan)
        channel.closeAfterFlush()
    }

    // MARK: Event streams

    override func receive(_ events: [StreamEvent]) {
        guard case .streaming = stage else { return }
        self.events += events
        if printer != nil || self.events.count > events.count {
            waitingEventByteCount += events.reduce(0) { $0 + $1.weight }
            if waitingEventByteCount > channel.outboundByteLimit { return channel.reset() }
        }
        for case .cancel in events { endsAfterAnswer = true }
        if self.events.count > Self.waitingEventLimit { return channel.reset() }
        sendEvents()
    }

    private func sendEvents() {
        guard case .streaming(let form) = stage else { return }
        while channel.outboundByteCount < Self.unsentByteLimit {
            if printer == nil {
                guard !events.isEmpty else {
                    waitingEventByteCount = 0
                    if endsAfterAnswer { channel.closeAfterFlush() }
                    return
                }
                printer = events.removeFirst().printer(form)
            }
            guard let piece = printer?.next() else {
                printer = nil
                continue
            }
            lastProgress = owner.loop.now
            lastSent = owner.loop.now
            channel.write(piece.rawSpan)
        }
    }

    // MARK: WebSocket

    /// `/.ws`, with or without slashes behind it.
    private func isRealtime(_ path: String) -> Bool {
        guard path.hasPrefix(Self.realtimePath) else { return false }
        return path.dropFirst(Self.realtimePath.count).allSatisfy { $0 == "/" }
    }

    /// Answers the handshake and hands the channel, with what the client sent ahead, to a session.
    private func upgrade(_ head: RequestHead, _ bytes: inout MutableRawSpan, _ offset: Int) {
        stage = .ended
        var response: [UInt8] = []
        do throws(UpgradeRefusal) {
            try ServerHandshake(head).appendResponse(to: &response)
        } catch {
            ServerHandshake.appendRefusal(error, to: &response)
            channel.write(response.rawSpan)
            return channel.closeAfterFlush()
        }
        channel.write(response.rawSpan)
        let query = head.query(plusIsSpace: false)
        let host = head.authority
        let named = query["ns"].flatMap { $0.isEmpty ? nil : $0 }
        let session = owner.open(
            channel,
            OpenRequest(
                namespace: named ?? NamespaceName.fromHost(host),
                host: Text(host),
                previousSession: query["ls"].map { Text($0) }))
        owner.forget(self)
        channel.delegate = session
        session.received(&bytes, from: offset, on: channel)
    }

    // MARK: The end

    override func checkIdle(at now: MonotonicTime) {
        switch stage {
        case .head:
            if let headBegan, now - headBegan > Self.headTimeout { return channel.close() }
            let isSending = channel.outboundByteCount > 0
            if !isSending, now - lastHeard > owner.configuration.idleTimeout { channel.close() }
        case .body:
            if now - lastHeard > Self.headTimeout { channel.close() }
        case .answering:
            if answer != nil, now - lastProgress > Self.stallTimeout { channel.reset() }
        case .streaming:
            if channel.outboundByteCount > 0 || printer != nil {
                if now - lastProgress > Self.stallTimeout { channel.reset() }
            } else if now - lastSent > Self.keepAliveInterval {
                receive([StreamEvent.keepAlive])
            }
        case .ended: break
        }
    }

    override func endIfIdle() {
        endsAfterAnswer = true
        switch stage {
        case .head, .body, .streaming: channel.closeAfterFlush()
        case .answering, .ended: break
        }
    }

    override func channelDidClose(_ channel: Channel, reason: PandoReactor.CloseReason) {
        _ = takeContent()
        super.channelDidClose(channel, reason: reason)
    }
}

extension StreamEvent {
    /// A lower bound of the bytes that the event holds: looked at only so far.
    fileprivate var weight: Int {
        let limit = 1 << 20
        return switch self {
        case .put(_, let node): 64 + node.weight(upTo: limit)
        case .patch(_, let entries): entries.reduce(64) { $0 + 32 + $1.node.weight(upTo: limit / entries.count) }
        case .keepAlive, .cancel, .authRevoked: 64
        }
    }
}
