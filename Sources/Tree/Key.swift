import PandoBytes

/// The name of a child. Equal byte for byte; ordered as wire-protocol §7.3 says: integer keys first, by value,
/// then text by UTF-16 code units.
package struct Key: Hashable, Sendable {
    package let text: Text

    /// Trusts the caller that `text` is a legal key; use ``init(validating:)`` for what comes from outside.
    package init(unchecked text: Text) {
        self.text = text
    }

    /// - Throws: ``InvalidData/key(_:)`` for an empty or overlong key, a control character (U+0000–U+001F, U+007F) or one of
    ///   `.` `$` `#` `[` `]` `/` (§8.6).
    package init(validating text: Text) throws(InvalidData) {
        guard Key.isLegal(text.utf8) else { throw .key(String(text.string.prefix(64))) }
        self.text = text
    }

    package var string: String { text.string }

    /// The key of an array's element.
    package init(index: Int) {
        text = Text(String(index))
    }

    /// §8.6, in UTF-8: every forbidden character is ASCII.
    package static func isLegal(_ bytes: Span<UInt8>) -> Bool {
        guard !bytes.isEmpty, bytes.count <= Limits.keyByteCount else { return false }
        for index in bytes.indices where forbidden[Int(bytes[index])] { return false }
        return true
    }

    private static let forbidden: InlineArray<256, Bool> = {
        var table = InlineArray<256, Bool>(repeating: false)
        for control in 0..<0x20 { table[control] = true }
        table[0x7F] = true
        for character in ".$#[]/".utf8 { table[Int(character)] = true }
        return table
    }()

    /// The value of an integer key: `-?0*` and 1…10 digits, within −2^31 … 2^31−1; nil for every other key.
    package var integer: Int64? { Key.integer(text.utf8) }

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
        let (a, b) = (left.text.utf8, right.text.utf8)
        // Most keys begin with a letter, or with `-` and a letter (push ids): no integer, one look tells.
        let (x, y) = (integer(a), integer(b))
        switch (x, y) {
        case (nil, nil): return compareUTF16(a, b)
        case (_?, nil): return -1
        case (nil, _?): return 1
        case (let x?, let y?):
            if x != y { return x < y ? -1 : 1 }
            // `1` before `01`; spellings of one length (`-0`, `00`) in any fixed order.
            return a.count != b.count ? a.count &- b.count : compareUTF16(a, b)
        }
    }
}

extension Key: Comparable {
    package static func < (left: Key, right: Key) -> Bool { compare(left, right) < 0 }
}

extension Key: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: String) { self.init(unchecked: Text(value)) }
    package var description: String { text.string }
}
