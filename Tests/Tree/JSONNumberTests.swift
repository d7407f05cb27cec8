import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct JSONNumbers {
    /// realtime §8.5: one representation for each number.
    @Test(
        arguments: [
            ("0", .integer(0), "zero"), ("-0", .integer(0), "no negative zero"),
            ("-0.0", .integer(0), "no negative zero"), ("-0e5", .integer(0), "nor with an exponent"),
            ("0.0000", .integer(0), "zero"), ("0e-999999", .integer(0), "zero, whatever the exponent"),
            ("9223372036854775807", .integer(.max), "the greatest integer"),
            ("9223372036854775808", .double(0x1p63), "one more"),
            ("-9223372036854775808", .integer(.min), "the least integer"),
            ("-9223372036854775809", .integer(.min), "one less rounds to it"),
            ("-9223372036854777856", .double(-9223372036854777856), "the next double below"),
            ("9223372036854775807.0", .double(0x1p63), "a double rounds"),
            ("18446744073709551615", .double(0x1p64), "the greatest of 64 bits"),
            ("18446744073709551616", .double(0x1p64), "wraps 64 bits"),
            ("18446744073709551617", .double(0x1p64), "would wrap to 1"),
            ("9999999999999999999", .double(1e19), "nineteen digits"),
            ("10000000000000000000", .double(1e19), "twenty digits"),
            ("36893488147419103232", .double(0x1p65), "wraps twice"),
            ("9007199254740991", .integer(9_007_199_254_740_991), "2^53−1"),
            ("9007199254740992", .integer(9_007_199_254_740_992), "2^53"),
            ("9007199254740993", .integer(9_007_199_254_740_993), "2^53+1 is exact"),
            ("9007199254740993.0", .integer(9_007_199_254_740_992), "but not as a double"),
            ("900719925474099.25", .double(900719925474099.25), "exact"),
            ("4503599627370497.50", .integer(4_503_599_627_370_498), "half way between two: to the even one"),
            ("4503599627370498.50", .integer(4_503_599_627_370_498), "half way between two: to the even one"),
            ("4503599627370498.501", .integer(4_503_599_627_370_499), "over half way"),
            ("4503599627370497.499", .integer(4_503_599_627_370_497), "not half way"),
            ("1844674407370955161.5e-18", .double(1.8446744073709551615), "nineteen digits and more, scaled"),
            ("1e-19", .double(1e-19), "the last that is divided"),
            ("9999999999999999999e-19", .integer(1), "rounds up"),
            ("9007199254740993e-1", .double(900719925474099.3), "one digit behind the point"),
            ("5.0", .integer(5), "an integral double"), ("5e0", .integer(5), "an integral double"),
            ("50e-1", .integer(5), "an integral double"), ("0.5e1", .integer(5), "an integral double"),
            ("1e18", .integer(1_000_000_000_000_000_000), "an integral double"),
            ("1e19", .double(1e19), "past 2^63"),
            ("-1e18", .integer(-1_000_000_000_000_000_000), "an integral double"),
            ("9.2233720368547748e18", .integer(9_223_372_036_854_774_784), "the last double below 2^63"),
            ("-9.223372036854775808e18", .integer(.min), "−2^63 as a double"),
            ("1e22", .double(1e22), "the last exact power of ten"),
            ("1e23", .double(1e23), "the first one that is not"),
            ("9007199254740991e22", .double(9007199254740991e22), "both factors exact"),
            ("9007199254740992e22", .double(9007199254740992e22), "past the short way"),
            ("9007199254740993e22", .double(9007199254740993e22), "past the short way"),
            ("1e-22", .double(1e-22), "the short way down"), ("1e-23", .double(1e-23), "past it"),
            ("123456789012345678e-10", .double(12345678.9012345678), "long digits, small exponent"),
            ("0.1", .double(0.1), "a tenth"), ("0.30000000000000004", .double(0.1 + 0.2), "seventeen digits"),
            ("2.2250738585072014e-308", .double(.leastNormalMagnitude), "the least normal"),
            (
                "2.2250738585072011e-308", .double(Double(bitPattern: 0x000F_FFFF_FFFF_FFFF)),
                "once hung parsers"
            ),
            ("2.225073858507201e-308", .double(Double(bitPattern: 0x000F_FFFF_FFFF_FFFF)), "subnormal"),
            ("5e-324", .double(.leastNonzeroMagnitude), "the least of all"),
            ("4.9e-324", .double(.leastNonzeroMagnitude), "rounds to it"),
            ("2.4703282292062328e-324", .double(.leastNonzeroMagnitude), "just over half of it"),
            ("2.4703282292062327e-324", .integer(0), "just under half of it"),
            ("1e-400", .integer(0), "underflow"),
            ("1.7976931348623157e308", .double(.greatestFiniteMagnitude), "the greatest"),
            ("1.7976931348623158e308", .double(.greatestFiniteMagnitude), "rounds down to it"),
            ("-1.7976931348623157e308", .double(-.greatestFiniteMagnitude), "and its negative"),
            ("179769313486231570e291", .double(.greatestFiniteMagnitude), "spelled otherwise"),
            (
                "0.000000000000000000000000000000000000000000001e45", .integer(1),
                "leading zeros are no digits"
            ), ("00001", nil, "but not before the point"),
            ("1000000000000000000000000000000000000000000e-42", .integer(1), "more digits than 64 bits"),
            (
                "12345678901234567890123456789e-28", .double(1.2345678901234567890123456789),
                "more digits than 64 bits"
            ),
            (
                "1.00000000000000011102230246251565404236316680908203125", .integer(1),
                "half way to the next: to even"
            ),
            (
                "1.00000000000000011102230246251565404236316680908203126", .double(1.0000000000000002),
                "over half way"
            ),
            ("1E5", .integer(100_000), "capital"), ("1e+05", .integer(100_000), "a zero in the exponent"),
            ("1e99999999999999999999", nil, "overflow"), ("1e309", nil, "overflow"),
            ("-1e309", nil, "overflow"),
            ("1.7976931348623159e308", nil, "rounds to infinity"),
            ("1e-99999999999999999999", .integer(0), "underflow"),
        ] as [(String, Node?, String)])
    func reads(text: String, number: Node?, reason: String) throws {
        guard let number else {
            #expect(throws: (any Error).self, "\(reason)") { try node(text) }
            return
        }
        #expect(try node(text) == number, "\(reason)")
        #expect(try node("[\(text)]").children["0"] == number, "\(reason)")
        #expect(try node(number.description) == number, "printed and read again: \(reason)")
    }

    /// A number of a million digits needs no deep stack and little time.
    @Test func longNumbers() throws {
        let digits = String(repeating: "1", count: 1_000_000)
        #expect(throws: InvalidData.numberOutOfRange) { try node(digits) }
        #expect(try node("0." + digits) == .double(0.1111111111111111111))
        #expect(try node("0." + String(repeating: "0", count: 1_000_000) + "1") == .integer(0))
        #expect(try node("0." + String(repeating: "0", count: 1_000_000) + "1e1000001") == .integer(1))
    }

    /// The shortest digits are read as the same bits.
    @Test(arguments: 0..<8) func doublesRoundTrip(seed: Int) throws {
        var generator = SeededGenerator(seed: seed)
        for round in 0..<10_000 {
            var bits = generator.next()
            // Every other one with a small exponent, as most numbers have.
            if round % 2 == 0 {
                bits = bits & ~(0x7FF << 52) | UInt64.random(in: 1000...1086, using: &generator) << 52
            }
            let value = Double(bitPattern: bits)
            guard value.isFinite else { continue }
            let number = Node.number(value)
            let printed = number.description
            #expect(try node(printed) == number, "\(printed)")
            #expect(try node(printed).doubleValue?.bitPattern == (value == 0 ? 0 : bits), "\(printed)")
        }
    }

    @Test(arguments: 0..<4) func integersRoundTrip(seed: Int) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<5000 {
            let value =
                Int64(truncatingIfNeeded: generator.next()) >> Int64.random(in: 0...63, using: &generator)
            #expect(Node.integer(value).description == String(value))
            #expect(try node(String(value)) == .integer(value))
        }
    }

    /// Short decimals by the fast path, against the standard library's.
    @Test(arguments: 0..<4) func decimals(seed: Int) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<5000 {
            let digits = generator.next() >> UInt64.random(in: 0...63, using: &generator)
            let text = "\(digits)e\(Int.random(in: -30...30, using: &generator))"
            #expect(try node(text) == Node.number(Double(text)!), "\(text)")
            let point = "\(digits % 100_000).\(digits)"
            #expect(try node(point) == Node.number(Double(point)!), "\(point)")
        }
    }

    @Test func oneRepresentation() {
        #expect(Node.number(-0.0) == .integer(0))
        #expect(Node.number(0x1p63) == .double(0x1p63))
        #expect(Node.number(-0x1p63) == .integer(.min))
        #expect(Node.number(0x1.fffffffffffffp62) == .integer(9_223_372_036_854_774_784))
        #expect(Node.number(0.5) == .double(0.5))
    }
}
