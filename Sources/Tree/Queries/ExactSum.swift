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
    package var value: Node? {
        // Digits of 32 bits, and the sign.
        var (magnitude, isNegative) = normalized(negated: false)
        if isNegative { magnitude = normalized(negated: true).digits }
        while magnitude.last == 0 { magnitude.removeLast() }
        guard !magnitude.isEmpty else { return .integer(0) }
        if let integer = integer(of: magnitude, isNegative) { return .integer(integer) }
        // The highest 64 bits, the last of which is set where any bit below is: rounding needs to know no
        // more.
        let top = magnitude.count * 32 - magnitude[magnitude.count - 1].leadingZeroBitCount + 32
        var significand: UInt64 = 0
        var isInexact = false
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
        // A sum below 2^−1022 is a multiple of 2^−1074, and exact.
        let exponent = top - 64 + first * 32 - Self.exponentBias
        let value = Double(sign: .plus, exponent: exponent, significand: Double(significand))
        guard value.isFinite else { return nil }
        return .number(isNegative ? -value : value)
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

    /// The sum where it is an integer of 64 bits.
    private func integer(of magnitude: [UInt64], _ isNegative: Bool) -> Int64? {
        var bits: UInt128 = 0
        for (index, digit) in magnitude.enumerated() where digit != 0 {
            // 2^0 is the first bit of this digit.
            let shift = (first + index) * 32 - Self.exponentBias
            guard shift >= 0, shift < 96 else { return nil }
            bits |= UInt128(digit) << UInt128(shift)
        }
        guard bits <= UInt128(Int64.max) + (isNegative ? 1 : 0) else { return nil }
        let value = UInt64(bits)
        return isNegative ? Int64(truncatingIfNeeded: 0 &- value) : Int64(value)
    }
}
