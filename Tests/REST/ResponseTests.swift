import PandoBytes
import PandoCompression
import PandoHTTP
import PandoRandom
import PandoTree
import Testing

@testable import PandoREST

/// An answer as a client reads it.
private struct Received {
    var head: ResponseHead
    var body: String
    var bytes: [UInt8]
    var raw: String

    init(_ answer: RESTResponse, isHead: Bool = false) throws {
        var answer = answer
        var bytes: [UInt8] = []
        while let piece = answer.next() { bytes += piece }
        raw = String(decoding: bytes, as: UTF8.self)
        var offset = 0
        var reader = ResponseHeadReader()
        guard let head = try reader.read(bytes.rawSpan, from: &offset) else { throw UnfinishedHead() }
        self.head = head
        #expect(head.keepsAlive == !answer.closesConnection || isHead)
        var content: [UInt8] = []
        var body = try BodyReader(isHead ? .none : head.framing, byteLimit: 1 << 30)
        loop: while let event = try body.next(bytes.rawSpan, from: &offset) {
            switch event {
            case .data(let range): content += bytes[range]
            case .end: break loop
            }
        }
        try body.finish()
        #expect(offset == bytes.count, "bytes behind the body")
        self.body = String(decoding: content, as: UTF8.self)
        self.bytes = content
    }
}

private func answer(
    _ method: String, _ target: String, _ fields: [String] = [], _ node: Node, etag: String? = nil,
    version: String = "1.1"
) throws -> Received {
    let head = try head(method, target, fields, version: version)
    let request = try RESTRequest(head)
    return try Received(
        .value(node, etag: etag, to: request, ResponseContext(head)), isHead: request.method == .head)
}

