import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoWire

private let unit = Segmenter.chunkUnitLimit

/// The message that a receiver joins from the frames of `text`, and the sizes of those frames in UTF-16
/// units.
private func sent(_ text: String) -> (frames: [[UInt8]], units: [Int])? {
    let bytes = Array(text.utf8)
    switch split(bytes) {
    case .whole: return ([bytes], [text.utf16.count])
    case .tooBig: return nil
    case .chunks(let ranges):
        let chunks = ranges.map { Array(bytes[$0]) }
        return (
            [Array(String(chunks.count).utf8)] + chunks,
            chunks.map { String(decoding: $0, as: UTF8.self).utf16.count }
        )
    }
}

/// Joins frames as a simple client would.
private func received(_ frames: [[UInt8]]) throws(ReassemblyViolation) -> [[UInt8]] {
    var reassembler = Reassembler()
    var messages: [[UInt8]] = []
    for frame in frames {
        switch try reassembler.accept(frame) {
        case .nothing: break
        case .payload: messages.append(frame)
        case .assembled(let message): messages.append(message)
        }
    }
    #expect(!reassembler.isCollecting && reassembler.byteCount == 0)
    return messages
}

@Test(
    arguments: [
        (String(repeating: "a", count: unit), [unit], "exactly one frame"),
        (String(repeating: "a", count: unit + 1), [unit, 1], "one unit more"),
        (String(repeating: "a", count: 3 * unit), [unit, unit, unit], "an exact multiple"),
        (String(repeating: "é", count: unit), [unit], "two bytes a unit are still one unit"),
        (String(repeating: "日", count: unit + 1), [unit, 1], "three bytes a unit"),
        (String(repeating: "🐵", count: unit / 2), [unit], "four bytes are two units"),
        (String(repeating: "🐵", count: unit / 2 + 1), [unit, 2], "pairs fill a frame"),
        ("a" + String(repeating: "🐵", count: unit / 2), [unit - 1, 2], "a pair at the cut stays whole"),
        (String(repeating: "a", count: unit - 1) + "🐵", [unit - 1, 2], "as above, in ASCII"),
        (
            String(repeating: "a", count: unit - 1) + "é" + "b", [unit, 1],
            "a character of two bytes ends at the cut"
        ),
        (String(repeating: "a", count: unit) + "\u{301}", [unit, 1], "a mark may be parted from its letter"),
    ] as [(String, [Int], String)])
func cuts(text: String, expected: [Int], reason: String) throws {
    let frames = try #require(sent(text))
    #expect(frames.units == expected, "\(reason)")
}

@Test func moreChunksThanTheLimitAreTooBig() {
    let most = [UInt8](repeating: 0x61, count: Segmenter.chunkLimit * unit)
    guard case .chunks(let ranges) = split(most) else {
        Issue.record("the limit itself must pass")
        return
    }
    #expect(ranges.count == 9_999)
    #expect(split((most + [0x61])) == .tooBig)
}

