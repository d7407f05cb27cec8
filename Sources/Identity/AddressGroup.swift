import Glibc
import PandoBytes

/// The addresses whose failures are counted together: one IPv4 address, or an IPv6 network of 64 bits, which
/// is what a subscriber gets (RFC 6177). A client chooses the other 64 bits freely.
enum AddressGroup: Hashable {
    case v4(UInt32)
    case v6(UInt64)
    /// Text that is no address.
    case other(Text)

    /// - Parameter address: In numeric form, with or without a scope.
    init(_ address: Text) {
        let text = String(address.string.prefix { $0 != "%" })
        var v4 = in_addr()
        var v6 = in6_addr()
        if unsafe inet_pton(AF_INET, text, &v4) == 1 {
            self = .v4(UInt32(bigEndian: v4.s_addr))
        } else if unsafe inet_pton(AF_INET6, text, &v6) == 1 {
            let bytes = unsafe withUnsafeBytes(of: &v6) { unsafe Array($0) }
            func number(_ range: Range<Int>) -> UInt64 { bytes[range].reduce(0) { $0 << 8 | UInt64($1) } }
            // An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2).
            if number(0..<8) == 0, number(8..<12) == 0xFFFF {
                self = .v4(UInt32(truncatingIfNeeded: number(12..<16)))
            } else {
                self = .v6(number(0..<8))
            }
        } else {
            self = .other(address)
        }
    }
}
