import PandoBytes

//  Sun, 06 Nov 1994 08:49:37 GMT        RFC 9110 §5.6.7, IMF-fixdate: always 29 bytes, always GMT

extension [UInt8] {
    /// Appends a time as `Date` and similar fields have it.
    /// - Parameter seconds: Since 1970; clamped to 0 … 253 402 300 799, the end of the year 9999.
    package mutating func append(httpDate seconds: Int64) {
        let seconds = Swift.min(253_402_300_799, Swift.max(0, seconds))
        let (days, time) = seconds.quotientAndRemainder(dividingBy: 86_400)
        let (year, month, day) = civilDate(days)
        // 1970-01-01 was a Thursday.
        append(name: Int((days + 4) % 7), of: "SunMonTueWedThuFriSat")
        append(", ")
        append(digits: day, 2)
        append(UInt8(ascii: " "))
        append(name: Int(month) - 1, of: "JanFebMarAprMayJunJulAugSepOctNovDec")
        append(UInt8(ascii: " "))
        append(digits: year, 4)
        append(UInt8(ascii: " "))
        append(digits: time / 3600, 2)
        append(UInt8(ascii: ":"))
        append(digits: time / 60 % 60, 2)
        append(UInt8(ascii: ":"))
        append(digits: time % 60, 2)
        append(" GMT")
    }

    /// Appends the line of a head that says when the response was made (RFC 9110 §6.6.1).
    /// - Parameter seconds: Since 1970.
    package mutating func append(dateLine seconds: Int64) {
        append("Date: " as StaticString)
        append(httpDate: seconds)
        append("\r\n" as StaticString)
    }

    private mutating func append(name index: Int, of names: StaticString) {
        // In bounds: `index` counts names of three letters.
        for place in 0..<3 { unsafe append(names.utf8Start[index * 3 + place]) }
    }

    private mutating func append(digits value: Int64, _ count: Int) {
        var divisor: Int64 = count == 4 ? 1000 : 10
        while divisor > 0 {
            append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value / divisor % 10))
            divisor /= 10
        }
    }
}

/// Days since 1970 as a date of the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year; 400 years have 146 097 days.
private func civilDate(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    // 719 468 days lie between 0000-03-01 and 1970-01-01.
    let (era, dayOfEra) = (days + 719_468).quotientAndRemainder(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    // Months from March on have 153 days in each five.
    let month = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * month + 2) / 5 + 1
    let isNextYear = month >= 10
    return (era * 400 + yearOfEra + (isNextYear ? 1 : 0), isNextYear ? month - 9 : month + 3, day)
}
