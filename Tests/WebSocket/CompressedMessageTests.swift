import PandoBytes
import PandoCompression
import PandoRandom
@testable import PandoWebSocket
import Testing

private func inflater(
    takesOver: Bool = true, windowBits: Int = 15, limits: InflationLimits = InflationLimits()
) -> MessageInflater {
    guard
        let inflater = try? MessageInflater(
            .init(takesOver: takesOver, windowBits: windowBits), limits: limits)
    else { fatalError("no memory") }
    return inflater
}

/// What a server reads, with the stream cut at `cuts`.
private func read(
    _ stream: [UInt8], cuts: [Int], with inflater: MessageInflater, messageByteLimit: Int = 1 << 24
) -> [Seen] {
    var reader = MessageReader(
        role: .server, messageByteLimit: messageByteLimit, checksText: true, inflater: inflater)
    var seen: [Seen] = []
    var start = 0
    for end in cuts + [stream.count] {
        var window = Array(stream[start..<end])
        start = end
        read(&window, with: &reader, into: &seen)
    }
    return seen
}

private func compressed(_ payload: [UInt8], opcode: UInt8 = 1, isFinal: Bool = true) -> TestFrame {
    TestFrame(opcode: opcode, payload: payload, isFinal: isFinal, reserved: 4)
}
private func more(_ payload: [UInt8], isFinal: Bool = false) -> TestFrame {
    TestFrame(opcode: 0, payload: payload, isFinal: isFinal)
}
private func text(_ string: String) -> Seen { .text(Array(string.utf8)) }
private let hello: [UInt8] = [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00]

struct DeflateCase: Sendable, CustomTestStringConvertible {
    let name: String
    let stream: [UInt8]
    let expected: [Seen]

    init(_ name: String, _ frames: [TestFrame], _ expected: [Seen]) {
        self.name = name
        self.stream = frames.flatMap(\.bytes)
        self.expected = expected
    }

    var testDescription: String { name }
}

@Suite struct CompressedMessageTests {
    /// Each block that is marked as the last makes zlib begin anew, and has no output that a limit would
    /// bound.
    @Test(arguments: [(1, true), (1024, true), (1025, false), (100_000, false)])
    func emptyLastBlocks(count: Int, areAccepted: Bool) {
        var message: [UInt8] = []
        for _ in 0..<count { message += [0x03, 0x00] }
        message.append(0x00)
        let result = Result { try inflater().inflate(message.rawSpan, byteLimit: 1 << 20) }
        #expect((try? result.get()) == (areAccepted ? [] : nil))
    }

