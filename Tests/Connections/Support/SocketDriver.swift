import PandoBytes
import PandoTime

@testable import PandoConnections
@testable import PandoDatabase

/// Gives a state machine with a socket its events, as a loop does, and says in short text what each leads to:
/// what was written, as the client reads it, and the actions, in order; then the messages to the databases.
struct SocketDriver<Machine> {
    var machine: Machine
    var context: ConnectionContext
    var socket: ScriptedSocket
    /// Reads what was written.
    private let readOutput: ([UInt8]) -> [String]
    /// What the last event has led to.
    private(set) var actions: [ConnectionAction] = []
    private(set) var messages: [DatabaseMessage] = []
    /// Everything so far.
    private(set) var log: [String] = []

    init(
        _ settings: ConnectionSettings, reading readOutput: @escaping ([UInt8]) -> [String],
        _ make: (inout ConnectionContext) -> Machine
    ) {
        context = ConnectionContext(settings, now: testStart)
        context.dateLine = Array("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".utf8)
        context.wallSeconds = 1_700_000_000
        socket = ScriptedSocket(lowWaterByteCount: settings.outboundLowWaterByteCount)
        self.readOutput = readOutput
        machine = make(&context)
        finish()
    }

    /// Takes out what the last event has led to: a step of a random test may be none.
    mutating func takeActions() -> (actions: [ConnectionAction], messages: [DatabaseMessage]) {
        defer { (actions, messages) = ([], []) }
        return (actions, messages)
    }

    /// The clock goes on.
    mutating func wait(_ seconds: Double) { context.now = context.now + .milliseconds(Int(seconds * 1000)) }

    /// One event.
    /// - Parameter isCaused: The event before it has caused this one: what both lead to is kept.
    @discardableResult
    mutating func event(
        isCaused: Bool = false, _ body: (inout Machine, inout ConnectionContext) -> Void
    ) -> [String] {
        if !isCaused { (actions, messages) = ([], []) }
        context.socket = socket.status
        body(&machine, &context)
        return finish()
    }

    /// A read of the socket brings bytes.
    @discardableResult
    mutating func input(
        _ bytes: [UInt8], _ receive: (inout Machine, inout MutableRawSpan, inout ConnectionContext) -> Void
    ) -> [String] {
        (actions, messages) = ([], [])
        context.socket = socket.status
        var window = bytes
        var span = window.mutableSpan
        var raw = unsafe span.mutableBytes
        receive(&machine, &raw, &context)
        return finish()
    }

    @discardableResult
    private mutating func finish() -> [String] {
        var taken = ContiguousArray<ConnectionAction>()
        context.takeActions(into: &taken)
        actions += taken
        messages += context.messages
        let newMessages = exchange(&context.messages, with: [])
        context.hasHeavyMessage = false
        _ = context.takePostedByteCount()
        var lines: [String] = []
        for action in taken {
            switch action {
            case .write(let bytes): written(bytes, &lines)
            case .writeShared(let bytes): written(bytes.array, &lines)
            case .closeAfterFlush, .close, .reset:
                if socket.end == nil { lines.append(action.summary) }
                socket.end(action.summary)
            default: lines.append(action.summary)
            }
        }
        lines += newMessages.map(\.summary)
        log += lines
        return lines
    }

    /// Bytes that the loop writes itself (``SendOutcome/write``).
    mutating func written(_ bytes: [UInt8], _ lines: inout [String]) {
        if socket.write(bytes.count) { lines += readOutput(bytes) }
    }
}
