import PandoBytes

/// The name of a child. Equal byte for byte; ordered as realtime §7.3 says: integer keys first, by
/// value, then text by UTF-16 code units.
///
/// Sixteen bytes: two words that are compared as numbers. Most keys have nothing on the heap: copying one
/// counts no reference, and a search reads only the page, and not the text of each key elsewhere in memory.
///
///               head                     tail ┌ 2 bits ┬ 62 bits ┐
///     integer   value + 2^31                      0      2 × length of its text, + 1 unless it is a `-0`
///     short     bytes 1…8 of the text             1      bytes 9…15
///     packed    the first 64 bits …               2      … and the other 56 of a push id, 6 bits a character
///     long      bytes 1…8 of the text             3      reference to all of them
///
/// The first byte is the highest, behind the last byte are zeros, and bytes are changed by `ordered(_:)`.
/// Each text has one representation: the first of these kinds that it fits.
package struct Key: Sendable {
    /// As drawn above.
    let head: UInt64
    private let tail: Tail

    private enum Tail: Sendable {
        case integer(SevenBytes), short(SevenBytes), packed(SevenBytes), long(LongText)
    }

    /// The bits beside the tag of ``Tail``.
    private struct SevenBytes {
        let first: UInt32
        let second: UInt16
        let third: UInt8
    }

    /// The kind in the highest bits of `tail`: a tail of this kind is at least this number, and below that of
    /// the next kind.
    enum Kind {
        static let short: UInt64 = 1 << 62
        static let packed: UInt64 = 2 << 62
        static let long: UInt64 = 3 << 62
    }

    /// Both words as numbers.
    @inline(__always)
    var words: (head: UInt64, tail: UInt64) {
        // The bits are read without retaining a reference. That the enum's tag is in the two highest bits,
        // which no pointer and no payload of seven bytes uses, is checked by this type's tests.
        unsafe unsafeBitCast(self, to: (UInt64, UInt64).self)
    }

    /// - Parameter tail: Not of a long key.
    @inline(__always)
    init(head: UInt64, tail: UInt64) {
        assert(tail < Kind.long)
        // As above; there is no reference among these bits.
        self = unsafe unsafeBitCast((head, tail), to: Key.self)
    }

    init(head: UInt64, _ text: LongText) {
        self.head = head
        tail = .long(text)
    }

    /// The text of a long key; nil for the others.
    @inline(__always)
    var long: LongText? {
        if case .long(let text) = tail { text } else { nil }
    }

    /// The value of an integer key: `-?0*` and 1…10 digits, within −2^31 … 2^31−1; nil for every other key.
    package var integer: Int64? {
        let words = words
        return words.tail < Kind.short ? Int64(bitPattern: words.head) &- 0x8000_0000 : nil
    }
}

// MARK: - Order

extension Key: Hashable, Comparable {
    /// Negative, zero or positive, as `left` is before, equal to or after `right`.
    @inline(__always)
    package static func compare(_ left: Key, _ right: Key) -> Int {
        let (a, b) = (left.words, right.words)
        if (a.tail ^ b.tail) >> 62 == 0 {
            if a.head != b.head { return a.head < b.head ? -1 : 1 }
            if a.tail == b.tail { return 0 }
            // `1` before `01`, and `-0` before `00`.
            if a.tail < Kind.long { return a.tail < b.tail ? -1 : 1 }
        }
        return compareTexts(left, right)
    }

    /// The first part of a key's order, without its text: for sorting many keys.
    struct Order: Equatable {
        var isInteger: Bool
        /// The first eight bytes of a text, or an integer's value.
        var head: UInt64

        static func < (left: Order, right: Order) -> Bool {
            left.isInteger == right.isInteger ? left.head < right.head : left.isInteger
        }
    }

    /// A key with a lesser order is before another; with equal orders ``compare(_:_:)`` decides.
    var order: Order {
        let words = words
        return words.tail < Kind.short
            ? Order(isInteger: true, head: words.head) : Order(isInteger: false, head: firstBytes)
    }

