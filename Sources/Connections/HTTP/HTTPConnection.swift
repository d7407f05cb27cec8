import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoStaticFiles
import PandoTime
import PandoWebSocket

/// A connection that speaks HTTP: REST requests one after the other, polls, an event stream, or the upgrade to a
/// WebSocket.
///
///     head ──▶ body ──▶ answering ──▶ head …
///       │  admitting ⇅      a large body comes only where something may come of it
///       └─▶ ended: upgraded, moved     ├─▶ streaming, until the connection ends
///                                      └─▶ draining ──▶ head …   where polls are answered
///
/// A request is read when the one before it is answered, so responses need no other order; what a client sends
/// ahead waits, and the socket is not read meanwhile.
package struct HTTPConnection {
    enum Stage {
        case head
        /// ``content`` gathers its bytes.
        case body(PendingRequest)
        /// A large body waits, announced or begun, until it is known that the request is not refused whatever
        /// it says.
        case admitting(PendingRequest)
        case answering(PendingRequest)
        /// The response is large, and is to be taken before the next request is read (``mustDrain(_:)``).
        case draining
        /// ``stream`` has the events.
        case streaming
        case ended
    }

    /// Whether the connection may be closed so that others can be accepted.
    package enum Activity {
        /// It has sent no complete request yet.
        case silent
        /// A request is in progress.
        case busy
        /// Its request was answered, and it has sent no other.
        case idle
    }

    /// By which the databases know the connection.
    package let id: SessionID
    /// It was accepted in the administrators' reserve.
    let isReserved: Bool
    var stage = Stage.head
    package internal(set) var activity = Activity.silent
    package internal(set) var pauses: PauseReasons = []
    private var reader: RequestHeadReader
    private var filter = DevelopmentFilter()
    private var hostName: (host: [UInt8], namespace: String?)?
    /// When the head that is not complete began.
    private(set) var headBegan: MonotonicTime?
    /// When the client last sent anything, or had its last response.
    var idleSince: MonotonicTime
    /// What the client sent behind a request that is in progress.
    var ahead = InputAhead()
    var content: RequestContent?
    var bodyRate: MinimumRateMonitor
    var response = ResponseOutput()
    var stream: StreamOutput?
    /// The result whose data a worker measures.
    var measured: RESTCallResult?
    /// A token is being verified; what the request holds waits in ``content``.
    var isVerifying = false
    /// A thread has the body.
    var isReadingBody = false
    /// The request has a time of its own.
    private var hasTimeout = false
    /// ``ConnectionAction/expire(at:)`` is in force.
    var hasExpiry = false
    /// A request was posted to the databases.
    private var hasPosted = false
    /// The client, or the process, ends with the response in progress.
    var endsAfterResponse = false
    var outputRate = OutputRate()
    /// The session whose poll waits here.
    package internal(set) var polling: SessionID?
    var deliveries = PollDeliveries()
    /// Responses of long polling were written here.
    var hasAnsweredPolls = false
    /// Of the last request, what its trusted proxy says of its client; empty for all others.
    package private(set) var forwardedFor: [String] = []
    /// For which the messages of a WebSocket that this connection has become are compressed; nil where they are not.
    package internal(set) var window: DeflateWindow?
    /// The request in progress, where requests are logged.
    var loggedRequest: LoggedRequest?
    /// Nil until there is something to note.
    var allowance: ConnectionAllowance?
    /// How often the connection was moved between loops.
    var moveCount = 0
    /// Bytes of a body that is not complete, or that a thread has.
    package internal(set) var unfinishedByteCount = 0
    /// Bytes of the socket's next reads: a body comes as fast as it may.
    package internal(set) var readByteLimit = Self.headReadByteCount

    static let headReadByteCount = 64 << 10

    /// - Parameter isReserved: It was accepted in the administrators' reserve.
    package init(_ id: SessionID, isReserved: Bool, _ context: inout ConnectionContext) {
        self.id = id
        self.isReserved = isReserved
        reader = RequestHeadReader(limits: context.settings.headLimits)
        bodyRate = MinimumRateMonitor(at: context.now)
        idleSince = context.now
    }

    /// Bytes of a head that is not complete, of later requests, and of events that were not read.
    package var waitingByteCount: Int {
        ahead.byteCount + reader.byteCount + (stream?.waitingByteCount ?? 0)
    }

    /// Bytes of memory that this client takes, beside the unsent bytes of its socket.
    package var heldByteCount: Int { unfinishedByteCount + waitingByteCount }

    /// Whether others may hold what is unsent, too. Responses to polls are this client's alone, though its session
    /// keeps them.
    package var sharesOutput: Bool { deliveries.isEmpty }

    /// Whether ``SocketStatus/acknowledgedByteCount`` is needed with every event.
    package var needsAcknowledgedByteCount: Bool { !deliveries.isEmpty }

    /// Whether a response to a poll was not acknowledged when ``noteAcknowledged(_:)`` last looked.
    package var awaitsAcknowledgement: Bool { deliveries.awaitsAcknowledgement }

    /// The socket is not read for a reason that is not the machine's own.
    package mutating func pause(_ reason: PauseReasons) { pauses.insert(reason) }

    /// The reason is gone.
    package mutating func resume(after reason: PauseReasons) { pauses.remove(reason) }

    /// Whether it has ended the connection, or given it away.
    package var hasEnded: Bool { if case .ended = stage { true } else { false } }

    /// Of the request whose head is not complete.
    var isReadingHEAD: Bool { reader.isHead }

    // MARK: Reading

    /// Reads what a read event brought.
    package mutating func received(_ bytes: inout MutableRawSpan, _ context: inout ConnectionContext) {
        idleSince = context.now
        switch stage {
        case .answering, .admitting, .draining: keepAhead(bytes.bytes)
        case .streaming, .ended: break
        case .head, .body:
            var offset = 0
            read(&bytes, from: &offset, &context)
        }
    }

    /// Keeps what came behind a request that is in progress. Only then the socket is not read for a while: most
    /// clients send nothing, and for them that would be two system calls a request.
    private mutating func keepAhead(_ bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        ahead.append(bytes)
        pauses.insert(.request)
    }

    /// A request waits for its response, or to be admitted; what follows it waits, too.
    private var isUnderWay: Bool {
        switch stage {
        case .answering, .admitting, .draining: true
        case .head, .body, .streaming, .ended: false
        }
    }

    /// Reads until the bytes are used up or a request is in progress, behind which they wait.
    private mutating func read(
        _ bytes: inout MutableRawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) {
        while true {
            switch stage {
            case .head:
                guard readHead(bytes.bytes, from: &offset, &context) else { return }
            case .body(let pending):
                guard readBody(pending, bytes.bytes, from: &offset, &context) else { return }
            case .answering, .admitting, .draining:
                if !ahead.isReading { keepAhead(bytes.bytes.extracting(offset..<bytes.byteCount)) }
                return
            case .streaming, .ended: return
            }
        }
    }

    /// Goes on with what has come meanwhile.
    mutating func readAhead(_ context: inout ConnectionContext) {
        guard var (bytes, offset) = ahead.begin() else { return resume() }
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            read(&raw, from: &offset, &context)
        }
        ahead.end(bytes, from: isUnderWay ? offset : bytes.count)
        if ahead.byteCount == 0 { resume() }
    }

    /// The next request may come.
    mutating func resume() { pauses.remove(.request) }

    /// - Returns: false when more bytes are needed, or none of them any more.
    private mutating func readHead(
        _ bytes: RawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) -> Bool {
        let head: RequestHead
        do throws(HTTPError) {
            guard let found = try reader.read(bytes, from: &offset) else {
                if headBegan == nil, !reader.isIdle { headBegan = context.now }
                return false
            }
            head = context.socket.isTrustedProxy ? RequestHead(forwarded: found) : found
        } catch {
            switch error {
            case .headTooLarge, .targetTooLong, .tooManyHeaderFields:
                context.append(.countLimit(.headBytes))
            default: break
            }
            refuse(error.status, isHead: reader.isHead, &context)
            return false
        }
        reader = RequestHeadReader(limits: context.settings.headLimits)
        headBegan = nil
        activity = .busy
        noteClient(of: head, &context)
        if !ahead.isReading, !deliveries.isEmpty { deliveries.settleAcknowledged(&context) }
        if context.settings.isDevelopment,
            let foreign = filter.refusal(of: head, allowing: context.settings.allowedOrigins)
        {
            refuse(head, foreign, &context)
            return false
        }
        if UpgradeRequest.isPath(head.pathBytes) {
            beginUpgrade(head, rest: bytes.extracting(offset..<bytes.byteCount), &context)
            return false
        }
        if LongPollingRequest.isPath(head.pathBytes) {
            return poll(head, rest: bytes.extracting(offset..<bytes.byteCount), &context)
        }
        begin(head, &context)
        return true
    }

    /// Notes what the head says of the client, where the peer is a trusted proxy; and the request, for the log.
    private mutating func noteClient(of head: RequestHead, _ context: inout ConnectionContext) {
        var isSecure = context.socket.isSecure
        if context.socket.isTrustedProxy {
            forwardedFor = head.forwardedFor
            if let forwarded = head.forwardedIsSecure {
                isSecure = forwarded
                if !forwarded { context.append(.http(.reportPlainClient)) }
            }
        }
        guard context.settings.logsAccess else { return }
        loggedRequest = LoggedRequest(head, isSecure: isSecure, at: context.now)
    }

    private mutating func begin(_ head: RequestHead, _ context: inout ConnectionContext) {
        var response = ResponseContext(
            head, dateLine: context.dateLine, compressor: context.settings.compressor)
        // Its place in the reserve is for one request.
        if isReserved { response.keepsAlive = false }
        if !isReserved, StaticSite.mayHave(head), let site = context.settings.siteHolder?.site,
            let file = site.response(to: head, acceptsGzip: response.acceptsGzip)
        {
            return send(
                .file(file.status, head: file.head, body: file.body, response),
                PendingRequest(response, began: context.now), &context)
        }
        let address = RESTAddress(head)
        if address.isPreflight, !isReserved {
            return send(
                .preflight(head, dateLine: context.dateLine), PendingRequest(response, began: context.now),
                &context)
        }
        guard admitsClient(&context) else {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { response.keepsAlive = false }
            return send(
                .error(.limitExceeded(.connectionsPerAddress, retrySeconds: 1), response),
                PendingRequest(response, began: context.now), &context)
        }
        let namespace = address.namespace ?? namespace(fromHost: head.authorityBytes)
        let request: RESTRequest
        do throws(RESTError) {
            request = try RESTRequest(head, address)
        } catch {
            // Its body is not read, so nothing behind it can be.
            if head.framing != .none, head.framing != .length(0) { response.keepsAlive = false }
            let pending = PendingRequest(response, namespace: namespace, began: context.now)
            return post(.refuse(error), pending, byteCount: 0, &context)
        }
        let pending = PendingRequest(response, request, namespace: namespace, began: context.now)
        pending.hasCertificate = context.socket.isAdministrator && head.mayUseCertificate
        if isReserved, request.credential.token == nil, !pending.hasCertificate {
            return refuseReserved(pending, &context)
        }
        // Most reads: no body, and so no stage in which it is awaited.
        if head.framing == .none { return run(pending, &context) }
        do throws(RequestContent.Refusal) {
            content = try RequestContent(of: head, byteLimit: context.settings.writeByteLimit)
        } catch {
            return refuse(error, pending, &context)
        }
        pending.expectsContinue = head.expectsContinue
        // No body is waited for before it is known to be an administrator's.
        if isReserved { return admit(pending, &context) }
        if case .length(let count) = head.framing, count > ConnectionLimits.smallByteCount {
            admit(pending, &context)
        } else {
            awaitBody(pending, &context)
        }
    }

    /// The database that a host names. A client addresses one host, so its name is parsed once.
    private mutating func namespace(fromHost host: ArraySlice<UInt8>) -> String? {
        if let hostName, hostName.host[...] == host { return hostName.namespace }
        let namespace = NamespaceName.fromHost(String(decoding: host, as: UTF8.self))
        hostName = (Array(host), namespace)
        return namespace
    }

    /// Goes on with a request that another loop has read, and with what came behind it.
    package mutating func received(_ moved: MovedRequest, _ context: inout ConnectionContext) {
        idleSince = context.now
        moveCount = moved.moveCount
        activity = .busy
        noteClient(of: moved.head, &context)
        var bytes = moved.rest
        if UpgradeRequest.isPath(moved.head.pathBytes) {
            return beginUpgrade(moved.head, rest: bytes.rawSpan, &context)
        }
        guard poll(moved.head, rest: bytes.rawSpan, &context) else { return }
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        var offset = 0
        read(&raw, from: &offset, &context)
    }

    /// Drops what came and was not read.
    mutating func dropInput() {
        ahead = InputAhead()
        reader = RequestHeadReader()
    }

    // MARK: To the databases

    /// Posts a request that is in progress, or waits to be admitted.
    mutating func post(
        _ action: RESTCall.Action, _ pending: PendingRequest, byteCount: Int,
        _ context: inout ConnectionContext
    ) {
        switch stage {
        case .admitting: break
        case .head, .body, .answering, .draining, .streaming, .ended: stage = .answering(pending)
        }
        if case .refuse(.payloadTooLarge) = action { context.append(.countLimit(.bodyBytes)) }
        hasPosted = true
        let call = RESTCall(namespace: pending.namespace, action: action)
        context.post(.rest(id, call, byteCount: byteCount), byteCount: byteCount)
    }

    /// Posts the end of the connection to the databases, where a request of it was posted before.
    mutating func endSession(_ context: inout ConnectionContext) {
        guard hasPosted else { return }
        hasPosted = false
        context.post(.closed(id))
    }

    // MARK: The request's own time

    mutating func setTimeout(_ timeout: Duration, _ context: inout ConnectionContext) {
        hasTimeout = true
        context.append(.wake(at: context.now + timeout))
    }

    mutating func cancelTimeout(_ context: inout ConnectionContext) {
        guard hasTimeout else { return }
        hasTimeout = false
        context.append(.wake(at: nil))
    }
}
