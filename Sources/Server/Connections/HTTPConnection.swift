import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor
import PandoStorage
import PandoTree
import PandoWire

/// A connection that speaks HTTP: REST requests one after the other, an event stream, or the upgrade to a
/// WebSocket.
///
///     head ──▶ body ──▶ answering ──▶ head …
///       │  admitting ⇅      a large body comes only where something may come of it
///       └─▶ WebSocket (another object)   ├─▶ streaming, until the connection ends
///                                        └─▶ draining ──▶ head …   where polls are answered
///
/// A request is looked at when the one before it is answered, so answers need no other order; what a client
/// sends ahead waits, and the socket is not read meanwhile.
final class HTTPConnection: ChannelSession {
    enum Stage {
        case head
        /// ``content`` gathers its bytes.
        case body(PendingRequest)
        /// A large body waits, announced or begun, until it is known that the request is not refused whatever
        /// it says.
        case admitting(PendingRequest)
        case answering(PendingRequest)
        /// What was answered is much, and is to be taken before the next request is looked at
        /// (``mustDrain``).
        case draining
        /// ``stream`` tells what is heard.
        case streaming
        case ended
    }

    /// A request whose answer is owed. A class, because it is handed from stage to stage: its parts are
    /// counted once.
    final class PendingRequest {
        /// Nil for one that was refused before it was understood.
        var request: RESTRequest?
        var context: ResponseContext
        let namespace: String?
        var updates: [RESTUpdate] = []
        /// When its head was there.
        let began: MonotonicTime
        /// Who asks, once that is known; nil also for who brings no token.
        var identity: Identity?
        /// Its body may be large.
        var isAdmitted = false
        /// The client sends the body when it is told to (RFC 9110 §10.1.1).
        var expectsContinue = false
        /// What is wrong with its body, which is not read then.
        var bodyProblem: RESTError?

        init(_ context: ResponseContext, namespace: String? = nil, began: MonotonicTime) {
            self.context = context
            self.namespace = namespace
            self.began = began
        }
    }

    /// A body that comes more slowly, over any ``Configuration/requestTimeout``, is given up (the `MinRate`
    /// of Apache httpd's mod_reqtimeout).
    private static let slowestBodyBytesPerSecond = slowestBytesPerSecond
    /// Data that prints in no more is looked at on the loop; more, on the helper thread.
    private static let surveyedByteCount = 256 << 10
    /// Pieces that one connection prints before others have their turn.
    static let turnPieceCount = 4
    /// Bytes of an answer handed to the socket before it must take some.
    static let unsentByteLimit = 256 << 10

    var stage = Stage.head
    private(set) var reader = RequestHeadReader()
    var content: RequestContent?
    var bodyPace: MinimumRateMonitor
    /// The body that the helper thread has.
    var bodyJob: BodyJob?
    private var hostName: (host: [UInt8], namespace: String?)?
    private var gate = DevelopmentGate()
    /// What the client sent behind a request that is under way.
    var ahead: [UInt8] = []
    /// How much of ``ahead`` has been read.
    var aheadOffset = 0
    /// ``ahead`` is being read: what is not, stays in it.
    var isReadingAhead = false
    var answer: RESTResponse?
    var stream: EventStream?
    /// What waits until the helper thread has looked at its data.
    var surveyed: RESTCallResult?
    var timeout: TimerToken?
    /// The token of the request under way is being verified; what the request holds waits in ``content``.
    var isVerifying = false
    var expiry: WallTimer?
    /// Who hears ``stream``.
    var listener: Identity?
    var continuesLater = false
    /// See ``countKept()``.
    private var keptByteCount = 0
    /// The answer under way is one of those that the loop counts.
    var compresses = false
    private var headBegan: MonotonicTime?
    /// A request was handed to the database.
    var hasPosted = false
    var endsAfterAnswer = false
    /// The session whose poll waits here.
    var polling: LongPollingSession?
    /// Answers to polls that the client may not have received.
    var deliveries: [Delivery] = []
    /// How often the connection was moved between loops.
    var moveCount = 0

