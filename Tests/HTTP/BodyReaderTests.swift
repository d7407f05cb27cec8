import PandoBytes
import PandoHTTP
import PandoRandom
import Testing

/// Reads a complete body from pieces of `size` bytes.
/// - Returns: The content, whether the end was found, and how many bytes of `wire` were read.
private func readBody(
    _ framing: BodyFraming, _ wire: [UInt8], pieces size: Int, byteLimit: UInt64 = 1000
) throws(HTTPError) -> (content: String, ended: Bool, taken: Int) {
    var reader = try BodyReader(framing, byteLimit: byteLimit)
    var content: [UInt8] = []
    var start = 0
    repeat {
        let piece = Array(wire[start..<min(wire.count, start + size)])
        var offset = 0
        while let event = try reader.next(piece.rawSpan, from: &offset) {
            switch event {
            case .data(let range):
                #expect(!range.isEmpty)
                content += piece[range]
            case .end: return (String(decoding: content, as: UTF8.self), true, start + offset)
            }
        }
        #expect(offset == piece.count)
        start += piece.count
    } while start < wire.count
    return (String(decoding: content, as: UTF8.self), false, start)
}

@Suite struct BodyReaderTests {
    @Test(
        arguments: [
            (.none, "", "GET", "", "no content ends at once"),
            (.length(0), "", "GET", "", "neither does an empty one wait"),
            (.length(5), "hello", "GET", "hello", "exactly"),
            (.chunked, "5$hello$0$$", "GET", "hello", "one chunk"),
            (.chunked, "1$h$004$ello$00$$", "GET", "hello", "leading zeros"),
            (.chunked, "00000000000000005$hello$0000000000000000000$$", "GET", "hello", "of any number"),
            (.chunked, "A;name=\"x\"$0123456789$0 ;y$$", "GET", "0123456789", "extensions"),
            (.chunked, "b$\r\n0\r\n\r\nabcd$0$$", "", "\r\n0\r\n\r\nabcd", "content may look like an end"),
            (.chunked, "1$a$0$Digest: x$Other: y$$", "G", "a", "trailers"),
        ] as [(BodyFraming, String, String, String, String)])
    func content(framing: BodyFraming, body: String, next: String, content: String, reason: String) throws {
        let text = body.split(separator: "$", omittingEmptySubsequences: false).joined(separator: "\r\n")
        let wire = Array((text + next).utf8)
        for size in 1...(wire.count + 1) {
            let result = try readBody(framing, wire, pieces: size)
            #expect(result == (content, true, text.utf8.count), "\(reason), in pieces of \(size)")
        }
    }

    @Test(
        arguments: [
            ("$hello", .malformedChunk, "no size"),
            ("x$", .malformedChunk, "not hex"),
            ("-1$", .malformedChunk, "sign"),
            ("0x5$hello$", .malformedChunk, "prefix"),
            ("5 $hello$0$$", .malformedChunk, "space without extension"),
            (" 5$hello$0$$", .malformedChunk, "space before"),
            ("5$hello!$0$$", .malformedChunk, "longer than announced"),
            ("5$hell$0$$", .malformedChunk, "shorter than announced"),
            ("5\nhello$0$$", .bareLineFeed, "LF alone"),
            ("5;a\rb$", .bareCarriageReturn, "CR alone"),
            ("5$hello\n0$$", .malformedChunk, "LF after the data"),
            ("3E9$", .contentTooLarge, "1001 bytes"),
            ("258$" + String(repeating: "a", count: 600) + "$258$", .contentTooLarge, "600 and 600"),
            ("FFFFFFFFFFFFFFFF$", .contentTooLarge, "64 bits"),
            ("1$a$FFFFFFFFFFFFFFF$", .contentTooLarge, "a sum that could overflow"),
            ("0$a b: c$$", .malformedHeaderName, "trailers are fields"),
            ("0$ a$$", .foldedLine, "and not folded"),
        ] as [(String, HTTPError, String)])
    func refusedChunks(body: String, error: HTTPError, reason: String) {
        let text = body.split(separator: "$", omittingEmptySubsequences: false).joined(separator: "\r\n")
        for size in [1, 2, 3, 1000] {
            #expect(throws: error, "\(reason), in pieces of \(size)") {
                try readBody(.chunked, Array(text.utf8), pieces: size)
            }
        }
    }

    @Test func limits() throws {
        #expect(throws: HTTPError.contentTooLarge, "refused on the announcement") {
            try BodyReader(.length(1001), byteLimit: 1000)
        }
        #expect(throws: HTTPError.contentTooLarge) {
            try readBody(.untilClose, [UInt8](repeating: 65, count: 1001), pieces: 100)
        }
        #expect(throws: HTTPError.malformedChunk, "an endless extension") {
            try readBody(.chunked, Array(("1;" + String(repeating: "a", count: 300)).utf8), pieces: 7)
        }
        #expect(throws: HTTPError.trailersTooLarge, "endless trailers") {
            try readBody(.chunked, Array(("0\r\na: " + String(repeating: "a", count: 9000)).utf8), pieces: 70)
        }
        #expect(throws: HTTPError.tooManyHeaderFields) {
            try readBody(
                .chunked, Array(("0\r\n" + String(repeating: "a:\r\n", count: 101)).utf8), pieces: 70)
        }
    }

    @Test func endOfTheConnectionEndsOrTruncates() throws {
        var complete = try BodyReader(.untilClose, byteLimit: 10)
        var offset = 0
        #expect(try complete.next([1, 2, 3].rawSpan, from: &offset) == .data(0..<3))
        try complete.finish()
        for framing in [BodyFraming.length(1), .chunked] {
            var cut = try BodyReader(framing, byteLimit: 10)
            #expect(throws: HTTPError.truncated) { try cut.finish() }
        }
    }

    @Test func writtenChunksRoundTrip() throws {
        var wire: [UInt8] = []
        var expected = ""
        for count in [1, 15, 16, 255, 256, 0, 457] {
            let text = String(repeating: "x", count: count)
            wire.append(chunk: Array(text.utf8).rawSpan)
            expected += text
        }
        wire.appendLastChunk()
        #expect(try readBody(.chunked, wire, pieces: 13) == (expected, true, wire.count))
    }

    @Test(arguments: 0..<4 as Range<UInt64>)
    func mutatedChunksNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let original = Array("5;a=b\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n".utf8)
        for _ in 0..<3000 {
            var wire = original
            for _ in 0..<3 {
                wire[Int.random(in: 0..<wire.count, using: &random)] = UInt8.random(
                    in: 0...255, using: &random)
            }
            let results = [1000, 1, 5].map { size in
                do { return "\(try readBody(.chunked, wire, pieces: size))" } catch { return "\(error)" }
            }
            #expect(Set(results).count == 1, "the cut does not change the verdict: \(results)")
        }
    }
}
