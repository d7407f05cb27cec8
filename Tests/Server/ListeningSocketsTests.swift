import PandoReactor
import PandoSettings
import Testing

@testable import PandoServer

@Suite struct ListeningSocketsTests {
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
        #expect(ListeningSockets.leavesIPv4(address, all) == leaves)
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
}
