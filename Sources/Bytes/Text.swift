/// Unicode text that is equal only when every byte is, and ordered by UTF-16 code units (realtime §7.3).
///
/// `String` cannot be used: for it `é` and `e` + U+0301 are equal, and in the database they are not (realtime
/// §8.6: no Unicode normalisation). Values are mostly stored, compared and written out, all of which works on
/// bytes; ``string`` makes a `String` where one is needed.
///
/// Sixteen bytes, two words:
///
///               head                     tail ┌ 1 bit ┬ 7 bits ┬ 56 bits ┐
///     short     bytes 1…8 of the text             0       0      bytes 9…15
///     long      how many bytes it has             1      reference to all of them
///
/// The first byte is the lowest, as in memory, and behind the last byte are zeros. Each text has one
/// representation: short, unless it has more than 15 bytes or ends with a zero byte. The seven bits, which no
/// pointer uses, are for the tags of enums that have a text as a payload.
///
/// Public, though only this package uses it: the compiler specialises ``withBytes(_:)`` in other modules only
/// if it is public. Otherwise each access to a key would call unspecialised code through type metadata.
public struct Text: Hashable, Comparable, Sendable {
    /// As drawn above.
    @usableFromInline let head: UInt64
    @usableFromInline let tail: Tail

    @usableFromInline
    enum Tail: Sendable {
        case short(SevenBytes), long(TextBytes)
    }

    /// The bits beside the tag of ``Tail``.
    @usableFromInline
    struct SevenBytes: Sendable {
        let first: UInt32
        let second: UInt16
        let third: UInt8
    }

    /// Most bytes of a text that needs no heap allocation.
    static let shortByteCount = 15

    /// The bit of the tail that is set for long texts: the tail of a short text is less than this.
    @usableFromInline static var longBit: UInt64 { 1 << 63 }

    /// Both words as numbers.
    @inlinable
    @inline(__always)
    var words: (head: UInt64, tail: UInt64) {
        // The bits are read without retaining a reference. That the enum's tag is in the highest bit, which
        // no pointer and no payload of seven bytes uses, is checked by this type's tests.
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

    /// - Parameter bytes: Must be UTF-8; this is not checked.
    /// - Complexity: O(bytes). One allocation for more than 15 bytes.
    package init(utf8 bytes: Span<UInt8>) {
        let count = bytes.count
        if count <= Self.shortByteCount, count == 0 || bytes[count &- 1] != 0 {
            let (head, rest) = Self.words(of: bytes)
            self.init(head: head, tail: rest)
        } else {
            self.init(count: count, TextBytes(bytes))
        }
    }

    /// - Returns: nil when the bytes are not UTF-8. O(bytes).
    package init?(validating bytes: Span<UInt8>) {
        // `UInt8` has no padding: every byte of the span is initialised.
        guard unsafe isValidUTF8(bytes.bytes) else { return nil }
        self.init(utf8: bytes)
    }

    /// Replaces bytes that are not UTF-8 by U+FFFD, as `String` does. O(bytes).
    package init(decoding bytes: Span<UInt8>) {
        if let text = Text(validating: bytes) {
            self = text
        } else {
            self.init(unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) })
        }
    }

    /// The UTF-8 of a string. O(bytes).
    package init(_ string: String) {
        // Strings of this platform are contiguous, so `withUTF8` changes nothing.
        var string = string
        // The span is used only during the call, in which the buffer is valid.
        self = string.withUTF8 { unsafe Text(utf8: $0.span) }
    }

    /// Concatenates two texts. O(bytes).
    package init(joining left: Text, _ right: Text) {
        let (first, count) = (left.utf8Count, left.utf8Count + right.utf8Count)
        self = unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { place in
            // The first bytes come from `left` and the others from `right`: together they initialise all of
            // it.
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

    /// A copy as a `String`. O(bytes). To write the text out, use ``withBytes(_:)``.
    public var string: String {
        withBytes { bytes in
            unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
        }
    }

    /// How many of its bytes are on the heap: none of a short text. O(1).
    package var heapByteCount: Int { words.tail < Self.longBit ? 0 : utf8Count }

    /// Bytes of UTF-8; O(1).
    @inlinable
    package var utf8Count: Int {
        let words = words
        if words.tail >= Self.longBit { return Int(truncatingIfNeeded: words.head) }
        return Self.shortCount(words)
    }

    /// The first byte; nil of an empty text.
    package var firstByte: UInt8? { withBytes { $0.isEmpty ? nil : $0[0] } }

    /// Calls `body` with the UTF-8 bytes, which are valid during the call. O(1).
    ///
    /// There is no property that borrows them: the bytes of a short text are in the text itself, and
    /// optimised code gave a span into a copy of it on the stack that was no longer valid.
    @inlinable
    @inline(__always)
    public func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        let words = words
        var buffer = (words.head.littleEndian, words.tail.littleEndian)
        return unsafe withUnsafeBytes(of: &buffer) { buffer in
            let bytes: UnsafeBufferPointer<UInt8>
            if case .long(let text) = tail {
                // The object lives as long as this text, and has that many bytes.
                unsafe bytes = UnsafeBufferPointer(
                    start: text.start, count: Int(truncatingIfNeeded: words.head))
            } else {
                // In bounds: at most 15 of 16.
                unsafe bytes = buffer.bindMemory(to: UInt8.self).extracting(..<Self.shortCount(words))
            }
            // The span is used only during the call, and the object lives until its end.
            defer { withExtendedLifetime(self) {} }
            return unsafe body(bytes.span)
        }
    }
}

