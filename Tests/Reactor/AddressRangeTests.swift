import Testing

@testable import PandoReactor

@Suite struct AddressRangeTests {
    @Test(
        arguments: [
            // range             address              is in it
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("192.168.4.0/22", "192.168.7.255", true),
            ("192.168.4.0/22", "192.168.8.0", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "8.8.8.8", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe80::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("::1", "::1", true),
        ] as [(String, String, Bool)])
    func contains(range: String, address: String, isIn: Bool) throws {
        let range = try #require(AddressRange(range))
        #expect(try range.contains(#require(SocketAddress(address, port: 7))) == isIn)
        #expect(!range.contains(.unix))
    }

    @Test(arguments: [
        "", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "10.0.0/8", "example.com",
        "/8",
        "10.0.0.0/8/8", "10.0.0.0/0x8", "fe80::1%1", "::ffff:10.0.0.0/8", "Unix",
    ])
    func isRefused(text: String) { #expect(AddressRange(text) == nil) }

    @Test func unixPeersHaveARange() throws {
        let range = try #require(AddressRange("unix"))
        #expect(range.contains(.unix))
        #expect(try !range.contains(#require(SocketAddress("127.0.0.1", port: 1))))
    }

    /// Proxies: 10.0.0.0/8 and ::1.
    @Test(
        arguments: [
            // X-Forwarded-For                          client          because
            ([], "10.0.0.1", "none: the proxy itself"),
            (["1.2.3.4"], "1.2.3.4", "one proxy"),
            (["6.6.6.6, 1.2.3.4"], "1.2.3.4", "what the client has sent itself does not count"),
            (["1.2.3.4, 10.0.0.2"], "1.2.3.4", "two proxies"),
            (["6.6.6.6", "1.2.3.4,10.0.0.2"], "1.2.3.4", "two lines"),
            (["10.0.0.3, 10.0.0.2"], "10.0.0.3", "proxies alone"),
            (["1.2.3.4, junk"], "10.0.0.1", "no address: nothing before it counts"),
            (["1.2.3.4, unknown, 10.0.0.2"], "10.0.0.2", "the same behind a proxy"),
            (["1.2.3.4:5678"], "1.2.3.4", "with a port"),
            (["[2001:db8::7]:5678"], "2001:db8::7", "IPv6 with a port"),
            (["[2001:db8::7]"], "2001:db8::7", "in brackets"),
            (["2001:db8::7"], "2001:db8::7", "without"),
            (["1.2.3.4, ::1"], "1.2.3.4", "a proxy with IPv6"),
            ([" , ,\t1.2.3.4 ,"], "1.2.3.4", "spaces and empty elements"),
            (["[::2"], "10.0.0.1", "a bracket that does not end"),
            ([":1.2.3.4"], "10.0.0.1", "a port without an address"),
        ] as [([String], String, String)])
    func clientBehindProxies(lines: [String], client: String, because: String) throws {
        let field = Array(lines.joined(separator: ",").utf8)
        let proxies = TrustedProxies(try ["10.0.0.0/8", "::1"].map { try #require(AddressRange($0)) })
        let peer = try #require(SocketAddress("10.0.0.1", port: 0))
        let found = proxies.client(forwardedFor: field, by: peer)
        #expect(found.host == client, "\(because)")
        // A proxy is nobody's client: all of its clients would be counted as one.
        let named = proxies.namedClient(forwardedFor: field, by: peer)
        #expect(named == (proxies.contains(found) ? nil : found), "\(because)")
    }

    /// What a client writes there costs nothing: the end decides.
    @Test func onlyTheEndOfTheFieldIsLookedAt() throws {
        let proxies = TrustedProxies([try #require(AddressRange("10.0.0.0/8"))])
        let peer = try #require(SocketAddress("10.0.0.1", port: 0))
        func client(_ text: String) -> String {
            proxies.client(forwardedFor: Array(text.utf8), by: peer).host
        }
        let chain = String(repeating: ",10.0.0.2", count: TrustedProxies.hopLimit - 1)
        #expect(client("1.2.3.4" + chain) == "1.2.3.4")
        #expect(client("1.2.3.4,10.0.0.3" + chain) == "10.0.0.3", "one proxy more")
        #expect(client("1.2.3.4" + String(repeating: ",", count: 60_000)) == "10.0.0.1")
        #expect(client(String(repeating: "1", count: 60_000)) == "10.0.0.1")
    }

    @Test func headersOfUntrustedPeersAreIgnored() throws {
        let peer = try #require(SocketAddress("9.9.9.9", port: 0))
        #expect(TrustedProxies().client(forwardedFor: Array("1.2.3.4".utf8), by: peer) == peer)
    }
}

@Suite struct AddressLimiterTests {
    @Test func countsByAddressAndByNetwork() throws {
        let limiter = AddressLimiter(limit: 2)
        func admit(_ text: String) throws -> AddressLimiter.Grant? {
            limiter.admit(try #require(SocketAddress(text, port: 1)))
        }
        var grants = [try admit("10.0.0.1"), try admit("::ffff:10.0.0.1")]
        #expect(grants.allSatisfy { $0 != nil })
        #expect(try admit("10.0.0.1") == nil)
        #expect(try admit("10.0.0.2") != nil, "freed at once")
        grants += [try admit("2001:db8:0:1::1"), try admit("2001:db8:0:1:ffff::2")]
        #expect(try admit("2001:db8:0:1::3") == nil, "the same network of 64 bits")
        #expect(try admit("2001:db8:0:2::3") != nil)
        #expect(limiter.addressCount == 2)
        grants.removeAll()
        #expect(limiter.addressCount == 0)
    }
}
