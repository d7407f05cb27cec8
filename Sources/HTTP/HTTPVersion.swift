/// The supported versions (RFC 9112 §2.3).
package enum HTTPVersion: Comparable, Sendable {
    case http10, http11
}

/// Reads `HTTP/1.0` or `HTTP/1.1`.
/// - Returns: nil when the bytes are not a version.
/// - Throws: ``HTTPError/unsupportedVersion`` for any other well-formed version.
func parseVersion(_ bytes: Span<UInt8>) throws(HTTPError) -> HTTPVersion? {
    guard bytes.count == 8, bytes.extracting(0..<5).equals("HTTP/") else { return nil }
    let (major, minor) = (bytes[5], bytes[7])
    guard isDigit(major), bytes[6] == UInt8(ascii: "."), isDigit(minor) else { return nil }
    switch (major, minor) {
    case (0x31, 0x30): return .http10
    case (0x31, 0x31): return .http11
    default: throw .unsupportedVersion
    }
}
