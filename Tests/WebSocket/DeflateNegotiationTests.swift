import PandoBytes
import PandoHTTP
import Testing

@testable import PandoWebSocket

private func head(extensions lines: [String]) throws -> RequestHead {
    var text =
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    for line in lines { text += "Sec-WebSocket-Extensions: \(line)\r\n" }
    var reader = RequestHeadReader()
    var offset = 0
    return try #require(try reader.read(Array((text + "\r\n").utf8).rawSpan, from: &offset))
}

/// The value of the response's field; nil where there is none.
private func answer(_ lines: [String], _ options: DeflateOptions) throws -> String? {
    var output: [UInt8] = []
    try ServerHandshake(try head(extensions: lines), deflate: options).appendResponse(to: &output)
    var reader = ResponseHeadReader()
    var offset = 0
    return try #require(try reader.read(output.rawSpan, from: &offset)).header("sec-websocket-extensions")?
        .string
}

private var generous: DeflateOptions {
    var options = DeflateOptions()
    options.server.takesOver = true
    options.client.takesOver = true
    return options
}

private var small: DeflateOptions {
    var options = DeflateOptions()
    options.server.windowBits = 11
    options.client.windowBits = 10
    return options
}

@Suite struct DeflateNegotiationTests {
    @Test(
        arguments: [
            // offer                                                    response, parameters only
            ("permessage-deflate", ""),
            ("permessage-deflate; client_max_window_bits", "; client_max_window_bits=15"),
            ("permessage-deflate; client_max_window_bits=8", "; client_max_window_bits=8"),
            ("permessage-deflate; client_max_window_bits=15", "; client_max_window_bits=15"),
            ("permessage-deflate; server_max_window_bits=8", "; server_max_window_bits=8"),
            ("permessage-deflate; server_max_window_bits=15", "; server_max_window_bits=15"),
            ("permessage-deflate; server_max_window_bits=\"10\"", "; server_max_window_bits=10"),
            ("permessage-deflate; server_no_context_takeover", "; server_no_context_takeover"),
            ("permessage-deflate; client_no_context_takeover", "; client_no_context_takeover"),
            (
                "permessage-deflate ;client_max_window_bits = 9;server_max_window_bits=12; "
                    + "client_no_context_takeover\t; server_no_context_takeover",
                "; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12"
                    + "; client_max_window_bits=9"
            ),
            // The first that can be met, in the client's order.
            (
                "x-webkit-deflate-frame, permessage-deflate; server_max_window_bits=9",
                "; server_max_window_bits=9"
            ),
            ("permessage-deflate; unknown, permessage-deflate", ""),
            (
                "permessage-deflate; server_max_window_bits=10, permessage-deflate",
                "; server_max_window_bits=10"
            ),
            (", ,permessage-deflate,,", ""),
            ("foo; bar=\"b\\a\\z\"; x, permessage-deflate", ""),
        ] as [(String, String)])
    func offersThatAreMet(offer: String, response: String) throws {
        #expect(try answer([offer], generous) == "permessage-deflate" + response)
        #expect(try answer(["unknown", offer], generous) == "permessage-deflate" + response)
    }

    @Test(arguments: [
        "", ",", "deflate-frame", "Permessage-Deflate", "permessage-bzip2",
        "permessage-deflate; unknown", "permessage-deflate; unknown=1",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=\"true\"",
        "permessage-deflate; server_max_window_bits", "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16", "permessage-deflate; server_max_window_bits=08",
        "permessage-deflate; server_max_window_bits=+9", "permessage-deflate; client_max_window_bits=0",
        "permessage-deflate; client_max_window_bits=99999999999999999999",
        "permessage-deflate; client_max_window_bits; client_max_window_bits",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; Server_No_Context_Takeover",
    ])
    func offersThatAreDeclined(offer: String) throws {
        #expect(try answer([offer], generous) == nil)
    }

