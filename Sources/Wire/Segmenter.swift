import PandoBytes

// From a message to text frames (realtime §2.1):
//
//     up to 16 384 UTF-16 units     one frame
//     more                          a frame with the number of chunks in decimal, then each chunk in a frame

/// How a message is to be sent.
package enum Segmentation: Equatable, Sendable {
    /// In one frame, without a count.
    case whole
    /// A frame with the count, then a frame for each of these ranges. Each is valid UTF-8 if the message is.
    case chunks([Range<Int>])
    /// Not at all: there would be more than ``Segmenter/chunkLimit`` chunks.
    case tooBig
}

/// Cuts messages into chunks.
package enum Segmenter {
    /// UTF-16 units of one chunk (§2.1).
    package static let chunkUnitLimit = 16_384
    /// Chunks of one message: iOS reads a count of at most four digits (§2.2).
    package static let chunkLimit = 9_999

    /// Cuts a message of valid UTF-8 between characters. In other bytes the cuts may be anywhere.
    /// - Complexity: O(1) up to 16 384 bytes, as nearly every message has; else O(bytes), eight at a time.
    package static func split(_ message: RawSpan) -> Segmentation {
        // No character has more UTF-16 units than UTF-8 bytes.
        guard message.byteCount > chunkUnitLimit else { return .whole }
        return withCursor(over: message) { cursor in
            var chunks: [Range<Int>] = []
            while !cursor.isAtEnd {
                let start = cursor.offset
                skipChunk(&cursor)
                assert(cursor.offset > start, "a chunk without bytes")
                if start == 0, cursor.isAtEnd { return .whole }
                guard chunks.count < chunkLimit else { return .tooBig }
                chunks.append(start..<cursor.offset)
            }
            assert(chunks.last?.upperBound == message.byteCount, "the chunks are not the whole message")
            return .chunks(chunks)
        }
    }

    /// Moves over as many complete characters as fit in one chunk; at least one byte.
    private static func skipChunk(_ cursor: inout ByteCursor) {
        var unitsLeft = chunkUnitLimit
        // Eight bytes begin at most nine units: seven of ASCII, and a lead byte of four, which counts two.
        while unitsLeft >= 9, let word = cursor.word {
            unitsLeft &-= units(word)
            cursor.advance(8)
        }
        while !cursor.isAtEnd {
            let byte = cursor.current
            // A continuation byte belongs to a character that was counted.
            let units = byte & 0xC0 == 0x80 ? 0 : byte >= 0xF0 ? 2 : 1
            guard units <= unitsLeft else { return }
            unitsLeft &-= units
            cursor.advance()
        }
    }

    /// The UTF-16 units of the characters whose lead bytes are among eight bytes of UTF-8.
    private static func units(_ word: UInt64) -> Int {
        if markNonASCII(word) == 0 { return 8 }
        let continuations = (word >> 7) & ~(word >> 6) & everyByte(1)
        let surrogatePairs = (word >> 7) & (word >> 6) & (word >> 5) & (word >> 4) & everyByte(1)
        return 8 &- continuations.nonzeroBitCount &+ surrogatePairs.nonzeroBitCount
    }
}
