import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoRandom
import PandoTime
import PandoWebSocket
import PandoWire

@testable import PandoConnections

/// A session by long polling with its HTTP connections, and the WebSocket that it may move to: a loop in
/// small, which carries out what the machines ask of each other. The test is the browser, the network and the
/// databases.
struct PollingWorld {
    static let session = SessionID(5)
    static let webSocketID = SessionID(1_000_000)
    static let password = "k2Jd83hf0Q"

    var now = testStart
    private let settings = ConnectionSettings()
    private(set) var polling: LongPollingSession?
    private(set) var webSocket: WebSocketConnection?
    /// The WebSocket carries the session.
    private(set) var hasMoved = false
    private var connections: [SessionID: Connection] = [:]
    private var pollsToAnswer = false
    private var isRemoved = false
    private var former: LongPollingSession?
    /// Requests that were posted to the databases, in order, by their numbers.
    private(set) var posted: [Int64] = []
    /// The databases have had the message that the session is over.
    private(set) var isClosed = false
    /// Frames that were sent on the WebSocket, as text.
    let webSocketOutput = ServerFrameReader()
    private(set) var webSocketTexts: [String] = []

    /// An HTTP connection with the bytes that its client has not read yet.
    struct Connection {
        var machine: HTTPConnection
        var socket = ScriptedSocket(lowWaterByteCount: 64 << 10)
        let output = ResponseReader()
    }

    /// Responses that were completed on a connection: the bodies.
    private(set) var responses: [(connection: SessionID, body: String)] = []

    // MARK: HTTP

    /// The browser opens a connection.
    mutating func connect(_ id: SessionID) {
        var context = ConnectionContext(settings, now: now)
        connections[id] = Connection(machine: HTTPConnection(id, isReserved: false, &context))
        connections[id]?.socket.takesAll = false
    }

    var openConnections: [SessionID] {
        connections.filter { $0.value.socket.end == nil }.keys.sorted { $0.rawValue < $1.rawValue }
    }

    mutating func send(_ request: String, on id: SessionID) {
        var bytes = Array(request.utf8)
        onConnection(id) { machine, context in
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            machine.received(&raw, &context)
        }
    }

    /// The client's system takes all that was sent on a connection.
    mutating func take(on id: SessionID) {
        guard connections[id]?.socket.take(.max) == true else { return }
        onConnection(id) { $0.drained(&$1) }
    }

    /// The connection is gone.
    mutating func close(_ id: SessionID, inOrder: Bool) {
        guard connections[id] != nil else { return }
        onConnection(id) { $0.closed(inOrder: inOrder, &$1) }
        connections[id] = nil
    }

    private mutating func onConnection(
        _ id: SessionID, _ event: (inout HTTPConnection, inout ConnectionContext) -> Void
    ) {
        guard var connection = connections[id] else { return }
        var context = ConnectionContext(settings, now: now)
        context.socket = connection.socket.status
        event(&connection.machine, &context)
        connections[id] = connection
        carryOut(&context, of: id)
    }

    // MARK: The session

    private mutating func onPolling(_ event: (inout LongPollingSession, inout ConnectionContext) -> Void) {
        var context = ConnectionContext(settings, now: now)
        if var session = polling {
            event(&session, &context)
            polling = session
        } else if var session = former {
            event(&session, &context)
            former = session
        } else {
            return
        }
        carryOut(&context, of: Self.session)
    }

    /// The databases send a message to the session, whatever carries it.
    mutating func push(_ message: String) {
        let bytes = frames(message)
        if hasMoved {
            onWebSocket { machine, context in
                switch machine.send(bytes.rawSpan, &context) {
                case .write, .writeAndCarryOut: context.write(bytes)
                case .drop, .carryOut: break
                }
            }
        } else {
            onPolling { $0.send(bytes.rawSpan, &$1) }
        }
    }

    /// The time that the session has asked for, or a tick, or another turn.
    mutating func deadline() {
        noteAcknowledged()
        onPolling { $0.deadlinePassed(&$1) }
    }

    mutating func tick() {
        onPolling { $0.tick(&$1) }
        for id in openConnections { onConnection(id) { $0.tick(&$1) } }
    }

    mutating func endOfTick() {
        while pollsToAnswer {
            pollsToAnswer = false
            onPolling { $0.respondToPolls(&$1) }
        }
        if isRemoved { polling = nil }
    }

    private mutating func noteAcknowledged() {
        for id in (polling ?? former)?.unconfirmedConnections ?? []
        where connections[id]?.machine.awaitsAcknowledgement == true {
            onConnection(id) { $0.noteAcknowledged(&$1) }
        }
    }

    // MARK: The WebSocket

    /// The browser tries a WebSocket.
    mutating func openWebSocket() {
        guard polling?.mayBeJoined == true, webSocket == nil else { return }
        var context = ConnectionContext(settings, now: now)
        webSocket = WebSocketConnection(Self.webSocketID, joining: Self.session, &context)
        onPolling { $0.join(Self.webSocketID, &$1) }
        onWebSocket { $0.offerMove(&$1) }
    }

