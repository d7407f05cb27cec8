import PandoBytes
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoTime
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Segments of messages as a client writes them into the query of a poll (realtime §1.5.2).
/// - Parameters:
///   - first: The number of the first segment in the session.
///   - length: Characters of one segment.
func segments(_ messages: [String], from first: Int = 0, length: Int = 1840) -> (query: String, next: Int) {
    var (query, number, index) = ("", first, 0)
    for message in messages {
        var encoded: [UInt8] = []
        encoded.append(base64: Array(message.utf8).rawSpan, alphabet: .urlSafe)
        while encoded.count % 4 != 0 { encoded.append(UInt8(ascii: ".")) }
        let pieces = stride(from: 0, to: encoded.count, by: length).map {
            text(encoded[$0..<min(encoded.count, $0 + length)])
        }
        for piece in pieces {
            query += "&seg\(index)=\(number)&ts\(index)=\(pieces.count)&d\(index)=\(piece)"
            number += 1
            index += 1
        }
    }
    return (query, number)
}

/// A ``LongPollingSession`` whose polls come on numbered connections.
struct PollingDriver {
    static let id = SessionID(5)
    static let password = Array("k2Jd83hf0Q".utf8)

    private(set) var machine: LongPollingSession
    var context: ConnectionContext
    private(set) var actions: [ConnectionAction] = []
    private(set) var messages: [DatabaseMessage] = []
    private(set) var log: [String] = []
    private var encoder = Encoder()
    private var nextSegment = 0
    /// The last copies of responses, by number.
    private var copies: [Int: Int] = [:]
    /// ``LongPollingAction/answerAtEndOfTick`` was asked for.
    private(set) var isAnswerDue = false

    /// - Parameter isStarted: The handshake was sent as the first response, and the client has received it.
    init(isStarted: Bool = true, _ configure: (inout ConnectionSettings) -> Void = { _ in }) {
        var settings = ConnectionSettings()
        configure(&settings)
        context = ConnectionContext(settings, now: testStart)
        let start = LongPollingRequest.Start(callback: Array("7".utf8), namespace: nil, previousSession: nil)
        machine = LongPollingSession(
            Self.id, start, on: SessionID(1), publicID: publicID, namespace: nil, password: Self.password,
            &context)
        finish()
        guard isStarted else { return }
        _ = send("{\"h\":1}")
        _ = endOfTick()
        _ = note([0], .received)
    }

    /// Takes out what the last event has led to: a step of a random test may be none.
    mutating func takeActions() -> (actions: [ConnectionAction], messages: [DatabaseMessage]) {
        defer { (actions, messages) = ([], []) }
        return (actions, messages)
    }

    mutating func event(_ body: (inout LongPollingSession, inout ConnectionContext) -> Void) -> [String] {
        body(&machine, &context)
        return finish()
    }

    @discardableResult
    private mutating func finish() -> [String] {
        var taken = ContiguousArray<ConnectionAction>()
        context.takeActions(into: &taken)
        actions = Array(taken)
        messages = context.messages
        context.messages = []
        for case .polling(.answerAtEndOfTick) in actions { isAnswerDue = true }
        for case .polling(.answer(let answer, _)) in actions {
            for number in answer.numbers { copies[number] = answer.copy }
        }
        let lines =
            actions.compactMap { action in
                if case .polling(.answerAtEndOfTick) = action { nil } else { action.summary }
            } + messages.map(\.summary)
        log += lines
        #expect(
            machine.heldByteCount >= 0 && machine.waitingByteCount >= 0 && machine.unfinishedByteCount >= 0)
        return lines
    }

    /// A poll comes, with messages of the client.
    mutating func poll(_ serial: UInt64, on connection: UInt64, _ clientMessages: [String] = []) -> [String] {
        let (query, next) = segments(clientMessages, from: nextSegment)
        nextSegment = next
        return poll(serial, on: connection, query: query)
    }

    mutating func poll(_ serial: UInt64, on connection: UInt64, query: String) -> [String] {
        let poll = LongPollingRequest.Poll(
            address: .init(id: Self.id, password: Self.password), serial: serial)
        let query = QueryString(Array(("x=1" + query).utf8)[...], plusIsSpace: false)
        return event { $0.receive(poll, query, on: SessionID(connection), &$1) }
    }

    /// The databases send whole frames.
    mutating func send(_ message: String) -> [String] {
        let bytes = frames(message)
        return event { $0.send(bytes.rawSpan, &$1) }
    }

    /// The databases send a message to several sessions.
    mutating func send(script: SharedBytes) -> [String] { event { $0.send(script: script, &$1) } }

    mutating func send(_ message: LargeMessage) -> [String] { event { $0.send(message, &$1) } }

    mutating func encode(_ message: LargeMessage) -> [String] {
        encoder.encodeScript(message)
        return event { $0.encoded(message, &$1) }
    }

    mutating func note(
        _ numbers: [Int], on connection: UInt64 = 1, _ delivery: PollDelivery, isLast: Bool = true
    ) -> [String] {
        let copies = copies
        return event {
            for (index, number) in numbers.enumerated() {
                let sent = SentResponses(numbers: [number], copy: copies[number] ?? 0)
                let endsHere = isLast && index == numbers.count - 1
                $0.note(sent, on: SessionID(connection), delivery, isLast: endsHere, &$1)
            }
        }
    }

    /// The end of a tick of the loop.
    mutating func endOfTick() -> [String] {
        guard isAnswerDue else { return [] }
        isAnswerDue = false
        return event { $0.respondToPolls(&$1) }
    }
}

