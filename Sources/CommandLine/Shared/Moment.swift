import Foundation
import PandoJournal

/// Moments as people write them.
enum Moment {
    /// The years 1 to 9999, which ISO 8601 can write without an agreement.
    private static let writable: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

    /// `2026-11-21T18:30:00.123Z`
    static func text(_ milliseconds: Int64) -> String {
        guard writable.contains(milliseconds) else { return "\(milliseconds) ms" }
        // A whole second, and its thousandths as they are: a double of both would be printed cut off, one too
        // few.
        let (quotient, remainder) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        let second = remainder < 0 ? quotient - 1 : quotient
        let thousandths = String(remainder < 0 ? remainder + 1000 : remainder)
        let text = Date(timeIntervalSince1970: Double(second)).formatted(.iso8601).dropLast()
        return "\(text).\(String(repeating: "0", count: max(0, 3 - thousandths.utf8.count)))\(thousandths)Z"
    }

    /// `sequence 42, 2026-11-21T18:30:00.123Z`: the last record, and its moment. Before the first record
    /// there is no moment.
    static func text(_ sequence: SequenceNumber, at milliseconds: Int64) -> String {
        sequence == .zero
            ? "sequence 0, before the first record" : "sequence \(sequence), \(text(milliseconds))"
    }

    /// Milliseconds since 1970; nil for what is no time.
    static func milliseconds(_ text: String) -> Int64? {
        if let number = Int64(text) { return number }
        for hasFraction in [false, true] {
            let style = Date.ISO8601FormatStyle(includingFractionalSeconds: hasFraction)
            if let date = try? Date(text, strategy: style) {
                return Int64((date.timeIntervalSince1970 * 1000).rounded())
            }
        }
        return nil
    }
}
