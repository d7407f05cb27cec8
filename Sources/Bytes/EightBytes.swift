// Functions on eight bytes at a time, in one 64-bit word (Hacker's Delight, chapters 2 and 6).
//
//     word      2F 61 62 63 22 7D 00 00        eight bytes, the first one lowest when loaded little-endian
//     marks     80 00 00 00 00 00 80 80        their result: the highest bit of each byte that was found
//
// A subtraction borrows from the next higher byte, so marks *above* the lowest one may be wrong. The lowest
// mark is always right, and there is none if no byte is found: enough to ask whether there is one, or where
// the first is.

/// The same byte in all eight places.
@inlinable @inline(__always)
package func everyByte(_ byte: UInt64) -> UInt64 { byte &* 0x0101_0101_0101_0101 }

/// Marks the bytes that are zero; the lowest mark is right.
@inlinable @inline(__always)
package func markZeros(_ word: UInt64) -> UInt64 {
    (word &- everyByte(1)) & ~word & everyByte(0x80)
}

/// Marks the bytes that are `byte`; the lowest mark is right.
@inlinable @inline(__always)
package func mark(_ byte: UInt8, in word: UInt64) -> UInt64 {
    markZeros(word ^ everyByte(UInt64(byte)))
}

/// Marks the bytes that are `byte` or the one after it; the lowest mark is right.
/// - Parameter byte: An even one.
@inlinable @inline(__always)
package func markPair(_ byte: UInt8, in word: UInt64) -> UInt64 {
    markZeros(word & everyByte(0xFE) ^ everyByte(UInt64(byte)))
}

/// Marks the bytes below `limit`, which is at most 0x80; the lowest mark is right.
@inlinable @inline(__always)
package func markBelow(_ limit: UInt8, in word: UInt64) -> UInt64 {
    (word &- everyByte(UInt64(limit))) & ~word & everyByte(0x80)
}

/// Marks the bytes of 0x80 and above, which are not ASCII; every mark is right.
@inlinable @inline(__always)
package func markNonASCII(_ word: UInt64) -> UInt64 { word & everyByte(0x80) }

/// How many bytes precede the lowest mark; eight where there is none.
@inlinable @inline(__always)
package func byteCount(below marks: UInt64) -> Int { marks.trailingZeroBitCount / 8 }
