/// The format around deflated data.
package enum CompressionCoding: Equatable, Sendable {
    /// Members of a gzip file (RFC 1952): HTTP's `Content-Encoding: gzip`.
    case gzip
    /// Deflate without a header or checksum (RFC 1951), as `permessage-deflate` sends it (RFC 7692). The LZ77
    /// window has 2^`windowBits` bytes, 8…15.
    ///
    /// zlib has no raw deflate with 8 and gets 9 in its place. The result still fits a window of 2^8 bytes:
    /// zlib's distances end 262 bytes (`MIN_LOOKAHEAD` in deflate.h) before its window does, here at 250.
    case raw(windowBits: Int)

    /// zlib's `windowBits` argument.
    var windowBits: Int32 {
        switch self {
        case .gzip: 16 + 15
        case .raw(let bits): -Int32(Self.supported(windowBits: bits))
        }
    }

    /// The window that zlib gets for one of 2^`windowBits` bytes: 9…15 bits.
    static func supported(windowBits: Int) -> Int {
        min(15, max(9, windowBits))
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