    mutating func sendOnWebSocket(_ messages: [String]) {
        var bytes = messages.flatMap { [UInt8].clientText($0) }
        onWebSocket { machine, context in
            var span = bytes.mutableSpan
            var raw = unsafe span.mutableBytes
            machine.received(&raw, &context)
        }
    }

    mutating func closeWebSocket() {
        onWebSocket { $0.closed(&$1) }
        webSocket = nil
    }

    private mutating func onWebSocket(_ event: (inout WebSocketConnection, inout ConnectionContext) -> Void) {
        guard var machine = webSocket else { return }
        var context = ConnectionContext(settings, now: now)
        event(&machine, &context)
        webSocket = machine
        carryOut(&context, of: Self.webSocketID)
    }

    // MARK: What the machines ask for

    private mutating func carryOut(_ context: inout ConnectionContext, of id: SessionID) {
        var actions = ContiguousArray<ConnectionAction>()
        context.takeActions(into: &actions)
        for message in context.messages {
            switch message {
            case .request(let request): posted.append(request.number)
            case .closed: isClosed = true
            default: break
            }
        }
        for action in actions {
            switch action {
            case .write(let bytes): write(bytes, of: id)
            case .writeShared(let bytes): write(bytes.array, of: id)
            case .closeAfterFlush, .close, .reset: connections[id]?.socket.end(action.summary)
            case .nextTurn: onPolling { $0.nextTurn(&$1) }
            case .http(let action): carryOut(action, of: id)
            case .polling(let action): carryOut(action)
            case .handover(let action): carryOut(action)
            default: break
            }
        }
    }

    private mutating func write(_ bytes: [UInt8], of id: SessionID) {
        if id == Self.webSocketID {
            webSocketTexts += webSocketOutput.read(bytes)
        } else if connections[id]?.socket.write(bytes.count) == true {
            for _ in connections[id]?.output.read(bytes) ?? [] {
                responses.append((id, text(connections[id]?.output.bodies.last ?? [])))
            }
        }
    }

    private mutating func carryOut(_ action: HTTPAction, of id: SessionID) {
        switch action {
        case .startPolling(let start, _, _):
            guard let publicID = PublicSessionID(Text(String(repeating: "0", count: 32))) else { return }
            var context = ConnectionContext(settings, now: now)
            polling = LongPollingSession(
                Self.session, start, on: id, publicID: publicID, namespace: nil,
                password: Array(Self.password.utf8),
                &context)
            carryOut(&context, of: Self.session)
        case .poll(let poll, let query):
            guard polling != nil || former != nil else { return onConnection(id) { $0.respondClosed(&$1) } }
            noteAcknowledged()
            onPolling { $0.receive(poll, query, on: id, &$1) }
        case .disconnectPolling: onPolling { $0.disconnect(&$1) }
        case .pollIsLost: onPolling { $0.pollIsLost(on: id, &$1) }
        case .hurryPoll: onPolling { $0.hurryPoll(on: id, &$1) }
        case .delivery(_, let sent, let delivery, let isLast):
            onPolling { $0.note(sent, on: id, delivery, isLast: isLast, &$1) }
        case .upgrade, .move, .reportForeign, .reportPlainClient, .countRefusal, .keepReserved, .logAccess:
            break
        }
    }

    private mutating func carryOut(_ action: LongPollingAction) {
        switch action {
        case .holdPoll(let id): onConnection(id) { machine, _ in machine.holdPoll(of: Self.session) }
        case .releasePoll(let id): onConnection(id) { machine, _ in machine.releasePoll() }
        case .answer(let answer, let id):
            if connections[id] != nil {
                onConnection(id) { $0.answer(answer, of: Self.session, &$1) }
            } else {
                onPolling { session, _ in session.lost(answer, on: id) }
            }
        case .respondClosed(let id): onConnection(id) { $0.respondClosed(&$1) }
        case .refuse(let error, let id): onConnection(id) { $0.refusePoll(error, &$1) }
        case .reset(let id): connections[id]?.socket.end("reset")
        case .loseDeliveries(let id): onConnection(id) { $0.loseDeliveries(of: Self.session, &$1) }
        case .answerAtEndOfTick: pollsToAnswer = true
        case .noPollWaits, .pollWaits: break
        case .remove: isRemoved = true
        }
    }

    private mutating func carryOut(_ action: HandoverAction) {
        switch action {
        case .acknowledged: onPolling { $0.webSocketAcknowledged(Self.webSocketID, &$1) }
        case .webSocketIsGone: onPolling { $0.webSocketIsGone(Self.webSocketID, &$1) }
        case .leaveFormer:
            onPolling { $0.leaveFormer(&$1) }
            former = nil
        case .refuse: onWebSocket { $0.refuseMove(&$1) }
        case .move:
            guard var session = polling else { return }
            let moved = session.moveSession()
            former = session
            polling = nil
            hasMoved = true
            onWebSocket { $0.takeOver(moved, &$1) }
        case .forgetFormer:
            onWebSocket { machine, _ in machine.forgetFormer() }
            former = nil
        }
    }
}
