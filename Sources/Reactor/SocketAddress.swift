import CSystem

/// An IPv4 or IPv6 address and a port.
package struct SocketAddress: Equatable, Sendable, CustomStringConvertible {
    var raw: pando_address

    init(raw: pando_address) {
        self.raw = raw
    }

    /// Reads a numeric address: `127.0.0.1`, `::1`, `fe80::1%eth0`; no brackets. Port 0 lets the system
    /// choose.
    /// - Returns: nil for anything else, host names too: see ``resolve(host:port:)``.
    package init?(_ host: String, port: UInt16) {
        var address = pando_address()
        // A null byte would hide the rest of the text from C.
        guard !host.utf8.contains(0), unsafe pando_address_parse(host, port, &address) > 0 else { return nil }
        raw = address
    }

    /// Asks the system's resolver, which may block for seconds: for start-up and tools, never on a loop.
    /// - Returns: Every address, the resolver's favourite first; never empty.
    /// - Throws: `EINVAL` when the name is unknown.
    package static func resolve(host: String, port: UInt16) throws(SocketError) -> [SocketAddress] {
        if let numeric = SocketAddress(host, port: port) { return [numeric] }
        guard !host.utf8.contains(0) else {
            throw SocketError(code: PANDO_EINVAL, attempt: "resolve \(host)")
        }
        var found = [pando_address](repeating: pando_address(), count: 16)
        let count = unsafe found.withUnsafeMutableBufferPointer { buffer in
            unsafe pando_address_resolve(host, port, buffer.baseAddress, Int32(buffer.count))
        }
        try checked(count, "resolve \(host)")
        return found.prefix(Int(count)).map(SocketAddress.init(raw:))
    }

    package var port: UInt16 { raw.port }

    /// The address without the port or brackets.
    package var host: String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            var address = raw
            // 57 bytes suffice for any address with a scope; the answer is null-terminated.
            guard let start = text.baseAddress, unsafe pando_address_print(&address, start, text.count) == 0
            else { return "?" }
            return unsafe String(cString: start)
        }
    }

    /// `127.0.0.1:9000`, `[::1]:9000`.
    package var description: String { raw.family == 6 ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Reachable from this machine only: 127.0.0.0/8, `::1`, and the IPv4 range in IPv6's clothes
    /// (`::ffff:127…`).
    package var isLoopback: Bool {
        let bytes = octets
        if raw.family == 4 { return bytes[0] == 127 }
        if bytes[0..<15].allSatisfy({ $0 == 0 }) { return bytes[15] == 1 }
        return bytes[0..<10].allSatisfy({ $0 == 0 }) && bytes[10] == 0xFF && bytes[11] == 0xFF
            && bytes[12] == 127
    }

    /// 16 bytes; IPv4 fills the first four.
    private var octets: [UInt8] {
        unsafe withUnsafeBytes(of: raw.bytes) { unsafe Array($0) }
    }

    package static func == (left: SocketAddress, right: SocketAddress) -> Bool {
        left.raw.family == right.raw.family && left.raw.port == right.raw.port
            && left.raw.scope == right.raw.scope && left.octets == right.octets
    }
}

/// What a TCP socket is told before it carries anything. TCP_NODELAY is always on: we gather output
/// ourselves.
package struct SocketOptions: Sendable {
    /// How long sent bytes may go unacknowledged before the connection is given up (TCP_USER_TIMEOUT).
    package var userTimeout: Duration?
    /// Probes of a silent peer: how long to be silent first, how often, how many (SO_KEEPALIVE).
    package var keepAlive: (idle: Duration, interval: Duration, count: UInt32)?
    /// SO_SNDBUF; nil leaves the kernel's own tuning on, which is better for everything but tests.
    package var sendBufferByteCount: UInt32?
    /// SO_RCVBUF; likewise.
    package var receiveBufferByteCount: UInt32?
    /// Bytes that the kernel keeps unsent before it takes no more (TCP_NOTSENT_LOWAT): what a slow peer
    /// leaves unread then waits with us, where it is counted and can be replaced by newer; nil for as much as
    /// its buffer holds, which are megabytes.
    package var unsentLowWaterByteCount: UInt32?

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
        return options
    }
}