    /// Compares two long keys, or keys of two kinds.
    @inline(never)
    private static func compareTexts(_ left: Key, _ right: Key) -> Int {
        let (a, b) = (left.words.tail, right.words.tail)
        if a < Kind.short || b < Kind.short { return a < Kind.short ? -1 : 1 }
        let (x, y) = (left.firstBytes, right.firstBytes)
        if x != y { return x < y ? -1 : 1 }
        return left.withBytes { x in right.withBytes { y in compareUTF16(x, y) } }
    }

    /// Up to eight bytes of a text that is not an integer, as in `head` of a short key.
    @inline(__always)
    private var firstBytes: UInt64 {
        let words = words
        return words.tail >> 62 == 2 ? sixBitCharacters(words.head >> 16) : words.head
    }

    @inline(__always)
    package static func < (left: Key, right: Key) -> Bool { compare(left, right) < 0 }

    @inline(__always)
    package static func == (left: Key, right: Key) -> Bool {
        let (a, b) = (left.words, right.words)
        if a.head != b.head { return false }
        if a.tail == b.tail { return true }
        return a.tail & b.tail >= Kind.long && hasSameText(left, right)
    }

    /// Compares two long keys.
    @inline(never)
    private static func hasSameText(_ left: Key, _ right: Key) -> Bool {
        left.withBytes { x in right.withBytes { y in compareUTF16(x, y) == 0 } }
    }

    package func hash(into hasher: inout Hasher) {
        let words = words
        hasher.combine(words.head)
        if words.tail < Kind.long {
            hasher.combine(words.tail)
        } else {
            withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) } }
        }
    }
}

// MARK: - Legality

extension Key {
    /// Whether the text may be a key (§8.6). O(bytes).
    package static func isLegal(_ text: Text) -> Bool { text.withBytes { isLegal($0) } }

    /// As ``isLegal(_:)-(Text)``, for UTF-8: every forbidden character is ASCII.
    package static func isLegal(_ bytes: Span<UInt8>) -> Bool {
        let count = bytes.count
        guard count > 0, count <= Limits.keyByteCount else { return false }
        if count < 8 {
            for index in bytes.indices where isForbidden(bytes[index]) { return false }
            return true
        }
        let raw = unsafe bytes.bytes
        var index = 0
        while index < count {
            // In bounds: there are at least eight bytes. The last word may cover some bytes again.
            let word = unsafe raw.unsafeLoadUnaligned(
                fromUncheckedByteOffset: Swift.min(index, count &- 8), as: UInt64.self)
            if holdsForbidden(word) { return false }
            index &+= 8
        }
        return true
    }

    private static func isForbidden(_ byte: UInt8) -> Bool {
        let set = byte < 64 ? forbiddenBelow64 : byte < 128 ? forbiddenFrom64 : 0
        return set >> UInt64(byte & 63) & 1 != 0
    }

    /// A bit for each forbidden character: control characters and `#` `$` `.` `/`.
    private static let forbiddenBelow64: UInt64 = 0xFFFF_FFFF | 1 << 0x23 | 1 << 0x24 | 1 << 0x2E | 1 << 0x2F
    /// `[` `]` and U+007F.
    private static let forbiddenFrom64: UInt64 = 1 << (0x5B - 64) | 1 << (0x5D - 64) | 1 << (0x7F - 64)

    /// Whether one of eight bytes is a forbidden character.
    @inline(__always)
    static func holdsForbidden(_ word: UInt64) -> Bool {
        let marks =
            markBelow(0x20, in: word) | mark(UInt8(ascii: "#"), in: word) | mark(UInt8(ascii: "$"), in: word)
            | markPair(UInt8(ascii: "."), in: word) | mark(UInt8(ascii: "["), in: word)
            | mark(UInt8(ascii: "]"), in: word) | mark(0x7F, in: word)
        return marks != 0
    }
}
