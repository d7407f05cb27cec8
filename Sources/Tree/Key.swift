import PandoBytes

/// The name of a child. Equal byte for byte; ordered as wire-protocol §7.3 says: integer keys first, by value,
/// then text by UTF-16 code units.
///
/// A key carries its rank, a number that decides nearly every comparison: a search then reads pages from one end to
/// the other instead of jumping to each key's text.
///
///     rank   0 ┌ 31 zeros ┬ value + 2^31, 32 bits ┐   an integer key; equal values by length
///            1 ┌ the first 63 bits of the text    ┐   any other; the text decides between equals
package struct Key: Hashable, Sendable {
    package let text: Text
    /// See above; equal ranks leave the order open.
    let rank: UInt64

    /// Trusts the caller that `text` is a legal key; use ``init(validating:)`` for what comes from outside.
    package init(unchecked text: Text) {
        self.text = text
        // `-` and `0`…`9` stand together: most other keys are told apart by one look.
        let prefix = text.prefix
        let first = UInt8(truncatingIfNeeded: prefix >> 56)
        if first <= UInt8(ascii: "9"), let value = text.withBytes(Key.integer) {
            rank = UInt64(bitPattern: value &+ 0x8000_0000)
        } else {
            rank = 1 << 63 | prefix >> 1
        }
    }

    /// - Throws: ``InvalidData/key(_:)`` for an empty or overlong key, a control character (U+0000–U+001F, U+007F) or one of
    ///   `.` `$` `#` `[` `]` `/` (§8.6).
    package init(validating text: Text) throws(InvalidData) {
        guard Key.isLegal(text) else { throw .key(String(text.string.prefix(64))) }
        self.init(unchecked: text)
    }

    package var string: String { text.string }

    /// The key of an array's element.
    package init(index: Int) {
        let text = Text(String(index))
        if (0...2_147_483_647).contains(index) {
            // As the text would be read.
            self.init(text, rank: UInt64(index) + 0x8000_0000)
        } else {
            self.init(unchecked: text)
        }
    }

    private init(_ text: Text, rank: UInt64) {
        self.text = text
        self.rank = rank
    }

    /// May the text be a key (§8.6)?
    package static func isLegal(_ text: Text) -> Bool { text.withBytes { isLegal($0) } }

    /// §8.6, in UTF-8: every forbidden character is ASCII.
    package static func isLegal(_ bytes: Span<UInt8>) -> Bool {
        guard !bytes.isEmpty, bytes.count <= Limits.keyByteCount else { return false }
        for index in bytes.indices {
            let byte = bytes[index]
            let set = byte < 64 ? forbiddenBelow64 : byte < 128 ? forbiddenFrom64 : 0
            if set >> UInt64(byte & 63) & 1 != 0 { return false }
        }
        return true
    }

    /// A bit for each forbidden character: controls and `#` `$` `.` `/`.
    private static let forbiddenBelow64: UInt64 = 0xFFFF_FFFF | 1 << 0x23 | 1 << 0x24 | 1 << 0x2E | 1 << 0x2F
    /// `[` `]` and U+007F.
    private static let forbiddenFrom64: UInt64 = 1 << (0x5B - 64) | 1 << (0x5D - 64) | 1 << (0x7F - 64)

    /// The value of an integer key: `-?0*` and 1…10 digits, within −2^31 … 2^31−1; nil for every other key.
    package var integer: Int64? { rank >> 63 == 0 ? Int64(bitPattern: rank) &- 0x8000_0000 : nil }

    private static func integer(_ bytes: Span<UInt8>) -> Int64? {
        var index = 0
        let count = bytes.count
        let isNegative = count > 0 && bytes[0] == UInt8(ascii: "-")
        if isNegative { index = 1 }
        guard index < count else { return nil }
        var value: Int64 = 0
        while index < count {
            let digit = bytes[index] &- 0x30
            guard digit <= 9 else { return nil }
            value = value &* 10 &+ Int64(digit)
            // At most one past ten digits: no overflow.
            guard value <= 2_147_483_648 else { return nil }
            index &+= 1
        }
        if isNegative { return -value }
        return value <= 2_147_483_647 ? value : nil
    }

    /// Negative, zero or positive, as `left` comes before, is, or comes after `right`.
    package static func compare(_ left: Key, _ right: Key) -> Int {
        if left.rank != right.rank { return left.rank < right.rank ? -1 : 1 }
        if left.rank >> 63 == 0 {
            // `1` before `01`; spellings of one length (`-0`, `00`) in any fixed order.
            let (a, b) = (left.text.utf8Count, right.text.utf8Count)
            if a != b { return a &- b }
        }
        return Text.compare(left.text, right.text)
    }

    package static func == (left: Key, right: Key) -> Bool {
        left.rank == right.rank && left.text == right.text
    }

    package func hash(into hasher: inout Hasher) { text.hash(into: &hasher) }
}

extension Key: Comparable {
    package static func < (left: Key, right: Key) -> Bool { compare(left, right) < 0 }
}

extension Key: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: String) { self.init(unchecked: Text(value)) }
    package var description: String { text.string }
}
