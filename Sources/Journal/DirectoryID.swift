/// 16 random bytes that identify a data directory. Each of its segments contains them.
package struct DirectoryID: Hashable, Sendable, CustomStringConvertible {
    let first: UInt64
    let second: UInt64

    package init(_ first: UInt64, _ second: UInt64) {
        self.first = first
        self.second = second
    }

    /// Reads a ``description``; nil for anything else.
    package init?(_ text: String) {
        guard text.utf8.count == 32, let first = UInt64(text.prefix(16), radix: 16),
            let second = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.init(first, second)
        guard description == text else { return nil }
    }

    package var description: String { hexadecimal(first, digits: 16) + hexadecimal(second, digits: 16) }
}

/// `value` in base 16, padded with zeros to `digits`.
func hexadecimal(_ value: UInt64, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
}
