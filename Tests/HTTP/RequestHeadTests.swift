import PandoBytes
import PandoHTTP
import PandoRandom
import Testing

/// Reads a head from `text`, cut into pieces of `size` bytes.
func readRequest(
    _ text: String, pieces size: Int = .max, limits: HeadLimits = HeadLimits()
) throws(HTTPError) -> (head: RequestHead?, rest: String) {
    let bytes = Array(text.utf8)
    var reader = RequestHeadReader(limits: limits)
    var start = 0
    while start < bytes.count {
        let piece = Array(bytes[start..<(size < bytes.count - start ? start + size : bytes.count)])
        var offset = 0
        let head = try reader.read(piece.rawSpan, from: &offset)
        start += offset
        if let head { return (head, String(decoding: bytes[start...], as: UTF8.self)) }
        #expect(offset == piece.count, "a reader that wants more has taken everything")
    }
    return (nil, "")
}

@Suite struct RequestHeadTests {
    @Test func upgradeOfAFirebaseClient() throws {
        let (found, rest) = try readRequest(
            "GET /.ws?v=5&p=1:2:web:3&ns=demo HTTP/1.1\r\nHost: localhost:9000\r\nConnection: keep-alive, Upgrade\r\n"
                + "UPGRADE:\twebsocket \r\nX-Empty:\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\u{1}\u{2}"
        )
        let head = try #require(found)
        #expect(rest == "\u{1}\u{2}", "frames behind the head are left")
        #expect(head.method == .get)
        #expect(head.methodText == "GET")
        #expect(head.version == .http11)
        #expect(head.path == "/.ws")
        #expect(head.authority == "localhost:9000")
        #expect(head.header("sec-websocket-key") == "dGhlIHNhbXBsZSBub25jZQ==")
        #expect(head.header("x-empty") == "")
        #expect(head.header("x-missing") == nil)
        #expect(head.fields.has(token: "upgrade", in: "connection"))
        #expect(!head.fields.has(token: "keep", in: "connection"), "a token is not a prefix")
        #expect(head.header("upgrade") == "websocket")
        #expect(head.framing == .none)
        #expect(head.keepsAlive)
        let query = head.query(plusIsSpace: false)
        #expect(query["p"] == "1:2:web:3")
        #expect(query["ns"] == "demo")
        #expect(query["x"] == nil)
    }

    @Test(
        arguments: [
            // values of the lines              last elements in 10 bytes
            ([], ""),
            (["a"], "a"),
            (["a, b", "c"], "a, b,c"),
            (["0123456789"], "0123456789"),
            (["x0123456789"], ""),
            (["1.1.1.1,2.2.2.2"], "2.2.2.2"),
            (["1.1.1.1", "2.2.2.2"], "2.2.2.2"),
            (["a,1.1", "2.2.2.2"], "2.2.2.2"),
            (["a,1", "2.2.2.2"], "1,2.2.2.2"),
            (["1", "0123456789"], "0123456789"),
        ] as [([String], String)])
    func endOfAList(values: [String], expected: String) throws {
        let lines = values.map { "X-List: \($0)\r\n" }.joined()
        let (found, _) = try readRequest("GET / HTTP/1.1\r\nHost: h\r\n\(lines)\r\n")
        let elements = try #require(found).fields.lastElements(of: "x-list", byteLimit: 10)
        #expect(String(decoding: elements, as: UTF8.self) == expected)
    }

    @Test(
        arguments: [
            // authority        host
            ("h", "h"), ("h:80", "h"), ("[::1]", "[::1]"), ("[::1]:9000", "[::1]"), ("1.2.3.4:1", "1.2.3.4"),
            ("a.b.", "a.b."), ("a.b.:80", "a.b."), ("h:", "h"),
        ])
    func hosts(authority: String, host: String) throws {
        let (found, _) = try readRequest("GET / HTTP/1.1\r\nHost: \(authority)\r\n\r\n")
        #expect(try #require(found).hostBytes.map { String(decoding: $0, as: UTF8.self) } == host)
    }