// MARK: - Comparing

extension Text {
    public static func == (left: Text, right: Text) -> Bool {
        let (a, b) = (left.words, right.words)
        // The same two words: equal short texts, or references to one object.
        if a == b { return true }
        // Two long texts of the same length are compared byte by byte; all others differ.
        guard a.tail & b.tail >= longBit, a.head == b.head else { return false }
        return left.withBytes { x in right.withBytes { y in firstDifference(x, y, count: x.count) == x.count }
        }
    }

    /// Whether both are copies of one text, which no byte needs to be compared for; also true for equal texts
    /// of up to 15 bytes. O(1).
    package func isCopy(of other: Text) -> Bool { words == other.words }

    public static func < (left: Text, right: Text) -> Bool { compare(left, right) < 0 }

    /// By UTF-16 code units (see ``compareUTF16(_:_:)``): negative, zero or positive.
    /// - Parameter byteLimit: Only so many bytes of each text count.
    /// - Complexity: O(common prefix).
    package static func compare(_ left: Text, _ right: Text, upTo byteLimit: Int = .max) -> Int {
        let (a, b) = (left.words, right.words)
        if a == b { return 0 }
        if a.tail | b.tail < longBit, markNonASCII(a.head | b.head | a.tail | b.tail) == 0 {
            // The first byte highest, zeros behind the last.
            if a.head != b.head { return a.head.byteSwapped < b.head.byteSwapped ? -1 : 1 }
            return a.tail.byteSwapped < b.tail.byteSwapped ? -1 : 1
        }
        return left.withBytes { x in
            right.withBytes { y in
                compareUTF16(
                    x.extracting(..<min(x.count, byteLimit)), y.extracting(..<min(y.count, byteLimit)))
            }
        }
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

    /// The byte count of a short text.
    @inlinable
    @inline(__always)
    static func shortCount(_ words: (head: UInt64, tail: UInt64)) -> Int {
        words.tail != 0
            ? 16 &- words.tail.leadingZeroBitCount / 8 : 8 &- words.head.leadingZeroBitCount / 8
    }
}

extension Text: ExpressibleByStringLiteral, CustomStringConvertible {
    public init(stringLiteral value: StaticString) {
        // The span is used only during the call, in which the buffer is valid.
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
/// so come before U+E000…U+FFFF (lead bytes EE, EF). O(common prefix).
package func compareUTF16(_ a: Span<UInt8>, _ b: Span<UInt8>) -> Int {
    let common = min(a.count, b.count)
    let index = firstDifference(a, b, count: common)
    if index == common { return a.count &- b.count }
    let (x, y) = (a[index], b[index])
    if x >= 0xEE, y >= 0xEE, (x >= 0xF0) != (y >= 0xF0) { return x >= 0xF0 ? -1 : 1 }
    return x < y ? -1 : 1
}