private let publicID: PublicSessionID =
    PublicSessionID(Text(String(repeating: "0", count: 32)))
    ?? { preconditionFailure("32 digits are an id") }()

typealias PollingConversation = Conversation<PollingDriver>

extension Conversation<PollingDriver> {
    /// A session that has begun: its handshake was received, and no poll waits.
    init(_ name: String, _ steps: [Step<PollingDriver>]) { self.init(name, { PollingDriver() }, steps) }
}

extension Step<PollingDriver> {
    /// A poll comes on a connection, with messages of the client.
    static func poll(
        _ serial: UInt64, on connection: UInt64, _ messages: [String] = [], _ expected: String...
    ) -> Self {
        Step("poll \(serial) on \(connection)", expected) { $0.poll(serial, on: connection, messages) }
    }

    static func server(_ message: String, _ expected: String...) -> Self {
        Step("server \(message.prefix(60))", expected) { $0.send(message) }
    }

    static func large(_ message: LargeMessage, _ expected: String...) -> Self {
        Step("large message", expected) { $0.send(message) }
    }

    static func encoded(_ message: LargeMessage, _ expected: String...) -> Self {
        Step("encoded", expected) { $0.encode(message) }
    }

    static func endOfTick(_ expected: String...) -> Self { Step("end of tick", expected) { $0.endOfTick() } }

    static func note(
        _ numbers: [Int], on connection: UInt64 = 1, _ delivery: PollDelivery, _ expected: String...
    ) -> Self {
        Step("\(delivery) \(numbers)", expected) { $0.note(numbers, on: connection, delivery) }
    }

    static func pollIsLost(on connection: UInt64, _ expected: String...) -> Self {
        Step("connection \(connection) breaks", expected) { driver in
            driver.event { $0.pollIsLost(on: SessionID(connection), &$1) }
        }
    }

    static func hurryPoll(on connection: UInt64, _ expected: String...) -> Self {
        Step("something comes behind the poll on \(connection)", expected) { driver in
            driver.event { $0.hurryPoll(on: SessionID(connection), &$1) }
        }
    }

    static func deadline(after seconds: Double, _ expected: String...) -> Self {
        Step("deadline after \(seconds) s", expected) { driver in
            driver.context.now = driver.context.now + .milliseconds(Int(seconds * 1000))
            return driver.event { $0.deadlinePassed(&$1) }
        }
    }

    static func tick(after seconds: Double, _ expected: String...) -> Self {
        Step("tick after \(seconds) s", expected) { driver in
            driver.context.now = driver.context.now + .milliseconds(Int(seconds * 1000))
            return driver.event { $0.tick(&$1) }
        }
    }

    static func wait(_ seconds: Double) -> Self {
        Step("wait \(seconds) s", []) { driver in
            driver.context.now = driver.context.now + .milliseconds(Int(seconds * 1000))
            return []
        }
    }

    /// Any other event.
    static func event(
        _ name: String, _ expected: [String],
        _ body: @escaping @Sendable (inout LongPollingSession, inout ConnectionContext) -> Void
    ) -> Self {
        Step(name, expected) { $0.event(body) }
    }

    static func holds(_ what: String, _ condition: @escaping @Sendable (PollingDriver) -> Bool) -> Self {
        Step(what, [what]) { driver in condition(driver) ? [what] : ["not: " + what] }
    }
}
