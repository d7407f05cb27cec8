import PandoReactor
import PandoSettings

/// Opens the sockets of a configuration.
enum ListeningSockets {
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