    /// An answer is being sent. (To compare it with nil would copy it.)
    var isAnswering: Bool { if case .some = answer { true } else { false } }

    override init(_ id: SessionID, on channel: Channel, of owner: IOLoop) {
        bodyPace = MinimumRateMonitor(at: owner.loop.now)
        super.init(id, on: channel, of: owner)
        channel.readByteLimit = Self.readByteLimit
    }

    /// Bytes of one read of heads; a body comes as fast as it may.
    static let readByteLimit = 64 << 10

    override var isKnownToDatabase: Bool { hasPosted }

    // MARK: Reading

    override func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        lastHeard = owner.loop.now
        switch stage {
        case .answering, .admitting, .draining: keepAhead(bytes.bytes)
        case .streaming, .ended: break
        case .head, .body:
            var offset = 0
            read(&bytes, from: &offset)
        }
    }

    /// Keeps what came behind a request that is under way. Only then the socket is not read for a while: most
    /// clients send nothing, and for them that would be two system calls a request.
    private func keepAhead(_ bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        ahead.append(bytes)
        pause(.request)
        countKept()
    }

    /// Counts what waits here: of a head that is not complete, of the client's later requests, and of the
    /// events that it has not read.
    func countKept() {
        let byteCount = ahead.count + reader.byteCount + (stream?.waitingByteCount ?? 0)
        owner.waitingByteCount += byteCount - keptByteCount
        keptByteCount = byteCount
    }

    /// The connection has become a WebSocket.
    func dropAhead() {
        ahead = []
        reader = RequestHeadReader()
        countKept()
    }

    override var heldByteCount: Int { super.heldByteCount + keptByteCount }

    /// Answers to polls are this client's alone, though its session keeps them too.
    override var sharedOutputWeight: Int { deliveries.isEmpty ? super.sharedOutputWeight : 1 }

    /// A request waits for its answer, or to be let in; what comes behind it waits too.
    var isUnderWay: Bool {
        switch stage {
        case .answering, .admitting, .draining: true
        case .head, .body, .streaming, .ended: false
        }
    }

    /// Reads until the bytes are used up or a request is under way, behind which they wait.
    func read(_ bytes: inout MutableRawSpan, from offset: inout Int) {
        while true {
            switch stage {
            case .head:
                guard readHead(&bytes, from: &offset) else { return }
            case .body(let pending):
                guard readBody(pending, bytes.bytes, from: &offset) else { return }
            case .answering, .admitting, .draining:
                if !isReadingAhead { keepAhead(bytes.bytes.extracting(offset..<bytes.byteCount)) }
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
                countKept()
                return false
            }
            head = found
        } catch {
            refuse(error.status)
            return false
        }
        reader = RequestHeadReader()
        headBegan = nil
        if keptByteCount > 0 { countKept() }
        owner.requestBegan(on: self)
        if !isReadingAhead { settleAcknowledgedDeliveries() }
        if owner.configuration.isDevelopment,
            let foreign = gate.refusal(of: head, allowing: owner.configuration.allowedOrigins)
        {
            refuse(head, foreign)
            return false
        }
        if isRealtime(head.pathBytes) {
            upgrade(head, &bytes, offset)
            return false
        }
        if isLongPolling(head.pathBytes) { return poll(head, bytes, offset) }
        begin(head)
        return true
    }

    private func begin(_ head: RequestHead) {
        var context = ResponseContext(head, dateLine: owner.dateLine, compressor: owner.compressor)
        // Its place in the reserve is for one request.
        if channel.isReserved { context.keepsAlive = false }
        let address = RESTAddress(head)
        if address.isPreflight, !channel.isReserved {
            return send(
                .preflight(head, dateLine: owner.dateLine), PendingRequest(context, began: owner.loop.now))
        }
        let namespace = address.namespace ?? namespace(fromHost: head.authorityBytes)
        let pending = PendingRequest(context, namespace: namespace, began: owner.loop.now)
        do throws(RESTError) {
            pending.request = try RESTRequest(head, address)
        } catch {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { pending.context.keepsAlive = false }
            return post(.refuse(error), pending, byteCount: 0)
        }
        if channel.isReserved, pending.request?.credential.token == nil {
            return refuseForWantOfConnections(pending)
        }
        // Most reads: no body, and so no stage in which it is awaited.
        if head.framing == .none { return run(pending) }
        do throws(RequestContent.Refusal) {
            content = try RequestContent(of: head, byteLimit: owner.configuration.writeByteLimit)
        } catch {
            return refuse(error, pending)
        }
        pending.expectsContinue = head.expectsContinue
        // No body is waited for before it is known to be an administrator's.
        if channel.isReserved { return admit(pending) }
        if case .length(let count) = head.framing, count > IOLoop.smallByteCount {
            admit(pending)
        } else {
            awaitBody(pending)
        }
    }

    /// The database that a host names. A client addresses one host, so its name is looked at once.
    private func namespace(fromHost host: ArraySlice<UInt8>) -> String? {
        if let hostName, hostName.host[...] == host { return hostName.namespace }
        let namespace = NamespaceName.fromHost(String(decoding: host, as: UTF8.self))
        hostName = (Array(host), namespace)
        return namespace
    }

    /// Of a body, only what is still coming: a worker may be reading what is whole.
    override func giveUpHeldBytes() {
        switch stage {
        case .body(let pending), .admitting(let pending):
            _ = takeContent()
            pending.context.keepsAlive = false
            send(.error(.unavailable, pending.context), pending)
        case .answering where bodyJob != nil: break
        case .head, .answering, .draining, .streaming, .ended: channel.reset()
        }
    }

    override func finish(_ verdict: VerificationResult) { take(verdict) }

    override func finish(_ body: BodyOutcome) { take(body) }

    // MARK: Answers and events

    override func receive(_ outcome: RESTCallResult) {
        // An answer under way is that of a request given up, whose outcome comes too late.
        if case .admitting(let pending) = stage {
            if case .admitted = outcome {
                pending.isAdmitted = true
                awaitBody(pending)
                return readAhead()
            }
            // Behind a body that is not read nothing can be.
            _ = takeContent()
            pending.context.keepsAlive = false
            stage = .answering(pending)
        }
        guard case .answering(let pending) = stage, !isAnswering else { return }
        guard let request = pending.request else {
            return send(outcome.answer(to: nil, [], etag: nil, pending.context), pending)
        }
        if case .stream = outcome { return openStream(request, for: pending.identity) }
        let byteLimit = outcome.isRead && !request.isShallow ? owner.configuration.readByteLimit : nil
        if case .filtered(let node, let query) = outcome {
            surveyed = outcome
            return owner.survey(node, query, byteLimit: byteLimit, wantsETag: request.returnsETag, for: id)
        }
        let wantsETag = outcome.wantsETag(request)
        guard let node = outcome.node, byteLimit != nil || wantsETag else {
            return answer(outcome, etag: nil, pending)
        }
        let isLarge = node.isHeavier(than: min(Self.surveyedByteCount, byteLimit ?? .max))
        if isLarge, let byteLimit, byteLimit <= Self.surveyedByteCount {
            return answer(.refused(.readTooLarge), etag: nil, pending)
        }
        guard isLarge else { return answer(outcome, etag: wantsETag ? node.etag : nil, pending) }
        surveyed = outcome
        owner.survey(node, nil, byteLimit: byteLimit, wantsETag: wantsETag, for: id)
    }

    /// What the helper thread has found out about the data of ``surveyed``, or about a stream's first event.
    override func finish(_ survey: NodeSizeCheck) {
        switch stage {
        case .answering(let pending):
            guard var outcome = surveyed.take() else { return }
            if let filtered = survey.filtered { outcome = .read(filtered) }
            answer(survey.isTooHeavy ? .refused(.readTooLarge) : outcome, etag: survey.etag, pending)
        case .streaming:
            stream?.finishSurvey(isTooHeavy: survey.isTooHeavy)
            sendEvents()
        case .head, .body, .admitting, .draining, .ended: break
        }
    }

    /// A worker may be looking at data for this connection.
    private var isSurveying: Bool {
        if case .some = surveyed { return true }
        if case .streaming = stage { return true }
        return false
    }

    override func nextTick() {
        continuesLater = false
        sendAnswer()
    }

    override func channelDidDrain(_ channel: Channel) {
        if isAnswering { sendAnswer() }
        goOnIfDrained()
        sendEvents()
        super.channelDidDrain(channel)
    }

    override func receive(_ events: [StreamEvent]) {
        guard case .streaming = stage else { return }
        if stream?.hasBegun == false, case .put(_, let node)? = events.first,
            node.isHeavier(than: Self.surveyedByteCount)
        {
            stream?.hold()
            owner.survey(node, nil, byteLimit: RESTLimits.streamByteCount, wantsETag: false, for: id)
        }
        if stream?.append(events) == false { return channel.reset() }
        sendEvents()
        countKept()
        if let stream { noteLag(waitingCount: stream.waitingCount, byteCount: stream.waitingByteCount) }
        // A client that has closed its side gets what there is: whether it is still there nobody could tell.
        if endsAfterAnswer { channel.closeAfterFlush() }
    }

    override func recheck(_ revocations: RevocationState) {
        guard case .streaming = stage, let identity = listener, !revocations.allows(identity) else { return }
        listener = nil
        receive([.authRevoked])
    }

    // MARK: The end

    override func checkIdle(at now: MonotonicTime) {
        switch stage {
        case .head:
            if let headBegan, now - headBegan > owner.configuration.requestTimeout {
                return refuse(.requestTimeout)
            }
            if channel.outboundByteCount > 0 {
                // The end of the last answer is still here.
                checkAnswerPace(at: now)
            } else if now - lastHeard > owner.configuration.idleTimeout {
                channel.close()
            }
        case .body:
            let count = content?.bytes.count ?? 0
            // Who is not read cannot be too slow.
            guard !isReadingPaused else { return bodyPace = MinimumRateMonitor(count, at: now) }
            let isTooSlow = bodyPace.isTooSlow(
                count, at: now, window: owner.configuration.requestTimeout,
                bytesPerSecond: Self.slowestBodyBytesPerSecond)
            if isTooSlow { refuse(.requestTimeout) }
        case .answering(let pending):
            // Of a poll that waits, the answer to the one before it.
            if isAnswering || polling != nil && channel.outboundByteCount > 0 {
                return checkAnswerPace(at: now)
            }
            if pending.request?.method.isRead == true, now - pending.began > RESTLimits.timeout { giveUp() }
        case .draining: checkAnswerPace(at: now)
        case .streaming:
            guard let stream else { return }
            if channel.outboundByteCount > 0 || stream.isPrinting {
                checkAnswerPace(at: now)
            } else if now - stream.lastSent > EventStream.keepAliveInterval {
                receive([StreamEvent.keepAlive])
            }
        case .admitting, .ended: break
        }
    }

    /// Disconnects a client that takes nothing, or next to nothing, of what it is sent.
    private func checkAnswerPace(at now: MonotonicTime) {
        if isTakingTooSlowly(at: now) { channel.reset() }
    }

    /// Who has nothing more to ask may still wait for the last answer (RFC 9112 §9.6).
    override func channelDidEnd(_ channel: Channel) {
        if let polling {
            // What a client has closed its side of it has given up.
            polling.pollIsGone(from: self)
            return channel.closeAfterFlush()
        }
        if case .answering = stage { endsAfterAnswer = true } else { channel.closeAfterFlush() }
    }

    override func endIfIdle() {
        endsAfterAnswer = true
        switch stage {
        case .head, .body, .admitting, .draining, .streaming: channel.closeAfterFlush()
        case .answering, .ended: break
        }
    }

    override func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        _ = takeContent()
        bodyJob?.cancel()
        if isSurveying { owner.abandonJobs(of: id) }
        owner.keepUnfinished(0, for: self)
        expiry?.cancel(on: owner.loop)
        cancelTimeout()
        dropAnswer()
        stream = nil
        dropAhead()
        polling?.pollIsGone(from: self)
        settleDeliveriesAtEnd(inOrder: reason == .requested)
        super.channelDidClose(channel, reason: reason)
    }
}
