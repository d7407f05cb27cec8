import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoStaticFiles
import PandoTime
import PandoWebSocket

/// A connection that speaks HTTP: REST requests one after the other, polls, an event stream, or the upgrade
/// to a WebSocket.
///
///     head ──▶ body ──▶ answering ──▶ head …
///       │  admitting ⇅      a large body comes only where something may come of it
///       └─▶ ended: upgraded, moved     ├─▶ streaming, until the connection ends
///                                      └─▶ draining ──▶ head …   where polls are answered
///
/// A request is read when the one before it is answered, so responses need no other order; what a client
/// sends ahead waits, and the socket is not read meanwhile.
package struct HTTPConnection {
    enum Stage {
        case head
        /// ``input`` gathers its bytes.
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
    var input: RequestInput
    var client = RequestClient()
    /// What another thread does for the request in progress.
    var work = RequestWork.none
    var response = ResponseOutput()
    var outputRate = OutputRate()
    var stream: StreamOutput?
    var polls = PollExchange()
    /// Requests that the client has sent ahead are read when others have had their turn.
    private(set) var isYielding = false
    /// When the client last sent anything, or had its last response.
    var idleSince: MonotonicTime
    /// The request has a time of its own.
    private var hasTimeout = false
    /// A request was posted to the databases.
    private var hasPosted = false
    /// The client, or the process, ends with the response in progress.
    var endsAfterResponse = false
    /// For which the messages of a WebSocket that this connection has become are compressed; nil where they
    /// are not.
    package internal(set) var window: DeflateWindow?
    /// The request in progress, where requests are logged.
    var loggedRequest: LoggedRequest?
    /// Bytes of a body that is not complete, or that a thread has.
    package internal(set) var unfinishedByteCount = 0
    /// Bytes of the socket's next reads: a body comes as fast as it may.
    package internal(set) var readByteLimit = RequestInput.headReadByteCount

    /// - Parameter isReserved: It was accepted in the administrators' reserve.
    package init(_ id: SessionID, isReserved: Bool, _ context: inout ConnectionContext) {
        self.id = id
        self.isReserved = isReserved
        input = RequestInput(context.settings.headLimits, at: context.now)
        idleSince = context.now
    }

    /// Bytes of a head that is not complete, of later requests, and of events that were not read.
    package var waitingByteCount: Int {
        input.waitingByteCount + (stream?.waitingByteCount ?? 0)
    }

    /// Bytes of memory that this client takes, beside the unsent bytes of its socket.
    package var heldByteCount: Int { unfinishedByteCount + waitingByteCount }

    /// Whether others may hold what is unsent, too. Responses to polls are this client's alone, though its
    /// session keeps them.
    package var sharesOutput: Bool { polls.deliveries.isEmpty }

    /// Whether ``SocketStatus/acknowledgedByteCount`` is needed with every event.
    package var needsAcknowledgedByteCount: Bool { !polls.deliveries.isEmpty }

    /// Whether a response to a poll was not acknowledged when ``noteAcknowledged(_:)`` last looked.
    package var awaitsAcknowledgement: Bool { polls.deliveries.awaitsAcknowledgement }

    /// The session whose poll waits here.
    package var polling: SessionID? { polls.session }

    /// Of the last request, what its trusted proxy says of its client; empty for all others.
    package var forwardedFor: [UInt8] { client.forwardedFor }

    /// The socket is not read for a reason outside of this state machine.
    package mutating func pause(_ reason: PauseReasons) { pauses.insert(reason) }

    /// The reason is gone.
    package mutating func resume(after reason: PauseReasons) { pauses.remove(reason) }

    /// Whether a request is with the databases, or its response is on its way.
    package var awaitsAnswers: Bool {
        switch stage {
        case .admitting, .answering: true
        case .head, .body, .draining, .streaming, .ended: false
        }
    }

    /// Whether it has ended the connection, or given it away.
    package var hasEnded: Bool { if case .ended = stage { true } else { false } }

    // MARK: Reading

    /// Reads what a read event brought.
    package mutating func received(_ bytes: inout MutableRawSpan, _ context: inout ConnectionContext) {
        idleSince = context.now
        switch stage {
        case .answering, .admitting, .draining: keepAhead(bytes.bytes)
        case .head where isYielding: keepAhead(bytes.bytes)
        case .streaming, .ended: break
        case .head, .body:
            var offset = 0
            read(&bytes, from: &offset, &context)
        }
    }

    /// Keeps what came behind a request that is in progress. Only then the socket is not read for a while:
    /// most clients send nothing, and for them that would be two system calls a request.
    private mutating func keepAhead(_ bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        input.ahead.append(bytes)
        pauses.insert(.request)
    }

    /// A request waits for its response, or to be admitted; what follows it waits, too.
    private var isUnderWay: Bool {
        switch stage {
        case .answering, .admitting, .draining: true
        case .head, .body, .streaming, .ended: false
        }
    }

    /// Requests that are answered at once, and bytes of their heads, that are read before others have their
    /// turn: one read of a socket may hold ten thousand.
    static let turnRequestCount = 32
    static let turnByteCount = 16 << 10

    /// Reads until the bytes are used up, a request is in progress, behind which they wait, or others have
    /// their turn.
    private mutating func read(
        _ bytes: inout MutableRawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) {
        var (requestCount, headByteCount) = (0, 0)
        while true {
            switch stage {
            case .head:
                let mayRead = requestCount < Self.turnRequestCount && headByteCount < Self.turnByteCount
                guard mayRead || offset == bytes.byteCount else {
                    isYielding = true
                    activity = .busy
                    pauses.insert(.request)
                    if !input.ahead.isReading { keepAhead(bytes.bytes.extracting(offset..<bytes.byteCount)) }
                    return context.append(.nextTurn)
                }
                let start = offset
                defer {
                    requestCount += 1
                    headByteCount += offset - start
                }
                guard readHead(bytes.bytes, from: &offset, &context) else { return }
            case .body(let pending):
                guard readBody(pending, bytes.bytes, from: &offset, &context) else { return }
            case .answering, .admitting, .draining:
                if !input.ahead.isReading { keepAhead(bytes.bytes.extracting(offset..<bytes.byteCount)) }
                return
            case .streaming, .ended: return
            }
        }
    }

    /// Goes on with what has come meanwhile.
    mutating func readAhead(_ context: inout ConnectionContext) {
        isYielding = false
        guard var (bytes, offset) = input.ahead.begin() else { return resume() }
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            read(&raw, from: &offset, &context)
        }
        input.ahead.end(bytes, from: isUnderWay || isYielding ? offset : bytes.count)
        if input.ahead.byteCount == 0 { resume() }
    }

    /// The next request may come.
    mutating func resume() { pauses.remove(.request) }

    /// - Returns: false when more bytes are needed, or none of them any more.
    private mutating func readHead(
        _ bytes: RawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) -> Bool {
        let head: RequestHead
        do throws(HTTPError) {
            guard let found = try input.readHead(bytes, from: &offset, at: context.now) else { return false }
            head = context.socket.isTrustedProxy ? RequestHead(forwarded: found) : found
        } catch {
            switch error {
            case .headTooLarge, .targetTooLong, .tooManyQueryPairs, .tooManyHeaderFields:
                context.append(.countLimit(.headBytes))
            default: break
            }
            refuse(error.status, isHead: input.isReadingHEAD, &context)
            return false
        }
        activity = .busy
        noteClient(of: head, &context)
        if !input.ahead.isReading, !polls.deliveries.isEmpty {
            polls.deliveries.settleAcknowledged(&context)
        }
        if let foreign = client.refusal(of: head, context.settings) {
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

    /// Notes whose request it is; and the request, for the log.
    private mutating func noteClient(of head: RequestHead, _ context: inout ConnectionContext) {
        let isSecure = client.note(head, &context)
        guard context.settings.logsAccess else { return }
        loggedRequest = LoggedRequest(head, isSecure: isSecure, at: context.now)
    }

    /// Goes on with a request that another loop has read, and with what came behind it.
    package mutating func received(_ moved: MovedRequest, _ context: inout ConnectionContext) {
        idleSince = context.now
        polls.moveCount = moved.moveCount
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

    // MARK: To the databases

    /// Posts a request that is in progress, or waits to be admitted.
    /// - Parameter grant: What a large body takes of the process's memory.
    mutating func post(
        _ action: RESTCall.Action, _ pending: PendingRequest, byteCount: Int,
        grant: ParsingBudget.Grant? = nil, _ context: inout ConnectionContext
    ) {
        switch stage {
        case .admitting: break
        case .head, .body, .answering, .draining, .streaming, .ended: stage = .answering(pending)
        }
        if case .refuse(.payloadTooLarge) = action { context.append(.countLimit(.bodyBytes)) }
        hasPosted = true
        let call = RESTCall(namespace: pending.namespace, action: action, grant: grant)
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
