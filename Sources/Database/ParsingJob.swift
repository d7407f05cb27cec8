import PandoEngine
import PandoReactor
import PandoWebSocket
import PandoWire

/// A large message of a client to parse.
package struct ParsingJob: Sendable {
    package var session: SessionID
    package var message: [UInt8]
    /// Most bytes of a compressed message when it is inflated; nil for a message that is not compressed.
    package var inflatedByteLimit: Int?
    /// The most nodes that its data may have.
    package var nodeLimit: Int
    package var results: Mailbox<ParsedMessage>

    package init(
        session: SessionID, message: [UInt8], inflatedByteLimit: Int? = nil, nodeLimit: Int,
        results: Mailbox<ParsedMessage>
    ) {
        self.session = session
        self.message = message
        self.inflatedByteLimit = inflatedByteLimit
        self.nodeLimit = nodeLimit
        self.results = results
    }
}

extension ParsingJob {
    /// - Parameter compression: Has the inflater of the thread.
    func perform(_ compression: SharedCompression) -> ParsedMessage {
        guard let inflatedByteLimit else {
            return ParsedMessage(parsing: message, for: session, nodeLimit: nodeLimit)
        }
        guard let inflater = try? compression.sharedInflater() else {
            return ParsedMessage(violation: .noMemoryToInflate, for: session)
        }
        return ParsedMessage(
            inflating: message, with: inflater, byteLimit: inflatedByteLimit, for: session,
            nodeLimit: nodeLimit)
    }
}

/// The result of a ``ParsingJob``.
package struct ParsedMessage: Sendable {
    package var session: SessionID
    package var result: Result<ClientMessage, MalformedMessage>
    /// Bytes of the message, not compressed.
    package var byteCount: Int
    /// Why a compressed message could not be inflated; nil where it was.
    package var violation: ProtocolViolation?
    /// What it takes of the process's memory, as long as the request is not finished.
    package var grant: ParsingBudget.Grant?

    /// Whether it is a request, which brings data.
    var isRequest: Bool { if case .success(.request) = result { true } else { false } }
}

extension ParsedMessage {
    /// Of a message that could not be inflated.
    init(violation: ProtocolViolation, for session: SessionID) {
        self.init(session: session, result: .failure(.missing("text")), byteCount: 0, violation: violation)
    }

    /// Inflates and parses a compressed message. O(size when it is inflated).
    /// - Parameter byteLimit: Most bytes of it then.
    package init(
        inflating message: [UInt8], with inflater: MessageInflater, byteLimit: Int, for session: SessionID,
        nodeLimit: Int
    ) {
        do throws(ProtocolViolation) {
            let inflated = try inflater.inflate(message.rawSpan, byteLimit: byteLimit)
            self.init(parsing: inflated, for: session, nodeLimit: nodeLimit)
        } catch {
            self.init(violation: error, for: session)
        }
    }

    /// Parses a message. O(size).
    package init(parsing message: [UInt8], for session: SessionID, nodeLimit: Int) {
        let result: Result<ClientMessage, MalformedMessage>
        do throws(MalformedMessage) {
            result = .success(try ClientMessage(parsing: message.rawSpan, nodeLimit: nodeLimit))
        } catch {
            result = .failure(error)
        }
        self.init(session: session, result: result, byteCount: message.count)
    }
}
