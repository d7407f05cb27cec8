/// Unicode text that is equal only when every byte is, and ordered by UTF-16 code units (realtime §7.3).
///
/// `String` would not do: it calls `é` and `e` + U+0301 equal, and the database must not (realtime §8.6: no
/// Unicode normalisation). Most of what is done with a value is to keep it, compare it and write it down, and
/// all of that is done with bytes; a `String` is made where somebody needs one (``string``).
///
/// Sixteen bytes, two words:
///
///               head                     tail ┌ 1 bit ┬ 7 bits ┬ 56 bits ┐
///     short     bytes 1…8 of the text             0       0      bytes 9…15
///     long      how many bytes it has             1      reference to all of them
///
/// Bytes stand with the first one lowest, zeros behind the last: as they stand in memory. Each text has one
/// representation: a short one, unless it has more bytes than that or ends with a zero. The seven bits, which
/// no pointer uses, are for enums that hold a text beside other things.
///
/// Public, though nothing outside this package sees it: the compiler makes ``withBytes(_:)`` for the types at
/// hand in other modules only of public code, and a key would otherwise cost a call through type metadata.
public struct Text: Hashable, Comparable, Sendable {
    /// See above.
    @usableFromInline let head: UInt64
    @usableFromInline let tail: Tail

    @usableFromInline
    enum Tail: Sendable {
        case short(SevenBytes), long(TextBytes)
    }

    /// What is left beside the bits that say which kind it is.
    @usableFromInline
    struct SevenBytes: Sendable {
        let first: UInt32
        let second: UInt16
        let third: UInt8
    }

    /// Bytes of a text that needs no heap.
    static let shortByteCount = 15

    /// The bit of the tail that says a text is long: the tail of a short one is below it, that of a long one
    /// is not.
    @usableFromInline static var longBit: UInt64 { 1 << 63 }

    /// Both words as numbers.
    @inlinable
    @inline(__always)
    var words: (head: UInt64, tail: UInt64) {
        // Looked at, not kept, so that no reference is counted. Where the enum's tag is, in the highest of
        // the bits that no pointer and no payload of seven bytes uses, is pinned down by the tests of this
        // type.
        unsafe unsafeBitCast(self, to: (UInt64, UInt64).self)
    }

    /// - Parameter tail: Of a short text.
    @inline(__always)
    private init(head: UInt64, tail: UInt64) {
        assert(tail >> 56 == 0)
        // As above; there is no reference among these bits.
        self = unsafe unsafeBitCast((head, tail), to: Text.self)
    }

    private init(count: Int, _ bytes: TextBytes) {
        head = UInt64(truncatingIfNeeded: count)
        tail = .long(bytes)
    }

    /// Trusts the caller that the bytes are UTF-8. One allocation and one copy when they are many, none when
    /// they are few.
    package init(utf8 bytes: Span<UInt8>) {
        let count = bytes.count
        if count <= Self.shortByteCount, count == 0 || bytes[count &- 1] != 0 {
            let (head, rest) = Self.words(of: bytes)
            self.init(head: head, tail: rest)
        } else {
            self.init(count: count, TextBytes(bytes))
        }
    }

    /// Nil when the bytes are no UTF-8.
    package init?(validating bytes: Span<UInt8>) {
        // `UInt8` has no padding: every byte of the span is initialised.
        guard unsafe isValidUTF8(bytes.bytes) else { return nil }
        self.init(utf8: bytes)
    }

    /// Bytes that are no UTF-8 are repaired as `String` does it.
    package init(decoding bytes: Span<UInt8>) {
        if let text = Text(validating: bytes) {
            self = text
        } else {
            self.init(unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) })
        }
    }

    package init(_ string: String) {
        // Strings of this platform are contiguous, so `withUTF8` changes nothing.
        var string = string
        // The span does not outlive the buffer, which is lent for the call.
        self = string.withUTF8 { unsafe Text(utf8: $0.span) }
    }

    /// One behind the other.
    package init(joining left: Text, _ right: Text) {
        let (first, count) = (left.utf8Count, left.utf8Count + right.utf8Count)
        self = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { place in
            // So many bytes from the one, and the rest from the other: then all of the place is initialised.
            left.withBytes { bytes in
                unsafe bytes.withUnsafeBufferPointer { _ = unsafe place.initialize(fromContentsOf: $0) }
            }
            right.withBytes { bytes in
                unsafe bytes.withUnsafeBufferPointer {
                    _ = unsafe place.extracting(first...).initialize(fromContentsOf: $0)
                }
            }
            return unsafe Text(utf8: place.span)
        }
    }

    /// A copy, for people and for what works on characters; what is written out borrows the bytes instead.
    /// O(bytes).
    public var string: String {
        withBytes { bytes in
            unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
        }
    }

    /// Bytes of UTF-8; O(1).
    @inlinable
    package var utf8Count: Int {
        let words = words
        if words.tail >= Self.longBit { return Int(truncatingIfNeeded: words.head) }
        return Self.shortCount(words)
    }

    /// The first byte; nil of an empty text.
    package var firstByte: UInt8? { withBytes { $0.isEmpty ? nil : $0[0] } }

    /// Lends the UTF-8 bytes to `body`.
    ///
    /// There is no property that borrows them: optimised code let the span of a text of up to 15 bytes, which
    /// has no storage but the text itself, point to a copy of it on the stack that was gone.
    @inlinable
    @inline(__always)
    public func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        let words = words
        var room = (words.head.littleEndian, words.tail.littleEndian)
        return unsafe withUnsafeBytes(of: &room) { room in
            let bytes: UnsafeBufferPointer<UInt8>
            if case .long(let text) = tail {
                // The object is there as long as this text is, and has so many bytes.
                unsafe bytes = UnsafeBufferPointer(
                    start: text.start, count: Int(truncatingIfNeeded: words.head))
            } else {
                // In bounds: at most 15 of 16.
                unsafe bytes = room.bindMemory(to: UInt8.self).extracting(..<Self.shortCount(words))
            }
            // The span does not outlive the call, and the object not the text.
            defer { withExtendedLifetime(self) {} }
            return unsafe body(bytes.span)
        }
    }
}

