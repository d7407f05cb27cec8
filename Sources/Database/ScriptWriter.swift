import PandoBytes

/// Makes ``OutputForm/script`` of frames: their messages, escaped, with commas between them.
struct ScriptWriter: MessageSink {
    private var text: [UInt8] = []
    private var escaper = ScriptEscaper()
    /// A message is not complete.
    private var isInsideMessage = false

    mutating func append(_ part: RawSpan) {
        if !isInsideMessage, !text.isEmpty { text.append(UInt8(ascii: ",")) }
        isInsideMessage = true
        escaper.escape(part, into: &text)
    }

    mutating func endMessage() {
        escaper = ScriptEscaper()
        isInsideMessage = false
    }

    /// What was appended since the last call, but for the last bytes of a message that goes on: those may
    /// still change.
    mutating func takePiece() -> SharedBytes {
        let openCount = isInsideMessage ? min(text.count, ScriptEscaper.openByteCount) : 0
        let open = Array(text.suffix(openCount))
        text.removeLast(openCount)
        let piece = SharedBytes(text)
        text = open
        return piece
    }

    /// The script form of pieces of frames: as many pieces.
    static func scripts(of pieces: [SharedBytes]) -> [SharedBytes] {
        var unwrapper = FrameUnwrapper()
        var writer = ScriptWriter()
        return pieces.map { piece in
            unwrapper.unwrap(piece.rawSpan, into: &writer)
            return writer.takePiece()
        }
    }
}