    @Test(arguments: [
        "permessage-deflate;", "permessage-deflate; =1", "permessage-deflate; a=", "permessage-deflate; a=\"",
        "permessage-deflate; a=\"\"", "permessage-deflate; a=\"b c\"", "permessage-deflate; a=\"b\\",
        "permessage-deflate a", "permessage-deflate, ;", "a/b", "permessage-deflate; a=b c", "\"a\"", "é",
    ])
    func linesThatDoNotFollowTheGrammar(line: String) throws {
        let request = try head(extensions: [line])
        #expect(throws: UpgradeRefusal.malformedExtensions) {
            try ServerHandshake(request, deflate: generous)
        }
        #expect(UpgradeRefusal.malformedExtensions.status == .badRequest)
        #expect(throws: Never.self) { try ServerHandshake(request) }
    }

    /// The server demands what it was not offered, where RFC 7692 §7.1 lets it.
    @Test(
        arguments: [
            ("permessage-deflate", 15, "; server_max_window_bits=11"),
            (
                "permessage-deflate; client_max_window_bits", 10,
                "; server_max_window_bits=11; client_max_window_bits=10"
            ),
            (
                "permessage-deflate; client_max_window_bits=9; server_max_window_bits=13", 9,
                "; server_max_window_bits=11; client_max_window_bits=9"
            ),
        ] as [(String, Int, String)])
    func serverDemandsLess(offer: String, clientBits: Int, response: String) throws {
        let prefix = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        #expect(try answer([offer], small) == prefix + response)
        let agreement = try #require(
            try ServerHandshake(try head(extensions: [offer]), deflate: small).deflate)
        #expect(agreement.server == .init(takesOver: false, windowBits: 11))
        #expect(agreement.client == .init(takesOver: false, windowBits: clientBits))
    }

    @Test func serverWithoutMemoryAnswersPlainly() throws {
        var handshake = try ServerHandshake(try head(extensions: ["permessage-deflate"]), deflate: generous)
        #expect(handshake.deflate != nil)
        handshake.declineDeflate()
        var output: [UInt8] = []
        handshake.appendResponse(to: &output)
        #expect(!String(decoding: output, as: UTF8.self).contains("Extensions"))
    }

    // MARK: The client

    private static var offers: [DeflateParameters] {
        var offers: [DeflateParameters] = []
        for server in [false, true] {
            for client in [false, true] {
                for serverBits in [nil, 8, 12, 15] as [Int?] {
                    for clientBits in [.absent, .anySize, .bits(8), .bits(15)]
                        as [DeflateParameters.ClientWindow]
                    {
                        var offer = DeflateParameters()
                        offer.serverNoContextTakeover = server
                        offer.clientNoContextTakeover = client
                        offer.serverMaxWindowBits = serverBits
                        offer.clientMaxWindowBits = clientBits
                        offers.append(offer)
                    }
                }
            }
        }
        return offers
    }

    private func response(_ text: String, to client: ClientHandshake) throws -> ResponseHead {
        var request: [UInt8] = []
        client.appendRequest(target: "/", host: "x", to: &request)
        var requestReader = RequestHeadReader()
        var offset = 0
        let head = try #require(try requestReader.read(request.rawSpan, from: &offset))
        var output: [UInt8] = []
        try ServerHandshake(head).appendResponse(to: &output)
        output.removeLast(2)
        output.append(utf8: text.isEmpty ? "\r\n" : "Sec-WebSocket-Extensions: \(text)\r\n\r\n")
        var reader = ResponseHeadReader()
        offset = 0
        return try #require(try reader.read(output.rawSpan, from: &offset))
    }

    /// What any server of ours answers to any offer of ours, both sides understand alike.
    @Test func bothSidesAgree() throws {
        for offer in Self.offers {
            for options in [generous, small, DeflateOptions()] {
                let client = ClientHandshake(nonce: (1, 2), deflate: offer)
                var wire: [UInt8] = []
                client.appendRequest(target: "/", host: "x", to: &wire)
                var reader = RequestHeadReader()
                var offset = 0
                let head = try #require(try reader.read(wire.rawSpan, from: &offset))
                let server = try ServerHandshake(head, deflate: options)
                var output: [UInt8] = []
                server.appendResponse(to: &output)
                var responseReader = ResponseHeadReader()
                offset = 0
                let answer = try #require(try responseReader.read(output.rawSpan, from: &offset))
                let agreed = try #require(try client.check(answer))
                #expect(agreed.server == server.deflate?.server && agreed.client == server.deflate?.client)
                #expect(agreed.server.windowBits <= offer.serverMaxWindowBits ?? 15)
                #expect(!(offer.serverNoContextTakeover && agreed.server.takesOver))
                #expect(!(offer.clientNoContextTakeover && agreed.client.takesOver))
                // A server without compression.
                output = []
                try ServerHandshake(head).appendResponse(to: &output)
                var plainReader = ResponseHeadReader()
                offset = 0
                let plain = try #require(try plainReader.read(output.rawSpan, from: &offset))
                #expect(try client.check(plain) == nil)
            }
        }
    }

    @Test(
        arguments: [
            // The client offers server_max_window_bits=10 and client_max_window_bits=12.
            ("permessage-deflate; server_max_window_bits=10", nil),
            ("permessage-deflate; server_max_window_bits=8; client_max_window_bits=15", nil),
            ("permessage-deflate", .invalidDeflateParameters),
            ("permessage-deflate; server_max_window_bits=11", .invalidDeflateParameters),
            (
                "permessage-deflate; server_max_window_bits=10; client_max_window_bits",
                .invalidDeflateParameters
            ),
            ("permessage-deflate; server_max_window_bits=10; x", .invalidDeflateParameters),
            ("permessage-deflate; server_max_window_bits=10, permessage-deflate", .unexpectedChoice),
            ("permessage-snappy", .unexpectedChoice),
            ("permessage-deflate;", .malformedExtensions),
        ] as [(String, UpgradeFailure?)])
    func responsesThatTheClientChecks(text: String, failure: UpgradeFailure?) throws {
        var offer = DeflateParameters()
        offer.serverMaxWindowBits = 10
        offer.clientMaxWindowBits = .bits(12)
        let client = ClientHandshake(nonce: (3, 4), deflate: offer)
        let head = try response(text, to: client)
        if let failure {
            #expect(throws: failure) { try client.check(head) }
        } else {
            let agreement = try #require(try client.check(head))
            #expect(agreement.client.windowBits == 12)
        }
    }

    @Test func responseMayNotNameWhatWasNotOffered() throws {
        let plain = ClientHandshake(nonce: (3, 4))
        let chosen = try response("permessage-deflate", to: plain)
        #expect(throws: UpgradeFailure.unexpectedChoice) { try plain.check(chosen) }
        // A client that has not named its window must not be told one; a server may do more than was asked.
        let client = ClientHandshake(nonce: (3, 4), deflate: DeflateParameters())
        let told = try response("permessage-deflate; client_max_window_bits=10", to: client)
        #expect(throws: UpgradeFailure.invalidDeflateParameters) { try client.check(told) }
        let more = try response(
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
                + "server_max_window_bits=9", to: client)
        let agreement = try #require(try client.check(more))
        #expect(agreement.server == .init(takesOver: false, windowBits: 9))
        #expect(agreement.client == .init(takesOver: false, windowBits: 15))
        // It must do what it was asked.
        var offer = DeflateParameters()
        offer.serverNoContextTakeover = true
        let asking = ClientHandshake(nonce: (3, 4), deflate: offer)
        let refusing = try response("permessage-deflate", to: asking)
        #expect(throws: UpgradeFailure.invalidDeflateParameters) { try asking.check(refusing) }
    }
}
