import Glibc
import PandoBytes

/// Whose tokens are counted together: an IPv4 address, or the 64 bits of an IPv6 address that a subscriber is
/// given (RFC 6177): the other 64 are anybody's to choose.
enum AddressGroup: Hashable {
    case v4(UInt32)
    case v6(UInt64)
    /// What is no address.
    case other(Text)

    /// - Parameter address: As numbers print, with or without a scope.
    init(_ address: Text) {
        let text = String(address.string.prefix { $0 != "%" })
        var v4 = in_addr()
        var v6 = in6_addr()
        if unsafe inet_pton(AF_INET, text, &v4) == 1 {
            self = .v4(UInt32(bigEndian: v4.s_addr))
        } else if unsafe inet_pton(AF_INET6, text, &v6) == 1 {
            let bytes = unsafe withUnsafeBytes(of: &v6) { unsafe Array($0) }
            func number(_ range: Range<Int>) -> UInt64 { bytes[range].reduce(0) { $0 << 8 | UInt64($1) } }
            // The IPv4 range in IPv6's clothes (RFC 4291 §2.5.5.2).
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
