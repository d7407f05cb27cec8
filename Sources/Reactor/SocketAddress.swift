import COperatingSystem

/// An IPv4 or IPv6 address and a port, the other end of a Unix socket, or an address that is not known.
package struct SocketAddress: Equatable, Sendable, CustomStringConvertible {
    var raw: pando_address

    init(raw: pando_address) {
        self.raw = raw
    }

    /// Reads a numeric address: `127.0.0.1`, `::1`, `fe80::1%eth0`; no brackets. Port 0 lets the system
    /// choose.
    /// - Returns: nil for anything else, also for host names: see ``resolve(host:port:)``.
    package init?(_ host: String, port: UInt16) {
        var address = pando_address()
        // C would read the text only up to a null byte.
        guard !host.utf8.contains(0), unsafe pando_address_parse(host, port, &address) > 0 else { return nil }
        raw = address
    }

    /// Asks the system's resolver, which may block for seconds: for start-up and tools, never on a loop.
    /// - Returns: Up to 16 addresses, in the resolver's order of preference; never empty.
    /// - Throws: `EINVAL` when the name is unknown, `EAGAIN` when the resolver does not answer.
    package static func resolve(host: String, port: UInt16) throws(SocketError) -> [SocketAddress] {
        if let numeric = SocketAddress(host, port: port) { return [numeric] }
        let unknown =
            "unknown host name; give an address, or a name that this machine knows (getent ahosts NAME)"
        guard !host.utf8.contains(0) else {
            throw SocketError(code: PANDO_EINVAL, attempt: "resolve \(host)", reason: unknown)
        }
        var found = [pando_address](repeating: pando_address(), count: 16)
        let count = unsafe found.withUnsafeMutableBufferPointer { buffer in
            unsafe pando_address_resolve(host, port, buffer.baseAddress, Int32(buffer.count))
        }
        guard count >= 0 else {
            let isUnknown = count == -PANDO_EINVAL
            throw SocketError(
                code: -count, attempt: "resolve \(host)",
                reason: isUnknown
                    ? unknown : "this machine's resolver does not answer; give an address, or try again")
        }
        return found.prefix(Int(count)).map(SocketAddress.init(raw:))
    }

    /// 0 only where the system is to choose one.
    package var port: UInt16 { raw.port }

    /// The same address with another port.
    package func with(port: UInt16) -> SocketAddress {
        var changed = raw
        changed.port = port
        return SocketAddress(raw: changed)
    }

    /// The address without the port or brackets.
    package var host: String {
        if isUnknown { return "unknown" }
        return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            var address = raw
            // 57 bytes suffice for any address with a scope; the result is null-terminated.
            guard let start = text.baseAddress, unsafe pando_address_print(&address, start, text.count) == 0
            else { return "?" }
            return unsafe String(cString: start)
        }
    }

    /// `127.0.0.1:9000`, `[::1]:9000`.
    package var description: String {
        switch raw.family {
        case Self.unixFamily: "unix"
        case Self.unknownFamily: "unknown"
        case 6: "[\(host)]:\(port)"
        default: "\(host):\(port)"
        }
    }

    /// Whether it is reachable from this machine only: 127.0.0.0/8, `::1`, and 127.0.0.0/8 as IPv4-mapped
    /// IPv6 addresses (`::ffff:127…`), and Unix sockets.
    package var isLoopback: Bool {
        if isUnix { return true }
        let bytes = allOctets
        if raw.family == 4 { return bytes[0] == 127 }
        if bytes[0..<15].allSatisfy({ $0 == 0 }) { return bytes[15] == 1 }
        return bytes[0..<10].allSatisfy({ $0 == 0 }) && bytes[10] == 0xFF && bytes[11] == 0xFF
            && bytes[12] == 127
    }

    /// 16 bytes; IPv4 fills the first four.
    private var allOctets: [UInt8] {
        unsafe withUnsafeBytes(of: raw.bytes) { unsafe Array($0) }
    }

    static let unixFamily: UInt8 = 1

    /// The other end of a Unix socket.
    static let unix = SocketAddress(octets: [], family: unixFamily, port: 0)

    private static let unknownFamily: UInt8 = 0

    /// The address of a client whose PROXY header has none. It is in no range of addresses and not on this
    /// machine, and limits count all such clients as one address.
    package static let unknown = SocketAddress(octets: [], family: unknownFamily, port: 0)

    /// Whether it is ``unknown``.
    package var isUnknown: Bool { raw.family == Self.unknownFamily }

    /// 4 or 6; 1 for a Unix socket, 0 for an address that is not known.
    package var family: UInt8 { raw.family }

    /// Whether it is the other end of a Unix socket: a program of this machine.
    package var isUnix: Bool { raw.family == Self.unixFamily }

    /// Whether a socket that listens there listens on all addresses of the machine.
    package var isUnspecified: Bool { !isUnix && !isUnknown && octets.allSatisfy { $0 == 0 } }

    /// The bytes of the address: 4, 16, or none for a Unix socket and an address that is not known.
    package var octets: [UInt8] {
        switch raw.family {
        case 4: Array(allOctets.prefix(4))
        case 6: allOctets
        default: []
        }
    }

    /// - Parameters:
    ///   - octets: At most 16.
    ///   - family: As ``family``.
    init(octets: [UInt8], family: UInt8, port: UInt16) {
        var raw = pando_address()
        raw.family = family
        raw.port = port
        unsafe withUnsafeMutableBytes(of: &raw.bytes) { target in
            // In bounds: both are cut to 16 bytes.
            unsafe target.copyBytes(from: octets.prefix(target.count))
        }
        self.raw = raw
    }

    /// The IPv4 address of an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2), as sockets that serve both report
    /// peers; any other address as it is.
    package var withoutMapping: SocketAddress {
        let octets = octets
        guard raw.family == 6, octets[..<10].allSatisfy({ $0 == 0 }), octets[10] == 0xFF, octets[11] == 0xFF
        else {
            return self
        }
        return SocketAddress(octets: Array(octets[12...]), family: 4, port: port)
    }

    package static func == (left: SocketAddress, right: SocketAddress) -> Bool {
        left.raw.family == right.raw.family && left.raw.port == right.raw.port
            && left.raw.scope == right.raw.scope && left.allOctets == right.allOctets
    }
}

