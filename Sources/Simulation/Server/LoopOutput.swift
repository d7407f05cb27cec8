import PandoDatabase
import PandoEngine
import PandoREST

/// What the databases release to a connection.
enum LoopOutput {
    /// One whole message of the realtime protocol, without its frames.
    case message(SessionID, [UInt8])
    case rest(SessionID, RESTCallResult)
    case events(SessionID, [StreamEvent])
    case closed(SessionID)
}

/// What a connection hands to the databases.
enum LoopInput {
    /// A realtime session begins.
    case open(SessionID)
    /// A request of a realtime session, by its number; also one that needs no database.
    case request(SessionID, number: Int64)
    case rest(SessionID)
    /// The head of a REST request: whether its large body may come. ``rest(_:)`` follows, unless it is
    /// refused.
    case admission(SessionID)
    /// Much is unsent to the client: what it is pushed is coalesced from now on.
    case lagging(SessionID)
    case closed(SessionID)
}

/// Hears what passes between the connections and the databases of a ``SimulatedLoop``.
protocol LoopObserver: AnyObject {
    /// A connection hands something to the databases.
    /// - Parameter link: The number of its ``SimulatedLink``.
    func posted(_ input: LoopInput, from link: Int)
    /// The databases have released something, in this order.
    /// - Parameter link: The number of the connection's ``SimulatedLink``; the connection may be gone.
    func released(_ output: LoopOutput, to link: Int)
    /// The loop lets the databases run on its own thread: `body` does it.
    func runDatabases(_ body: () -> Void)
}

extension LoopOutput {
    var session: SessionID {
        switch self {
        case .message(let session, _), .rest(let session, _), .events(let session, _), .closed(let session):
            session
        }
    }
}

extension OutputBatch {
    /// The outputs of the batch, in order, with one element for each message and recipient.
    /// - Parameter encode: Encodes a large message.
    func outputs(encoding encode: (LargeMessage) -> Void) -> [LoopOutput] {
        var outputs: [LoopOutput] = []
        for item in items {
            switch item {
            case .frames(let session, let range):
                for message in Self.messages(in: arena[range]) { outputs.append(.message(session, message)) }
            case .shared(let bytes, let sessions):
                for message in Self.messages(in: bytes.array[...]) {
                    for session in sessions { outputs.append(.message(session, message)) }
                }
            case .compressible(let frames, let sessions):
                for message in Self.messages(in: frames.plain.array[...]) {
                    for session in sessions { outputs.append(.message(session, message)) }
                }
            case .tagged(let push): outputs += Self.outputs(of: push, encoding: encode)
            case .large(let session, let message):
                encode(message)
                let frames = (message.pieces ?? []).reduce(into: [UInt8]()) { $0 += $1.array }
                for message in Self.messages(in: frames[...]) { outputs.append(.message(session, message)) }
            case .rest(let session, let result): outputs.append(.rest(session, result))
            case .events(let session, let events): outputs.append(.events(session, events))
            case .update(let session, let update): outputs.append(.events(session, update.events))
            case .window(let session, let window): outputs.append(.events(session, window.events))
            case .close(let session, _): outputs.append(.closed(session))
            case .windowMark, .held, .resumeReading, .delivered: break
            }
        }
        return outputs
    }

    private static func outputs(
        of push: TaggedPush, encoding encode: (LargeMessage) -> Void
    ) -> [LoopOutput] {
        var writer = push.makeWriter()
        return push.recipients.flatMap { recipient in
            var frames: [UInt8] = []
            if push.isLarge {
                let message = push.largeMessage(for: recipient.tag)
                encode(message)
                frames = (message.pieces ?? []).reduce(into: []) { $0 += $1.array }
            } else if writer.print(for: recipient.tag) {
                frames = writer.frames
            }
            return messages(in: frames[...]).map { LoopOutput.message(recipient.session, $0) }
        }
    }

    /// Takes the server's own frames apart, and puts chunks together (realtime §2.1).
    private static func messages(in frames: ArraySlice<UInt8>) -> [[UInt8]] {
        var messages: [[UInt8]] = []
        var rest = frames
        var chunkCount = 0
        while rest.count >= 2 {
            let code = Int(rest[rest.startIndex + 1])
            let lengthCount = code == 127 ? 8 : code == 126 ? 2 : 0
            let bytes = rest.dropFirst(2).prefix(lengthCount)
            let length = lengthCount == 0 ? code : bytes.reduce(0) { $0 << 8 | Int($1) }
            let payload = rest.dropFirst(2 + lengthCount).prefix(length)
            rest = rest.dropFirst(2 + lengthCount + length)
            if chunkCount > 0 {
                messages[messages.count - 1] += payload
                chunkCount -= 1
            } else if payload.first != UInt8(ascii: "{"),
                let count = Int(String(decoding: payload, as: UTF8.self))
            {
                messages.append([])
                chunkCount = count
            } else {
                messages.append(Array(payload))
            }
        }
        return messages
    }
}
