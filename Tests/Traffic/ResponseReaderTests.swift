import PandoBytes
import PandoHTTP
import Testing

@testable import PandoTraffic

@Suite struct ResponseReaderTests {
    static let stream = Array(
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" + "HTTP/1.1 204 No Content\r\n\r\n"
            + "HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
            + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").utf8)

    /// Responses behind each other come whole and in order, wherever their bytes are cut.
    @Test(arguments: 1...stream.count)
    func responsesInPieces(byteCount: Int) throws {
        var reader = ResponseReader()
        var seen: [String] = []
        for start in stride(from: 0, to: Self.stream.count, by: byteCount) {
            let piece = Array(Self.stream[start..<min(start + byteCount, Self.stream.count)])
            var offset = 0
            while let (head, body) = try reader.next(piece.rawSpan, from: &offset) {
                seen.append("\(head.statusCode) \(String(decoding: body, as: UTF8.self))")
            }
            #expect(offset == piece.count)
        }
        #expect(seen == ["200 abc", "204 ", "401 def", "200 "])
    }

    @Test func whatIsNoResponseIsAnError() {
        var reader = ResponseReader()
        var offset = 0
        #expect(throws: HTTPError.self) {
            while try reader.next(Array("no HTTP\r\n\r\n".utf8).rawSpan, from: &offset) != nil {}
        }
    }
}