/// Options that a TCP socket gets before it carries data. TCP_NODELAY is always on: the loop gathers output
/// itself.
package struct SocketOptions: Sendable {
    /// How long sent bytes may stay unacknowledged before the kernel closes the connection
    /// (TCP_USER_TIMEOUT); nil for the system's default.
    package var userTimeout: Duration?
    /// Probes of a silent peer (SO_KEEPALIVE): after which silence, how often, and how many; nil for none.
    package var keepAlive: (idle: Duration, interval: Duration, count: UInt32)?
    /// SO_SNDBUF; nil leaves it to the kernel, which is better for everything but tests.
    package var sendBufferByteCount: UInt32?
    /// SO_RCVBUF; likewise.
    package var receiveBufferByteCount: UInt32?
    /// Unsent bytes at which the kernel accepts no more (TCP_NOTSENT_LOWAT). What a slow peer does not take
    /// then waits in the channel's queue, where it is counted and can be replaced by newer data. nil for as
    /// much as the send buffer holds: megabytes.
    package var unsentLowWaterByteCount: UInt32?
    /// A listening socket of IPv6 leaves IPv4 to another one (IPV6_V6ONLY).
    package var isIPv6Only = false

    package init() {}

    var raw: pando_socket_options {
        func seconds(_ wait: Duration) -> UInt32 {
            UInt32(clamping: max(1, (Int64(wait.wholeMilliseconds) + 999) / 1000))
        }
        var options = pando_socket_options()
        options.user_timeout_ms = UInt32(userTimeout?.wholeMilliseconds ?? 0)
        if let keepAlive {
            options.keepalive_idle_s = seconds(keepAlive.idle)
            options.keepalive_interval_s = seconds(keepAlive.interval)
            options.keepalive_count = keepAlive.count
        }
        options.send_buffer_bytes = sendBufferByteCount ?? 0
        options.receive_buffer_bytes = receiveBufferByteCount ?? 0
        options.unsent_low_water_bytes = unsentLowWaterByteCount ?? 0
        options.v6_only = isIPv6Only ? 1 : 0
        return options
    }
}