@Test func dataResponsesAreByteExact() throws {
    let received = try answer("GET", "/a.json", [], node(#"{"h":3}"#))
    #expect(
        received.raw
            == "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-cache\r\n"
            + "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: ETag, X-Request-ID\r\n"
            + "Content-Length: 7\r\nConnection: keep-alive\r\n\r\n{\"h\":3}")
}

@Test func everyResponseHasItsDate() throws {
    let head = try head("GET", "/a.json")
    let dateLine = Array("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".utf8)
    let request = try RESTRequest(head)
    let context = ResponseContext(head, dateLine: dateLine)
    for answer in [
        .value(.empty, to: request, context), .error(.permissionDenied, context),
        .notModified(etag: "t", context),
        .stream(dateLine: dateLine), .preflight(head, dateLine: dateLine),
    ] as [RESTResponse] {
        #expect(try Received(answer).head.header("date") == "Sun, 06 Nov 1994 08:49:37 GMT")
    }
}

@Test func errorsAreByteExactAndPretty() throws {
    let context = ResponseContext(try head("GET", "/a.json?print=silent"))
    let received = try Received(.error(.permissionDenied, context))
    #expect(received.head.statusCode == 401)
    #expect(received.body == "{\n  \"error\" : \"Permission denied\"\n}\n")
    #expect(received.body.utf8.count == 36)
    #expect(received.head.header("content-length") == "36")
    let rules = try Received(.error(.badRequest, text: "1:2: Expected 'rules' property.\n", context))
    #expect(rules.body == "{\n  \"error\" : \"1:2: Expected 'rules' property.\\n\"\n}\n")
    let method = try Received(.error(.methodNotAllowed(allowed: .inspect), context))
    #expect(method.head.statusCode == 405 && method.head.header("allow") == "GET, HEAD, OPTIONS")
}

/// rest §2, §3, §14: target, stored, status, body.
@Test(arguments: [
    ("GET", "/a.json", "null", 200, "null"),
    ("GET", "/a.json?print=pretty", #"{"h":3}"#, 200, "{\n  \"h\" : 3\n}\n"),
    ("GET", "/a.json?print=silent", "1", 204, ""),
    ("PUT", "/a.json?print=silent", "1", 204, ""),
    ("DELETE", "/a.json?print=silent", "null", 204, ""),
    ("DELETE", "/a.json", "null", 200, "null"),
    ("GET", "/a.json?shallow=true", #"{"a":{"h":4},"b":1}"#, 200, #"{"a":true,"b":true}"#),
    ("GET", "/a.json?shallow=true", "1", 200, "1"),
    ("GET", "/a.json", #"{".value":"v",".priority":1}"#, 200, #""v""#),
    ("GET", "/a.json?format=export", #"{".value":"v",".priority":1}"#, 200, #"{".value":"v",".priority":1}"#),
    ("GET", "/a.json?format=export", #"["a"]"#, 200, #"{"0":"a"}"#),
    ("PUT", "/a.json", #"{".value":"v",".priority":1}"#, 200, #"{".value":"v",".priority":1}"#),
    ("PUT", "/a.json", #"["a","b"]"#, 200, #"["a","b"]"#),
    ("GET", "/a.json?callback=cb", "1", 200, "cb(1);"),
    ("GET", "/a.json?callback=$.x[0]&print=pretty", "1", 200, "$.x[0](1);\n"),
    ("HEAD", "/a.json", #"{"h":3}"#, 200, ""),
    ("POST", "/a.json?x-http-method-override=GET&print=pretty", "1", 200, "1\n"),
])
func answersToRequests(method: String, target: String, stored: String, status: Int, body: String) throws {
    let received = try answer(method, target, [], node(stored))
    #expect(received.head.statusCode == status)
    #expect(received.body == body)
    #expect(received.head.header("access-control-allow-origin") == "*")
    #expect((received.head.header("content-type") == nil) == (status == 204))
}

@Test func headersThatDependOnTheRequest() throws {
    let callback = try answer("GET", "/a.json?callback=cb", [], .empty)
    #expect(callback.head.header("content-type") == "application/javascript; charset=utf-8")
    #expect(callback.head.header("x-content-type-options") == "nosniff")
    let tagged = try answer(
        "PUT", "/a.json", ["X-Firebase-ETag: true"], .integer(10), etag: Node.integer(10).etag)
    #expect(tagged.head.header("etag") == "+r5aI9HvKKagELki8SYKBk0q7D4=")
    #expect(Node.empty.etag == "null_etag")
    #expect(try answer("HEAD", "/a.json", [], .integer(10)).head.header("content-length") == "2")
    #expect(try answer("GET", "/a.json", ["Connection: close"], .empty).head.header("connection") == "close")
    #expect(try answer("GET", "/a.json", [], .empty, version: "1.0").head.header("connection") == "close")
}

/// §3.4; RFC 6266 and RFC 8187.
@Test(
    arguments: [
        // target                        Content-Disposition, without `attachment; `
        ("name.json", #"filename="name.json""#),
        ("x%22%0D%0A/..%5Cname.json", #"filename="x..name.json""#),
        ("a%20b;c=d.json", #"filename="a b;c=d.json""#),
        ("Z%C3%BCrich.json", #"filename="Z_rich.json"; filename*=UTF-8''Z%C3%BCrich.json"#),
        ("%E6%97%A5%20%F0%9F%98%80", #"filename="_ _"; filename*=UTF-8''%E6%97%A5%20%F0%9F%98%80"#),
        // One character, two scalars.
        ("e%CC%81", #"filename="e_"; filename*=UTF-8''e%CC%81"#),
        ("100%25.json", #"filename="100_.json"; filename*=UTF-8''100%25.json"#),
        ("%C3%A4%22%27;a*=(b)", #"filename="_;a*=(b)"; filename*=UTF-8''%C3%A4%3Ba%2A%3D%28b%29"#),
        ("%C3%A4!%23$%26%2B-.%5E_%60%7C~", #"filename="_!#$&+-.^_`|~"; filename*=UTF-8''%C3%A4!#$&+-.^_`|~"#),
        // No UTF-8: the text as it was sent.
        ("%FF.json", #"filename="_FF.json"; filename*=UTF-8''%25FF.json"#),
        ("", nil),
        ("%22/%0A", nil),
    ] as [(String, String?)])
func nameOfADownload(name: String, expected: String?) throws {
    let field = try answer("GET", "/a.json?download=\(name)", [], .empty).head.header("content-disposition")
    #expect(field?.string == expected.map { "attachment; " + $0 })
}

@Test func conditionalResponses() throws {
    let head = try head("PUT", "/a.json?print=pretty", ["if-match: x"])
    let request = try RESTRequest(head)
    let failed = try Received(
        .preconditionFailed(current: .integer(5), etag: "t", to: request, ResponseContext(head)))
    #expect(failed.head.statusCode == 412 && failed.body == "5\n" && failed.head.header("etag") == "t")
    let same = try Received(.notModified(etag: "t", ResponseContext(head)))
    #expect(same.head.statusCode == 304 && same.body.isEmpty && same.head.header("etag") == "t")
}

@Test func namesAndUpdates() throws {
    let post = try head("POST", "/l.json")
    let name = try Received(.name("-NqB1w4n0pK3jYxA2b7c", to: RESTRequest(post), ResponseContext(post)))
    #expect(name.body == #"{"name":"-NqB1w4n0pK3jYxA2b7c"}"#)
    let pretty = try head("POST", "/l.json?print=pretty")
    let line = try Received(.name("-N", to: RESTRequest(pretty), ResponseContext(pretty)))
    #expect(line.body == "{\n  \"name\" : \"-N\"\n}\n")

    let patch = try head("PATCH", "/pub.json")
    for (sent, shown) in [
        (#"{"a/h":4, "b/c":true ,"zz":null}"#, #"{"a/h":4,"b/c":true,"zz":null}"#), ("{}", "{}"),
        ("null", "null"),
    ] {
        guard case .update(let update) = try body("PATCH", "/pub.json", sent) else {
            Issue.record("no update")
            return
        }
        for nodes in [nil, update.writes.map(\.draft.node)] {
            let received = try Received(
                .update(update, resolved: nodes, to: RESTRequest(patch), ResponseContext(patch)))
            #expect(received.body == shown)
        }
    }
}

@Test func largeValuesAreChunked() throws {
    var tree = Node.empty
    for index in 0..<30_000 {
        tree.set(
            .string("a value of some forty characters, or more"),
            at: Path([Key(unchecked: Text("k\(index)"))]))
    }
    let text = NaivePrinter(form: JSONForm()).text(tree)
    let chunked = try answer("GET", "/a.json", [], tree)
    #expect(chunked.head.framing == .chunked && chunked.body == text)
    let old = try answer("GET", "/a.json", [], tree, version: "1.0")
    #expect(old.head.framing == .untilClose && old.body == text)
    let bare = try answer("HEAD", "/a.json", [], tree)
    #expect(bare.head.framing == .chunked && bare.body.isEmpty)
    // On the edge: the last text that has a length, and the first that has chunks.
    for (count, framing) in [
        (RESTLimits.wholeResponseByteCount, BodyFraming.length(UInt64(RESTLimits.wholeResponseByteCount))),
        (RESTLimits.wholeResponseByteCount + 1, .chunked),
    ] {
        let string = Node.string(Text(String(repeating: "x", count: count - 2)))
        let received = try answer("GET", "/a.json", [], string)
        #expect(received.head.framing == framing && received.body.utf8.count == count)
    }
}

/// Each call prints at most a piece, also while it is not known whether there is a Content-Length.
@Test(arguments: [
    500_000, RESTLimits.wholeResponseByteCount - 1000, RESTLimits.wholeResponseByteCount + 1000,
])
func responsesArePrintedInPieces(byteCount: Int) throws {
    var tree = Node.empty
    let entryByteCount = #""k1000000":1,"#.utf8.count
    for index in 0..<byteCount / entryByteCount {
        tree.set(.integer(1), at: Path([Key(unchecked: Text("k\(1_000_000 + index)"))]))
    }
    let head = try head("GET", "/a.json", [])
    var response = RESTResponse.value(tree, to: try RESTRequest(head), ResponseContext(head))
    var (printed, bytes) = (response.printedByteCount, [UInt8]())
    // Printing stops behind the token that exceeds it.
    let mostPrinted = RESTLimits.pieceByteCount + 100
    #expect(printed <= mostPrinted)
    while let piece = response.next() {
        #expect(response.printedByteCount - printed <= mostPrinted)
        #expect(bytes.isEmpty || !piece.isEmpty, "nothing waits once the head is sent")
        #expect(piece.isEmpty == response.isFramingUnknown)
        printed = response.printedByteCount
        bytes += piece
    }
    let received = try answer("GET", "/a.json", [], tree)
    #expect(String(decoding: bytes, as: UTF8.self) == received.raw)
    #expect(received.body == NaivePrinter(form: JSONForm()).text(tree))
    #expect((received.head.framing == .chunked) == (byteCount > RESTLimits.wholeResponseByteCount))
}

/// A response that is sent in chunks from the first piece on holds about a piece. The buffer of another one
/// is counted until it is sent.
@Test(arguments: [false, true]) func memoryOfAResponseIsCounted(isBuffered: Bool) throws {
    var tree = Node.empty
    for index in 0..<300_000 { tree.set(.integer(1), at: Path([Key(unchecked: Text("k\(index)"))])) }
    let head = try head("GET", "/a.json", [])
    var context = ResponseContext(head)
    context.mayBufferWhole = isBuffered
    var response = RESTResponse.value(tree, to: try RESTRequest(head), context)
    #expect(response.isFramingUnknown == isBuffered)
    var (most, last) = (0, 0)
    while let piece = response.next() {
        if !piece.isEmpty, most == 0 { most = response.heldByteCount }
        last = response.heldByteCount
        if !response.isFinished, !isBuffered { #expect(last <= 4 * RESTLimits.pieceByteCount) }
    }
    #expect(isBuffered == (most > RESTLimits.wholeResponseByteCount), "\(most)")
    #expect(last == 0)
}

/// A text of megabytes is printed in pieces like anything else.
@Test func longTextIsPrintedInPieces() throws {
    let head = try head("GET", "/a.json", [])
    let value = Node.string(Text(String(repeating: "\u{1}", count: 5_000_000)))
    var response = RESTResponse.value(value, to: try RESTRequest(head), ResponseContext(head))
    var (printed, most) = (response.printedByteCount, response.printedByteCount)
    while response.next() != nil {
        most = max(most, response.printedByteCount - printed)
        printed = response.printedByteCount
    }
    #expect(printed == 30_000_002 && most <= RESTLimits.pieceByteCount + 6 * 16_384)
}

/// Compressed or not, chunked or not: the client reads the same text, and HEAD says what GET would.
@Test(arguments: [0, 1, 1022, 1023, 60_000, 65_534, 65_535, 400_000, 3_000_000])
func compressedResponsesHaveSameText(count: Int) throws {
    var generator = SeededGenerator(seed: UInt64(count))
    // Half of it compresses.
    let digits = (0..<count).map {
        $0 % 2 == 0 ? "x" : Character("\(Int.random(in: 0..<10, using: &generator))")
    }
    let value = Node.string(Text(String(digits)))
    for version in ["1.1", "1.0"] {
        let plain = try answer("GET", "/a.json", [], value, version: version)
        let packed = try answer("GET", "/a.json", ["Accept-Encoding: gzip"], value, version: version)
        let head = try answer("HEAD", "/a.json", ["Accept-Encoding: gzip"], value, version: version)
        #expect(head.head.framing == packed.head.framing && head.body.isEmpty)
        #expect(head.head.header("content-encoding") == packed.head.header("content-encoding"))
        let isLong = plain.bytes.count > RESTLimits.compressedByteCount
        #expect((plain.head.header("vary") == "Accept-Encoding") == isLong)
        #expect((packed.head.header("vary") == "Accept-Encoding") == isLong)
        guard isLong else {
            #expect(packed.raw == plain.raw)
            continue
        }
        #expect(packed.head.header("content-encoding") == "gzip" && packed.bytes.count < plain.bytes.count)
        var text: [UInt8] = []
        var body = try GzipBody(byteLimit: plain.bytes.count)
        try body.inflate(packed.bytes.rawSpan, into: &text)
        try body.finish()
        #expect(text == plain.bytes)
        let isChunked = version == "1.1" && plain.bytes.count > RESTLimits.pieceByteCount
        #expect((packed.head.framing == .chunked) == isChunked)
    }
}

@Test func responsesThatAreNeverCompressed() throws {
    let gzip = ["Accept-Encoding: gzip"]
    let long = Node.string(Text(String(repeating: "x", count: 5000)))
    let silent = try answer("PUT", "/a.json?print=silent", gzip, long)
    #expect(silent.head.statusCode == 204 && silent.head.header("content-encoding") == nil)
    let head = try head("GET", "/a.json", gzip)
    let same = try Received(.notModified(etag: "t", ResponseContext(head)))
    #expect(same.head.header("content-encoding") == nil && same.head.header("vary") == "Accept-Encoding")
    #expect(try Received(.stream()).head.header("content-encoding") == nil)
    // What would grow is sent as it is.
    var generator = SeededGenerator(seed: 1)
    let noise = [UInt8](noise: 2000, &generator)
    let rules = try Received(.verbatim(noise, ResponseContext(head)))
    #expect(rules.bytes.count <= noise.count)
    let coding = try Received(.error(.unsupportedCoding("br"), ResponseContext(head)))
    #expect(coding.head.statusCode == 415 && coding.head.header("accept-encoding") == "gzip")
    // One compressor serves many answers, one after the other.
    let context = ResponseContext(head, compressor: ResponseCompressor())
    let text = [UInt8](String(repeating: "abc", count: 2000).utf8)
    let first = try Received(.verbatim(text, context))
    let second = try Received(.verbatim(text, context))
    #expect(first.head.header("content-encoding") == "gzip" && first.bytes == second.bytes)
}

/// What is too long to be compressed at once is compressed piece by piece.
@Test func longReportsAreCompressedInPieces() throws {
    let head = try head("GET", "/a.json", ["Accept-Encoding: gzip"])
    let text = [UInt8](String(repeating: "abcdefg", count: RESTLimits.pieceByteCount).utf8)
    for response in [
        RESTResponse.verbatim(text, ResponseContext(head)),
        .report(RESTReport(prefix: text), to: try request("GET", "/a.json"), ResponseContext(head)),
    ] {
        var response = response
        #expect(response.removeWhole() == nil)
        let received = try Received(response)
        #expect(received.head.header("content-encoding") == "gzip")
        #expect(received.head.header("content-length") == nil)
        var inflated: [UInt8] = []
        var body = try GzipBody(byteLimit: text.count)
        try body.inflate(received.bytes.rawSpan, into: &inflated)
        try body.finish()
        #expect(inflated == text)
    }
}

extension [UInt8] {
    /// Bytes that no compression makes smaller.
    fileprivate init(noise count: Int, _ generator: inout SeededGenerator) {
        self = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
}

@Test func preflightsAndStreams() throws {
    let ask = try head("OPTIONS", "/a.json", ["Access-Control-Request-Headers: x-firebase-etag, if-match"])
    #expect(RESTAddress(ask).isPreflight)
    let received = try Received(.preflight(ask))
    #expect(received.head.statusCode == 200 && received.body.isEmpty)
    #expect(received.head.header("access-control-allow-methods") == "GET, PUT, PATCH, POST, DELETE, OPTIONS")
    #expect(received.head.header("access-control-allow-headers") == "x-firebase-etag, if-match")
    #expect(received.head.header("access-control-max-age") == "3600")
    #expect(received.head.header("access-control-allow-credentials") == nil)
    #expect(received.head.header("allow") == nil)
    let server = try Received(.preflight(head("OPTIONS", "*")))
    #expect(server.head.header("allow") == "GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS")
    // A body is not read: nothing may follow it.
    let talks = try Received(.preflight(head("OPTIONS", "/a.json", ["Content-Length: 3"])))
    #expect(talks.head.statusCode == 200 && talks.head.header("connection") == "close")
    let refusal = try Received(.refusal(.requestTimeout, isHead: false))
    #expect(refusal.body == "{\n  \"error\" : \"Request Timeout\"\n}\n")
    #expect(
        refusal.head.header("access-control-allow-origin") == "*"
            && refusal.head.header("connection") == "close")
    let stream = try Received(.stream())
    #expect(stream.head.header("content-type") == "text/event-stream; charset=utf-8")
    #expect(stream.head.header("cache-control") == "no-cache")
    #expect(stream.head.framing == .untilClose)
}
