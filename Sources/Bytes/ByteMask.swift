import CBytes

// Tests 16 or 32 bytes at once (cbytes.h); most texts and paths are read this way.
//
//     bytes   r o o m s / 7 " …
//     mask    0 0 0 0 0 1 0 1 …     one bit a byte, the first byte lowest: `trailingZeroBitCount` bytes precede the first 1

/// Which bytes a mask marks with a 1.
@usableFromInline
package enum ByteMask: Sendable {
    /// Bytes that are escaped in a JSON string (RFC 8259 §7): control characters, `"` and `\`.
    case json
    /// Those of `json`, bytes that are not ASCII, `/`, and the other characters that no key may have
    /// (realtime §8.6).
    case path
    /// Bytes of 0x80 and above.
    case nonASCII

    /// How many bytes one mask covers.
    @inlinable @inline(__always)
    package var byteCount: Int {
        switch self {
        case .json, .nonASCII: 32
        // Keys are short.
        case .path: 16
        }
    }

    /// - Parameter start: The first of `byteCount` readable bytes.
    @inlinable @inline(__always)
    @unsafe func bits(at start: UnsafePointer<UInt8>) -> UInt32 {
        switch self {
        case .json: unsafe pando_json_mask(start)
        case .path: unsafe pando_path_mask(start)
        case .nonASCII: unsafe pando_non_ascii_mask(start)
        }
    }
}

extension ByteCursor {
    /// The mask of the next bytes; nil where fewer than ``ByteMask/byteCount`` remain.
    @inlinable @inline(__always)
    package func mask(of mask: ByteMask) -> UInt32? {
        guard remaining >= mask.byteCount else { return nil }
        // In bounds: guarded.
        return unsafe mask.bits(at: base + offset)
    }
}

extension RawSpan {
    /// The mask of the bytes from `offset` on. Traps where fewer than ``ByteMask/byteCount`` remain.
    @inlinable @inline(__always)
    package func mask(of mask: ByteMask, at offset: Int) -> UInt32 {
        precondition(offset >= 0 && offset <= byteCount &- mask.byteCount)
        return unsafe withUnsafeBytes { bytes in
            // In bounds: checked, so there is a base.
            guard let base = bytes.baseAddress else { return 0 }
            return unsafe mask.bits(at: (base + offset).assumingMemoryBound(to: UInt8.self))
        }
    }
}
