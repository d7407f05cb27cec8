import PandoBytes
import PandoHTTP
import PandoWebSocket
import Testing

private func request(_ changes: [(String, String)] = []) throws -> RequestHead {
    var text =
        "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    for (old, new) in changes {
        guard let range = text.firstRange(of: old) else {
            Issue.record("no \(old) to replace")
            continue
        }
        text.replaceSubrange(range, with: new)
    }
    var reader = RequestHeadReader()
    var offset = 0
    return try #require(try reader.read(Array(text.utf8).rawSpan, from: &offset))
}

private func response(_ text: String) throws -> ResponseHead {
    var reader = ResponseHeadReader()
    var offset = 0
    return try #require(try reader.read(Array(text.utf8).rawSpan, from: &offset))
}

@Suite struct HandshakeTests {
    /// The example of RFC 6455 §1.3, byte for byte.
    @Test func exampleOfTheRFC() throws {
        var output: [UInt8] = []
        try ServerHandshake(try request()).appendResponse(to: &output)
        #expect(
            String(decoding: output, as: UTF8.self)
                == "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
    }

    @Test(
        arguments: [
            ([("Upgrade: websocket", "Upgrade: h2c, WebSocket")], "a list, any case"),
            ([("Connection: Upgrade", "Connection: keep-alive, upgrade")], "Firefox"),
            ([("Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade")], "two lines"),
            (
                [("Version: 13", "Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate")],
                "offers are declined"
            ),
            ([("Version: 13", "Version: 13\r\nContent-Length: 0")], "no content, said aloud"),
        ] as [([(String, String)], String)])
    func accepted(changes: [(String, String)], reason: String) throws {
        var output: [UInt8] = []
        try ServerHandshake(try request(changes)).appendResponse(to: &output)
        #expect(!String(decoding: output, as: UTF8.self).contains("Extensions"), "\(reason)")
    }

    @Test(
        arguments: [
            ([("GET", "POST")], .methodNotGet, 405),
            ([("HTTP/1.1", "HTTP/1.0")], .versionBelow11, 400),
            ([("Upgrade: websocket", "Upgrade: websockets")], .notAnUpgrade, 426),
            ([("Upgrade: websocket\r\n", "")], .notAnUpgrade, 426),
            ([("Connection: Upgrade\r\n", "")], .connectionNotUpgraded, 400),
            ([("Connection: Upgrade", "Connection: close")], .connectionNotUpgraded, 400),
            ([("Version: 13", "Version: 13\r\nContent-Length: 5")], .hasContent, 400),
            ([("Version: 13", "Version: 13\r\nTransfer-Encoding: chunked")], .hasContent, 400),
            ([("Sec-WebSocket-Version: 13\r\n", "")], .missingVersion, 400),
            ([("Version: 13", "Version: 8")], .unsupportedVersion, 426),
            ([("Version: 13", "Version: 13, 8")], .unsupportedVersion, 426),
            ([("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 13")], .unsupportedVersion, 426),
            ([("dGhlIHNhbXBsZSBub25jZQ==", "")], .malformedKey, 400),
            ([("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ")], .malformedKey, 400),
            ([("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQAA")], .malformedKey, 400),
            ([("dGhlIHNhbXBsZSBub25jZQ==", "dGhl*HNhbXBsZSBub25jZQ==")], .malformedKey, 400),
            (
                [("Version: 13", "Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")],
                .malformedKey, 400
            ),
        ] as [([(String, String)], UpgradeRefusal, UInt16)])
    func refused(changes: [(String, String)], refusal: UpgradeRefusal, status: UInt16) throws {
        let head = try request(changes)
        #expect(throws: refusal) { try ServerHandshake(head) }
        #expect(refusal.status.code == status)
        var output: [UInt8] = []
        ServerHandshake.appendRefusal(refusal, to: &output)
        let answer = try response(String(decoding: output, as: UTF8.self))
        #expect(answer.statusCode == Int(status))
        #expect(answer.framing == .length(0))
        #expect(!answer.keepsAlive)
        #expect((answer.header("sec-websocket-version") == "13") == (status == 426))
        #expect((answer.header("allow") == "GET") == (status == 405))
    }

    @Test func requestIDComesBack() throws {
        let changes = [("Version: 13", "Version: 13\r\nX-Request-ID: id-7")]
        let head = try request(changes)
        var accepted: [UInt8] = []
        try ServerHandshake(head).appendResponse(to: &accepted)
        var refused: [UInt8] = []
        var line: [UInt8] = []
        line.append(requestID: head.requestID)
        ServerHandshake.appendRefusal(.unsupportedVersion, lines: line, to: &refused)
        for output in [accepted, refused] {
            #expect(try response(String(decoding: output, as: UTF8.self)).header("x-request-id") == "id-7")
        }
        var without: [UInt8] = []
        try ServerHandshake(try request()).appendResponse(to: &without)
        #expect(try response(String(decoding: without, as: UTF8.self)).header("x-request-id") == nil)
    }

    @Test func bothRolesAgree() throws {
        for nonce in [(0, 0), (1, 2), (UInt64.max, UInt64.max)] as [(UInt64, UInt64)] {
            let client = ClientHandshake(nonce: nonce)
            var wire: [UInt8] = []
            client.appendRequest(target: "/.ws?v=5&ns=demo", host: "localhost:9000", to: &wire)
            var reader = RequestHeadReader()
            var offset = 0
            let head = try #require(try reader.read(wire.rawSpan, from: &offset))
            #expect(head.query(plusIsSpace: false)["ns"] == "demo")
            #expect(head.authority == "localhost:9000")
            var answer: [UInt8] = []
            try ServerHandshake(head).appendResponse(to: &answer)
            try client.check(try response(String(decoding: answer, as: UTF8.self)))
        }
    }

    @Test(
        arguments: [
            ("HTTP/1.1 200 OK", "websocket", "Upgrade", "", .refused(statusCode: 200)),
            ("HTTP/1.1 101 x", "h2c", "Upgrade", "", .notAnUpgrade),
            ("HTTP/1.1 101 x", "websocket", "close", "", .connectionNotUpgraded),
            ("HTTP/1.1 101 x", "WebSocket", "UPGRADE", "Sec-WebSocket-Accept: AAAA\r\n", .wrongAcceptKey),
            ("HTTP/1.1 101 x", "websocket", "Upgrade", "", .wrongAcceptKey),
            (
                "HTTP/1.1 101 x", "websocket", "Upgrade",
                "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nSec-WebSocket-Protocol: x\r\n",
                .unexpectedChoice
            ),
            (
                "HTTP/1.1 101 x", "websocket", "Upgrade",
                "Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\nSec-WebSocket-Extensions: x\r\n",
                .unexpectedChoice
            ),
        ] as [(String, String, String, String, UpgradeFailure)])
    func otherResponsesAreRefused(
        start: String, upgrade: String, connection: String, more: String, failure: UpgradeFailure
    ) throws {
        let head = try response("\(start)\r\nUpgrade: \(upgrade)\r\nConnection: \(connection)\r\n\(more)\r\n")
        #expect(throws: failure) { try ClientHandshake(nonce: (0, 0)).check(head) }
    }
}