    @Test(
        arguments: [
            // target                      authority        path       query
            ("/", "h", "/", nil),
            ("/a/b.json", "h", "/a/b.json", nil),
            ("/a?", "h", "/a", ""),
            ("/a?x=1?y", "h", "/a", "x=1?y"),
            ("/?orderBy=\"$key\"&a={}|^", "h", "/", "orderBy=\"$key\"&a={}|^"),
            ("/é.json", "h", "/é.json", nil),
            ("http://other:90/a?b", "other:90", "/a", "b"),
            ("HTTPS://other", "other", "/", nil),
            ("http://other?b", "other", "/", "b"),
            ("http://[::1]:9000/a", "[::1]:9000", "/a", nil),
            ("//a//b", "h", "//a//b", nil),
        ] as [(String, String, String, String?)])
    func target(text: String, authority: String, path: String, query: String?) throws {
        let head = try #require(try readRequest("GET \(text) HTTP/1.1\r\nHost: h\r\n\r\n").head)
        #expect(head.authority == authority)
        #expect(head.path == Text(path))
        #expect(head.queryBytes.map { String(decoding: $0, as: UTF8.self) } == query)
    }

    /// OPTIONS of the server itself (RFC 9112 §3.2.4).
    @Test(arguments: [("*", true), ("/", false), ("/*", false), ("http://h", false)])
    func asteriskForm(target: String, isForServer: Bool) throws {
        let head = try #require(try readRequest("OPTIONS \(target) HTTP/1.1\r\nHost: h\r\n\r\n").head)
        #expect(head.isForServer == isForServer && head.method == .options && head.authority == "h")
        #expect(head.path == Text(target == "/*" ? "/*" : "/") && head.queryBytes == nil)
    }

