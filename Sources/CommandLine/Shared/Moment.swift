import Foundation
import PandoJournal
import PandoStorage

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

    /// Reads milliseconds since 1970, or `2026-11-21T18:30:00.123Z`, where the fraction may be missing and an
    /// offset such as `+01:00` may stand for `Z` (RFC 3339 §5.6). More than three digits of a fraction are
    /// cut off.
    /// - Returns: Milliseconds since 1970; nil for what is no time, such as the 31st of November or the
    ///   second 60: a restore to another moment than the one that was meant loses data.
    static func milliseconds(_ text: String) -> Int64? {
        if let number = Int64(text) { return number }
        var rest = Substring(text)
        guard let year = number(4, in: 1...9999, from: &rest), skip("-", in: &rest),
            let month = number(2, in: 1...12, from: &rest), skip("-", in: &rest),
            let day = number(2, in: 1...dayCount(ofMonth: month, in: year), from: &rest),
            skip("T", in: &rest),
            let hour = number(2, in: 0...23, from: &rest), skip(":", in: &rest),
            let minute = number(2, in: 0...59, from: &rest), skip(":", in: &rest),
            let second = number(2, in: 0...59, from: &rest),
            let thousandths = fraction(from: &rest),
            let offset = offsetMinutes(from: &rest), rest.isEmpty
        else { return nil }
        let minutes = BackupName.daysSince1970(year, month, day) * 1440 + hour * 60 + minute - offset
        return (minutes * 60 + second) * 1000 + thousandths
    }

    private static func dayCount(ofMonth month: Int64, in year: Int64) -> Int64 {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Reads so many digits.
    private static func number(
        _ digitCount: Int, in range: ClosedRange<Int64>, from text: inout Substring
    ) -> Int64? {
        let digits = text.prefix(digitCount)
        guard digits.utf8.count == digitCount, digits.utf8.allSatisfy(isDigit),
            let number = Int64(digits), range.contains(number)
        else { return nil }
        text = text.dropFirst(digitCount)
        return number
    }

    private static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }

    private static func skip(_ character: Character, in text: inout Substring) -> Bool {
        guard text.first == character else { return false }
        text = text.dropFirst()
        return true
    }

    /// Reads the fraction of a second: its thousandths, 0 where there is none.
    private static func fraction(from text: inout Substring) -> Int64? {
        guard skip(".", in: &text) else { return 0 }
        let digits = text.prefix { $0.utf8.allSatisfy(isDigit) }
        guard !digits.isEmpty else { return nil }
        text = text.dropFirst(digits.count)
        return Int64((digits + "00").prefix(3))
    }

    /// Reads `Z` or an offset: the minutes by which the time is ahead of UTC.
    private static func offsetMinutes(from text: inout Substring) -> Int64? {
        if skip("Z", in: &text) { return 0 }
        let isBehind = text.first == "-"
        guard skip(isBehind ? "-" : "+", in: &text), let hours = number(2, in: 0...23, from: &text),
            skip(":", in: &text), let minutes = number(2, in: 0...59, from: &text)
        else { return nil }
        return (isBehind ? -1 : 1) * (hours * 60 + minutes)
    }
}