// MARK: - Comparing

extension Text {
    public static func == (left: Text, right: Text) -> Bool {
        let (a, b) = (left.words, right.words)
        // The same in memory, and so the same text: two short ones that are equal, or one that was copied.
        if a == b { return true }
        // Equal counts of long texts.
        guard a.tail & b.tail >= longBit, a.head == b.head else { return false }
        return left.withBytes { x in right.withBytes { y in firstDifference(x, y, count: x.count) == x.count }
        }
    }

    public static func < (left: Text, right: Text) -> Bool { compare(left, right) < 0 }

    /// By UTF-16 code units (see ``compareUTF16(_:_:)``): negative, zero or positive.
    package static func compare(_ left: Text, _ right: Text) -> Int {
        let (a, b) = (left.words, right.words)
        if a == b { return 0 }
        if a.tail | b.tail < longBit, markNonASCII(a.head | b.head | a.tail | b.tail) == 0 {
            // The first byte highest, zeros behind the last.
            if a.head != b.head { return a.head.byteSwapped < b.head.byteSwapped ? -1 : 1 }
            return a.tail.byteSwapped < b.tail.byteSwapped ? -1 : 1
        }
        return left.withBytes { x in right.withBytes { y in compareUTF16(x, y) } }
    }

    public func hash(into hasher: inout Hasher) {
        let words = words
        if words.tail < Self.longBit {
            hasher.combine(words.head)
            hasher.combine(words.tail)
        } else {
            withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
        }
    }
}

// MARK: - Short texts

extension Text {
    /// Up to 15 bytes as two numbers, the first byte lowest, zeros behind the last.
    @inline(__always)
    private static func words(of bytes: Span<UInt8>) -> (head: UInt64, rest: UInt64) {
        let count = bytes.count
        // `UInt8` has no padding: every byte of the span is initialised. Below, all loads are of bytes that
        // are there.
        let raw = unsafe bytes.bytes
        if count >= 8 {
            let head = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 0, as: UInt64.self)
            let last = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: count &- 8, as: UInt64.self)
            return (UInt64(littleEndian: head), UInt64(littleEndian: last) >> UInt64(8 &* (16 &- count)))
        }
        if count >= 4 {
            let first = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: 0, as: UInt32.self)
            let last = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: count &- 4, as: UInt32.self)
            // They overlap where both have the same bytes.
            let high = UInt64(UInt32(littleEndian: last)) << UInt64(8 &* (count &- 4))
            return (UInt64(UInt32(littleEndian: first)) | high, 0)
        }
        var head: UInt64 = 0
        for index in bytes.indices { head |= UInt64(bytes[index]) << UInt64(8 &* index) }
        return (head, 0)
    }

    /// Bytes of a short text.
    @inlinable
    @inline(__always)
    static func shortCount(_ words: (head: UInt64, tail: UInt64)) -> Int {
        words.tail != 0
            ? 16 &- words.tail.leadingZeroBitCount / 8 : 8 &- words.head.leadingZeroBitCount / 8
    }
}

extension Text: ExpressibleByStringLiteral, CustomStringConvertible {
    public init(stringLiteral value: StaticString) {
        // The span does not outlive the buffer, which is lent for the call.
        self = value.withUTF8Buffer { unsafe Text(utf8: $0.span) }
    }

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
/// The two orders differ in one place: characters beyond U+FFFF (lead bytes F0…) are surrogates in UTF-16 and
/// so come before U+E000…U+FFFF (lead bytes EE, EF).
package func compareUTF16(_ a: Span<UInt8>, _ b: Span<UInt8>) -> Int {
    let common = min(a.count, b.count)
    let index = firstDifference(a, b, count: common)
    if index == common { return a.count &- b.count }
    let (x, y) = (a[index], b[index])
    if x >= 0xEE, y >= 0xEE, (x >= 0xF0) != (y >= 0xF0) { return x >= 0xF0 ? -1 : 1 }
    return x < y ? -1 : 1
}