    /// Refused heads, with the error and the reason. `$` stands for CR LF.
    @Test(
        arguments: [
            ("GET / HTTP/1.1\nHost: h$$", .bareLineFeed, "LF alone ends a line for some parsers only"),
            ("GET / HTTP/1.1$Host: h\n$$", .bareLineFeed, "in a field"),
            ("GET / HTTP/1.1$Host: h\rx: y$$", .bareCarriageReturn, "CR alone"),
            ("GET / HTTP/1.1$Host: h\r\r\n$", .bareCarriageReturn, "CR CR LF"),
            ("GET / HTTP/1.1$Host: h\0$$", .controlCharacter, "NUL ends a C string"),
            ("\u{16}\u{3}\u{1}", .controlCharacter, "a TLS hello on the plain port fails at its first byte"),
            ("GET / HTTP/1.1$Host: h\u{7F}$$", .controlCharacter, "DEL"),
            ("GET / HTTP/1.1$Host: h$ folded$$", .foldedLine, "obs-fold"),
            ("GET / HTTP/1.1$ Host: h$$", .foldedLine, "space before the first field"),
            ("GET / HTTP/1.1$Host : h$$", .malformedHeaderName, "space before the colon"),
            ("GET / HTTP/1.1$Host: h$: x$$", .malformedHeaderName, "no name"),
            ("GET / HTTP/1.1$Host: h$name$$", .malformedHeaderName, "no colon"),
            ("GET / HTTP/1.1$Host: h$na(me: x$$", .malformedHeaderName, "not a token"),
            ("GET / HTTP/1.1$$", .missingHost, "1.1 needs a Host"),
            ("GET / HTTP/1.1$Host: a$host: a$$", .repeatedHost, "twice, even if the same"),
            ("GET / HTTP/1.1$Host: a/b$$", .malformedHost, "a path is no host"),
            ("GET / HTTP/1.1$Host: u@h$$", .malformedHost, "user information"),
            ("GET / HTTP/1.1$Host: h:9x$$", .malformedHost, "port"),
            ("GET / HTTP/1.1$Host: h:123456$$", .malformedHost, "port too long"),
            ("GET / HTTP/1.1$Host: [::1$$", .malformedHost, "bracket"),
            ("GET / HTTP/1.1$Host: a, b$$", .malformedHost, "a list"),
            ("GET / HTTP/1.1$Host: demo..localhost$$", .malformedHost, "an empty label"),
            ("GET / HTTP/1.1$Host: .demo.a.localhost:80$$", .malformedHost, "an empty label first"),
            ("GET / HTTP/1.1$Host: demo.a.b..$$", .malformedHost, "two dots last"),
            ("GET / HTTP/1.1$Host: .$$", .malformedHost, "no label at all"),
            ("GET  / HTTP/1.1$Host: h$$", .malformedTarget, "two spaces make an empty target"),
            ("GET / HTTP/1.1 $Host: h$$", .malformedRequestLine, "trailing space"),
            ("GET /a b HTTP/1.1$Host: h$$", .malformedRequestLine, "space in the target"),
            ("GET\t/ HTTP/1.1$Host: h$$", .malformedRequestLine, "tab"),
            (" GET / HTTP/1.1$Host: h$$", .malformedRequestLine, "leading space"),
            ("GET /$Host: h$$", .malformedRequestLine, "HTTP/0.9"),
            ("$$GET / HTTP/1.1$Host: h$$", .malformedRequestLine, "one empty line is ignored, not two"),
            ("G(T / HTTP/1.1$Host: h$$", .malformedRequestLine, "method is no token"),
            ("GET / http/1.1$Host: h$$", .malformedRequestLine, "case of HTTP"),
            ("GET / HTTP/1.10$Host: h$$", .malformedRequestLine, "two digits"),
            ("PRI * HTTP/2.0$$", .unsupportedVersion, "the preface of HTTP/2"),
            ("GET * HTTP/1.1$Host: h$$", .malformedTarget, "asterisk-form is for OPTIONS"),
            ("OPTIONS *?a HTTP/1.1$Host: h$$", .malformedTarget, "asterisk-form has no query"),
            ("GET / HTTP/2.0$Host: h$$", .unsupportedVersion, "HTTP/2 as text"),
            ("GET / HTTP/1.2$Host: h$$", .unsupportedVersion, "no such version"),
            ("GET /#a HTTP/1.1$Host: h$$", .malformedTarget, "a fragment never travels"),
            ("GET a HTTP/1.1$Host: h$$", .malformedTarget, "relative"),
            ("CONNECT h:1 HTTP/1.1$Host: h$$", .malformedTarget, "authority-form"),
            ("GET http:///a HTTP/1.1$Host: h$$", .malformedTarget, "no authority"),
            ("GET http://u@h/a HTTP/1.1$Host: h$$", .malformedTarget, "user information"),
            ("GET ftp://h/a HTTP/1.1$Host: h$$", .malformedTarget, "scheme"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1$Host: h$$", .methodTooLong, "26 letters"),
            (
                "POST / HTTP/1.1$Host: h$Content-Length: 1$Transfer-Encoding: chunked$$",
                .contentLengthWithTransferEncoding, "the classic"
            ),
            (
                "POST / HTTP/1.1$Host: h$Content-Length: 1$Content-Length: 2$$", .repeatedContentLength,
                "conflict"
            ),
            (
                "POST / HTTP/1.1$Host: h$Content-Length: 1$Content-Length: 1$$", .repeatedContentLength,
                "repetition"
            ),
            ("POST / HTTP/1.1$Host: h$Content-Length: 1, 1$$", .malformedContentLength, "list"),
            ("POST / HTTP/1.1$Host: h$Content-Length: +1$$", .malformedContentLength, "sign"),
            ("POST / HTTP/1.1$Host: h$Content-Length: -1$$", .malformedContentLength, "sign"),
            ("POST / HTTP/1.1$Host: h$Content-Length: 0x1$$", .malformedContentLength, "hex"),
            ("POST / HTTP/1.1$Host: h$Content-Length:$$", .malformedContentLength, "empty"),
            (
                "POST / HTTP/1.1$Host: h$Content-Length: 9999999999999999999$$", .contentTooLarge,
                "beyond 64 bits"
            ),
            (
                "POST / HTTP/1.1$Host: h$Transfer-Encoding: gzip, chunked$$", .unsupportedTransferEncoding,
                "coding"
            ),
            (
                "POST / HTTP/1.1$Host: h$Transfer-Encoding: xchunked$$", .unsupportedTransferEncoding,
                "look-alike"
            ),
            (
                "POST / HTTP/1.1$Host: h$Transfer-Encoding: chunked$Transfer-Encoding: chunked$$",
                .malformedTransferEncoding, "twice"
            ),
            ("POST / HTTP/1.1$Host: h$Transfer-Encoding:$$", .malformedTransferEncoding, "empty"),
            (
                "POST / HTTP/1.0$Transfer-Encoding: chunked$$", .transferEncodingInOldVersion,
                "1.0 has no chunks"
            ),
        ] as [(String, HTTPError, String)])
    func refused(text: String, error: HTTPError, reason: String) {
        let wire = text.split(separator: "$", omittingEmptySubsequences: false).joined(separator: "\r\n")
        for size in [Int.max, 1, 2, 3, 7] {
            #expect(throws: error, "\(reason), in pieces of \(size)") {
                try readRequest(wire, pieces: size)
            }
        }
    }

