import PandoReactor

/// Where the server listens, as `--listen` names it.
package enum ListenPlace: Equatable, Sendable, CustomStringConvertible {
    /// A host name or an address without brackets, and a port; 0 picks a free one.
    case network(host: String, port: UInt16)
    case unix(path: String)

    /// Bytes of a path: those of `sun_path` (unix(7)), with a null byte at the end.
    private static let pathByteLimit = 107

    /// Reads `ADDR:PORT` or `unix:PATH`; an IPv6 address is in brackets.
    package init?(_ text: some StringProtocol) {
        if text.hasPrefix("unix:") {
            let path = text.dropFirst("unix:".count)
            guard !path.isEmpty, path.utf8.count <= Self.pathByteLimit, !path.utf8.contains(0) else {
                return nil
            }
            self = .unix(path: String(path))
            return
        }
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(digits)
        else { return nil }
        var host = text[..<colon]
        if host.first == "[" {
            guard host.last == "]", host.count > 2 else { return nil }
            host = host.dropFirst().dropLast()
            guard SocketAddress(String(host), port: 0)?.family == 6 else { return nil }
        } else {
            guard !host.isEmpty, !host.contains(":"), !host.contains("/") else { return nil }
        }
        self = .network(host: String(host), port: port)
    }

    package var description: String {
        switch self {
        case .network(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// nil for a Unix socket.
    var port: UInt16? {
        if case .network(_, let port) = self { port } else { nil }
    }

    /// Whether only programs of this machine reach it, as far as that shows without the resolver.
    var isLoopback: Bool {
        switch self {
        case .network(let host, let port):
            host == "localhost" || SocketAddress(host, port: port)?.isLoopback == true
        case .unix: true
        }
    }
}
