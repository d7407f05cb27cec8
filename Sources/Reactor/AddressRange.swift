import COperatingSystem

/// Addresses that begin with the same bits: `10.0.0.0/8`, `fd00::/8`, one address, or `unix` for peers on
/// Unix sockets.
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

    /// Addresses of `X-Forwarded-For` that are looked at: nowhere do more proxies stand behind one another.
    package static let hopLimit = 32

    /// The client behind a trusted proxy, by `X-Forwarded-For`: the last address that is not a trusted proxy
    /// itself, since each proxy appends the address that it sees. At most ``hopLimit`` elements are looked
    /// at.
    /// - Parameters:
    ///   - forwardedFor: The end of the field, of all its lines in order, with commas between them.
    ///   - peer: The proxy.
    /// - Returns: The last proxy that is named where there is no such address. What stands before text that
    ///   is no address does not count.
    /// - Complexity: O(bytes of the elements that are looked at).
    package func client(forwardedFor: [UInt8], by peer: SocketAddress) -> SocketAddress {
        var client = peer
        var rest = forwardedFor[...]
        for _ in 0..<Self.hopLimit where !rest.isEmpty {
            let comma = rest.lastIndex(of: UInt8(ascii: ","))
            let element = rest[(comma.map { $0 + 1 } ?? rest.startIndex)...]
            rest = rest[..<(comma ?? rest.startIndex)]
            if element.isEmpty { continue }
            guard contains(client), let address = SocketAddress(forwarded: element) else { break }
            client = address
        }
        return client
    }

    /// As ``client(forwardedFor:by:)``, and nil where the proxy names no client: then all of its clients are
    /// one to us, and no limit of an address may count them.
    package func namedClient(forwardedFor: [UInt8], by peer: SocketAddress) -> SocketAddress? {
        let client = client(forwardedFor: forwardedFor, by: peer)
        return contains(client) ? nil : client
    }
}

extension SocketAddress {
    /// Bytes of an element: an address with a scope has at most 57, and brackets and a port come on top.
    private static let forwardedByteLimit = 80

    /// One element of `X-Forwarded-For`: an address, which may have a port.
    fileprivate init?(forwarded element: ArraySlice<UInt8>) {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let colon = UInt8(ascii: ":")
        var host = element.drop(while: isSpace)
        while let last = host.last, isSpace(last) { host.removeLast() }
        guard host.count <= Self.forwardedByteLimit else { return nil }
        if host.first == UInt8(ascii: "[") {
            guard let end = host.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            host = host[host.startIndex..<end].dropFirst()
        } else if host.contains(UInt8(ascii: ".")), let first = host.firstIndex(of: colon),
            first > host.startIndex, host.lastIndex(of: colon) == first
        {
            host = host[..<first]
        }
        self.init(String(decoding: host, as: UTF8.self), port: 0)
    }
}