    @Test func statusOfEachError() {
        #expect(HTTPError.targetTooLong.status == .targetTooLong)
        #expect(HTTPError.headTooLarge.status.code == 431)
        #expect(HTTPError.contentTooLarge.status.code == 413)
        #expect(HTTPError.unsupportedVersion.status.code == 505)
        #expect(HTTPError.unsupportedTransferEncoding.status.code == 501)
        #expect(HTTPError.bareLineFeed.status.code == 400)
    }

    @Test(
        arguments: [
            ("GET / HTTP/1.0$$", .none, false, "1.0 closes, and needs no Host"),
            ("GET / HTTP/1.0$Connection: Keep-Alive$$", .none, true, "unless asked"),
            ("GET / HTTP/1.1$Host:$Connection: x, Close$$", .none, false, "empty Host is legal"),
            ("$GET / HTTP/1.1$Host: h$$", .none, true, "one empty line before"),
            ("PUT / HTTP/1.1$Host: h$Content-Length: 0012$$", .length(12), true, "leading zeros"),
            (
                "PUT / HTTP/1.1$Host: h$Content-Length: 00000000000000000000012$$", .length(12), true,
                "of any number"
            ),
            ("PUT / HTTP/1.1$Host: h$Transfer-Encoding: Chunked$$", .chunked, true, "case"),
        ] as [(String, BodyFraming, Bool, String)])
    func accepted(text: String, framing: BodyFraming, keepsAlive: Bool, reason: String) throws {
        let wire = text.split(separator: "$", omittingEmptySubsequences: false).joined(separator: "\r\n")
        for size in [Int.max, 1, 5] {
            let head = try #require(try readRequest(wire, pieces: size).head)
            #expect(head.framing == framing, "\(reason)")
            #expect(head.keepsAlive == keepsAlive, "\(reason)")
        }
    }

    /// Before anything is made of them.
    @Test(arguments: [(HeadLimits.queryPairLimit, true), (HeadLimits.queryPairLimit + 1, false)])
    func pairsOfAQueryAreBounded(count: Int, fits: Bool) throws {
        let head =
            "GET /?" + (0..<count).map { _ in "a" }.joined(separator: "&") + " HTTP/1.1\r\nHost: h\r\n\r\n"
        if fits {
            let found = try #require(try readRequest(head).head)
            #expect(found.query(plusIsSpace: false).pairs.count == count)
        } else {
            #expect(throws: HTTPError.tooManyQueryPairs) { try readRequest(head) }
            #expect(HTTPError.tooManyQueryPairs.status == .targetTooLong)
        }
    }