/// Random text through the segmenter and the reassembler, against the standard library's UTF-16.
@Test(arguments: 0..<12 as Range<UInt64>)
func roundTrip(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<3 {
        var text = "{"
        let units = Int.random(in: unit - 20...4 * unit, using: &generator)
        while text.utf16.count < units {
            // Long runs of one width, so that there are cuts in each of them.
            let piece = ["a", "é", "日", "🐵", "a🐵", "é日"].randomElement(using: &generator) ?? ""
            text += String(repeating: piece, count: Int.random(in: 1...3000, using: &generator))
        }
        let frames = try #require(sent(text))
        #expect(frames.units.reduce(0, +) == text.utf16.count)
        for (index, size) in frames.units.enumerated() {
            #expect(size <= unit)
            // Only the last may be short, or one that stopped before a surrogate pair.
            #expect(index == frames.units.count - 1 || size >= unit - 1)
        }
        for frame in frames.frames { #expect(isText(frame)) }
        #expect(try received(frames.frames) == [Array(text.utf8)])

        // C++ cuts between bytes, in the middle of characters.
        let bytes = Array(text.utf8)
        let chunks = stride(from: 0, to: bytes.count, by: unit).map {
            Array(bytes[$0..<min($0 + unit, bytes.count)])
        }
        #expect(try received([Array(String(chunks.count).utf8)] + chunks) == [bytes])
    }
}

/// Bytes that are not UTF-8 are cut anywhere, but completely.
@Test func chunksCoverAnyBytesCompletely() {
    for byte in [0x80, 0xBF, 0xC3, 0xF0, 0xFF] as [UInt8] {
        let bytes = [UInt8](repeating: byte, count: 3 * unit + 5)
        switch split(bytes) {
        case .whole: break
        case .chunks(let ranges):
            #expect(ranges.first?.lowerBound == 0 && ranges.last?.upperBound == bytes.count)
            for (left, right) in zip(ranges, ranges.dropFirst()) {
                #expect(left.upperBound == right.lowerBound)
            }
        case .tooBig: Issue.record("it is not")
        }
    }
}

/// Frames, then their messages (realtime §2.2, §2.3).
@Test(
    arguments: [
        ([#"{"a":1}"#], [#"{"a":1}"#], "one frame"),
        (["0", "{}"], ["{}"], "a keep-alive"),
        (["00", "000000", "{}"], ["{}"], "zeros are keep-alives"),
        (["", "-", "-5", "{}"], ["{}"], "neither messages nor counts"),
        (["1", "{}"], ["{}"], "a count of one"),
        (["000002", "{", "}"], ["{}"], "six digits"),
        (["0000002"], ["0000002"], "seven digits are a message, whatever it is worth"),
        (["+2", "{}"], ["+2", "{}"], "a sign is no digit"),
        ([" 2", "2 "], [" 2", "2 "], "white space is no digit"),
        (["1x"], ["1x"], "a letter is no digit"),
        (["3", #"{"a":""#, "0", #""}"#], [#"{"a":"0"}"#], "a chunk that looks like a keep-alive"),
        (["3", #"{"a":"#, "17", "}"], [#"{"a":17}"#], "a chunk that looks like a count"),
        (["3", #"{"a":1"#, "", "}"], [#"{"a":1}"#], "an empty chunk"),
        (["2", "{", "}", "2", "[", "]"], ["{}", "[]"], "one after another"),
        (["2", "{}", "x"], ["{}x"], "short chunks are no sign of a chunk too many"),
    ] as [([String], [String], String)])
func frames(frames: [String], messages: [String], reason: String) throws {
    #expect(try received(frames.map { Array($0.utf8) }) == messages.map { Array($0.utf8) }, "\(reason)")
}

/// A message of exactly `byteCount` bytes, with brackets and escapes in its strings.
private func message(byteCount: Int) -> [UInt8] {
    let head = Array(#"{"t":"d","d":{"x":"}\\\"}{","y":[{}],"z":""#.utf8)
    let tail = Array(#""}}"#.utf8)
    return head + [UInt8](repeating: 0x61, count: byteCount - head.count - tail.count) + tail
}

/// C++ announces a chunk that it never sends when the length is a multiple of the chunk size (§2.1). The
/// request must get its reply at once, and what follows is not the missing chunk.
@Test(arguments: 1...3, [#"{"t":"c"}"#, "0", "2"])
func oneChunkTooManyAnnounced(chunkCount: Int, next: String) throws {
    let whole = message(byteCount: chunkCount * unit)
    let chunks = (0..<chunkCount).map { Array(whole[$0 * unit..<($0 + 1) * unit]) }
    var reassembler = Reassembler()
    #expect(try reassembler.accept(Array(String(chunkCount + 1).utf8)) == .nothing)
    for chunk in chunks.dropLast() { #expect(try reassembler.accept(chunk) == .nothing) }
    #expect(try reassembler.accept(chunks[chunkCount - 1]) == .assembled(whole))
    #expect(!reassembler.isCollecting && reassembler.byteCount == 0)

    let event = try reassembler.accept(Array(next.utf8))
    #expect(event == (next == "0" || next == "2" ? .nothing : .payload))
    #expect(reassembler.isCollecting == (next == "2"))
}

/// Strings, escapes and brackets that the end of a chunk cuts: the message is complete without the announced
/// chunk that is missing, or not.
@Test(
    arguments: [
        // before the cut   behind it   is complete   because
        (#"{"a":"x\"#, "\"\"}", true, "an escaped quotation mark does not end the string"),
        (#"{"a":"x\\"#, "\"}", true, "behind an escaped backslash it does"),
        (#"{"a":"x\"#, "\"}", false, "the escaped quotation mark leaves the string open"),
        (#"{"a":{"b":1"#, "}}", true, "both objects end"),
        (#"{"a":{"b":1"#, " }", false, "the outer object does not end"),
        (#"{"a":1}"#, " }", false, "something follows the object"),
        (#"{"a":"}"#, "}\"}", true, "brackets in a string do not count"),
        (#"[{"a":1"#, "}", false, "the message is no object"),
    ] as [(String, String, Bool, String)])
func messageCutAtChunkEnd(first: String, second: String, isComplete: Bool, because: String) throws {
    // White space behind the first byte fills both chunks.
    func padded(_ text: String, _ count: Int) -> [UInt8] {
        let bytes = Array(text.utf8)
        return [bytes[0]] + [UInt8](repeating: 0x20, count: count - bytes.count) + bytes.dropFirst()
    }
    let head = padded(first, unit)
    let tail = Array(second.utf8)
    // Spaces fill the second chunk before its text; behind the escaped byte where the cut is behind a
    // backslash.
    var reassembler = Reassembler()
    #expect(try reassembler.accept(Array("3".utf8)) == .nothing)
    let escaped = first.hasSuffix("\\") && !first.hasSuffix("\\\\")
    let filler = [UInt8](repeating: 0x20, count: unit - tail.count)
    let last = escaped ? [tail[0]] + filler + tail.dropFirst() : filler + tail
    #expect(try reassembler.accept(head) == .nothing, "\(because)")
    let event = try reassembler.accept(last)
    #expect(event == (isComplete ? .assembled(head + last) : .nothing), "\(because)")
}

/// A chunk that ends with `}` need not be the end.
@Test func closingBracketAtTheEndOfAChunkDoesNotEndTheMessage() throws {
    for text in [#"{"x":{}"#, #"{"x":"}"#, #"{"x":"\"}"#, #"[{}"#, #"{}{}"#] {
        // Padded with white space so that the cut is directly behind the bracket.
        let first = [UInt8](repeating: 0x20, count: unit - text.utf8.count) + Array(text.utf8)
        let leading =
            Array(text.utf8.prefix(1)) + [UInt8](repeating: 0x20, count: unit - text.utf8.count)
            + Array(text.utf8.dropFirst())
        for chunk in [first, leading] {
            var reassembler = Reassembler()
            _ = try reassembler.accept(Array("2".utf8))
            #expect(try reassembler.accept(chunk) == .nothing, "\(text)")
            #expect(reassembler.isCollecting)
        }
    }
}

@Test func limitsOfChunkedMessages() throws {
    func afterCount(_ count: String, _ reassembler: Reassembler = Reassembler()) throws -> Reassembler {
        var reassembler = reassembler
        _ = try reassembler.accept(Array(count.utf8))
        return reassembler
    }
    _ = try afterCount("1100")
    #expect(throws: ReassemblyViolation.tooManyChunks(1101)) { try afterCount("1101") }
    #expect(throws: ReassemblyViolation.tooManyChunks(999_999)) { try afterCount("999999") }
    #expect(throws: ReassemblyViolation.tooManyChunks(6)) { try afterCount("6", Reassembler(chunkLimit: 5)) }

    // 16 384 units of three bytes each.
    let longest = [UInt8](repeating: 0x61, count: 3 * unit)
    var open = try afterCount("9")
    #expect(try open.accept(longest) == .nothing)
    #expect(throws: ReassemblyViolation.chunkTooLong(byteCount: 3 * unit + 1)) {
        try open.accept((longest + [0]))
    }

    var small = try afterCount("9", Reassembler(messageByteLimit: 10))
    #expect(try small.accept([1, 2, 3, 4, 5, 6]) == .nothing)
    #expect(throws: ReassemblyViolation.messageTooBig(byteLimit: 10)) { try small.accept([1, 2, 3, 4, 5]) }
    var idle = Reassembler(messageByteLimit: 10)
    #expect(try idle.accept([UInt8](repeating: 0x7B, count: 10)) == .payload)
    #expect(throws: ReassemblyViolation.messageTooBig(byteLimit: 10)) {
        try idle.accept([UInt8](repeating: 0x7B, count: 11))
    }
}

/// §15.10: 40 000 × `a`, three chunks each way.
@Test func largeMessageOfTheTranscript() throws {
    let text = String(repeating: "a", count: 40_000)
    let line = #"{"t":"d","d":{"r":5,"a":"p","b":{"p":"/big","d":"\#(text)"}}}"#
    let frames = try #require(sent(line))
    #expect(frames.units == [16_384, 16_384, 7_285])
    let messages = try received(frames.frames)
    #expect(
        try parse(messages[0])
            == .request(
                Request(
                    number: 5,
                    action: .put(Write(Target("/big"), Draft(.string(Text(text))))))))

    let push = written {
        $0.append(push: .string(Text(text)), at: "/big")
        $0.append(pushTail: nil)
    }
    #expect(try #require(sent(push)).units == [16_384, 16_384, 7_278])
}
