import PandoBytes

// From text frames to messages (realtime §2.1–2.3):
//
//     idle        ├─ 1…6 digits, value ≥ 1 ──► collecting that many chunks
//                 ├─ 1…6 digits, value 0   ──► nothing: a keep-alive
//                 ├─ empty, `-`, `-digits` ──► nothing
//                 └─ anything else         ──► a message
//     collecting  └─ anything              ──► a chunk; after the last one, a message and idle again
//
// Chunks are bytes: JavaScript, iOS and Android cut between UTF-16 units, C++ between bytes. Only the
// complete message is UTF-8.

/// How a client violates the framing; the connection is closed.
package enum ReassemblyViolation: Error, Equatable, Sendable {
    /// More chunks were announced than a message may have.
    case tooManyChunks(Int)
    case chunkTooLong(byteCount: Int)
    case messageTooBig(byteLimit: Int)
}

/// Joins the chunks of chunked messages. Costs nothing for messages in one frame, and has memory only while
/// it collects chunks.
package struct Reassembler: Sendable {
    /// Default limits.
    package struct Limits: Sendable {
        /// §14: SDKs send up to 16 MB in 1024 chunks; a few more are allowed.
        package static let chunkCount = 1_100
        /// §2.1: 16 384 UTF-16 units, none of which takes more than three bytes of UTF-8.
        package static let chunkByteCount = 3 * 16_384
        /// §14: 16 MB, with the same margin as the count. It also bounds single frames.
        package static let messageByteCount = 1_100 * 16_384
    }

    /// The result of one frame.
    package enum Event: Equatable, Sendable {
        /// A count, a keep-alive, or a chunk that others follow.
        case nothing
        /// The payload itself is a message.
        case payload
        /// A chunked message is complete. The bytes are moved to the caller.
        case assembled([UInt8])
    }

    // Numbers of 32 bits: each WebSocket has a reassembler, and most have nothing to join.
    private let storedChunkLimit: Int32
    private let storedMessageByteLimit: Int32
    /// Chunks that were announced and not received; 0 when idle.
    private var missing: Int32 = 0
    /// Chunks that were received.
    private var received: Int32 = 0
    /// Their bytes.
    private var gathered: [UInt8] = []
    /// Where the object of the message ends; nil when a chunk was not full (see
    /// ``isCompleteWithoutLastChunk``).
    private var objectEnd: ObjectEnd?

    package init(
        chunkLimit: Int = Limits.chunkCount, messageByteLimit: Int = Limits.messageByteCount
    ) {
        storedChunkLimit = Int32(clamping: chunkLimit)
        storedMessageByteLimit = Int32(clamping: messageByteLimit)
    }

    /// Most chunks of a message.
    package var chunkLimit: Int { Int(storedChunkLimit) }

    /// Most bytes of a message; less than 2 GiB.
    package var messageByteLimit: Int { Int(storedMessageByteLimit) }

    /// Whether chunks are missing. Frames must not be checked for UTF-8 then: a character may continue in the
    /// next one.
    package var isCollecting: Bool { missing > 0 }

    /// Bytes of the chunks received so far.
    package var byteCount: Int { gathered.count }

    /// Handles the payload of the next text frame.
    /// - Throws: ``ReassemblyViolation``; then the reassembler must not be used.
    /// - Complexity: O(1) for a message in one frame, else O(payload).
    package mutating func accept(_ payload: RawSpan) throws(ReassemblyViolation) -> Event {
        guard missing > 0 else {
            assert(received == 0 && gathered.isEmpty, "chunks were left of the message before")
            return try acceptWhenIdle(payload)
        }
        guard payload.byteCount <= Limits.chunkByteCount else {
            throw .chunkTooLong(byteCount: payload.byteCount)
        }
        guard payload.byteCount <= messageByteLimit - gathered.count else {
            throw .messageTooBig(byteLimit: messageByteLimit)
        }
        gathered.appendGrowing(payload)
        missing -= 1
        received += 1
        assert(Int(missing + received) <= chunkLimit && gathered.count <= messageByteLimit)
        if payload.byteCount == Segmenter.chunkUnitLimit { objectEnd?.scan(payload) } else { objectEnd = nil }
        guard missing == 0 || (missing == 1 && isCompleteWithoutLastChunk) else { return .nothing }
        missing = 0
        received = 0
        return .assembled(exchange(&gathered, with: []))
    }

    private mutating func acceptWhenIdle(_ payload: RawSpan) throws(ReassemblyViolation) -> Event {
        guard payload.byteCount <= messageByteLimit else { throw .messageTooBig(byteLimit: messageByteLimit) }
        switch Self.count(payload) {
        case nil: return .payload
        case 0?: return .nothing
        case let count?:
            guard count <= chunkLimit else { throw .tooManyChunks(count) }
            // The announced count reserves no memory.
            missing = Int32(count)
            objectEnd = ObjectEnd()
            return .nothing
        }
    }

    /// The number of chunks that a frame announces; 0 for a frame to be ignored; nil for a message.
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

    // MARK: C++: one chunk too many

    /// Whether the message is complete though one announced chunk is missing. C++ announces one chunk too
    /// many when the message's length is a multiple of the chunk size (§2.1). Without this check the request
    /// would wait for the client's next frame: up to the interval of keep-alives.
    ///
    /// No other message is cut: only white space may follow a complete JSON object. The bytes were scanned as
    /// they came, so that nothing is done for all of a large message at once.
    private var isCompleteWithoutLastChunk: Bool { received > 0 && objectEnd?.isLast == true }
}

/// Finds the `}` that closes the `{` at the beginning of a message, piece by piece. Knows only strings and
/// brackets; the parser checks the rest.
private struct ObjectEnd: Sendable {
    private var depth: Int32 = 0
    private var isInString = false
    private var isEscaped = false
    private var hasBegun = false
    /// It cannot be found any more: the message is no object, or something follows the object.
    private var isLost = false
    /// The last byte that was scanned is the end.
    private(set) var isLast = false

    /// - Complexity: O(bytes).
    mutating func scan(_ piece: RawSpan) {
        guard !isLost else { return }
        withCursor(over: piece) { cursor in
            while !cursor.isAtEnd {
                guard !isLast else { return lose() }
                step(cursor.current)
                if !hasBegun { return lose() }
                cursor.advance()
            }
        }
    }

    private mutating func lose() {
        isLast = false
        isLost = true
    }

    private mutating func step(_ byte: UInt8) {
        guard !isEscaped else { return isEscaped = false }
        switch byte {
        case UInt8(ascii: "\\") where isInString: isEscaped = true
        case UInt8(ascii: "\"") where hasBegun: isInString.toggle()
        case UInt8(ascii: "{") where !isInString:
            depth &+= 1
            hasBegun = true
        case UInt8(ascii: "}") where !isInString && hasBegun:
            depth &-= 1
            isLast = depth == 0
        default: break
        }
    }
}
