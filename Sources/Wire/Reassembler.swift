import PandoBytes

// Text frames as messages (realtime §2.1–2.3):
//
//     idle        ├─ 1…6 digits, value ≥ 1 ──► collecting that many chunks
//                 ├─ 1…6 digits, value 0   ──► nothing: a keep-alive
//                 ├─ empty, `-`, `-digits` ──► nothing
//                 └─ anything else         ──► a message
//     collecting  └─ anything              ──► a chunk; after the last one, a message and idle again
//
// Chunks are bytes: JavaScript, iOS and Android cut between UTF-16 units, C++ between bytes, and only the
// whole is text.

/// What a client did wrong; the connection is closed.
package enum ReassemblyViolation: Error, Equatable, Sendable {
    /// More chunks were announced than a message may have.
    case tooManyChunks(Int)
    case chunkTooLong(byteCount: Int)
    case messageTooBig(byteLimit: Int)
}

/// Puts chunked messages together. Costs nothing for the others, and holds memory only while it is
/// collecting.
package struct Reassembler: Sendable {
    package struct Limits: Sendable {
        /// §14: 16 MB by SDK are 1024 chunks; some slack.
        package static let chunkCount = 1_100
        /// §2.1: 16 384 UTF-16 units, none of which takes more than three bytes of UTF-8.
        package static let chunkByteCount = 3 * 16_384
        /// §14: 16 MB by SDK, with the same slack as the count. It bounds single frames as well.
        package static let messageByteCount = 1_100 * 16_384
    }

    /// What one frame amounts to.
    package enum Event: Equatable, Sendable {
        case nothing
        /// The payload just given is a message: read it where it is.
        case payload
        /// A chunked message is complete. The bytes are the caller's; nothing of them is kept here.
        case assembled([UInt8])
    }

    package let chunkLimit: Int
    package let messageByteLimit: Int

    /// Chunks to come; 0 when idle.
    private var missing = 0
    private var received = 0
    private var gathered: [UInt8] = []

    package init(
        chunkLimit: Int = Limits.chunkCount, messageByteLimit: Int = Limits.messageByteCount
    ) {
        self.chunkLimit = chunkLimit
        self.messageByteLimit = messageByteLimit
    }

    /// True between a count and its last chunk. Frames must not be checked for UTF-8 then: a character may go
    /// on in the next one.
    package var isCollecting: Bool { missing > 0 }

    /// Bytes held for an unfinished message.
    package var byteCount: Int { gathered.count }

    /// Takes the payload of the next text frame.
    /// - Throws: ``ReassemblyViolation``; the reassembler is then of no further use.
    /// - Complexity: O(1) for a message in one frame, else O(payload).
    package mutating func accept(_ payload: RawSpan) throws(ReassemblyViolation) -> Event {
        guard missing > 0 else { return try acceptWhenIdle(payload) }
        guard payload.byteCount <= Limits.chunkByteCount else {
            throw .chunkTooLong(byteCount: payload.byteCount)
        }
        guard payload.byteCount <= messageByteLimit - gathered.count else {
            throw .messageTooBig(byteLimit: messageByteLimit)
        }
        gathered.appendGrowing(payload)
        missing -= 1
        received += 1
        guard missing == 0 || (missing == 1 && isCompleteWithoutLastChunk) else { return .nothing }
        missing = 0
        received = 0
        var message: [UInt8] = []
        swap(&message, &gathered)
        return .assembled(message)
    }

    private mutating func acceptWhenIdle(_ payload: RawSpan) throws(ReassemblyViolation) -> Event {
        guard payload.byteCount <= messageByteLimit else { throw .messageTooBig(byteLimit: messageByteLimit) }
        switch Self.count(payload) {
        case nil: return .payload
        case 0?: return .nothing
        case let count?:
            guard count <= chunkLimit else { throw .tooManyChunks(count) }
            // Memory comes with the chunks, not with the announcement.
            missing = count
            return .nothing
        }
    }

    /// The number a frame announces; 0 for those to be ignored; nil for a message.
    private static func count(_ payload: RawSpan) -> Int? {
        guard payload.byteCount <= 6 else { return nil }
        return withCursor(over: payload) { cursor in
            let isNegative = cursor.current == UInt8(ascii: "-")
            if isNegative { cursor.advance() }
            var value = 0
            while !cursor.isAtEnd {
                let digit = cursor.current &- 0x30
                guard digit <= 9 else { return nil }
                value = value &* 10 &+ Int(digit)
                cursor.advance()
            }
            return isNegative ? 0 : value
        }
    }

    // MARK: One chunk too many announced

    /// C++ announces a chunk too many when the message's bytes are a multiple of the chunk size, and never
    /// sends it (§2.1). Waiting for the next frame to notice would leave that request unanswered until the
    /// keep-alive.
    ///
    /// No message of others is cut short by this: after a complete object, JSON can go on with nothing but
    /// white space.
    private var isCompleteWithoutLastChunk: Bool {
        received > 0 && gathered.count == received * Segmenter.chunkUnitLimit
            && gathered.last == UInt8(ascii: "}")
            && Self.endsOneObject(gathered.rawSpan)
    }

    /// True when the last byte is the `}` that closes the `{` at the beginning. Only strings and brackets are
    /// looked at: the parser sees the rest.
    private static func endsOneObject(_ message: RawSpan) -> Bool {
        withCursor(over: message) { cursor in
            guard cursor.current == UInt8(ascii: "{") else { return false }
            var depth = 0
            var isInString = false
            while !cursor.isAtEnd {
                switch cursor.current {
                case UInt8(ascii: "\\") where isInString: cursor.advance()
                case UInt8(ascii: "\""): isInString.toggle()
                case UInt8(ascii: "{") where !isInString: depth &+= 1
                case UInt8(ascii: "}") where !isInString:
                    depth &-= 1
                    if depth == 0 { return cursor.remaining == 1 }
                default: break
                }
                cursor.advance()
            }
            return false
        }
    }
}
