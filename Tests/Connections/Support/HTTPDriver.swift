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
struct HTTPDriver: ConnectionDriver {
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

    mutating func receive(_ text: String) -> [String] { receive(Array(text.utf8)) }

    mutating func receive(_ result: RESTCallResult) -> [String] { event { $0.receive(result, &$1) } }

    /// What holds between any two events.
    func check() {
        let machine = base.machine
        #expect(
            machine.heldByteCount >= 0 && machine.waitingByteCount >= 0 && machine.unfinishedByteCount >= 0)
        #expect(base.context.compressingCount >= 0 && base.context.bufferingCount >= 0)
        if case .head = machine.state {
            #expect(
                machine.pauses.contains(.request) == machine.input.isYielding, "the next request may come")
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

    static func closed(inOrder: Bool = true, _ expected: String...) -> Self {
        Step("closed", expected) { driver in driver.event { $0.closed(inOrder: inOrder, &$1) } }
    }

    static func endIfIdle(_ expected: String...) -> Self {
        Step("process ends", expected) { driver in driver.event { $0.endIfIdle(&$1) } }
    }

    static func nextTurn(_ expected: String...) -> Self {
        Step("next turn", expected) { driver in driver.event { $0.nextTurn(&$1) } }
    }

    /// A tick finds that the header of a proxy is not complete.
    static let proxyHeader = Step("a part of a proxy's header", []) { driver in
        driver.event { machine, _ in machine.noteProxyHeader() }
    }
}
