/// The format around deflated data.
package enum CompressionCoding: Equatable, Sendable {
    /// Members of a gzip file (RFC 1952): HTTP's `Content-Encoding: gzip`.
    case gzip
    /// Deflate without a header or checksum (RFC 1951), as `permessage-deflate` sends it (RFC 7692). The LZ77
    /// window has 2^`windowBits` bytes, 9…15.
    case raw(windowBits: Int)

    /// zlib's `windowBits` argument.
    var windowBits: Int32 {
        switch self {
        case .gzip: 16 + 15
        case .raw(let bits):
            // A handshake may ask for 8 (RFC 7692 §7.1.2.1), with which zlib cannot deflate.
            -Int32(min(15, max(9, bits)))
        }
    }
}

/// Why data could not be compressed or inflated.
package enum CompressionError: Error, Equatable, Sendable {
    /// The input is not compressed data, or its checksum is wrong.
    case corrupt
    /// The compressed data ended too early.
    case truncated
    /// zlib got no memory.
    case noMemory
}
