import PandoJournal

/// The name of a scheduled backup: `pando-20261123T184500.123Z-1-42.backup`, with the moment (UTC), the
/// timeline and the sequence that it holds. Names sort by the moment.
package struct BackupName: Hashable, Comparable, Sendable {
    /// Since 1970.
    package let milliseconds: Int64
    package let timeline: UInt32
    package let sequence: SequenceNumber

    private static let prefix = "pando-"
    private static let suffix = ".backup"
    /// Up to the year 9999, which has four digits.
    private static let range: ClosedRange<Int64> = 0...253_402_300_799_999

    /// - Parameter milliseconds: Since 1970; of a moment that has no such name, the nearest one that has.
    package init(milliseconds: Int64, timeline: UInt32, sequence: SequenceNumber) {
        self.milliseconds = min(max(milliseconds, Self.range.lowerBound), Self.range.upperBound)
        self.timeline = timeline
        self.sequence = sequence
    }

    /// The name of a backup with this header.
    package init(_ header: CheckpointHeader) {
        self.init(milliseconds: header.timestamp, timeline: header.timeline, sequence: header.sequence)
    }

    /// Reads a name that ``text`` writes; nil for any other.
    package init?(_ name: String) {
        guard name.hasPrefix(Self.prefix), name.hasSuffix(Self.suffix) else { return nil }
        let parts = name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count).split(
            separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, let time = Self.milliseconds(parts[0]), let timeline = UInt32(parts[1]),
            let sequence = UInt64(parts[2])
        else { return nil }
        self.init(milliseconds: time, timeline: timeline, sequence: SequenceNumber(sequence))
        // One spelling: no leading zeros, no 31st of February.
        guard text == name else { return nil }
    }

    package var text: String {
        let day = milliseconds / Self.dayMilliseconds
        let rest = milliseconds % Self.dayMilliseconds
        let (year, month, date) = Self.civil(day)
        let moment =
            Self.digits(year, 4) + Self.digits(month, 2) + Self.digits(date, 2) + "T"
            + Self.digits(rest / 3_600_000, 2) + Self.digits(rest / 60_000 % 60, 2)
            + Self.digits(rest / 1000 % 60, 2) + "." + Self.digits(rest % 1000, 3) + "Z"
        return "\(Self.prefix)\(moment)-\(timeline)-\(sequence.rawValue)\(Self.suffix)"
    }

    package static func < (left: BackupName, right: BackupName) -> Bool {
        (left.milliseconds, left.timeline, left.sequence) < (
            right.milliseconds, right.timeline, right.sequence
        )
    }

    /// Whether it is named after a time to come.
    /// - Parameter now: The machine's clock; milliseconds since 1970.
    package func isAhead(of now: Int64) -> Bool { milliseconds > now }

    /// Whether the journal has its state before that of another one. Times say that only while the clock is
    /// right. Of one state the name of a time to come is before the others, since it says nothing.
    /// - Parameter now: The machine's clock; milliseconds since 1970.
    package func isBefore(_ other: BackupName, at now: Int64) -> Bool {
        (timeline, sequence, isAhead(of: now) ? 0 : 1, milliseconds) < (
            other.timeline, other.sequence, other.isAhead(of: now) ? 0 : 1, other.milliseconds
        )
    }

    // MARK: Dates

    private static let dayMilliseconds: Int64 = 86_400_000

    private static func digits(_ number: Int64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }

    /// Reads `20261123T184500.123Z`. A day that its month does not have is taken for one of the next month.
    private static func milliseconds(_ text: Substring) -> Int64? {
        let bytes = Array(text.utf8)
        guard bytes.count == 20, bytes[8] == UInt8(ascii: "T"), bytes[15] == UInt8(ascii: "."),
            bytes[19] == UInt8(ascii: "Z")
        else { return nil }
        func number(_ range: Range<Int>) -> Int64? {
            var value: Int64 = 0
            for byte in bytes[range] {
                guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte else { return nil }
                value = value * 10 + Int64(byte - UInt8(ascii: "0"))
            }
            return value
        }
        guard let year = number(0..<4), let month = number(4..<6), let date = number(6..<8),
            let hour = number(9..<11), let minute = number(11..<13), let second = number(13..<15),
            let thousandths = number(16..<19), 1...12 ~= month
        else { return nil }
        let seconds = daysSince1970(year, month, date) * 86_400 + hour * 3600 + minute * 60 + second
        return seconds * 1000 + thousandths
    }

    // Days and dates of the Gregorian calendar. Years begin in March here, so that a leap day is the last of
    // its year; 400 years have 146 097 days.

    /// - Parameter date: The day of the month, from 1 on.
    package static func daysSince1970(_ year: Int64, _ month: Int64, _ date: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + date - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    /// - Parameter day: Since 1970; not negative.
    private static func civil(_ day: Int64) -> (year: Int64, month: Int64, date: Int64) {
        let day = day + 719_468
        let era = day / 146_097
        let dayOfEra = day - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shifted + 2) / 5 + 1
        )
    }
}