    @Test func limitsApplyWhileReading() throws {
        var limits = HeadLimits()
        limits.targetByteLimit = 100
        limits.headByteLimit = 400
        limits.fieldCountLimit = 3
        for size in [Int.max, 1, 64] {
            let fits = "/" + String(repeating: "a", count: 99)
            #expect(
                try readRequest("GET \(fits) HTTP/1.1\r\nHost: h\r\n\r\n", pieces: size, limits: limits).head
                    != nil)
            #expect(throws: HTTPError.targetTooLong) {
                try readRequest("GET \(fits)a HTTP/1.1\r\nHost: h\r\n\r\n", pieces: size, limits: limits)
            }
            #expect(throws: HTTPError.targetTooLong, "without ever ending its line") {
                try readRequest("GET /" + String(repeating: "a", count: 200), pieces: size, limits: limits)
            }
            #expect(throws: HTTPError.headTooLarge, "without ever ending") {
                try readRequest(
                    "GET / HTTP/1.1\r\nA: " + String(repeating: "a", count: 400), pieces: size, limits: limits
                )
            }
            #expect(throws: HTTPError.tooManyHeaderFields) {
                try readRequest(
                    "GET / HTTP/1.1\r\nHost: h\r\nA: \r\nA: \r\nA: \r\n\r\n", pieces: size, limits: limits)
            }
        }
    }

    @Test func pipelinedHeadsAreReadOneByOne() throws {
        let wire = Array("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\nGET".utf8)
        var offset = 0
        var paths: [Text] = []
        while true {
            var reader = RequestHeadReader()
            #expect(reader.isIdle)
            guard let head = try reader.read(wire.rawSpan, from: &offset) else {
                #expect(!reader.isIdle)
                break
            }
            paths.append(head.path)
        }
        #expect(paths == ["/a", "/b"])
        #expect(offset == wire.count)
    }

    @Test func anyCutGivesTheSameHead() throws {
        let wire = Array(
            "PUT /a?b=c HTTP/1.1\r\nHost: h:1\r\nA: b \r\nA:c,d\r\nContent-Length: 3\r\n\r\nabc".utf8)
        for first in 0...wire.count {
            for second in first...wire.count {
                var reader = RequestHeadReader()
                var head: RequestHead?
                var taken = 0
                for piece in [wire[..<first], wire[first..<second], wire[second...]] where head == nil {
                    var offset = 0
                    head = try reader.read(Array(piece).rawSpan, from: &offset)
                    taken += offset
                }
                #expect(head?.fields.values(of: "a") == ["b", "c,d"])
                #expect(head?.framing == .length(3))
                #expect(taken == wire.count - 3)
            }
        }
    }

    @Test(arguments: 0..<8 as Range<UInt64>)
    func mutatedHeadsNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let original = Array(
            "PUT http://h:1/a?b=%c HTTP/1.1\r\nHost: [::1]:9\r\nConnection: a,b\r\nTransfer-Encoding: chunked\r\n\r\n"
                .utf8)
        var acceptedCount = 0
        for _ in 0..<3000 {
            var wire = original
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: 0..<wire.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: wire[index] = UInt8.random(in: 0...255, using: &random)
                case 1: wire[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 2: wire.remove(at: index)
                default: wire.insert("\r\n: ,/?%".utf8.randomElement(using: &random) ?? 0, at: index)
                }
            }
            var reader = RequestHeadReader()
            var offset = 0
            let whole = Result { () throws(HTTPError) in try reader.read(wire.rawSpan, from: &offset) }
            #expect(offset <= wire.count)
            if case .success(let head?) = whole {
                acceptedCount += 1
                _ = (head.authority, head.path, head.query(plusIsSpace: true), head.expectsContinue)
            }
            // The cut does not change the result.
            var slow = RequestHeadReader()
            let pieces = Result { () throws(HTTPError) -> RequestHead? in
                for byte in wire {
                    var start = 0
                    if let head = try slow.read([byte].rawSpan, from: &start) { return head }
                }
                return nil
            }
            #expect(verdict(whole) == verdict(pieces))
        }
        #expect(acceptedCount > 0, "some mutations are harmless, or this tests nothing")
    }

    private func verdict(_ result: Result<RequestHead?, HTTPError>) -> String {
        switch result {
        case .success(let head): head.map { "\($0.fields.bytes) \($0.framing)" } ?? "more"
        case .failure(let error): "\(error)"
        }
    }
}
