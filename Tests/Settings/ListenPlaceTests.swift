import PandoSettings
import Testing

@Suite struct ListenPlaceTests {
    @Test(
        arguments: [
            ("127.0.0.1:9000", .network(host: "127.0.0.1", port: 9000)),
            ("localhost:0", .network(host: "localhost", port: 0)),
            ("[::1]:9000", .network(host: "::1", port: 9000)),
            ("[::]:65535", .network(host: "::", port: 65_535)),
            ("db.example.com:80", .network(host: "db.example.com", port: 80)),
            ("unix:/run/pando.sock", .unix(path: "/run/pando.sock")),
            ("unix:relative", .unix(path: "relative")),
            ("", nil), (":9000", nil), ("9000", nil), ("127.0.0.1", nil), ("127.0.0.1:", nil),
            ("a:65536", nil),
            ("a:-1", nil), ("a:+1", nil), ("::1:9000", nil), ("[::1]", nil), ("[::1:9000", nil),
            ("[]:1", nil),
            ("[name]:1", nil), ("[1.2.3.4]:1", nil), ("http://a:1", nil), ("unix:", nil),
            ("unix:/" + String(repeating: "a", count: 107), nil),
        ] as [(String, ListenPlace?)])
    func reading(text: String, expected: ListenPlace?) {
        #expect(ListenPlace(text) == expected)
        if let expected { #expect(expected.description == text) }
    }

    @Test func listensTakeThePlaceOfHostAndPort() {
        var configuration = Configuration()
        configuration.isMemoryOnly = true
        #expect(configuration.places == [.network(host: "127.0.0.1", port: 9000)])
        configuration.passedSockets = 3..<4
        #expect(configuration.places.isEmpty)
        configuration.listens = [.unix(path: "a"), .network(host: "::1", port: 1)]
        #expect(configuration.places == configuration.listens)
        #expect(configuration.problems.isEmpty)
        configuration.listens.append(.unix(path: "a"))
        #expect(configuration.problems.count == 1, "twice")
        configuration.listens = [.network(host: "0.0.0.0", port: 1)]
        configuration.isDevelopment = true
        #expect(configuration.problems.count == 1, "--dev is for this machine")
    }
}
