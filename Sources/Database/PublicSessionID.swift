import PandoBytes
import PandoStorage

/// The id by which a client knows its session: 128 random bits, so that no client can guess that of another
/// one (realtime §12.5).
package struct PublicSessionID: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// A random id.
    package init(_ environment: Environment) {
        high = environment.randomBits()
        low = environment.randomBits()
    }

    /// The id that a client sends; nil for a text that is not the ``text`` of an id.
    package init?(_ text: Text) {
        guard text.utf8Count == 2 * Self.digitCount else { return nil }
        let (first, second) = (text.string.prefix(Self.digitCount), text.string.dropFirst(Self.digitCount))
        guard text.string.utf8.allSatisfy(Self.isDigit), let high = UInt64(first, radix: 16),
            let low = UInt64(second, radix: 16)
        else { return nil }
        (self.high, self.low) = (high, low)
    }

    /// 32 hexadecimal digits.
    package var text: Text { Text(Self.digits(high) + Self.digits(low)) }

    private static let digitCount = 16

    private static func digits(_ bits: UInt64) -> String {
        let digits = String(bits, radix: 16)
        return String(repeating: "0", count: digitCount - digits.count) + digits
    }

    /// A digit as ``text`` has them; `UInt64(_:radix:)` accepts signs and capitals, too.
    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }
}
