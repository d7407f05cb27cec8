import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoREST
import PandoTime
import PandoWebSocket

/// A connection that speaks HTTP: REST requests one after the other, polls, an event stream, or the upgrade
/// to a WebSocket.
///
///     head ──▶ rest ──▶ head …
///       │        └─▶ streaming, until the connection ends
///       ├────▶ poll ──▶ draining ──▶ head …
///       └────▶ ended: upgraded, moved
///
/// It decides what a request is, and in which order requests are read and answered. What becomes of one is
/// decided by ``RESTExchange``, ``PollExchange`` or ``UpgradeExchange``.
///
/// A request is read when the one before it is answered, so responses need no other order; what a client
/// sends ahead waits in ``RequestInput``, and the client is paused meanwhile.
package struct HTTPConnection {
    enum State {
        /// The next request is expected, or its head is not complete.
        case head
        /// A request of REST is in progress: ``rest`` knows how far.
        case rest
        /// A request of long polling is in progress: ``polls``.
        case poll
        /// The last response is large, and is to be taken before the next request is read
        /// (``PollExchange/mustDrain(_:)``).
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

    /// It was accepted in the administrators' reserve.
    private let isReserved: Bool
    var state = State.head
    package internal(set) var activity = Activity.silent
    package internal(set) var pauses: PauseReasons = []
    var input: RequestInput
    private var client = RequestClient()
    var rest: RESTExchange
    var polls = PollExchange()
    private var upgrade = UpgradeExchange()
    var output = ResponseOutput()
    var stream: StreamOutput?
    /// When the client last sent anything, or had its last response.
    var idleSince: MonotonicTime
    /// The client, or the process, ends with the response in progress.
    var endsAfterResponse = false
    /// The client has closed its side, and requests that came before that wait behind the one in progress.
    var endsBehindInput = false
    /// Bytes of the socket's next reads: a body comes as fast as it may.
    package private(set) var readByteLimit = RequestInput.headReadByteCount

    /// - Parameters:
    ///   - id: By which the databases know the connection.
    ///   - isReserved: It was accepted in the administrators' reserve.
    package init(_ id: SessionID, isReserved: Bool, _ context: inout ConnectionContext) {
        self.isReserved = isReserved
        input = RequestInput(context.settings.headLimits)
        rest = RESTExchange(id, isReserved: isReserved, at: context.now)
        idleSince = context.now
    }

    // MARK: Properties that the loop reads

    /// What the loop follows after each event. Mutating, so that it is read where the connection lies: the
    /// getter of a property would get a copy of it, and count each reference up and down.
    package mutating func status() -> ConnectionStatus {
        ConnectionStatus(
            unfinishedByteCount: unfinishedByteCount, waitingByteCount: waitingByteCount, pauses: pauses,
            readByteLimit: readByteLimit, needsAcknowledgedByteCount: needsAcknowledgedByteCount)
    }

    /// Bytes of a body that is not complete, or that a thread has.
    package var unfinishedByteCount: Int { rest.unfinishedByteCount }

    /// Bytes of a head that is not complete, of later requests, of a result that waits for its turn, of a
    /// response that is not written, and of events that were not read.
    package var waitingByteCount: Int {
        input.waitingByteCount + rest.waitingByteCount + output.heldByteCount + (stream?.heldByteCount ?? 0)
    }

    /// Bytes of memory that this client takes, beside the unsent bytes of its socket.
    package var heldByteCount: Int { unfinishedByteCount + waitingByteCount + rest.keptByteCount }

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

    /// For which the messages of a WebSocket that this connection has become are compressed; nil where they
    /// are not.
    package var window: DeflateWindow? { upgrade.window }

    /// Whether a request is with the databases, or its response is on its way.
    package var awaitsAnswers: Bool {
        switch state {
        case .rest: rest.isUnderWay
        case .poll: true
        case .head, .draining, .streaming, .ended: false
        }
    }

    /// Whether a response is being printed. What is printed was written, unless its length is not known yet.
    package var isResponding: Bool { output.isActive }

    /// Whether the connection has ended, or was moved to another owner.
    package var hasEnded: Bool { if case .ended = state { true } else { false } }

    /// Pauses the client for a reason outside of this state machine.
    package mutating func pause(_ reason: PauseReasons) { pauses.insert(reason) }

    /// The reason is gone.
    package mutating func resume(after reason: PauseReasons) { pauses.remove(reason) }

    // MARK: Reading

    /// Reads what a read event brought.
    package mutating func received(_ bytes: inout MutableRawSpan, _ context: inout ConnectionContext) {
        idleSince = context.now
        input.beginTurn()
        switch state {
        case .streaming, .ended: break
        case .head where input.isYielding: keepAhead(bytes.bytes)
        case .head, .rest, .poll, .draining:
            if isUnderWay {
                if bytes.byteCount > 0 { polls.hurry(&context) }
                return keepAhead(bytes.bytes)
            }
            var offset = 0
            read(&bytes, from: &offset, &context)
        }
    }

    /// Keeps what came behind a request that is in progress. Only then the client is paused for a while:
    /// most clients send nothing, and for them that would be two system calls a request.
    private mutating func keepAhead(_ bytes: RawSpan) {
        guard bytes.byteCount > 0 else { return }
        input.keep(bytes)
        pauses.insert(.request)
    }

    /// A request waits for its response, or to be admitted; what follows it waits, too.
    private var isUnderWay: Bool {
        switch state {
        case .rest: rest.isUnderWay
        case .poll, .draining: true
        case .head, .streaming, .ended: false
        }
    }

    /// Reads until the bytes are used up, a request is in progress, behind which they wait, or others have
    /// their turn.
    private mutating func read(
        _ bytes: inout MutableRawSpan, from offset: inout Int, _ context: inout ConnectionContext
    ) {
        while true {
            switch state {
            case .head:
                guard !input.turn.isOver || offset == bytes.byteCount else {
                    input.yield()
                    activity = .busy
                    pauses.insert(.request)
                    keepRest(of: bytes.bytes, from: offset)
                    return context.append(.nextTurn)
                }
                let start = offset
                defer { input.countRequest(headBytes: offset - start) }
                guard readHead(bytes.bytes, from: &offset, &context) else { return }
            case .rest where rest.awaitsBody:
                carryOut(rest.readBody(bytes.bytes, from: &offset, &context), &context)
                // It has used all bytes, and needs more.
                if case .rest = state, rest.awaitsBody { return }
            case .rest, .poll, .draining: return keepRest(of: bytes.bytes, from: offset)
            case .streaming, .ended: return
            }
        }
    }

    /// Keeps what is not read of new bytes.
    private mutating func keepRest(of bytes: RawSpan, from offset: Int) {
        if !input.isReadingAhead { keepAhead(bytes.extracting(offset..<bytes.byteCount)) }
    }

    /// Goes on with what has come meanwhile.
    mutating func readAhead(_ context: inout ConnectionContext) {
        guard var (bytes, offset) = input.beginAhead() else { return resumeReading(&context) }
        do {
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            read(&raw, from: &offset, &context)
        }
        let isKept = isUnderWay || input.isYielding
        if input.endAhead(bytes, from: isKept ? offset : bytes.count) { resumeReading(&context) }
    }

    /// The next request may come, or the end behind those that came.
    private mutating func resumeReading(_ context: inout ConnectionContext) {
        pauses.remove(.request)
        guard endsBehindInput, !input.isReadingAhead else { return }
        endsBehindInput = false
        peerEnded(&context)
    }

    /// Whether requests that came wait behind another one.
    var hasRequestsAhead: Bool { input.hasAhead && (isUnderWay || input.isYielding) }

    /// Reads a head, and begins its request.
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
            refuseHead(error.status, &context)
            return false
        }
        activity = .busy
        noteClient(of: head, &context)
        polls.noteRequest(isAhead: input.isReadingAhead, &context)
        if let foreign = client.refusal(of: head, context.settings) {
            state = .rest
            carryOut(rest.refuse(head, foreign, &context), &context)
            return false
        }
        if UpgradeRequest.isPath(head.pathBytes) {
            beginUpgrade(head, rest: bytes.extracting(offset..<bytes.byteCount), &context)
            return false
        }
        if LongPollingRequest.isPath(head.pathBytes) {
            return beginPoll(head, rest: bytes.extracting(offset..<bytes.byteCount), &context)
        }
        state = .rest
        carryOut(rest.begin(head, of: &client, &context), &context)
        return true
    }

    /// Notes whose request it is; and the request, for the log.
    private mutating func noteClient(of head: RequestHead, _ context: inout ConnectionContext) {
        let isSecure = client.note(head, &context)
        guard context.settings.logsAccess else { return }
        output.log(LoggedRequest(head, isSecure: isSecure, at: context.now))
    }

    // MARK: Kinds of requests

    /// Takes a request of long polling.
    /// - Parameter rest: What follows it.
    /// - Returns: Whether that is to be read here.
    private mutating func beginPoll(
        _ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext
    ) -> Bool {
        if isReserved {
            refuseReserved(head, &context)
            return true
        }
        state = .poll
        switch polls.begin(head, rest: rest, &context) {
        case .wait: return true
        case .respond(let response):
            send(response, &context)
            return true
        case .respondClosed:
            respondClosed(&context)
            return true
        case .move: return false
        }
    }

    /// Asks for the upgrade to a WebSocket.
    private mutating func beginUpgrade(
        _ head: RequestHead, rest: RawSpan, _ context: inout ConnectionContext
    ) {
        if isReserved { return refuseReserved(head, &context) }
        state = .ended
        upgrade.begin(head, rest: rest, &context)
    }

    private mutating func refuseReserved(_ head: RequestHead, _ context: inout ConnectionContext) {
        state = .rest
        let response = ResponseContext(head, dateLine: context.dateLine)
        carryOut(rest.refuseReserved(response, &context), &context)
    }

    /// Goes on with a request that another loop has read, and with what came behind it.
    package mutating func received(_ moved: MovedRequest, _ context: inout ConnectionContext) {
        idleSince = context.now
        polls.arrived(with: moved)
        activity = .busy
        noteClient(of: moved.head, &context)
        var bytes = moved.rest
        if UpgradeRequest.isPath(moved.head.pathBytes) {
            return beginUpgrade(moved.head, rest: bytes.rawSpan, &context)
        }
        guard beginPoll(moved.head, rest: bytes.rawSpan, &context) else { return }
        var span = bytes.mutableSpan
        var raw = unsafe span.mutableBytes
        var offset = 0
        read(&raw, from: &offset, &context)
    }

    /// Answers the handshake of ``HTTPAction/upgrade(_:rest:)``.
    /// - Parameter mayJoin: Whether the session by long polling that the request names is here, and may move.
    /// - Returns: Whether the connection is a WebSocket from now on; otherwise it ends.
    package mutating func upgrade(
        _ request: UpgradeRequest, mayJoin: Bool, _ context: inout ConnectionContext
    ) -> Bool {
        let response = upgrade.answer(request, mayJoin: mayJoin, &context)
        output.announce(response.status, &context)
        guard response.isAccepted else {
            endConnection(&context)
            return false
        }
        input.drop()
        return true
    }

    /// The owner refuses the handshake of ``HTTPAction/upgrade(_:rest:)``, and writes the response.
    package mutating func upgradeRefused(_ status: HTTPStatus, _ context: inout ConnectionContext) {
        output.announce(status, &context)
    }

    /// Moves the connection, with a request for an upgrade, to the loop of the session that it names.
    package func move(_ request: UpgradeRequest, rest: [UInt8]) -> MovedRequest {
        polls.moved(request.head, rest: rest)
    }

    /// The socket was taken away, to another loop.
    package mutating func leaveForOtherLoop(_ context: inout ConnectionContext) {
        state = .ended
        input.drop()
        polls.leave(&context)
        rest.endSession(&context)
    }

    // MARK: Responses

    /// Carries out what a request of REST has led to.
    mutating func carryOut(_ step: RESTExchange.Step, _ context: inout ConnectionContext) {
        switch step {
        case .wait: break
        case .readBody: readByteLimit = .max
        case .respond(let response): send(response, &context)
        case .stream(let request, let pending): openStream(request, pending, &context)
        case .refuse(let status, let response): refuse(.refusal(status, response), &context)
        }
    }

    mutating func send(_ response: consuming RESTResponse, _ context: inout ConnectionContext) {
        advance(output.begin(response, &context), &context)
    }

    mutating func sendMore(isTurn: Bool = false, _ context: inout ConnectionContext) {
        if output.isActive { advance(output.proceed(isTurn: isTurn, &context), &context) }
    }

    private mutating func advance(_ progress: ResponseOutput.Progress, _ context: inout ConnectionContext) {
        switch progress {
        case .waits: break
        case .yields: context.append(.nextTurn)
        case .ended(let closes): endResponse(closes: closes, &context)
        }
    }

    /// All of the response was written.
    mutating func endResponse(closes: Bool, _ context: inout ConnectionContext) {
        rest.end(&context)
        polls.end()
        guard !closes, !endsAfterResponse else { return endConnection(&context) }
        guard !polls.mustDrain(context) else { return state = .draining }
        state = .head
        readByteLimit = RequestInput.headReadByteCount
        activity = .idle
        idleSince = context.now
        readAhead(&context)
    }

    /// Nothing more is read or written.
    private mutating func endConnection(_ context: inout ConnectionContext) {
        rest.end(&context)
        state = .ended
        activity = .idle
        context.append(.closeAfterFlush)
    }

    /// The response to bytes that are not the head of a request.
    mutating func refuseHead(_ status: HTTPStatus, _ context: inout ConnectionContext) {
        client.forget()
        if context.settings.logsAccess {
            let began = input.headBegan ?? context.now
            output.log(LoggedRequest(unreadableSince: began, isSecure: context.socket.isSecure))
        }
        let isHead = input.isReadingHEAD
        refuse(.refusal(status, isHead: isHead, dateLine: context.dateLine), &context)
    }

    /// The response to bytes that are not a request. What follows them cannot be read.
    private mutating func refuse(_ refusal: RESTResponse, _ context: inout ConnectionContext) {
        output.announce(refusal.status, &context)
        var response = refusal
        while let bytes = response.next() { context.write(bytes) }
        endConnection(&context)
    }

    private mutating func openStream(
        _ request: RESTRequest, _ pending: PendingRequest, _ context: inout ConnectionContext
    ) {
        output.announce(.ok, &context)
        state = .streaming
        stream = StreamOutput(
            rest.id, request, for: pending.identity, dateLine: pending.response.dateLine, &context)
        // Requests behind a stream are not answered.
        if endsBehindInput { endsAfterResponse = true }
        pauses.remove(.request)
    }
}
