import PandoReactor
import Testing

@testable import PandoServer

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

    @Test(
        arguments: [
            // address       all                             leaves IPv4 to another
            ("::", 9000, [("::", 9000)], false),
            ("::", 9000, [("::", 9000), ("0.0.0.0", 9000)], true),
            ("::", 9000, [("::", 9000), ("127.0.0.1", 9000)], true),
            ("::", 9000, [("::", 9000), ("0.0.0.0", 9001)], false),
            ("::1", 9000, [("::1", 9000), ("0.0.0.0", 9000)], false),
            ("0.0.0.0", 9000, [("::", 9000), ("0.0.0.0", 9000)], false),
        ] as [(String, UInt16, [(String, UInt16)], Bool)])
    func dualStack(host: String, port: UInt16, all: [(String, UInt16)], leaves: Bool) throws {
        let address = try #require(SocketAddress(host, port: port))
        let all = try all.map { try #require(SocketAddress($0.0, port: $0.1)) }
        #expect(Listeners.leavesIPv4(address, all) == leaves)
    }

    @Test(
        arguments: [
            // addresses with TLS                                              redirected from the host of
            ([("127.0.0.1", 443)], [0]),
            ([("127.0.0.1", 443), ("::1", 443)], [0, 1]),
            ([("127.0.0.1", 443), ("127.0.0.1", 444)], [0]),
            ([("0.0.0.0", 443), ("127.0.0.1", 444)], [0]),
            ([("0.0.0.0", 443), ("::", 443)], [0, 1]),
            ([("::", 443), ("127.0.0.1", 444), ("::1", 444)], [0]),
            ([("::", 443), ("127.0.0.1", 443)], [0, 1]),
            ([("0.0.0.0", 443), ("::1", 443)], [0, 1]),
        ] as [([(String, UInt16)], [Int])])
    func redirects(addresses: [(String, UInt16)], indexes: [Int]) throws {
        let all = try addresses.map { try #require(SocketAddress($0.0, port: $0.1)) }
        #expect(RedirectPort.targets(all) == indexes.map { all[$0] })
    }

    /// Descriptors that outsiders can take are counted, whichever port they connect to.
    @Test func descriptorsOfOtherPorts() {
        var configuration = Configuration()
        #expect(configuration.otherPortDescriptorCount == 0)
        configuration.listens = [.unix(path: "a"), .network(host: "::1", port: 1)]
        #expect(configuration.otherPortDescriptorCount == 1)
        configuration.adminAddress = AdminAddress("9001")
        #expect(configuration.otherPortDescriptorCount == 1 + 65)
        configuration.redirectPort = 80
        #expect(configuration.otherPortDescriptorCount == 1 + 65 + 66)
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
