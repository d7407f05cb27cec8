import PandoBytes
import PandoEngine
import PandoIdentity
import PandoReactor
import PandoTree
import PandoWebSocket
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// A message of a client with a request.
func ask(_ number: Int, _ action: String, _ body: String) -> String {
    #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#
}

func putMessage(_ number: Int, _ path: String = "/a", _ value: String = "1") -> String {
    ask(number, "p", #"{"p":"\#(path)","d":\#(value)}"#)
}

/// A control message of a client.
func control(_ verb: String) -> String { #"{"t":"c","d":{"t":"\#(verb)","d":{}}}"# }

/// As the server writes it.
let pong = #"{"t":"c","d":{"t":"o","d":null}}"#

/// A message of the server as whole frames.
func frames(_ message: String) -> [UInt8] {
    var frames: [UInt8] = []
    let isSendable = frames.append(framesOf: Array(message.utf8).rawSpan)
    #expect(isSendable)
    return frames
}

/// Encodes large messages, as a worker does.
struct Encoder {
    private let budget: EncodingBudget
    private var hashes = HashMemo()

    init() {
        do {
            budget = EncodingBudget(byteLimit: .max, signalling: try WakeupEvent())
        } catch {
            fatalError("no event: \(error)")
        }
    }

    mutating func encode(_ message: LargeMessage) { message.encode(within: budget, &hashes) }

    /// As for a receiver by long polling.
    mutating func encodeScript(_ message: LargeMessage) {
        encode(message)
        message.makeScript()
    }
}

/// A reply with so many bytes of data, or a push.
func largeReply(_ number: Int64, _ byteCount: Int = 40_000) -> LargeMessage {
    LargeMessage(.reply(number, .string(Text(String(repeating: "r", count: byteCount)))))
}

func largePush(_ byteCount: Int = 40_000) -> LargeMessage {
    LargeMessage(.push(.overwrite("a", .string(Text(String(repeating: "p", count: byteCount)))), tag: nil))
}

/// A ``WebSocketConnection`` on a scripted socket.
struct WebSocketDriver: ConnectionDriver {
    static let id = SessionID(7)
    static let polling = SessionID(5)

    var base: SocketDriver<WebSocketConnection>
    let output: ServerFrameReader
    private var encoder = Encoder()

    /// - Parameters:
    ///   - polling: The session by long polling that may move here.
    ///   - window: Of permessage-deflate; nil where it was not agreed on.
    ///   - answersPings: Whether the client may be pinged.
    ///   - readsOutput: What is written is shown as the client reads it; otherwise it is only counted.
    init(
        joining polling: SessionID? = nil, compressingFor window: DeflateWindow? = nil,
        _ compression: SharedCompression = SharedCompression(), answersPings: Bool = true,
        readsOutput: Bool = true,
        _ configure: (inout ConnectionSettings) -> Void = { _ in }
    ) {
        var settings = ConnectionSettings()
        configure(&settings)
        let output = ServerFrameReader(inflates: window != nil)
        self.output = output
        base = SocketDriver(settings, reading: { readsOutput ? output.read($0) : [] }) {
            if window != nil { $0.compression = compression }
            return WebSocketConnection(
                Self.id, joining: polling, compressingFor: window, answersPings: answersPings, &$0)
        }
    }

    mutating func receive(_ messages: String...) -> [String] {
        receive(messages.flatMap { [UInt8].clientText($0) })
    }

    /// The databases send whole frames.
    mutating func send(_ message: String, isShared: Bool = false) -> [String] {
        let bytes = frames(message)
        var outcome = SendOutcome.drop
        var written: [String] = []
        base.context.socket = base.socket.status
        outcome =
            isShared
            ? base.machine.send(SharedBytes(bytes), &base.context)
            : base.machine.send(bytes.rawSpan, &base.context)
        switch outcome {
        case .drop, .carryOut: break
        case .write, .writeAndCarryOut: base.written(bytes, &written)
        }
        return written + event { _, _ in }
    }

    mutating func send(_ message: LargeMessage) -> [String] { event { $0.send(message, &$1) } }

    /// A worker encodes the message, and says so.
    mutating func encode(_ message: LargeMessage) -> [String] {
        encoder.encode(message)
        return event { $0.encoded(message, &$1) }
    }

    /// What holds between any two events.
    func check() {
        let machine = base.machine
        #expect(
            machine.heldByteCount >= 0 && machine.waitingByteCount >= 0 && machine.unfinishedByteCount >= 0)
    }
}

typealias WebSocketConversation = Conversation<WebSocketDriver>

extension Conversation<WebSocketDriver> {
    init(_ name: String, _ steps: [Step<WebSocketDriver>]) { self.init(name, { WebSocketDriver() }, steps) }
}

extension Step<WebSocketDriver> {
    /// The client sends messages, each in a frame of its own, in one piece.
    static func client(_ message: String, _ expected: String...) -> Self {
        Step("client \(message.prefix(60))", expected) { $0.receive(message) }
    }

    /// The client sends bytes.
    static func clientSends(_ bytes: [UInt8], _ expected: String...) -> Self {
        Step("client sends \(bytes.count) bytes", expected) { $0.receive(bytes) }
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

    static func parsed(_ message: String, _ expected: String...) -> Self {
        Step("parsed", expected) { driver in
            let bytes = Array(message.utf8)
            let result = Result { () throws(MalformedMessage) in try ClientMessage(parsing: bytes.rawSpan) }
            return driver.event {
                $0.parsed(
                    ParsedMessage(session: WebSocketDriver.id, result: result, byteCount: bytes.count), &$1)
            }
        }
    }

    static func mark(_ expected: String...) -> Self {
        Step("window mark returns", expected) { driver in driver.event { $0.windowMarkReturned(&$1) } }
    }

    static func close(_ reason: DisconnectReason, _ expected: String...) -> Self {
        Step("databases end the session: \(reason)", expected) { driver in
            driver.event { $0.close(reason, &$1) }
        }
    }

    static func closed(_ expected: String...) -> Self {
        Step("closed", expected) { driver in driver.event { $0.closed(&$1) } }
    }
}
