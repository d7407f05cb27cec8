import CBytes

// Many bytes at a look, which is how most texts and paths are gone through (cbytes.h).
//
//     bytes   r o o m s / 7 " …
//     marks   0 0 0 0 0 1 0 1 …     one bit a byte, the first byte lowest: `trailingZeroBitCount` bytes are before it

/// What is looked for.
@usableFromInline
package enum ByteMask: Sendable {
    /// Bytes that do not stand for themselves in a JSON string (RFC 8259 §7): controls, `"` and `\`.
    case json
    /// Those, everything but ASCII, `/`, and what no key may have (realtime §8.6).
    case path
    case nonASCII

    /// How many bytes one look takes.
    @inlinable @inline(__always)
    package var byteCount: Int {
        switch self {
        case .json, .nonASCII: 32
        // Keys are short.
        case .path: 16
        }
    }

    /// - Parameter start: So many bytes are there.
    @inlinable @inline(__always)
    @unsafe func found(at start: UnsafePointer<UInt8>) -> UInt32 {
        switch self {
        case .json: unsafe pando_json_marks(start)
        case .path: unsafe pando_path_marks(start)
        case .nonASCII: unsafe pando_non_ascii_marks(start)
        }
    }
}

extension ByteCursor {
    /// Marks of the next bytes; nil where fewer remain than one look takes.
    @inlinable @inline(__always)
    package func find(_ marks: ByteMask) -> UInt32? {
        guard remaining >= marks.byteCount else { return nil }
        // In bounds: guarded.
        return unsafe marks.found(at: base + offset)
    }
}

extension RawSpan {
    /// Marks of the bytes from `offset` on. Traps where fewer remain than one look takes.
    @inlinable @inline(__always)
    package func find(_ marks: ByteMask, at offset: Int) -> UInt32 {
        precondition(offset >= 0 && offset <= byteCount &- marks.byteCount)
        return unsafe withUnsafeBytes { bytes in
            // In bounds: checked, so there is a base.
            guard let base = bytes.baseAddress else { return 0 }
            return unsafe marks.found(at: (base + offset).assumingMemoryBound(to: UInt8.self))
        }
    }
}
