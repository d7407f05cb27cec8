/// How compressed data is wrapped.
package enum CompressionCoding: Equatable, Sendable {
    /// Members of a gzip file (RFC 1952): HTTP's `Content-Encoding: gzip`.
    case gzip
    /// Bare deflate (RFC 1951): what `permessage-deflate` sends (RFC 7692). The window has 2^bits bytes,
    /// 9…15.
    case raw(windowBits: Int)

    /// As zlib spells it.
    var windowBits: Int32 {
        switch self {
        case .gzip: 16 + 15
        case .raw(let bits):
            // Asked for by a handshake that knows no others; zlib cannot deflate with 8 (RFC 7692 §7.1.2.1
            // allows it).
            -Int32(min(15, max(9, bits)))
        }
    }
}

/// What stands between bytes and their compressed form.
package enum CompressionError: Error, Equatable, Sendable {
    /// What was to be inflated is no compressed data, or was changed on its way.
    case corrupt
    /// The compressed data ended in the middle.
    case truncated
    /// zlib got no memory.
    case noMemory
}
