import Testing

@testable import PandoReactor

@Suite struct AddressTests {
    @Test(
        arguments: [
            ("127.0.0.1", true, "the usual"),
            ("127.255.0.9", true, "all of 127/8"),
            ("128.0.0.1", false, "just outside"),
            ("0.0.0.0", false, "every interface"),
            ("::1", true, "IPv6's"),
            ("::", false, "every interface"),
            ("::ffff:127.0.0.1", true, "IPv4 in IPv6's clothes"),
            ("::ffff:10.0.0.1", false, "another machine in IPv6's clothes"),
            ("::127.0.0.1", false, "the old compatible form is routed nowhere"),
            ("fe80::1", false, "link-local is another machine"),
        ] as [(String, Bool, String)])
    func loopback(host: String, isLoopback: Bool, reason: String) throws {
        #expect(try #require(SocketAddress(host, port: 1)).isLoopback == isLoopback, "\(reason)")
    }

    @Test(
        arguments: [
            ("", "empty"), ("localhost", "a name"), ("127.1", "inet_aton's short form"),
            ("0x7f.1", "hexadecimal"),
            ("127.0.0.1\0.evil", "a null byte"), ("[::1]", "brackets belong to URLs"),
            ("1.2.3.4.5", "too long"),
        ] as [(String, String)])
    func refuses(host: String, reason: String) {
        #expect(SocketAddress(host, port: 1) == nil, "\(reason)")
    }

    @Test func description() throws {
        #expect(SocketAddress("127.0.0.1", port: 90)?.description == "127.0.0.1:90")
        #expect(SocketAddress("::1", port: 90)?.description == "[::1]:90")
        #expect(SocketAddress("::1", port: 90) != SocketAddress("::1", port: 91))
        let local = try SocketAddress.resolve(host: "localhost", port: 7)
        #expect(local.allSatisfy { $0.isLoopback && $0.port == 7 })
        let error = #expect(throws: SocketError.self) {
            try SocketAddress.resolve(host: "no such host", port: 7)
        }
        let text = try #require(error).description
        #expect(
            text.hasPrefix("resolve no such host: unknown host name")
                || text.contains("resolver does not answer"))
    }
}
