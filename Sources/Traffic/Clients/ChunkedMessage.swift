import PandoBytes

/// Joins the chunks of a server's long messages (realtime §2.1).
package struct ChunkedMessage {
    package enum Step {
        /// The frame is a message by itself.
        case whole
        /// More frames belong to it.
        case partial
        /// It was the last chunk of this message.
        case complete([UInt8])
        case tooLong
    }

    /// The most digits that a count has.
    private static let countDigitLimit = 6
    /// The longest message that is accepted.
    private static let messageByteLimit = 256 << 20

    /// Chunks of the current message that have not arrived, and those that have.
    private var chunksLeft = 0
    private var chunks: [UInt8] = []

    package init() {}

    /// Takes the text of one frame.
    package mutating func append(_ text: RawSpan) -> Step {
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
        return .complete(exchange(&chunks, with: []))
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
