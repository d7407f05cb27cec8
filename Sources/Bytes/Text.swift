/// Unicode text that is equal only when every byte is, and ordered by UTF-16 code units (wire-protocol §7.3).
///
/// `String` alone would not do: it calls `é` and `e` + U+0301 equal, and the database must not (§8.6: no Unicode
/// normalisation). It is still the storage: 16 bytes, text of up to 15 UTF-8 bytes inside them.
package struct Text: Hashable, Comparable, Sendable {
    package let string: String

    package init(_ string: String) {
        self.string = string
    }

    /// Bytes of UTF-8; O(1).
    package var utf8Count: Int { string.utf8.count }

    /// The UTF-8 bytes, borrowed.
    package var utf8: Span<UInt8> {
        @_lifetime(borrow self)
        get { string.utf8Span.span }
    }

    package static func == (left: Text, right: Text) -> Bool {
        let (a, b) = (left.utf8, right.utf8)
        return a.count == b.count && firstDifference(a, b, count: a.count) == a.count
    }

    package static func < (left: Text, right: Text) -> Bool {
        compareUTF16(left.utf8, right.utf8) < 0
    }

    package func hash(into hasher: inout Hasher) {
        unsafe utf8.withUnsafeBufferPointer { bytes in
            unsafe hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
    }
}

extension Text: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: String) { self.init(value) }
    package var description: String { string }
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
