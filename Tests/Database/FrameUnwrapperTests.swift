import PandoBytes
import PandoWebSocket
import Testing

@testable import PandoDatabase

/// The messages that were found, and what there is of the next one.
private struct Messages: MessageSink {
    private(set) var complete: [String] = []
    private(set) var begun: [UInt8] = []

    mutating func append(_ part: RawSpan) { begun.append(part) }

    mutating func endMessage() {
        complete.append(String(decoding: exchange(&begun, with: []), as: UTF8.self))
    }
}

@Suite struct FrameUnwrapperTests {
    /// What goes into frames comes out of them, wherever between frames they are cut.
    @Test(arguments: [[2], [2, 3, 125, 126, 127], [16_384], [16_385], [65_536, 5], [100_000, 2, 40_000]])
    func takesMessagesOutOfFrames(sizes: [Int]) {
        let messages = sizes.map { "{" + String(repeating: "a", count: $0 - 2) + "}" }
        var frames: [UInt8] = []
        for message in messages {
            let isFramed = frames.append(framesOf: Array(message.utf8).rawSpan)
            #expect(isFramed)
        }
        // Each frame by itself, where a large message comes in pieces; and all at once.
        for pieces in [wholeFrames(in: frames[...]).map { Array($0.bytes) }, [frames]] {
            var unwrapper = FrameUnwrapper()
            var found = Messages()
            for piece in pieces { unwrapper.unwrap(piece.rawSpan, into: &found) }
            #expect(found.complete == messages)
            #expect(found.begun.isEmpty)
        }
    }

    /// A message is not delivered before its last chunk is there.
    @Test func aMessageWaitsForItsLastChunk() {
        var frames: [UInt8] = []
        frames.append(countFrame: 2)
        frames.append(frame: .text, payload: Array("{\"a".utf8).rawSpan)
        var unwrapper = FrameUnwrapper()
        var found = Messages()
        unwrapper.unwrap(frames.rawSpan, into: &found)
        #expect(found.complete.isEmpty && found.begun == Array("{\"a".utf8))
        frames = []
        frames.append(frame: .text, payload: Array("\":1}".utf8).rawSpan)
        unwrapper.unwrap(frames.rawSpan, into: &found)
        #expect(found.complete == ["{\"a\":1}"] && found.begun.isEmpty)
    }
}
