import PandoBytes

extension JSONReader {
    /// Reads a number in its one representation (realtime §8.5): `.integer` or `.double`. A literal
    /// beyond the range of a double is noted as invalid data, and read as 0.
    /// - Throws: ``MalformedJSON``.
    package mutating func readNumber() throws(MalformedJSON) -> Node {
        let start = cursor.offset
        let isNegative = cursor.current == UInt8(ascii: "-")
        if isNegative { cursor.advance() }
        // Up to 19 digits fit in 64 bits; longer numbers are read by `Double`.
        var mantissa: UInt64 = 0
        var digitCount = 0
        var exponent = 0
        if cursor.current == UInt8(ascii: "0") {
            cursor.advance()
        } else {
            guard readDigits(&mantissa, &digitCount) > 0 else { throw unexpected() }
        }
        var isInteger = true
        if cursor.current == UInt8(ascii: ".") {
            isInteger = false
            cursor.advance()
            let places = readDigits(&mantissa, &digitCount)
            guard places > 0 else { throw unexpected() }
            exponent = -places
        }
        if cursor.current | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            cursor.advance()
            exponent = exponent &+ (try readExponent())
        }
        if digitCount <= 19 {
            if isInteger {
                if !isNegative, let value = Int64(exactly: mantissa) { return .integer(value) }
                if isNegative, mantissa <= Int64.min.magnitude {
                    return .integer(Int64(truncatingIfNeeded: 0 &- mantissa))
                }
            } else if mantissa < 1 << 53, exponent.magnitude <= 22 {
                // Both operands are exact doubles, so the result is rounded once, correctly (Clinger 1990).
                let power = Self.powersOfTen[Int(exponent.magnitude)]
                let value = exponent < 0 ? Double(mantissa) / power : Double(mantissa) * power
                return .number(isNegative ? -value : value)
            } else if mantissa > 0, exponent < 0, exponent >= -19 {
                let value = Self.quotient(mantissa, Self.integerPowersOfTen[-exponent])
                return .number(isNegative ? -value : value)
            }
        }
        let value = Double(cursor.string(start..<cursor.offset)) ?? .infinity
        guard value.isFinite else {
            note(.numberOutOfRange)
            return .integer(0)
        }
        return .number(value)
    }

    /// Reads digits into `mantissa`, which overflows after 19 of them.
    /// - Parameter digitCount: Increased by the number of digits, without leading zeros.
    /// - Returns: The number of digits.
    @inline(__always)
    private mutating func readDigits(_ mantissa: inout UInt64, _ digitCount: inout Int) -> Int {
        // In local variables, which stay in registers.
        var (ahead, value) = (cursor, mantissa)
        if value == 0, digitCount == 0 { while ahead.current == UInt8(ascii: "0") { ahead.advance() } }
        let firstCounted = ahead.offset
        while true {
            let digit = ahead.current &- 0x30
            guard digit <= 9 else { break }
            value = value &* 10 &+ UInt64(digit)
            ahead.advance()
        }
        let byteCount = ahead.offset &- cursor.offset
        digitCount &+= ahead.offset &- firstCounted
        mantissa = value
        cursor.offset = ahead.offset
        return byteCount
    }

    private mutating func readExponent() throws(MalformedJSON) -> Int {
        let isNegative = cursor.current == UInt8(ascii: "-")
        if isNegative || cursor.current == UInt8(ascii: "+") { cursor.advance() }
        var value = 0
        let start = cursor.offset
        while true {
            let digit = cursor.current &- 0x30
            guard digit <= 9 else { break }
            // An exponent above 100 000 gives 0 or infinity, as 100 000 does.
            value = min(value &* 10 &+ Int(digit), 100_000)
            cursor.advance()
        }
        guard cursor.offset > start else { throw unexpected() }
        return isNegative ? -value : value
    }

    /// The double that is nearest to a quotient, ties to even: for numbers with more than fifteen digits, as
    /// programs print doubles.
    /// - Precondition: Neither is 0.
    private static func quotient(_ dividend: UInt64, _ divisor: UInt64) -> Double {
        // The highest bit of both is set, so the quotient of 127 by 64 bits has 63 or 64 bits; a double has
        // 53.
        let (shift, divisorShift) = (dividend.leadingZeroBitCount, divisor.leadingZeroBitCount)
        let high = dividend << UInt64(shift)
        let (quotient, remainder) = (divisor << UInt64(divisorShift)).dividingFullWidth(
            (high >> 1, high << 63))
        // The lowest bit is set for a remainder: it is far behind the bit at which the conversion rounds.
        let rounded = Double(quotient | (remainder == 0 ? 0 : 1))
        // At least 2^-126: no subnormal, so the product is exact.
        let exponent = divisorShift - shift - 63
        return rounded * Double(bitPattern: UInt64(1023 + exponent) << 52)
    }

    /// 10^0 … 10^19: those below 2^64.
    private static let integerPowersOfTen: InlineArray<20, UInt64> = [
        1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000,
        100_000_000_000, 1_000_000_000_000, 10_000_000_000_000, 100_000_000_000_000, 1_000_000_000_000_000,
        10_000_000_000_000_000, 100_000_000_000_000_000, 1_000_000_000_000_000_000,
        10_000_000_000_000_000_000,
    ]

    private static let powersOfTen: InlineArray<23, Double> = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18,
        1e19, 1e20, 1e21, 1e22,
    ]
}
