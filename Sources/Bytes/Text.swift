/// Unicode text that is equal only when every byte is, and ordered by UTF-16 code units (wire-protocol §7.3).
///
/// `String` alone would not do: it calls `é` and `e` + U+0301 equal, and the database must not (§8.6: no Unicode
/// normalisation). It is still the storage: 16 bytes, text of up to 15 UTF-8 bytes inside them.
///
/// Public, though nothing outside this package sees it: the compiler makes ``withBytes(_:)`` for the types at hand in
/// other modules only of public code, and a key would otherwise cost a call through type metadata.
public struct Text: Hashable, Comparable, Sendable {
    public let string: String

    package init(_ string: String) {
        self.string = string
    }

    /// Bytes of UTF-8; O(1).
    package var utf8Count: Int { string.utf8.count }

    /// The first byte; nil of an empty text.
    package var firstByte: UInt8? { string.utf8.first }

    /// Lends the UTF-8 bytes to `body`.
    ///
    /// There is no property that borrows them: optimised code let the span of a text of up to 15 bytes, which has no
    /// storage but the text itself, point to a copy of it on the stack that was gone.
    @inlinable
    @inline(__always)
    public func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        // Strings of this platform are contiguous, so `withUTF8` changes nothing. The utf8 view's own way to lend its
        // bytes takes four times as long.
        var string = string
        // The span does not outlive the buffer, which is lent for the call.
        return string.withUTF8 { unsafe body($0.span) }
    }

    public static func == (left: Text, right: Text) -> Bool {
        if left.hasSameBits(as: right) { return true }
        guard left.utf8Count == right.utf8Count else { return false }
        return left.withBytes { a in
            right.withBytes { b in a.count == b.count && firstDifference(a, b, count: a.count) == a.count }
        }
    }

    public static func < (left: Text, right: Text) -> Bool { compare(left, right) < 0 }

    /// By UTF-16 code units (see ``compareUTF16(_:_:)``): negative, zero or positive.
    package static func compare(_ left: Text, _ right: Text) -> Int {
        if left.hasSameBits(as: right) { return 0 }
        return left.withBytes { a in right.withBytes { b in compareUTF16(a, b) } }
    }

    /// Both are the same in memory, and so the same text: two of up to 15 bytes that are equal, which hold their bytes
    /// in themselves, or one that was copied. Nothing is counted for it.
    @inline(__always)
    private func hasSameBits(as other: Text) -> Bool {
        // A string is two words on 64-bit platforms, and looked at, not kept.
        let (a, b) = unsafe (
            unsafeBitCast(string, to: (UInt64, UInt64).self), unsafeBitCast(other.string, to: (UInt64, UInt64).self))
        return a == b
    }

    public func hash(into hasher: inout Hasher) {
        withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
    }

    /// The first eight bytes as a big-endian number, zeros behind the end, in which numbers compare as the texts do by
    /// UTF-16 code units: a smaller one is a smaller text, equal ones may be any.
    package var prefix: UInt64 {
        withBytes { bytes in
            var prefix: UInt64 = 0
            for index in 0..<Swift.min(8, bytes.count) {
                let byte = bytes[index]
                // U+E000…U+FFFF go behind the characters that are surrogates in UTF-16; their lead bytes end at F4.
                prefix |=
                    UInt64(byte == 0xEE || byte == 0xEF ? byte | 0x10 : byte) << UInt64(56 &- 8 &* index)
            }
            return prefix
        }
    }
}

extension Text: ExpressibleByStringLiteral, CustomStringConvertible {
    public init(stringLiteral value: String) { self.init(value) }
    public var description: String { string }
}

/// The offset of the first byte that differs, or `count`. Both spans must hold `count` bytes.
private func firstDifference(_ a: Span<UInt8>, _ b: Span<UInt8>, count: Int) -> Int {
    precondition(count <= a.count && count <= b.count)
    let (x, y) = unsafe (a.bytes, b.bytes)
    var index = 0
    while index &+ 8 <= count {
        // In bounds: eight bytes are left in both.
        let left = unsafe x.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
        let right = unsafe y.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
        if left != right { return index &+ (UInt64(littleEndian: left ^ right).trailingZeroBitCount / 8) }
        index &+= 8
    }
    while index < count {
        if a[index] != b[index] { return index }
        index &+= 1
    }
    return count
}

/// Which of two UTF-8 texts comes first by UTF-16 code units: negative, zero or positive.
///
/// The two orders differ in one place: characters beyond U+FFFF (lead bytes F0…) are surrogates in UTF-16 and so
/// come before U+E000…U+FFFF (lead bytes EE, EF).
package func compareUTF16(_ a: Span<UInt8>, _ b: Span<UInt8>) -> Int {
    let common = min(a.count, b.count)
    let index = firstDifference(a, b, count: common)
    if index == common { return a.count &- b.count }
    let (x, y) = (a[index], b[index])
    if x >= 0xEE, y >= 0xEE, (x >= 0xF0) != (y >= 0xF0) { return x >= 0xF0 ? -1 : 1 }
    return x < y ? -1 : 1
}
