import PandoBytes

/// Puts the chunks of a server's long messages together (realtime §2.1).
struct ChunkedMessage {
    enum Step {
        /// The frame is a message by itself.
        case whole
        /// More frames belong to it.
        case partial
        /// It was the last chunk of this message.
        case complete([UInt8])
        case tooLong
    }

    /// Digits that a count has at the most.
    private static let countDigitLimit = 6
    /// Longest message taken from a server.
    private static let messageByteLimit = 256 << 20

    /// Chunks that the message at hand still owes, and what has come of it.
    private var chunksLeft = 0
    private var chunks: [UInt8] = []

    /// Takes the text of one frame.
    mutating func take(_ text: RawSpan) -> Step {
        guard chunksLeft > 0 else {
            guard text.byteCount <= Self.countDigitLimit, let count = Self.chunkCount(text) else {
                return .whole
            }
            chunksLeft = count
            return .partial
        }
        guard chunks.count + text.byteCount <= Self.messageByteLimit else { return .tooLong }
        chunks.append(text)
        chunksLeft -= 1
        guard chunksLeft == 0 else { return .partial }
        var message: [UInt8] = []
        swap(&message, &chunks)
        return .complete(message)
    }

    private static func chunkCount(_ text: RawSpan) -> Int? {
        withCursor(over: text) { cursor in
            var count = 0
            while !cursor.isAtEnd {
                guard cursor.current >= 0x30, cursor.current <= 0x39 else { return nil }
                count = count * 10 + Int(cursor.current - 0x30)
                cursor.advance()
            }
            return count > 0 ? count : nil
        }
    }
}
