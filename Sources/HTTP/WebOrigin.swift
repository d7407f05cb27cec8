/// `host[:port]`, as in `Host` and in an origin (RFC 9110 §7.2, RFC 6454 §7).
///
/// Text with anything else in it, such as user information, a path or a list, is refused as a whole.
package struct HostAndPort: Hashable, Sendable {
    /// Lower case, without the dot of the root domain at its end; IPv6 in brackets.
    package let host: String
    /// nil where the text has none.
    package let port: UInt16?

    /// - Returns: nil for text of any other form.
    /// - Complexity: O(bytes).
    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        let end: Int
        if bytes.first == UInt8(ascii: "[") {
            guard let bracket = bytes.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            guard bytes[1..<bracket].allSatisfy(Self.isInIPv6), bracket > 1 else { return nil }
            end = bracket + 1
        } else {
            end = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.count
            guard bytes[..<end].allSatisfy(Self.isInName) else { return nil }
        }
        var name = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        guard !name.isEmpty else { return nil }
        host = name
        guard end < bytes.count else {
            port = nil
            return
        }
        let digits = bytes[(end + 1)...]
        guard bytes[end] == UInt8(ascii: ":") else { return nil }
        guard !digits.isEmpty else {
            // The same as none (RFC 3986 §3.2.3).
            port = nil
            return
        }
        guard let port = Self.decimal(digits, UInt16.self) else { return nil }
        self.port = port
    }

    /// Whether it is a name or address of this machine: `localhost` and its subdomains (RFC 6761 §6.3),
    /// `::1`, and 127/8, also as it is mapped to IPv6 (RFC 4291 §2.5.5.2).
    package var isLoopback: Bool {
        if host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]" { return true }
        let mapped = "[::ffff:"
        guard host.hasPrefix(mapped) else { return Self.isLoopback(ipv4: host) }
        let address = host.dropFirst(mapped.count).dropLast()
        return Self.isLoopback(ipv4: address) || Self.isLoopback(hexadecimal: address)
    }

    /// The last 32 bits as browsers write them, `7f00:1`.
    private static func isLoopback(hexadecimal text: Substring) -> Bool {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count <= 4 && UInt16($0, radix: 16) != nil })
        else {
            return false
        }
        return UInt16(parts[0], radix: 16).map { $0 >> 8 } == 127
    }

    private static func isLoopback(ipv4 host: some StringProtocol) -> Bool {
        let parts = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 4, decimal(parts[0], UInt8.self) == 127 else { return false }
        return parts.allSatisfy { decimal($0, UInt8.self) != nil }
    }

    /// Digits only: `UInt8("+1")` would be 1.
    private static func decimal<Value: FixedWidthInteger>(
        _ digits: some Collection<UInt8>, _ type: Value.Type
    ) -> Value? {
        guard digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        return Value(String(decoding: digits, as: UTF8.self))
    }

    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    private static func isInIPv6(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: ":"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}

/// The origin of a web page, as a browser sends it in `Origin` (RFC 6454 §7): `scheme://host[:port]` and
/// nothing else. `null` is refused.
package struct WebOrigin: Hashable, Sendable {
    /// Lower case.
    package let scheme: String
    package let host: String
    /// The scheme's default where the text has none; nil where that is not known.
    package let port: UInt16?

    /// - Returns: nil for text of any other form.
    /// - Complexity: O(bytes).
    package init?(_ text: some StringProtocol) {
        guard let separator = text.firstRange(of: "://") else { return nil }
        let scheme = text[..<separator.lowerBound].lowercased()
        guard let first = scheme.utf8.first, first >= UInt8(ascii: "a"), first <= UInt8(ascii: "z"),
            scheme.utf8.allSatisfy(Self.isInScheme), !text.hasSuffix(":"),
            let place = HostAndPort(text[separator.upperBound...])
        else { return nil }
        self.scheme = scheme
        host = place.host
        port = place.port ?? Self.standardPort(of: scheme)
    }

    /// The origin of a page with this address (`Referer`, RFC 9110 §10.1.3).
    package init?(ofPage address: some StringProtocol) {
        guard let separator = address.firstRange(of: "://") else { return nil }
        let end =
            address[separator.upperBound...].firstIndex { $0 == "/" || $0 == "?" || $0 == "#" }
            ?? address.endIndex
        self.init(address[..<end])
    }

    /// As ``HostAndPort/isLoopback``.
    package var isLoopback: Bool { HostAndPort(host)?.isLoopback ?? false }

    /// Whether a request with this `Host` goes to the origin itself.
    package func isAddressed(by place: HostAndPort) -> Bool {
        place.host == host && (place.port ?? Self.standardPort(of: scheme)) == port
    }

    private static func standardPort(of scheme: String) -> UInt16? {
        switch scheme {
        case "http", "ws": 80
        case "https", "wss": 443
        default: nil
        }
    }

    private static func isInScheme(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"),
            UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }
}
