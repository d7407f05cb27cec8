import Testing

@testable import PandoCommandLine

@Suite struct CheckHealthTests {
    @Test(
        arguments: [
            // --admin-listen      address                     because
            (nil, "http://127.0.0.1:9001", "no variable"),
            ("9002", "http://127.0.0.1:9002", "a port"),
            ("localhost:1", "http://localhost:1", "a name of this machine"),
            ("[::1]:9001", "http://[::1]:9001", "IPv6"),
            ("0.0.0.0:9001", "https://0.0.0.0:9001", "beyond this machine it speaks TLS"),
            ("off", "http://127.0.0.1:9001", "no listener"),
        ] as [(String?, String, String)])
    func addressOfTheAdminListener(text: String?, expected: String, because: String) {
        #expect(CheckHealth.url(listening: text) == expected, "\(because)")
    }
}
