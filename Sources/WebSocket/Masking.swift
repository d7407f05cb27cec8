// Masking (RFC 6455 §5.3): byte i of a payload is XORed with byte i mod 4 of the key. The same function masks
// and unmasks. Keys are held in memory order: as four bytes loaded on a little-endian machine.
import PandoBytes

#if !_endian(little)
    #error("masking keys are loaded in little-endian order")
#endif

/// XORs `bytes` with a key whose first byte belongs to `bytes[0]`.
/// - Returns: Whether all results are ASCII: then text need not be checked for UTF-8.
/// - Complexity: O(bytes), 32 bytes a step, then 8, then 4; reads and writes each byte once.
@discardableResult
package func applyMask(_ bytes: inout MutableRawSpan, key: UInt32) -> Bool {
    unsafe bytes.withUnsafeMutableBytes { buffer in
        // A buffer without an address is empty.
        guard let base = buffer.baseAddress else { return true }
        return unsafe applyMask(base, count: buffer.count, key: key)
    }
}

/// As above. `base` must have `count` bytes.
@unsafe
func applyMask(_ base: UnsafeMutableRawPointer, count: Int, key: UInt32) -> Bool {
    let wideKey = UInt64(key) << 32 | UInt64(key)
    var seen: UInt64 = 0
    var offset = 0
    // In bounds, here and below: each condition leaves as many bytes as are loaded and stored.
    if count >= 32 {
        let widestKey = SIMD4<UInt64>(repeating: wideKey)
        var widestSeen = SIMD4<UInt64>.zero
        repeat {
            let words = unsafe base.loadUnaligned(fromByteOffset: offset, as: SIMD4<UInt64>.self) ^ widestKey
            unsafe base.storeBytes(of: words, toByteOffset: offset, as: SIMD4<UInt64>.self)
            widestSeen |= words
            offset &+= 32
        } while offset &+ 32 <= count
        seen = (widestSeen[0] | widestSeen[1]) | (widestSeen[2] | widestSeen[3])
    }
    while offset &+ 8 <= count {
        let word = unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt64.self) ^ wideKey
        unsafe base.storeBytes(of: word, toByteOffset: offset, as: UInt64.self)
        seen |= word
        offset &+= 8
    }
    if offset &+ 4 <= count {
        let word = unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt32.self) ^ key
        unsafe base.storeBytes(of: word, toByteOffset: offset, as: UInt32.self)
        seen |= UInt64(word)
        offset &+= 4
    }
    var rest = key
    while offset < count {
        let byte = unsafe base.load(fromByteOffset: offset, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
        unsafe base.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
        seen |= UInt64(byte)
        rest >>= 8
        offset &+= 1
    }
    return markNonASCII(seen) == 0
}

/// Whether `count` bytes from `base` are all ASCII. For frames that come without a mask.
@unsafe
func isASCII(_ base: UnsafeMutableRawPointer, count: Int) -> Bool {
    var seen = SIMD4<UInt64>.zero
    var offset = 0
    // In bounds: each condition leaves as many bytes as are loaded.
    while offset &+ 32 <= count {
        seen |= unsafe base.loadUnaligned(fromByteOffset: offset, as: SIMD4<UInt64>.self)
        offset &+= 32
    }
    var rest = (seen[0] | seen[1]) | (seen[2] | seen[3])
    while offset &+ 8 <= count {
        rest |= unsafe base.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        offset &+= 8
    }
    while offset < count {
        rest |= unsafe UInt64(base.load(fromByteOffset: offset, as: UInt8.self))
        offset &+= 1
    }
    return markNonASCII(rest) == 0
}

/// The key for the payload from `count` bytes further on.
func rotated(_ key: UInt32, by count: Int) -> UInt32 {
    let bits = UInt32(truncatingIfNeeded: count & 3) &* 8
    return bits == 0 ? key : key >> bits | key << (32 &- bits)
}
