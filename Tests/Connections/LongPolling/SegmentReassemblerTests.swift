import PandoBytes
import PandoRandom
import Testing

@testable import PandoConnections

private typealias Segment = LongPollingRequest.Segment

/// As a client writes a message (realtime §1.5.2).
private func encode(_ message: String) -> [UInt8] {
    var text: [UInt8] = []
    text.append(base64: Array(message.utf8).rawSpan, alphabet: .urlSafe)
    while text.count % 4 != 0 { text.append(UInt8(ascii: ".")) }
    return text
}

/// Segments of messages, each cut into pieces of a length of its own.
private func cut(_ messages: [String], piece: (Int) -> Int) -> [Segment] {
    var segments: [Segment] = []
    for (index, message) in messages.enumerated() {
        let text = encode(message)
        let length = max(1, piece(index))
        let pieces = stride(from: 0, to: text.count, by: length).map {
            Array(text[$0..<min(text.count, $0 + length)])
        }
        for piece in pieces {
            segments.append(Segment(number: segments.count, total: pieces.count, text: piece))
        }
    }
    return segments
}

@Suite struct SegmentReassemblerTests {
    @Test func theExamplesOfTheProtocol() throws {
        var reassembler = SegmentReassembler(messageByteLimit: 1000)
        var messages: [[UInt8]] = []
        let first = "eyJ0IjoiZCIsImQiOnsiciI6MSwiYSI6InMiLCJiIjp7ImMiOnsic2RrLmpzLjEyLTE4LTAiOjF9fX19"
        try reassembler.accept(Segment(number: 0, total: 1, text: Array(first.utf8)), into: &messages)
        try reassembler.accept(
            Segment(number: 1, total: 1, text: Array("eyJ0IjoiYyIsImQiOnsidCI6Im4iLCJkIjp7fX19".utf8)),
            into: &messages)
        #expect(
            messages.map { String(decoding: $0, as: UTF8.self) } == [
                #"{"t":"d","d":{"r":1,"a":"s","b":{"c":{"sdk.js.12-18-0":1}}}}"#,
                #"{"t":"c","d":{"t":"n","d":{}}}"#,
            ])
        #expect(reassembler.byteCount == 0)
    }

    @Test(
        arguments: [
            // segments                                     violation             because
            ([(0, 1, "e30=")], .malformedBase64, "the padding of clients is a full stop"),
            ([(0, 1, "e30")], .malformedBase64, "the padding is missing"),
            ([(0, 1, "e3+/")], .malformedBase64, "the other alphabet"),
            ([(0, 1, "e..0")], .malformedBase64, "padding inside"),
            ([(0, 1, "e...")], .malformedBase64, "three characters of padding"),
            ([(0, 1, "e31.")], .malformedBase64, "spare bits that are not zero"),
            ([(0, 1, "e 0.")], .malformedBase64, "a foreign character"),
            ([(0, 2, "e30."), (1, 1, "e30.")], .inconsistentTotal, "a message of two segments, or of one"),
            ([(0, 3, "e30."), (1, 3, "e")], .malformedBase64, "padding inside, at the end of a segment"),
            ([(0, 3, "e30."), (1, 3, "."), (2, 3, "")], .malformedBase64, "padding twice"),
            ([(0, 9, "e!00")], .malformedBase64, "seen before the message is complete"),
            ([(0, 1, "")], .emptyMessage, "no client sends nothing"),
            ([(0, 2, ""), (1, 2, "")], .emptyMessage, "also not in parts"),
            ([(257, 1, "e30.")], .tooFarAhead, "no request overtakes so many"),
            (
                [(0, 2, String(repeating: "e", count: 16)), (1, 2, "eeee")], .messageTooBig,
                "twelve bytes are allowed"
            ),
            ([(5, 1, String(repeating: "e", count: 20))], .messageTooBig, "also where it waits for others"),
        ] as [([(Int, Int, String)], SegmentReassembler.Violation, String)])
    func refuses(segments: [(Int, Int, String)], violation: SegmentReassembler.Violation, because: String) {
        var reassembler = SegmentReassembler(messageByteLimit: 12)
        var messages: [[UInt8]] = []
        #expect(throws: violation, "\(because)") {
            for (number, total, text) in segments {
                try reassembler.accept(
                    Segment(number: number, total: total, text: Array(text.utf8)), into: &messages)
            }
        }
        #expect(messages.isEmpty)
    }

    @Test func segmentsAreKeptDecoded() throws {
        var reassembler = SegmentReassembler(messageByteLimit: 1000)
        var messages: [[UInt8]] = []
        let text = encode(String(repeating: "a", count: 100))
        try reassembler.accept(Segment(number: 0, total: 3, text: Array(text[..<50])), into: &messages)
        #expect(reassembler.byteCount == 36 + 2)
        try reassembler.accept(Segment(number: 1, total: 3, text: Array(text[50..<53])), into: &messages)
        #expect(reassembler.byteCount == 39 + 1)
        try reassembler.accept(Segment(number: 2, total: 3, text: Array(text[53...])), into: &messages)
        #expect(messages == [[UInt8](repeating: UInt8(ascii: "a"), count: 100)] && reassembler.byteCount == 0)
    }

    @Test func segmentsThatWaitCountTheirPlaces() throws {
        var reassembler = SegmentReassembler(messageByteLimit: 1000)
        var messages: [[UInt8]] = []
        for number in 1...3 {
            try reassembler.accept(Segment(number: number, total: 4, text: [65]), into: &messages)
        }
        #expect(reassembler.byteCount == 3 * (1 + SegmentReassembler.aheadOverhead))
    }

    /// Any order, and some twice: each message comes once, in order, and nothing is left.
    @Test(arguments: 0..<40 as Range<UInt64>)
    func anyOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let messages = (0..<12).map {
            "{\"m\(seed)-\($0)\":\"" + String(repeating: "é", count: Int.random(in: 0...40, using: &random))
                + "\"}"
        }
        let lengths = messages.map { _ in Int.random(in: 1...64, using: &random) }
        let segments = cut(messages) { lengths[$0] }
        // Two requests are under way at a time: what arrives is at most so far from its place.
        var arrivals = segments.flatMap { random.next() % 3 == 0 ? [$0, $0] : [$0] }
        for index in arrivals.indices.dropLast() {
            arrivals.swapAt(index, Int.random(in: index..<min(arrivals.count, index + 30), using: &random))
        }
        var reassembler = SegmentReassembler(messageByteLimit: 1000)
        var complete: [[UInt8]] = []
        for segment in arrivals { try reassembler.accept(segment, into: &complete) }
        #expect(complete.map { String(decoding: $0, as: UTF8.self) } == messages)
        #expect(reassembler.byteCount == 0)
    }
}
