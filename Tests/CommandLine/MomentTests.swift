import Testing

@testable import PandoCommandLine

@Suite struct MomentTests {
    @Test(
        arguments: [
            // text                             milliseconds       because
            ("0", 0, "milliseconds since 1970"),
            ("1763749800123", 1_763_749_800_123, "with thousandths"),
            ("-1", -1, "before 1970"),
            ("1970-01-01T00:00:00Z", 0, "the beginning"),
            ("2025-11-21T18:30:00Z", 1_763_749_800_000, "a second"),
            ("2025-11-21T18:30:00.123Z", 1_763_749_800_123, "a fraction"),
            ("2025-11-21T18:30:00.1Z", 1_763_749_800_100, "with tenths"),
            ("2025-11-21T18:30:00.123999Z", 1_763_749_800_123, "more digits are cut off"),
            ("2025-11-21T19:30:00+01:00", 1_763_749_800_000, "east of UTC"),
            ("2025-11-21T13:00:00.123-05:30", 1_763_749_800_123, "west of UTC"),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000, "a leap day"),
            ("2000-02-29T00:00:00Z", 951_782_400_000, "one of a year of 400"),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000, "the first year"),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999, "the last one"),
            ("2025-11-21T18:30:81Z", nil, "the second 81"),
            ("2025-11-21T18:30:60Z", nil, "a leap second, which no clock here has"),
            ("2025-11-21T18:60:00Z", nil, "the minute 60"),
            ("2025-11-21T24:00:00Z", nil, "the hour 24"),
            ("2025-11-31T00:00:00Z", nil, "the 31st of November"),
            ("2025-02-29T00:00:00Z", nil, "no leap year"),
            ("1900-02-29T00:00:00Z", nil, "nor is that"),
            ("2025-13-01T00:00:00Z", nil, "the 13th month"),
            ("2025-00-01T00:00:00Z", nil, "the month 0"),
            ("2025-11-00T00:00:00Z", nil, "the day 0"),
            ("0000-11-01T00:00:00Z", nil, "the year 0"),
            ("2025-11-21T18:30:00Z and more", nil, "text behind it"),
            ("2025-11-21T18:30:00ZZ", nil, "one Z too many"),
            (" 2025-11-21T18:30:00Z", nil, "text before it"),
            ("2025-11-21T18:30:00", nil, "no zone"),
            ("2025-11-21T18:30Z", nil, "no seconds"),
            ("2025-11-21", nil, "no time"),
            ("2025-11-21 18:30:00Z", nil, "a space"),
            ("2025-11-21T18:30:00.Z", nil, "no digit behind the point"),
            ("2025-11-21T18:30:00+24:00", nil, "a day"),
            ("2025-11-21T18:30:00+0100", nil, "no colon"),
            ("2025-1-21T18:30:00Z", nil, "one digit"),
            ("+025-11-21T18:30:00Z", nil, "a sign"),
            ("2025-11-21T18:30:00.１Z", nil, "a digit of another script"),
            ("tomorrow", nil, "a word"), ("", nil, "nothing"),
        ] as [(String, Int64?, String)])
    func texts(text: String, milliseconds: Int64?, reason: String) {
        #expect(Moment.milliseconds(text) == milliseconds, "\(reason)")
    }

    @Test(arguments: [0, 1, 999, 1_763_749_800_123, -1, 951_782_400_000, 253_402_300_799_999] as [Int64])
    func whatIsPrintedIsRead(milliseconds: Int64) {
        #expect(Moment.milliseconds(Moment.text(milliseconds)) == milliseconds)
    }
}
