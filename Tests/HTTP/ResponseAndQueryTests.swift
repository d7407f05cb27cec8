import PandoBytes
import PandoHTTP
import Testing

@Suite struct ResponseHeadTests {
    private func read(_ text: String) throws(HTTPError) -> ResponseHead? {
        let wire = Array(
            text.split(separator: "$", omittingEmptySubsequences: false).joined(separator: "\r\n").utf8)
        var reader = ResponseHeadReader()
        var head: ResponseHead?
        for byte in wire {
            var offset = 0
            head = try reader.read([byte].rawSpan, from: &offset)
        }
        return head
    }

    @Test(
        arguments: [
            (
                "HTTP/1.1 101 Switching Protocols$Upgrade: websocket$$", 101, .none, true,
                "no content, whatever"
            ),
            ("HTTP/1.1 200 OK$Content-Length: 5$$", 200, .length(5), true, "length"),
            ("HTTP/1.1 200$Transfer-Encoding: chunked$$", 200, .chunked, true, "no phrase"),
            ("HTTP/1.1 200 $$", 200, .untilClose, false, "nothing announced"),
            ("HTTP/1.0 204 x$Content-Length: 5$$", 204, .none, false, "204 has none"),
            ("HTTP/1.1 304 x$Content-Length: 5$Connection: close$$", 304, .none, false, "nor has 304"),
            ("HTTP/1.1 599 x$Content-Length: 0$$", 599, .length(0), true, "unknown code"),
        ] as [(String, Int, BodyFraming, Bool, String)])
    func accepted(text: String, code: Int, framing: BodyFraming, keepsAlive: Bool, reason: String) throws {
        let head = try #require(try read(text))
        #expect(head.statusCode == code, "\(reason)")
        #expect(head.framing == framing, "\(reason)")
        #expect(head.keepsAlive == keepsAlive, "\(reason)")
    }

    @Test(
        arguments: [
            ("HTTP/1.1 99 x$$", .malformedStatusLine), ("HTTP/1.1 600 x$$", .malformedStatusLine),
            ("HTTP/1.1 2000$$", .malformedStatusLine), ("HTTP/1.1200 OK$$", .malformedStatusLine),
            ("$HTTP/1.1 200 OK$$", .malformedStatusLine), ("HTTP/2.0 200 OK$$", .unsupportedVersion),
            ("HTTP/1.1 200 OK$a : b$$", .malformedHeaderName),
            (
                "HTTP/1.1 200 OK$Content-Length: 1$Transfer-Encoding: chunked$$",
                .contentLengthWithTransferEncoding
            ),
        ] as [(String, HTTPError)])
    func refused(text: String, error: HTTPError) {
        #expect(throws: error) { try read(text) }
    }

    @Test func writtenHeadsRoundTrip() throws {
        var wire: [UInt8] = []
        wire.append(statusLine: .preconditionFailed)
        wire.append(field: "ETag", text: "a\r\nSet-Cookie: b")
        wire.append(field: "Content-Length", decimal: 12)
        wire.append(field: "Connection", "close")
        wire.appendEndOfHead()
        var reader = ResponseHeadReader()
        var offset = 0
        let head = try #require(try reader.read(wire.rawSpan, from: &offset))
        #expect(head.statusCode == 412)
        #expect(head.header("etag") == "a  Set-Cookie: b", "a value cannot begin a line of its own")
        #expect(head.fields.count == 3)
        #expect(head.framing == .length(12))
        #expect(!head.keepsAlive)
        #expect(offset == wire.count)
    }

    @Test func targetCannotEndTheRequestLine() throws {
        var wire: [UInt8] = []
        wire.append(requestLine: "GET", target: "/a b\r\nHost: x#é")
        wire.append(field: "Host", "h")
        wire.appendEndOfHead()
        let (head, _) = try readRequest(String(decoding: wire, as: UTF8.self))
        #expect(head?.path == "/a%20b%0D%0AHost:%20x%23é")
    }
}

@Suite struct QueryStringTests {
    @Test(
        arguments: [
            ("v=5&ns=demo", [("v", "5"), ("ns", "demo")], "plain"),
            ("p=1:2:web:3", [("p", "1:2:web:3")], "raw colons"),
            ("ac=eyJ==&x", [("ac", "eyJ=="), ("x", nil)], "equals signs in a value; a name alone"),
            ("a=%41%c3%A9", [("a", "Aé")], "escapes in either case"),
            ("a=100%&b=%4&c=%zz", [("a", "100%"), ("b", "%4"), ("c", "%zz")], "what is no escape stays"),
            ("a=%ff%41", [("a", "%ff%41")], "what would not be UTF-8 stays"),
            ("a=%2525", [("a", "%25")], "decoded once"),
            ("%61=1&&=2&", [("a", "1"), ("", "2")], "names too; empty pairs vanish"),
            ("a=x+y", [("a", "x+y")], "plus is a plus"),
            ("", [], "nothing"),
        ] as [(String, [(Text, Text?)], String)])
    func pairs(query: String, expected: [(Text, Text?)], reason: String) {
        let pairs = QueryString(Array(query.utf8)[...], plusIsSpace: false).pairs
        #expect(pairs.map(\.name) == expected.map(\.0), "\(reason)")
        #expect(pairs.map(\.value) == expected.map(\.1), "\(reason)")
    }

    @Test func formEncodingReadsPlusAsSpace() {
        let query = QueryString(Array("a=x+y%2Bz".utf8)[...], plusIsSpace: true)
        #expect(query["a"] == "x y+z")
        #expect(query.contains("a") && !query.contains("b"))
    }

    /// Names are compared as bytes: to compare canonical forms takes time quadratic in a run of combining
    /// characters.
    @Test func namesAreBytes() {
        let query = QueryString(Array("p\u{E9}=1&pe\u{301}=2&\u{212A}=3".utf8)[...], plusIsSpace: false)
        #expect(query["p\u{E9}"] == "1" && query["pe\u{301}"] == "2")
        #expect(query.contains("\u{212A}") && !query.contains("K"))
    }

    @Test(
        arguments: [
            ("", ""), ("azAZ09-_~", "azAZ09-_~"), (".priority", "%2Epriority"), ("a/b", "a%2Fb"),
            ("\n %&+=", "%0A%20%25%26%2B%3D"), ("\u{E9}", "%C3%A9"),
        ])
    func encoding(text: String, encoded: String) {
        #expect(encodePercent(text.utf8) == encoded)
        #expect(decodePercentBytes(Array(encoded.utf8)[...], plusIsSpace: true) == Array(text.utf8))
    }
}
