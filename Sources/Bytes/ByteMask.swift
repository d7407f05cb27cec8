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
    /// Those of `json`, and bytes that are not ASCII.
    case jsonOrNonASCII

    /// How many bytes one mask covers.
    @inlinable @inline(__always)
    package var byteCount: Int {
        switch self {
        case .json, .jsonOrNonASCII: 32
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
        case .jsonOrNonASCII: unsafe pando_json_or_non_ascii_mask(start)
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

    /// Moves to the next byte that the mask marks, or to the end. O(bytes), 16 or 32 at once.
    @inlinable @inline(__always)
    package mutating func advance(to mask: ByteMask) {
        while let marks = self.mask(of: mask) {
            guard marks == 0 else {
                // In bounds: as many bytes remain as the mask covers.
                offset &+= marks.trailingZeroBitCount
                return
            }
            offset &+= mask.byteCount
        }
        advanceThroughLast(to: mask)
    }

    /// As ``advance(to:)``, where fewer bytes remain than the mask covers.
    @inlinable @inline(__always)
    mutating func advanceThroughLast(to mask: ByteMask) {
        let rest = remaining
        guard count >= mask.byteCount else { return offset &+= min(unmarkedCount(mask), rest) }
        // The last bytes of all: the first of them are before the cursor.
        let last = unsafe mask.bits(at: base + (count &- mask.byteCount))
        let marks = UInt64(last) &>> UInt64(truncatingIfNeeded: mask.byteCount &- rest)
        offset &+= min(marks.trailingZeroBitCount, rest)
    }

    /// How many bytes precede the first one that is marked. For inputs shorter than the mask: what is left is
    /// copied, with zeros behind it.
    @usableFromInline @inline(never)
    func unmarkedCount(_ mask: ByteMask) -> Int {
        var padded = (UInt64(0), UInt64(0), UInt64(0), UInt64(0))
        return unsafe withUnsafeMutableBytes(of: &padded) { padded in
            guard let start = padded.baseAddress, remaining <= padded.count else { return 0 }
            // In bounds: checked.
            unsafe start.copyMemory(from: base + offset, byteCount: remaining)
            return unsafe mask.bits(at: UnsafePointer(start.assumingMemoryBound(to: UInt8.self)))
                .trailingZeroBitCount
        }
    }
}
