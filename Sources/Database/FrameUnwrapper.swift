import PandoBytes

/// Takes the messages that a ``FrameUnwrapper`` finds.
package protocol MessageSink {
    /// A part of a message, cut between characters.
    mutating func append(_ part: RawSpan)
    /// The message is complete.
    mutating func endMessage()
}

/// Takes messages out of frames, for long polling. All outputs are made as frames: nearly all sessions have a
/// WebSocket, and the database thread need not know which have not. A value: it knows how many chunks of a
/// message are still to come.
package struct FrameUnwrapper {
    private var missingChunks = 0

    package init() {}

    /// Gives the messages in whole frames to a sink; the last may go on in the next frames.
    package mutating func unwrap(_ frames: RawSpan, into sink: inout some MessageSink) {
        withCursor(over: frames) { cursor in
            while cursor.remaining >= 2 {
                let payload = Self.passHeader(&cursor)
                append(frames.extracting(payload), into: &sink)
            }
            assert(cursor.isAtEnd, "a frame was cut")
        }
    }

    /// Moves behind a frame.
    /// - Returns: Where its payload is.
    private static func passHeader(_ cursor: inout ByteCursor) -> Range<Int> {
        let code = Int(cursor.peek(1))
        cursor.advance(2)
        let lengthCount = code == 127 ? 8 : code == 126 ? 2 : 0
        var length = lengthCount == 0 ? code : 0
        for _ in 0..<min(lengthCount, cursor.remaining) {
            length = length << 8 | Int(cursor.current)
            cursor.advance()
        }
        assert(length <= cursor.remaining, "a frame was cut")
        let start = cursor.offset
        cursor.advance(min(length, cursor.remaining))
        return start..<cursor.offset
    }

    private mutating func append(_ payload: RawSpan, into sink: inout some MessageSink) {
        if missingChunks > 0 {
            sink.append(payload)
            missingChunks -= 1
            if missingChunks == 0 { sink.endMessage() }
        } else if let count = Self.chunkCount(payload) {
            missingChunks = count
        } else {
            sink.append(payload)
            sink.endMessage()
        }
    }

    /// What a count frame says (realtime §2.1); nil for a message, which is an object.
    private static func chunkCount(_ payload: RawSpan) -> Int? {
        withCursor(over: payload) { cursor in
            var count = 0
            while !cursor.isAtEnd {
                let digit = cursor.current &- 0x30
                guard digit <= 9 else { return nil }
                count = count &* 10 &+ Int(digit)
                cursor.advance()
            }
            return count
        }
    }
}
