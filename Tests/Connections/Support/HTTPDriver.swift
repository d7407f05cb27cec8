import PandoBytes
import PandoEngine
import PandoIdentity
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// The head of a request, with its empty line, and the body behind it.
func request(_ line: String, _ fields: String..., body: String = "") -> String {
    let fields = fields.contains { $0.hasPrefix("Host:") } ? fields : ["Host: localhost"] + fields
    return ([line + " HTTP/1.1"] + fields + ["", body]).joined(separator: "\r\n")
}

/// A write with a body of a known length.
func write(_ line: String, _ body: String, _ fields: String...) -> String {
    ([line + " HTTP/1.1", "Host: localhost"] + fields + ["Content-Length: \(body.utf8.count)", "", body])
        .joined(separator: "\r\n")
}

/// Data, as JSON.
func node(_ json: String) -> Node {
    do {
        return try Node(json: Array(json.utf8).rawSpan)
    } catch {
        Issue.record("\(json): \(error)")
        return .empty
    }
}

/// An ``HTTPConnection`` on a scripted socket.
struct HTTPDriver {
    static let id = SessionID(7)

    var base: SocketDriver<HTTPConnection>
    let output: ResponseReader

    /// - Parameter readsOutput: What is written is shown as the client reads it; otherwise it is only
    ///   counted.
    init(
        isReserved: Bool = false, readsOutput: Bool = true,
        _ configure: (inout ConnectionSettings) -> Void = { _ in }
    ) {
        var settings = ConnectionSettings()
        configure(&settings)
        let output = ResponseReader()
        self.output = output
        base = SocketDriver(settings, reading: { readsOutput ? output.read($0) : [] }) {
            HTTPConnection(Self.id, isReserved: isReserved, &$0)
        }
    }

    var machine: HTTPConnection { base.machine }

    mutating func event(_ body: (inout HTTPConnection, inout ConnectionContext) -> Void) -> [String] {
        let lines = base.event(body)
        return lines + takeAll()
    }

    mutating func receive(_ bytes: [UInt8]) -> [String] {
        let lines = base.input(bytes) { $0.received(&$1, &$2) }
        return lines + takeAll()
    }

    /// A client that reads at once takes what an event has written.
    private mutating func takeAll() -> [String] {
        check()
        var lines: [String] = []
        while base.socket.takesAll, base.socket.take(.max) {
            lines += base.event(isCaused: true) { $0.drained(&$1) }
        }
        return lines
    }

    mutating func receive(_ text: String) -> [String] { receive(Array(text.utf8)) }

    /// The client takes bytes, all of them by default.
    mutating func take(_ byteCount: Int = .max) -> [String] {
        guard base.socket.take(byteCount) else { return [] }
        return event { $0.drained(&$1) }
    }

    mutating func receive(_ result: RESTCallResult) -> [String] { event { $0.receive(result, &$1) } }

    mutating func tick() -> [String] { event { $0.tick(&$1) } }

    /// What holds between any two events.
    private func check(sourceLocation: SourceLocation = #_sourceLocation) {
        let machine = base.machine
        #expect(
            machine.heldByteCount >= 0 && machine.waitingByteCount >= 0 && machine.unfinishedByteCount >= 0)
        #expect(base.context.compressingCount >= 0 && base.context.bufferingCount >= 0)
        if case .head = machine.state {
            #expect(
                machine.pauses.contains(.request) == machine.input.isYielding, "the next request may come",
                sourceLocation: sourceLocation)
        }
    }
}

typealias HTTPConversation = Conversation<HTTPDriver>

extension Conversation<HTTPDriver> {
    init(_ name: String, _ steps: [Step<HTTPDriver>]) { self.init(name, { HTTPDriver() }, steps) }
}

extension Step<HTTPDriver> {
    /// The client sends.
    static func client(_ text: String, _ expected: String...) -> Self {
        Step("client \(text.prefix(60))", expected) { $0.receive(text) }
    }

    static func client(_ bytes: [UInt8], _ expected: String...) -> Self {
        Step("client sends \(bytes.count) bytes", expected) { $0.receive(bytes) }
    }