    @Test(
        arguments: [
            DeflateCase("RFC 7692 §7.2.3.1 fixed block", [compressed(hello)], [text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.1 in two frames",
                [
                    compressed([0xF2, 0x48, 0xCD], isFinal: false),
                    more([0xC9, 0xC9, 0x07, 0x00], isFinal: true),
                ],
                [text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.2 reference to the message before",
                [compressed(hello), compressed([0xF2, 0x00, 0x11, 0x00, 0x00])],
                [text("Hello"), text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.3 stored block",
                [compressed([0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00])],
                [text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.4 last block",
                [compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00])],
                [text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.4 and a reference into it from the next message",
                [
                    compressed([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00]),
                    compressed([0xF2, 0x00, 0x11, 0x00, 0x00]),
                ], [text("Hello"), text("Hello")]),
            DeflateCase(
                "RFC 7692 §7.2.3.5 two blocks",
                [
                    compressed([
                        0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00,
                    ])
                ], [text("Hello")]),
            DeflateCase("RFC 7692 §7.2.3.6 empty message", [compressed([0x00])], [text("")]),
            DeflateCase("empty fixed block", [compressed([0x02, 0x00])], [text("")]),
            DeflateCase(
                "two last blocks",
                [compressed([0x03, 0x00, 0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00])], [text("Hello")]),
            DeflateCase(
                "binary", [compressed(hello, opcode: 2)], [.binary(Array("Hello".utf8))]),
            DeflateCase(
                "plain messages between do not count for the window",
                [
                    compressed(hello), TestFrame(opcode: 1, payload: Array("other".utf8)),
                    compressed([0xF2, 0x00, 0x11, 0x00, 0x00]),
                ], [text("Hello"), text("other"), text("Hello")]),
            DeflateCase(
                "empty frames, and a ping between",
                [
                    compressed([], isFinal: false), more([0xF2, 0x48]), more([]),
                    TestFrame(opcode: 9, payload: [1, 2]), more([0xCD, 0xC9, 0xC9, 0x07, 0x00]),
                    more([], isFinal: true), compressed(hello),
                ], [.ping([1, 2]), text("Hello"), text("Hello")]),
            DeflateCase(
                "close between",
                [compressed([0xF2], isFinal: false), TestFrame(opcode: 8, payload: [3, 232])],
                [.close(1000, [])]),
        ] as [DeflateCase])
    func messages(test: DeflateCase) {
        for size in [test.stream.count, 1, 2, 3, 7] {
            let cuts = cuts(every: size, of: test.stream.count)
            #expect(read(test.stream, cuts: cuts, with: inflater()) == test.expected, "by \(size)")
        }
    }

    @Test(
        arguments: [
            ([0x06], "block type 11"),
            ([0x07, 0x00], "block type 11, last"),
            ([], "no byte at all: the block that the flush has ended is missing"),
            ([0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07], "the header of the empty block is missing"),
            ([0xF2, 0x48, 0xCD], "ends inside a block"),
            (hello + [0x00, 0x00, 0xFF, 0xFF], "the end of the flush was not removed: ends inside a header"),
            ([0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00], "a last block without another behind it"),
            (hello + [0xFF], "a trailing byte that begins a block of type 11"),
            (hello + [0x00, 0x01, 0x00], "a trailing stored block without its length"),
            (
                [0x00, 0x05, 0x00, 0xFA, 0xFE, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00],
                "length and complement differ"
            ),
            ([0x00, 0x09, 0x00, 0xF6, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00], "stored block cut short"),
            ([0xF2, 0x00, 0x11, 0x00, 0x00], "a reference before the beginning"),
            ([0xFC, 0x00, 0x00], "a dynamic block with too many lengths"),
            ([0x04, 0x00, 0x00, 0x00, 0x00], "a dynamic block without codes"),
        ] as [([UInt8], String)])
    func brokenData(payload: [UInt8], reason: String) {
        for takesOver in [false, true] {
            for opcode in [1, 2] as [UInt8] {
                let stream = compressed(payload, opcode: opcode).bytes + TestFrame(opcode: 9).bytes
                for size in [stream.count, 1] {
                    let seen = read(
                        stream, cuts: cuts(every: size, of: stream.count),
                        with: inflater(takesOver: takesOver))
                    #expect(seen == [.violation(.invalidDeflateData)], "\(reason)")
                }
            }
        }
        #expect(ProtocolViolation.invalidDeflateData.closeCode == .invalidPayload)
    }

    @Test(arguments: 1...7 as ClosedRange<UInt8>)
    func reservedBits(bits: UInt8) {
        func check(_ frames: [TestFrame], _ expected: [Seen], with inflater: MessageInflater?) {
            let stream = frames.flatMap(\.bytes)
            for size in [stream.count, 1, 2] {
                var reader = MessageReader(
                    role: .server, messageByteLimit: 1 << 20, checksText: true, inflater: inflater)
                var seen: [Seen] = []
                for start in stride(from: 0, to: stream.count, by: size) {
                    var window = Array(stream[start..<min(stream.count, start + size)])
                    read(&window, with: &reader, into: &seen)
                }
                #expect(seen == expected, "bits \(bits), by \(size)")
            }
        }
        let violation: [Seen] = [.violation(.reservedBitsSet)]
        for opcode in [1, 2, 8, 9, 10] as [UInt8] {
            let frame = TestFrame(opcode: opcode, payload: hello, reserved: bits)
            check([frame], violation, with: nil)
            if bits != 4 || opcode >= 8 { check([frame], violation, with: inflater()) }
        }
        // A continuation, of a plain and of a compressed message.
        let continuation = TestFrame(opcode: 0, payload: [0], reserved: bits)
        check([TestFrame(opcode: 1, isFinal: false), continuation], violation, with: inflater())
        check([compressed(hello, isFinal: false), continuation], violation, with: inflater())
    }

    @Test func textIsCheckedAfterInflating() throws {
        let deflater = try MessageDeflater(.init(takesOver: false, windowBits: 15), options: everything)
        for (bytes, isValid) in [([0xCE, 0xBA], true), ([0xCE], false), ([0xFF], false)] as [([UInt8], Bool)]
        {
            for (opcode, expected) in [
                (Opcode.text, isValid ? Seen.text(bytes) : .violation(.invalidUTF8)),
                (.binary, .binary(bytes)),
            ] {
                let stream = frame(opcode, bytes, deflater, alwaysCompressed: true)
                #expect(read(stream, cuts: [], with: inflater()) == [expected])
            }
        }
    }

    // MARK: Limits

    @Test(arguments: [1, 1000, 4096, 70_000])
    func messageLimitIsThatOfTheInflatedBytes(count: Int) throws {
        let deflater = try MessageDeflater(.init(takesOver: false, windowBits: 15), options: everything)
        var random = SeededGenerator(seed: count)
        let noise = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        for bytes in [noise, [UInt8](repeating: 0x61, count: count)] {
            let stream = frame(.binary, bytes, deflater, alwaysCompressed: true)
            for cuts in [[], [stream.count / 2]] {
                #expect(
                    read(stream, cuts: cuts, with: inflater(), messageByteLimit: count) == [.binary(bytes)])
                #expect(
                    read(stream, cuts: cuts, with: inflater(), messageByteLimit: count - 1)
                        == [.violation(.messageTooBig(byteLimit: count - 1))])
            }
        }
    }

    @Test func ratioIsLimitedAboveTheFreeBytes() throws {
        let deflater = try MessageDeflater(.init(takesOver: false, windowBits: 15), options: everything)
        let stream = frame(.binary, .init(repeating: 0, count: 1 << 20), deflater)
        #expect(stream.count < 6000)
        let limits = InflationLimits(ratio: 100, freeByteCount: 10_000)
        #expect(
            read(stream, cuts: [], with: inflater(limits: limits))
                == [.violation(.inflationRatioExceeded(limit: 100))])
        #expect(ProtocolViolation.inflationRatioExceeded(limit: 100).closeCode == .messageTooBig)
        let free = InflationLimits(ratio: 100, freeByteCount: 1 << 20)
        #expect(
            read(stream, cuts: [], with: inflater(limits: free)) == [
                .binary(.init(repeating: 0, count: 1 << 20))
            ])
        let wide = InflationLimits(ratio: .max, freeByteCount: 0)
        #expect(read(stream, cuts: [], with: inflater(limits: wide)).count == 1)
    }

    /// A stream of empty blocks inflates to nothing: its own length is limited, too.
    @Test func compressedBytesAreLimited() {
        let announced = TestFrame(opcode: 2, payload: [], reserved: 4).bytes.dropFirst(2)
        let header: [UInt8] = [0xC2, 0xFE, 0x20, 0x00] + announced
        #expect(
            read(header, cuts: [], with: inflater(), messageByteLimit: 4096)
                == [.violation(.messageTooBig(byteLimit: 4096))])
    }
}

/// Everything is compressed, however short.
var everything: MessageDeflater.Options {
    var options = MessageDeflater.Options()
    options.thresholdByteCount = 0
    return options
}

/// A client's frame with the message.
/// - Parameter alwaysCompressed: Compressed even where that does not make it shorter.
func frame(
    _ opcode: Opcode, _ message: [UInt8], _ deflater: MessageDeflater, alwaysCompressed: Bool = false
) -> [UInt8] {
    var output: [UInt8] = []
    deflater.append(message: opcode, payload: message.rawSpan, to: &output, maskingKey: 0x1234_5678)
    if alwaysCompressed, output[0] & 0x40 == 0 {
        // One stored block for each 65 535 bytes.
        var payload: [UInt8] = []
        for start in stride(from: 0, to: message.count, by: 65_535) {
            let block = message[start..<min(message.count, start + 65_535)]
            let (low, high) = (UInt8(block.count & 255), UInt8(block.count >> 8))
            payload += [0x00, low, high, ~low, ~high] + block
        }
        return TestFrame(opcode: opcode.rawValue, payload: payload + [0], reserved: 4).bytes
    }
    return output
}
