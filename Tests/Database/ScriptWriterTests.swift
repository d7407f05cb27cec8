import PandoBytes
import Testing

@testable import PandoDatabase

/// The form in which long polling sends what several sessions get, and large messages.
@Suite struct ScriptWriterTests {
    /// What must be escaped may stand wherever a message is cut: between two frames, and between two pieces.
    @Test(arguments: [-14, -13, -12, -11, -10, -9, -5, -1, 0, 1], [16_384, 131_072])
    func largeMessageStaysInPieces(offset: Int, cut: Int) {
        let before = #"{"a":""# + String(repeating: "v", count: cut + offset - 8) + #"","#
        let after = #"1,"b":""# + String(repeating: "w", count: 131_072) + #""}"#
        var frames: [UInt8] = []
        let isFramed = frames.append(framesOf: Array((before + #""__proto__":"# + after).utf8).rawSpan)
        #expect(isFramed)
        let scripts = ScriptWriter.scripts(of: pieces(of: frames, atLeast: LargeMessage.pieceByteCount))
        #expect(scripts.count >= 2)
        // Of texts so long only the outcome is shown.
        let isExpected = text(of: scripts) == before + #"["__proto__"]:"# + after
        #expect(isExpected)
    }

    /// Whole messages of one piece have commas between them, and none before the first.
    @Test func messagesOfAPieceAreAList() {
        var frames: [UInt8] = []
        for message in ["{1}", "{2}", "{3}"] {
            let isFramed = frames.append(framesOf: Array(message.utf8).rawSpan)
            #expect(isFramed)
        }
        let scripts = ScriptWriter.scripts(of: [SharedBytes(frames), SharedBytes(frames)])
        #expect(scripts.map { String(decoding: $0.array, as: UTF8.self) } == ["{1},{2},{3}", "{1},{2},{3}"])
    }

    private func text(of scripts: [SharedBytes]) -> String {
        String(decoding: scripts.flatMap(\.array), as: UTF8.self)
    }

    /// Whole frames, as ``LargeMessage`` cuts them.
    private func pieces(of frames: [UInt8], atLeast byteCount: Int) -> [SharedBytes] {
        var (pieces, piece): ([SharedBytes], [UInt8]) = ([], [])
        for frame in wholeFrames(in: frames[...]) {
            piece += frame.bytes
            if piece.count >= byteCount {
                pieces.append(SharedBytes(piece))
                piece = []
            }
        }
        if !piece.isEmpty { pieces.append(SharedBytes(piece)) }
        return pieces
    }
}