    /// The databases have finished the request.
    static func result(_ result: RESTCallResult, _ expected: String...) -> Self {
        Step("result", expected) { $0.receive(result) }
    }

    static func events(_ events: [StreamEvent], _ expected: String...) -> Self {
        Step("events", expected) { driver in driver.event { $0.receive(events, &$1) } }
    }

    static func accepted(_ identity: Identity, _ expected: String...) -> Self {
        Step("token accepted", expected) { driver in driver.event { $0.verified(.accepted(identity), &$1) } }
    }

    static func refused(_ error: TokenError, _ expected: String...) -> Self {
        Step("token refused", expected) { driver in driver.event { $0.verified(.refused(error), &$1) } }
    }

    /// A worker has measured data.
    static func measured(
        isTooHeavy: Bool = false, filtered: Node? = nil, etag: String? = nil, _ expected: String...
    )
        -> Self
    {
        Step("measured", expected) { driver in
            driver.event {
                $0.measured(
                    NodeSizeCheck(
                        session: HTTPDriver.id, filtered: filtered, isTooHeavy: isTooHeavy, etag: etag), &$1)
            }
        }
    }

    /// A thread has read a body.
    static func bodyRead(_ content: BodyResult.Content, byteCount: Int = 0, _ expected: String...) -> Self {
        Step("body read", expected) { driver in
            driver.event {
                $0.bodyRead(BodyResult(session: HTTPDriver.id, content: content, byteCount: byteCount), &$1)
            }
        }
    }

    static func wait(_ seconds: Double) -> Self {
        Step("wait \(seconds) s", []) { driver in
            driver.base.wait(seconds)
            return []
        }
    }

    /// So many seconds pass, then comes a tick.
    static func tick(after seconds: Double, _ expected: String...) -> Self {
        Step("tick after \(seconds) s", expected) { driver in
            driver.base.wait(seconds)
            return driver.tick()
        }
    }

    static func tick(after seconds: Double, until end: Double, _ expected: String...) -> Self {
        Step("a tick a second up to \(end) s", expected) { driver in
            var lines: [String] = []
            for _ in 0..<Int(end / seconds) {
                driver.base.wait(seconds)
                lines += driver.tick()
            }
            return lines
        }
    }

    static func deadline(_ expected: String...) -> Self {
        Step("deadline", expected) { driver in driver.event { $0.deadlinePassed(&$1) } }
    }

    static func peerEnded(_ expected: String...) -> Self {
        Step("client closes its side", expected) { driver in driver.event { $0.peerEnded(&$1) } }
    }

    static func closed(inOrder: Bool = true, _ expected: String...) -> Self {
        Step("closed", expected) { driver in driver.event { $0.closed(inOrder: inOrder, &$1) } }
    }

    static func endIfIdle(_ expected: String...) -> Self {
        Step("process ends", expected) { driver in driver.event { $0.endIfIdle(&$1) } }
    }

    static func giveUpMemory(_ expected: String...) -> Self {
        Step("memory is short", expected) { driver in driver.event { $0.giveUpMemory(&$1) } }
    }

    static func nextTurn(_ expected: String...) -> Self {
        Step("next turn", expected) { driver in driver.event { $0.nextTurn(&$1) } }
    }

    static func expired(_ expected: String...) -> Self {
        Step("credential expires", expected) { driver in driver.event { $0.expired(&$1) } }
    }

    static func recheck(_ revocations: RevocationState, _ expected: String...) -> Self {
        Step("revocations change", expected) { driver in driver.event { $0.recheck(revocations, &$1) } }
    }

    /// The client takes nothing of what it is sent from now on.
    static let clientStopsReading = Step("client stops reading", []) { driver in
        driver.base.socket.takesAll = false
        return []
    }

    static func clientTakes(_ byteCount: Int = .max, _ expected: String...) -> Self {
        Step("client takes \(byteCount == .max ? "all" : "\(byteCount)") bytes", expected) {
            $0.take(byteCount)
        }
    }

    /// A condition that holds here.
    static func holds(_ what: String, _ condition: @escaping @Sendable (HTTPDriver) -> Bool) -> Self {
        Step(what, [what]) { driver in condition(driver) ? [what] : ["not: " + what] }
    }
}
