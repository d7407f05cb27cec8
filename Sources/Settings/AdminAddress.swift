import PandoReactor

/// The address of the admin port: the value of `--admin-listen`.
package struct AdminAddress: Equatable, Sendable {
    package var host: String
    /// 0 picks a free one.
    package var port: UInt16

    /// The address where only a port is given.
    package static let standardHost = "127.0.0.1"

    /// Reads `PORT`, `ADDRESS:PORT` or `[IPV6]:PORT`; nil for anything else.
    package init?(_ text: String) {
        let colon = text.lastIndex(of: ":")
        let portText = colon.map { text[text.index(after: $0)...] } ?? text[...]
        guard let port = UInt16(portText), portText.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        var host = colon.map { String(text[..<$0]) } ?? Self.standardHost
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.host = host
        self.port = port
    }

    /// Whether only programs of this machine can connect. A name other than `localhost` is none: it may
    /// resolve to anything.
    package var isLoopback: Bool {
        host == "localhost" || SocketAddress(host, port: port)?.isLoopback == true
    }
}
