import PandoSettings
import Testing

@Suite("admin port") struct AdminTests {
    @Test(
        "addresses",
        arguments: [
            ("9001", "127.0.0.1", 9001, true), ("0", "127.0.0.1", 0, true),
            ("127.0.0.1:9001", "127.0.0.1", 9001, true), ("localhost:1", "localhost", 1, true),
            ("127.3.2.1:1", "127.3.2.1", 1, true), ("[::1]:65535", "::1", 65535, true),
            ("0.0.0.0:9001", "0.0.0.0", 9001, false), ("[::]:9001", "::", 9001, false),
            ("metrics.example:9001", "metrics.example", 9001, false),
            ("192.0.2.1:9001", "192.0.2.1", 9001, false),
        ] as [(String, String, UInt16, Bool)])
    func addresses(_ text: String, _ host: String, _ port: UInt16, _ isLoopback: Bool) throws {
        let address = try #require(AdminAddress(text))
        #expect(address.host == host && address.port == port)
        #expect(address.isLoopback == isLoopback)
    }

    @Test(
        "texts that are no addresses",
        arguments: ["", ":", ":1", "a", "1:", "65536", "-1", "+1", "::1:9", "[::1]", "[]:1", "[a]:1", " 1"])
    func noAddresses(_ text: String) {
        #expect(AdminAddress(text) == nil)
    }

    @Test("another address than loopback needs TLS, and none goes with --dev")
    func foreignAddress() throws {
        var configuration = Configuration()
        configuration.isMemoryOnly = true
        configuration.adminAddress = AdminAddress("0.0.0.0:9001")
        #expect(configuration.problems.contains { $0.hasPrefix("--admin-listen: 0.0.0.0 is not a loopback") })
        configuration.isDevelopment = true
        #expect(configuration.problems.contains { $0.hasPrefix("--admin-listen: with --dev") })
        configuration.adminAddress = AdminAddress("9001")
        #expect(configuration.problems.isEmpty)
    }
}
