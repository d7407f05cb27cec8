import PandoBytes
import PandoCompression
import PandoRandom
import PandoWebSocket
import Testing

/// JSON with names and numbers that repeat.
private func sampleJSON(_ byteCount: Int, seed: UInt64 = 1) -> [UInt8] {
    var generator = SeededGenerator(seed: seed)
    var bytes: [UInt8] = []
    while bytes.count < byteCount {
        bytes += Array(
            #"{"name":"Ada \#(generator.next() % 100)","score":\#(generator.next() % 10_000)},"#.utf8)
    }
    return Array(bytes.prefix(byteCount))
}

private func deflater(_ window: DeflateWindow) throws -> MessageDeflater {
    try #require(SharedCompression().deflater(for: window))
}

private func frame(_ opcode: Opcode, _ payload: [UInt8], isFinal: Bool = true) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(frame: opcode, payload: payload.rawSpan, isFinal: isFinal)
    return bytes
}

private func compress(_ frames: [UInt8], _ window: DeflateWindow = .large) throws -> [UInt8] {
    var output: [UInt8] = []
    try deflater(window).append(compressing: frames.rawSpan, to: &output)
    return output
}

/// Frames of a server that are compressed after they were written, for several receivers at once.
@Suite struct FrameCompressionTests {
    @Test(
        arguments: [
            // agreed   window
            (8, .small), (9, .small), (11, .small), (12, .medium), (13, .medium), (14, .medium), (15, .large),
        ] as [(Int, DeflateWindow)])
    func windowsAreRoundedDown(bits: Int, window: DeflateWindow) {
        #expect(DeflateWindow(windowBits: bits) == window)
    }

    @Test func indexesAreThePlacesOfAllCases() {
        #expect(DeflateWindow.allCases.map(\.index) == Array(0..<DeflateWindow.count))
    }

    /// Each receiver has an inflater with a window of exactly the size that was agreed on.
    @Test(arguments: DeflateWindow.allCases, [1000, 4000, 16_384, 70_000])
    func receiversOfTheWindowCanRead(window: DeflateWindow, byteCount: Int) throws {
        let message = sampleJSON(byteCount)
        let frames = try compress(frame(.text, message), window)
        #expect(frames.count < byteCount / 2)
        #expect(frames[0] == 0xC1, "FIN, RSV1, text")
        let inflater = try MessageInflater(.init(takesOver: false, windowBits: Int(window.rawValue)))
        var reader = MessageReader(
            role: .client, messageByteLimit: 1 << 24, checksText: true, inflater: inflater)
        var input = frames
        var seen: [Seen] = []
        read(&input, with: &reader, into: &seen)
        #expect(seen == [.text(message)])
    }

    @Test func equalMessagesGiveEqualFramesWhateverCameBefore() throws {
        let first = try deflater(.large)
        let second = try deflater(.large)
        let message = frame(.text, sampleJSON(5000))
        var (a, b, other): ([UInt8], [UInt8], [UInt8]) = ([], [], [])
        second.append(compressing: frame(.text, sampleJSON(9000, seed: 2)).rawSpan, to: &other)
        first.append(compressing: message.rawSpan, to: &a)
        second.append(compressing: message.rawSpan, to: &b)
        #expect(a == b)
    }

    @Test(
        arguments: [
            ("below the threshold", frame(.text, sampleJSON(999))),
            ("empty", frame(.text, [])),
            ("ping", frame(.ping, Array(repeating: 0x61, count: 125))),
            ("close", frame(.close, [3, 232])),
            ("fragment", frame(.text, sampleJSON(4000), isFinal: false)),
            ("continuation", frame(.continuation, sampleJSON(4000), isFinal: false)),
            ("cut in the payload", Array(frame(.text, sampleJSON(4000)).dropLast())),
            ("cut in the header", [0x81, 0x7E, 0x10]),
            ("one byte", [0x81]),
            ("nothing", []),
        ] as [(String, [UInt8])])
    func staysAsItIs(name: String, frames: [UInt8]) throws {
        #expect(try compress(frames) == frames, "\(name)")
    }

    @Test func messageThatDoesNotBecomeShorterStaysPlain() throws {
        var generator = SeededGenerator(seed: 7)
        let noise = (0..<4000).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        #expect(try compress(frame(.binary, noise)) == frame(.binary, noise))
    }

    @Test func compressedMessagesAreNotCompressedAgain() throws {
        let once = try compress(frame(.text, sampleJSON(100_000)))
        #expect(once.count > 1000)
        #expect(try compress(once) == once)
    }

    /// Small and large messages, pings among them: the receiver reads what was written, in order.
    @Test(arguments: 1...30 as ClosedRange<UInt64>)
    func mixedFramesAreReadInOrder(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var frames: [UInt8] = []
        var expected: [Seen] = []
        for _ in 0..<20 {
            if generator.next() % 4 == 0 {
                frames += frame(.ping, [1, 2])
                expected.append(.ping([1, 2]))
            } else {
                let message = sampleJSON(Int(generator.next() % 3000), seed: generator.next())
                frames += frame(.text, message)
                expected.append(.text(message))
            }
        }
        let window = try #require(DeflateWindow.allCases.randomElement(using: &generator))
        var input = try compress(frames, window)
        #expect(input.count < frames.count, "seed \(seed)")
        var reader = MessageReader(
            role: .client, messageByteLimit: 1 << 24, checksText: true,
            inflater: try SharedCompression().sharedInflater())
        var seen: [Seen] = []
        read(&input, with: &reader, into: &seen)
        #expect(seen == expected, "seed \(seed)")
    }
}
