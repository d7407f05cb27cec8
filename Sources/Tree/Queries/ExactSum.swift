/// The exact sum of any integers of 64 bits and finite doubles, rounded only when it is read. So it depends
/// neither on the order of the numbers nor on how they are divided among pages, and nothing is lost when
/// numbers come and go.
///
///     value = Σ digits[i] × 2^(32 × (first + i) − 1088)        digits may be negative, and have more than 32 bits
///
/// A double is a multiple of 2^−1074 and less than 2^1024, so there are at most 68 digits; numbers of similar
/// size need two to five. Each number changes a digit by less than 2^32: no digit overflows with fewer than
/// 2^31 numbers, and there is no memory for as many children.
package struct ExactSum: Sendable {
    private static let exponentBias = 1088
    /// What ``digits`` begins with.
    private var first = 0
    private var digits: ContiguousArray<Int64> = []

    package init() {}

    /// Adds an integer or a double; other nodes are ignored. O(1).
    package mutating func add(_ number: Node) {
        switch number {
        case .integer(let value): add(value.magnitude, isNegative: value < 0, exponent: 0)
        case .double(let value):
            guard value.isFinite, value != 0 else { return }
            // 2^52 is the highest bit of a significand, except of a subnormal number.
            let isSubnormal = value.exponentBitPattern == 0
            let significand = value.significandBitPattern | (isSubnormal ? 0 : 1 << 52)
            let exponent = Int(isSubnormal ? 1 : value.exponentBitPattern) - 1075
            add(significand, isNegative: value < 0, exponent: exponent)
        case .empty, .boolean, .string, .object, .prioritized: break
        }
    }

    private mutating func add(_ magnitude: UInt64, isNegative: Bool, exponent: Int) {
        guard magnitude != 0 else { return }
        let (place, shift) = (exponent + Self.exponentBias).quotientAndRemainder(dividingBy: 32)
        // At most 64 + 31 bits.
        var wide = UInt128(magnitude) << UInt128(shift)
        var index = place
        while wide != 0 {
            let digit = Int64(truncatingIfNeeded: UInt64(truncatingIfNeeded: wide) & 0xFFFF_FFFF)
            if digit != 0 { add(isNegative ? -digit : digit, at: index) }
            wide >>= 32
            index += 1
        }
    }

    private mutating func add(_ digit: Int64, at place: Int) {
        if digits.isEmpty { first = place }
        if place < first {
            digits.insert(contentsOf: repeatElement(0, count: first - place), at: 0)
            first = place
        }
        while place - first >= digits.count { digits.append(0) }
        digits[place - first] &+= digit
    }

    /// Adds another sum. O(its digits).
    package mutating func add(_ other: ExactSum) {
        for (index, digit) in other.digits.enumerated() where digit != 0 {
            add(digit, at: other.first + index)
        }
    }

    /// The sum: an integer where it is one and has 64 bits, otherwise the nearest double, of two the even
    /// one. Nil where it is beyond the range of doubles.
    package var value: Node? { divided(by: 1) }

    /// The sum divided by a count, and rounded once: as ``value``.
    /// - Parameter divisor: From 1 to 2^32 − 1.
    package func divided(by divisor: Int) -> Node? {
        precondition(divisor > 0 && divisor <= Int(UInt32.max), "a count of numbers is in this range")
        // Digits of 32 bits, and the sign.
        var (magnitude, isNegative) = normalized(negated: false)
        if isNegative { magnitude = normalized(negated: true).digits }
        var lowest = first
        var isInexact = false
        if divisor > 1 {
            // 96 bits more, of which the division takes at most 32: a quotient has at least 64 bits.
            magnitude.insert(contentsOf: [0, 0, 0], at: 0)
            lowest -= 3
            isInexact = Self.divide(&magnitude, by: UInt64(divisor)) != 0
        }
        while magnitude.last == 0 { magnitude.removeLast() }
        guard !magnitude.isEmpty else { return .integer(0) }
        if !isInexact, let integer = Self.integer(of: magnitude, from: lowest, isNegative) {
            return .integer(integer)
        }
        guard let value = Self.double(of: magnitude, from: lowest, isInexact: isInexact) else { return nil }
        return .number(isNegative ? -value : value)
    }

    /// Divides digits of 32 bits, the lowest first.
    /// - Parameter divisor: Less than 2^32.
    /// - Returns: The remainder.
    private static func divide(_ digits: inout [UInt64], by divisor: UInt64) -> UInt64 {
        var remainder: UInt64 = 0
        for index in digits.indices.reversed() {
            let result = (remainder << 32 | digits[index]).quotientAndRemainder(dividingBy: divisor)
            digits[index] = result.quotient
            remainder = result.remainder
        }
        return remainder
    }

    /// The nearest double, of two the even one; nil beyond the range of doubles.
    /// - Parameters:
    ///   - magnitude: Digits of 32 bits; the last one is not 0.
    ///   - lowest: The place of the first digit.
    ///   - isInexact: Whether the number is greater than the digits, by less than 1 in the lowest one.
    private static func double(of magnitude: [UInt64], from lowest: Int, isInexact: Bool) -> Double? {
        // The highest 64 bits, the last of which is set where any bit below is: rounding needs to know no
        // more.
        let top = magnitude.count * 32 - magnitude[magnitude.count - 1].leadingZeroBitCount + 32
        var significand: UInt64 = 0
        var isInexact = isInexact
        for (index, digit) in magnitude.enumerated() {
            let shift = index * 32 - (top - 64)
            if shift >= 0 {
                significand |= digit << UInt64(shift)
            } else if shift > -32 {
                significand |= digit >> UInt64(-shift)
                isInexact = isInexact || digit << UInt64(64 + shift) != 0
            } else {
                isInexact = isInexact || digit != 0
            }
        }
        if isInexact { significand |= 1 }
        let exponent = top - 64 + lowest * 32 - exponentBias
        // Doubles have 53 bits, and none below 2^−1074: of a quotient below 2^−1022 more than 11 bits are
        // dropped, by this rounding and not by a second one.
        let droppedBits = -1074 - exponent
        if droppedBits > 11 { return subnormal(significand, droppingBits: droppedBits) }
        let value = Double(sign: .plus, exponent: exponent, significand: Double(significand))
        return value.isFinite ? value : nil
    }

    /// `significand` / 2^`count` × 2^−1074, rounded.
    /// - Parameter count: At least 12.
    private static func subnormal(_ significand: UInt64, droppingBits count: Int) -> Double {
        // Less than half of 2^−1074.
        if count > 64 { return 0 }
        let half: UInt64 = 1 << UInt64(count - 1)
        let dropped = significand & (half | (half - 1))
        // 0 for a shift by 64 bits.
        var kept = significand >> UInt64(count)
        if dropped > half || dropped == half && kept & 1 == 1 { kept += 1 }
        // The bits of such a double are its multiple of 2^−1074; 2^52 of them are the least normal one.
        return Double(bitPattern: kept)
    }

    /// The digits, or those of the negated sum, each of 32 bits; for a negative sum they are its complement.
    private func normalized(negated: Bool) -> (digits: [UInt64], isNegative: Bool) {
        var result: [UInt64] = []
        var carry: Int64 = 0
        for digit in digits {
            let sum = (negated ? 0 &- digit : digit) &+ carry
            result.append(UInt64(truncatingIfNeeded: sum) & 0xFFFF_FFFF)
            carry = sum >> 32
        }
        let isNegative = carry < 0
        if !isNegative, carry > 0 { result.append(UInt64(carry)) }
        return (result, isNegative)
    }

    /// The number where it is an integer of 64 bits.
    /// - Parameters:
    ///   - magnitude: Digits of 32 bits.
    ///   - lowest: The place of the first digit.
    private static func integer(of magnitude: [UInt64], from lowest: Int, _ isNegative: Bool) -> Int64? {
        var bits: UInt128 = 0
        for (index, digit) in magnitude.enumerated() where digit != 0 {
            // 2^0 is the first bit of this digit.
            let shift = (lowest + index) * 32 - exponentBias
            guard shift >= 0, shift < 96 else { return nil }
            bits |= UInt128(digit) << UInt128(shift)
        }
        guard bits <= UInt128(Int64.max) + (isNegative ? 1 : 0) else { return nil }
        let value = UInt64(bits)
        return isNegative ? Int64(truncatingIfNeeded: 0 &- value) : Int64(value)
    }
}
