import PandoHTTP
import Testing

@Suite struct WebOriginTests {
    @Test(
        arguments: [
            ("localhost", "localhost", nil), ("LocalHost:9000", "localhost", 9000),
            ("a.b-c_d.:1", "a.b-c_d", 1),
            ("127.0.0.1:65535", "127.0.0.1", 65535), ("[::1]", "[::1]", nil),
            ("[FE80::1]:80", "[fe80::1]", 80), ("localhost:", "localhost", nil), ("[::1]:", "[::1]", nil),
        ] as [(String, String, UInt16?)])
    func hosts(text: String, host: String, port: UInt16?) {
        let place = HostAndPort(text)
        #expect(place?.host == host && place?.port == port)
    }

    @Test(arguments: [
        "", ".", ":80", ":", "a:b", "a:+1", "a:-1", "a:65536", "a:1:2", "a/b", "a b", "u@a", "a:80@b", "a,b",
        "[]", "[::1", "::1",
        "[::1]x", "[a:@]", "é", "a\0", "*", "a?", "a#", "a\\b", "a%2e", " a", "a ",
    ])
    func noHosts(text: String) {
        #expect(HostAndPort(text) == nil)
        #expect(WebOrigin("http://\(text)") == nil)
    }

    /// An origin has a port or no colon (RFC 6454 §6.1).
    @Test(arguments: ["a:", "[::1]:"])
    func originsWithoutTheirPort(text: String) { #expect(WebOrigin("http://\(text)") == nil) }

    @Test(arguments: [
        ("localhost", true), ("LOCALHOST:1", true), ("localhost.", true), ("a.localhost", true),
        ("a.b.localhost:9", true),
        ("[::1]:9", true), ("127.0.0.1", true), ("127.255.0.9:80", true),
        ("localhost.example", false), ("notlocalhost", false), ("127.0.0.1.example", false),
        ("127.0.0", false), ("127.1", false),
        ("128.0.0.1", false), ("127.0.0.256", false), ("127.0.0.x", false), ("127.0.0.", false),
        ("[::ffff:127.0.0.1]", true), ("[::FFFF:127.0.0.1]:9", true), ("[::ffff:7f00:1]", true),
        ("[::ffff:10.0.0.1]", false), ("[::ffff:7f00]", false), ("[::ffff:8000:1]", false),
        ("[::ffff:0:127.0.0.1]", false), ("[::ffff:7f00:1:1]", false),
        ("0.0.0.0", false),
        ("[::2]", false), ("10.0.2.2", false), ("127-0-0-1", false),
    ])
    func loopback(text: String, isLoopback: Bool) throws {
        #expect(try #require(HostAndPort(text)).isLoopback == isLoopback)
        #expect(try #require(WebOrigin("http://\(text)")).isLoopback == isLoopback)
    }

    @Test(arguments: [
        ("http://a", "HTTP://A:80", true), ("https://a:443", "https://a", true),
        ("http://a:1", "http://a:1", true),
        ("http://a", "https://a", false), ("http://a", "http://a:443", false),
        ("http://a", "http://b", false),
        ("capacitor://localhost", "capacitor://localhost", true), ("app://a", "app://a:80", false),
    ])
    func same(one: String, other: String, areSame: Bool) throws {
        #expect((try #require(WebOrigin(one)) == (try #require(WebOrigin(other)))) == areSame)
    }

    @Test(arguments: [
        "null", "", "http://", "://a", "a", "a://", "1a://b", "h ttp://a", "http:/a", "http:a", "http://a/",
        "http://a/b", "http://a?b",
        "http://a#b", "http://u@a", "http://127.0.0.1:80@evil.example", "http://a http://b",
        "http://a,http://b", "*", "http://*",
        "http://*.a", "http://a\n",
    ])
    func noOrigins(text: String) {
        #expect(WebOrigin(text) == nil)
    }

    @Test(
        arguments: [
            ("http://a/", "http://a"), ("http://a:80/b?c#d", "http://a"),
            ("https://a:1?x://y", "https://a:1"), ("http://a#b", "http://a"),
            ("http://a", "http://a"), ("http://localhost@evil.example/", nil),
            ("http://evil.example/http://localhost", "http://evil.example"),
            ("about:blank", nil), ("", nil), ("/a", nil),
        ] as [(String, String?)])
    func originOfAPage(address: String, origin: String?) {
        #expect(WebOrigin(ofPage: address) == origin.flatMap { WebOrigin($0) })
    }

    @Test(arguments: [
        ("http://a:1", "a:1", true), ("http://a", "a", true), ("http://a", "a:80", true),
        ("https://a", "A:443", true), ("https://a", "a", true),
        ("https://a", "a:80", false), ("http://a:1", "a", false), ("http://a", "a.b", false),
        ("app://a", "a", true), ("app://a", "a:80", false),
    ])
    func addressed(origin: String, host: String, isAddressed: Bool) throws {
        #expect(
            try #require(WebOrigin(origin)).isAddressed(by: try #require(HostAndPort(host))) == isAddressed)
    }
}
