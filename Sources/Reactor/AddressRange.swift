import COperatingSystem

/// Addresses that begin with the same bits: `10.0.0.0/8`, `fd00::/8`, one address, or `unix` for peers on Unix sockets.
package struct AddressRange: Equatable, Sendable, CustomStringConvertible {
    /// 4, 6, or 1 for Unix sockets.
    private let family: UInt8
    private let prefix: [UInt8]
    private let bitCount: Int
    package let description: String

    /// Reads CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3). Bits behind the prefix are ignored.
    /// - Returns: nil for anything else.
    package init?(_ text: some StringProtocol) {
        description = String(text)
        if text == "unix" {
            (family, prefix, bitCount) = (SocketAddress.unixFamily, [], 0)
            return
        }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = SocketAddress(String(parts[0]), port: 0), !parts[0].contains("%") else {
            return nil
        }
        let most = address.octets.count * 8
        var bits = most
        if parts.count == 2 {
            // Digits alone: `Int` takes a sign, too.
            guard (1...3).contains(parts[1].utf8.count),
                parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let count = Int(parts[1]), count <= most
            else { return nil }
            bits = count
        }
        let plain = address.withoutMapping
        // A range of IPv4-mapped addresses is one of IPv4.
        if plain.family != address.family {
            guard bits >= 96 else { return nil }
            bits -= 96
        }
        (family, prefix, bitCount) = (plain.family, plain.octets, bits)
    }

    /// Whether an address is one of these. IPv4-mapped IPv6 addresses count as IPv4.
    package func contains(_ address: SocketAddress) -> Bool {
        let plain = address.withoutMapping
        guard plain.family == family else { return false }
        let octets = plain.octets
        guard octets.count == prefix.count else { return false }
        let whole = bitCount / 8
        guard octets[..<whole] == prefix[..<whole] else { return false }
        guard bitCount % 8 > 0 else { return true }
        let mask = UInt8(truncatingIfNeeded: 0xFF00 >> (bitCount % 8))
        return octets[whole] & mask == prefix[whole] & mask
    }
}

/// The proxies whose word about their clients counts (`--trusted-proxy`).
package struct TrustedProxies: Equatable, Sendable {
    package var ranges: [AddressRange] = []

    package init(_ ranges: [AddressRange] = []) {
        self.ranges = ranges
    }

    package var isEmpty: Bool { ranges.isEmpty }

    package func contains(_ address: SocketAddress) -> Bool { ranges.contains { $0.contains(address) } }

    /// The client behind a trusted proxy, by the values of `X-Forwarded-For`: the last address that is not a trusted
    /// proxy itself, since each proxy appends the address that it sees.
    /// - Parameters:
    ///   - values: Of all field lines, in order.
    ///   - peer: The proxy.
    /// - Returns: The proxy itself where there is no such address. What stands before text that is no address does not
    ///   count.
    package func client(forwardedFor values: [String], by peer: SocketAddress) -> SocketAddress {
        var client = peer
        for text in values.joined(separator: ",").split(separator: ",", omittingEmptySubsequences: true)
            .reversed()
        {
            guard contains(client), let address = SocketAddress(forwarded: text) else { break }
            client = address
        }
        return client
    }
}

extension SocketAddress {
    /// One element of `X-Forwarded-For`: an address, which may have a port.
    fileprivate init?(forwarded text: Substring) {
        var host = text.drop { $0 == " " || $0 == "\t" }
        while host.last == " " || host.last == "\t" { host.removeLast() }
        if host.first == "[" {
            guard let end = host.firstIndex(of: "]") else { return nil }
            host = host[host.index(after: host.startIndex)..<end]
        } else if host.contains("."), let colon = host.firstIndex(of: ":"), !host[..<colon].isEmpty,
            host.lastIndex(of: ":") == colon
        {
            host = host[..<colon]
        }
        self.init(String(host), port: 0)
    }
}
