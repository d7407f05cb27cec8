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

/// Opens the sockets of a configuration.
enum Listeners {
    /// - Returns: Those that the service manager has passed, then the others in the order of the
    ///   configuration.
    /// - Throws: ``StartError/address(_:)``, naming the place.
    static func open(_ configuration: Configuration, options: SocketOptions) throws(StartError)
        -> [ListeningSocket]
    {
        let sockets: [ListeningSocket]
        do throws(SocketError) {
            sockets = try openAll(configuration, options)
        } catch {
            throw .address("\(error)")
        }
        if configuration.isDevelopment, let other = sockets.first(where: { !$0.address.isLoopback }) {
            throw .address("--dev: \(other.description) is not a loopback address")
        }
        return sockets
    }

    private static func openAll(_ configuration: Configuration, _ options: SocketOptions) throws(SocketError)
        -> [ListeningSocket]
    {
        var sockets: [ListeningSocket] = []
        for descriptor in configuration.passedSockets {
            sockets.append(try .adopt(descriptor, options: options))
        }
        var resolved: [(place: ListenPlace, address: SocketAddress?)] = []
        for place in configuration.places {
            switch place {
            case .unix: resolved.append((place, nil))
            case .network(let host, let port):
                resolved.append((place, try SocketAddress.resolve(host: host, port: port).first))
            }
        }
        let addresses = resolved.compactMap(\.address)
        for (place, address) in resolved {
            if case .unix(let path) = place { sockets.append(try .open(unixPath: path)) }
            guard let address else { continue }
            var options = options
            options.isIPv6Only = leavesIPv4(address, addresses)
            sockets.append(try .open(at: address, options: options))
        }
        return sockets
    }

    /// `[::]:PORT` serves IPv4 too, unless an IPv4 address with the port is listed besides.
    static func leavesIPv4(_ address: SocketAddress, _ all: [SocketAddress]) -> Bool {
        address.family == 6 && address.isUnspecified
            && all.contains { $0.family == 4 && $0.port == address.port && $0.port != 0 }
    }
}
