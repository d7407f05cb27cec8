import Foundation
import PandoRandom
import Testing

@testable import PandoTLS

@Suite struct HandshakeTests {
    @Test(arguments: suites)
    func everyVersionAndCipher(suite: (version: Int32, cipher: String)) throws {
        let pair = try establishedPair { limit(&$0, to: suite) }
        let facts = try #require(pair.server.tls.facts)
        #expect(facts == pair.client.tls.facts)
        #expect(facts.version == (suite.version == 0x0304 ? .tls13 : .tls12))
        #expect(facts.hasProtocol && !facts.isResumed && !facts.isAdministrator)
        let expected: TLSFacts.Cipher =
            suite.cipher.contains("CHACHA")
            ? .chaCha20Poly1305 : suite.cipher.contains("128") ? .aes128GCM : .aes256GCM
        #expect(facts.cipher == expected)
        #expect(pair.server.establishedCount == 1 && pair.client.establishedCount == 1)
        for (index, size) in [1, 16383, 16384, 16385, 100_000, 5].enumerated() {
            let bytes = pattern(size, seed: UInt8(index))
            try pair.client.send(bytes)
            try pair.server.send(bytes)
            pair.exchange()
            #expect(pair.server.data == bytes && pair.client.data == bytes, "\(size) bytes")
            (pair.server.data, pair.client.data) = ([], [])
        }
        pair.client.close()
        pair.exchange()
        #expect(pair.server.hasEnded && pair.server.failure == nil)
        // The other direction stays open (RFC 8446 §6.1).
        try pair.server.send([1, 2, 3])
        pair.server.close()
        pair.exchange()
        #expect(pair.client.data == [1, 2, 3] && pair.client.hasEnded && pair.client.failure == nil)
        #expect(!pair.client.tls.isEstablished && !pair.server.tls.isEstablished)
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6, 7, 64, 1000, 16384])
    func cutAtEveryPosition(size: Int) throws {
        for version in [0x0303, 0x0304] as [Int32] {
            let pair = try Pair(
                TLSServerContext(standard: try identity("localhost")),
                try clientContext { $0.versions = version...version })
            pair.exchange(cut: size)
            #expect(pair.client.tls.isEstablished && pair.server.tls.isEstablished)
            let bytes = pattern(40_000)
            try pair.client.send(bytes)
            try pair.server.send(bytes)
            pair.exchange(cut: size)
            #expect(pair.server.data == bytes && pair.client.data == bytes)
            #expect(pair.server.tls.heldByteCount == 0, "nothing of a complete record is kept")
        }
    }

    @Test func cutAtRandom() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let pair = try establishedPair()
        var (sent, wire): ([UInt8], [UInt8]) = ([], [])
        for _ in 0..<200 {
            let slices = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                pattern(Int.random(in: 0...Int.random(in: 1...40_000, using: &random), using: &random))
            }
            sent += slices.flatMap { $0 }
            wire += try seal(slices, pair.client.tls)
        }
        var position = 0
        while position < wire.count {
            let end = min(wire.count, position + Int.random(in: 1...70_000, using: &random))
            pair.server.receive(Array(wire[position..<end]))
            position = end
        }
        #expect(pair.server.data == sent, "seed \(seed)")
        #expect(pair.server.failure == nil, "seed \(seed)")
    }

    @Test func limitOfABatch() throws {
        let pair = try establishedPair()
        let slices = [pattern(10), pattern(20_000, seed: 1), pattern(3, seed: 2)]
        for byteLimit in [1, 9, 10, 11, 16_384, 16_394, 20_009, 20_010, 20_011, 20_012] {
            let bytes = try seal(slices, pair.client.tls, byteLimit: byteLimit)
            pair.server.receive(bytes)
            #expect(pair.server.data == Array(slices.flatMap { $0 }.prefix(byteLimit)))
            pair.server.data = []
        }
    }

    @Test func versionsThatAreTooOld() throws {
        // TLS 1.1 in a ClientHello: no version is left, and libssl sends an alert.
        let pair = try Pair(
            TLSServerContext(standard: try identity("localhost")),
            try clientContext { $0.versions = 0x0303...0x0303 })
        var hello = pair.client.takeOutput()
        hello[10] = 2  // The version of the message: 0x0302.
        pair.server.receive(hello)
        guard case .handshake = pair.server.failure else {
            return #expect(Bool(false), "\(String(describing: pair.server.failure))")
        }
        let alert = pair.server.takeOutput()
        #expect(alert.first == 21 && alert.last == 70, "protocol_version")
    }

    @Test(
        arguments: [
            ("localhost", "localhost", "its own name"), ("www.example.com", "wild", "a wildcard"),
            ("WWW.Example.COM", "wild", "in any case"),
            ("other.example.org", "wild", "a further name of the certificate"),
            ("rsa.example.com", "rsa", "an exact name counts more than a wildcard"),
        ] as [(String, String, String)])
    func hostNames(host: String, expected: String, reason: String) throws {
        let names = ["localhost", "wild", "rsa"]
        let tickets = try TicketKeys()
        let identities = try names.map { try identity($0, tickets: tickets) }
        let context = TLSServerContext(
            standard: identities[0], identities: identities.map { ($0.names, $0) })
        #expect(context.identity(for: host) === identities[names.firstIndex(of: expected)!], "\(reason)")
        // The client checks the name against the certificate.
        let pair = try Pair(context, try clientContext(), host: host)
        pair.exchange()
        #expect(pair.client.tls.isEstablished, "\(reason)")
    }

    @Test(arguments: [
        "example.com", "a.b.example.com", "unknown.org", "", ".", "*", "*.example.com.", "\u{0}",
    ])
    func unknownHostNames(host: String) throws {
        let tickets = try TicketKeys()
        let standard = try identity("localhost", tickets: tickets)
        let wild = try identity("wild", tickets: tickets)
        let context = TLSServerContext(standard: standard, identities: [(wild.names, wild)])
        let expected = host == "*.example.com." ? wild : standard
        #expect(context.identity(for: host) === expected)
    }

    @Test func wrongNameAndUnknownIssuer() throws {
        let context = TLSServerContext(standard: try identity("localhost"))
        for (issuer, host) in [("stranger", "localhost"), ("issuer", "example.net")] {
            let pair = try Pair(context, try clientContext(issuers: issuer), host: host)
            pair.exchange()
            #expect(!pair.client.tls.isEstablished && !pair.server.tls.isEstablished)
            guard case .handshake(let reason) = pair.client.failure else {
                Issue.record("\(issuer), \(host)")
                continue
            }
            #expect(reason.contains("certificate verify failed ("))
        }
    }

    @Test func keyOfAnotherCertificate() throws {
        let tickets = try TicketKeys()
        let localhost = fixture("localhost.pem"), key = fixture("localhost.key")
        for (chain, key, reason) in [
            (localhost, fixture("wild.key"), "does not belong to the certificate"),
            (localhost, fixture("rsa.key"), "does not belong to the certificate"),
            (localhost, localhost, "no private key"), (key, key, "no certificate"),
            ([], key, "no certificate"), (localhost, [], "no private key"),
            (
                localhost + Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8), key,
                ""
            ),
        ] {
            let error = #expect(throws: InvalidCertificate.self) {
                try TLSIdentity(chain: chain, key: key, tickets: tickets)
            }
            #expect(error?.reason.contains(reason) == true || reason.isEmpty, "\(String(describing: error))")
        }
    }

    @Test func administrators() throws {
        let server = TLSServerContext(standard: try identity("localhost", clientIssuers: "issuer"))
        for version in [0x0303, 0x0304] as [Int32] {
            for (name, isAdministrator) in [("client", true), (nil, false)] as [(String?, Bool)] {
                let pair = try Pair(
                    server, try clientContext(identity: name) { $0.versions = version...version })
                pair.exchange()
                #expect(pair.server.tls.facts?.isAdministrator == isAdministrator)
                #expect(pair.client.tls.isEstablished)
            }
            // Another issuer's certificate is refused, and so is a server's.
            for name in ["stranger", "localhost"] {
                let pair = try Pair(
                    server, try clientContext(identity: name) { $0.versions = version...version })
                pair.exchange()
                #expect(!pair.server.tls.isEstablished && pair.server.failure != nil, "\(name)")
            }
        }
    }

    /// The server sends the chain of its file, and none that it finds among the issuers of administrators.
    @Test(arguments: [false, true])
    func chainIsThatOfTheFile(hasIssuer: Bool) throws {
        let chain = fixture("localhost.pem") + (hasIssuer ? fixture("issuer.pem") : [])
        let identity = try TLSIdentity(
            chain: chain, key: fixture("localhost.key"), clientIssuers: fixture("issuer.pem"),
            tickets: TicketKeys())
        // In TLS 1.2 certificates are not encrypted.
        let pair = try Pair(
            TLSServerContext(standard: identity), try clientContext { $0.versions = 0x0303...0x0303 })
        pair.server.receive(pair.client.takeOutput())
        let answer = Data(pair.server.takeOutput())
        for (name, isSent) in [("localhost", true), ("issuer", hasIssuer)] {
            let lines = String(decoding: fixture(name + ".pem"), as: UTF8.self).split(separator: "\n")
            let certificate = try #require(
                Data(base64Encoded: lines.filter { !$0.hasPrefix("-") }.joined()))
            #expect((answer.range(of: certificate) != nil) == isSent, "\(name)")
        }
    }

    /// A TLS 1.3 server has signed, and computed the secret, when it has answered; one of TLS 1.2 has not.
    @Test(arguments: [0x0303, 0x0304] as [Int32])
    func serverThatHasAnswered(version: Int32) throws {
        let pair = try Pair(
            TLSServerContext(standard: try identity("localhost")),
            try clientContext { $0.versions = version...version })
        let hello = pair.client.takeOutput()
        pair.server.receive(Array(hello.dropLast()))
        #expect(!pair.server.tls.hasAnswered)
        pair.server.receive(Array(hello.suffix(1)))
        #expect(pair.server.tls.hasAnswered == (version == 0x0304) && !pair.client.tls.hasAnswered)
        pair.exchange()
        #expect(pair.server.tls.isEstablished && !pair.server.tls.hasAnswered)
    }

    /// A client without any right could otherwise have many certificates compared.
    @Test(arguments: [(0, true), (2, true), (10, false)] as [(Int, Bool)])
    func chainsOfClientsAreLimited(furtherCount: Int, isAccepted: Bool) throws {
        let server = TLSServerContext(standard: try identity("localhost", clientIssuers: "issuer"))
        let further = [[UInt8]](repeating: fixture("rsa4096.pem"), count: furtherCount).flatMap { $0 }
        let client = try TLSClientContext(
            issuers: fixture("issuer.pem"),
            identity: (chain: fixture("client.pem") + further, key: fixture("client.key")))
        let pair = try Pair(server, client)
        pair.exchange()
        #expect(pair.server.tls.facts?.isAdministrator == (isAccepted ? true : nil))
        #expect((pair.server.failure == nil) == isAccepted)
    }

    /// Also where it comes in pieces: five bytes are looked at.
    @Test(arguments: [("GET", false), ("HEAD", true), ("HEADS", false), ("OPTIONS", false)], 1...6)
    func plainHTTP(method: (name: String, isHEAD: Bool), firstCount: Int) throws {
        let server = Side(TLSConnection(server: TLSServerContext(standard: try identity("localhost"))))
        let request = Array("\(method.name) / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        server.receive(Array(request.prefix(firstCount)))
        #expect((server.failure == nil) == (firstCount < 5))
        if firstCount < 5 { server.receive(Array(request.dropFirst(firstCount))) }
        #expect(server.failure == .plainHTTP(isHEAD: method.isHEAD) && server.takeOutput().isEmpty)
    }

    @Test func garbageInsteadOfAHandshake() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        let context = TLSServerContext(standard: try identity("localhost"))
        let hello = try Pair(context, try clientContext()).client.takeOutput()
        for round in 0..<2000 {
            var bytes = hello
            if round % 2 == 0 {
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(
                        in: 0...255, using: &random)
                }
            } else {
                bytes = (0..<Int.random(in: 5...600, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
            }
            let server = Side(TLSConnection(server: context))
            for piece in pieces(bytes, Int.random(in: 1...700, using: &random)) { server.receive(piece) }
            #expect(!server.tls.isEstablished, "seed \(seed)")
        }
    }

    @Test func handshakeWithoutEnd() throws {
        let context = TLSServerContext(standard: try identity("localhost"))
        // Records of one byte of a ClientHello that says that it is long.
        let server = Side(TLSConnection(server: context))
        for byte in [1, 0, 0x3F, 0xFF] + [UInt8](repeating: 0, count: 200) {
            server.receive([22, 3, 1, 0, 1, byte])
        }
        #expect(server.failure == .handshakeTooLong)
        #expect(server.tls.heldByteCount == 0)
    }

    /// libssl would reserve what a ClientHello announces, up to 131 396 bytes, before any of them is there.
    @Test(
        arguments: [
            // length            is refused
            ([0x00, 0x40, 0x00], false),
            ([0x00, 0x40, 0x01], true),
            ([0x02, 0x01, 0x40], true),
            ([0xFF, 0xFF, 0xFF], true),
        ] as [([UInt8], Bool)])
    func helloThatAnnouncesMuch(length: [UInt8], isRefused: Bool) throws {
        let context = TLSServerContext(standard: try identity("localhost"))
        let beginning: [UInt8] = [1] + length + [3, 3, 0, 0, 0, 0]
        for size in 1...beginning.count {
            let server = Side(TLSConnection(server: context))
            for piece in pieces(beginning, size) {
                server.receive([22, 3, 1, 0, UInt8(piece.count)] + piece)
            }
            #expect(server.failure == (isRefused ? .violation(.illegalParameter) : nil), "records of \(size)")
            #expect(server.takeOutput() == (isRefused ? [21, 3, 3, 0, 2, 2, 47] : []))
            #expect(isRefused == (server.tls.heldByteCount == 0))
        }
    }

    @Test func secondHelloIsLimitedAndOtherMessagesAreNot() {
        func expect(_ isAdmitted: Bool, _ payload: [UInt8], _ limit: inout ClientHelloLimit, _ reason: String)
        {
            let found = unsafe payload.withUnsafeBytes { unsafe limit.admits($0) }
            #expect(found == isAdmitted, "\(reason)")
        }
        let hello: [UInt8] = [1, 0, 0, 3, 9, 9, 9]
        for size in 1...hello.count {
            var limit = ClientHelloLimit()
            for (index, piece) in pieces(hello, size).enumerated() {
                #expect(!limit.isFirstMessageRead, "piece \(index) of \(size)")
                expect(true, piece, &limit, "a part of a hello")
            }
            #expect(limit.isFirstMessageRead)
            expect(true, [11, 2, 0], &limit, "of a certificate libssl's limit counts")
            expect(true, [0], &limit, "the end of the header")
            expect(true, [UInt8](repeating: 1, count: 2 << 16) + hello, &limit, "what it has is no header")
            expect(false, [1, 0, 0x40, 1], &limit, "the second hello")
        }
        var together = ClientHelloLimit()
        expect(false, hello + [1, 1, 0, 0], &together, "two in one record")
    }

    @Test(arguments: [4, 5, 7, 100])
    func helloInManyRecords(size: Int) throws {
        for version in [0x0303, 0x0304] as [Int32] {
            let pair = try Pair(
                TLSServerContext(standard: try identity("localhost")),
                try clientContext { $0.versions = version...version })
            let hello = pair.client.takeOutput()
            for piece in pieces(Array(hello[5...]), size) {
                pair.server.receive([22, 3, 1, 0, UInt8(piece.count)] + piece)
            }
            pair.exchange()
            #expect(pair.client.tls.isEstablished && pair.server.tls.isEstablished, "\(version)")
        }
    }
}
