//  Eight decimal digits at a time, in one word that has them as memory has them: the first one in the lowest
//  byte.
//
//      12345678  ──▶  1234 | 5678  ──▶  12 | 34 | 56 | 78  ──▶  1 | 2 | 3 | 4 | 5 | 6 | 7 | 8   each + '0'
//
//  Each step halves all of the parts at once: a quotient by multiplication, exact for parts of that size, and
//  the remainder beside it. Reading goes the same way back.

#if !_endian(little)
    #error("digits are loaded and stored in little-endian order")
#endif

enum Digits {
    /// One more than the largest number of eight digits.
    static let limit: UInt64 = 100_000_000

    /// The digits of a number below ``limit``.
    static func word(of number: UInt64) -> UInt64 {
        var parts = number / 10_000 | (number % 10_000) << 32
        // x * 10486 >> 20 is x / 100 for x below 10000; x * 103 >> 10 is x / 10 for x below 100.
        let hundreds = (parts &* 10_486) >> 20 & 0x0000_007F_0000_007F
        parts = hundreds | (parts &- hundreds &* 100) << 16
        let tens = (parts &* 103) >> 10 & 0x000F_000F_000F_000F
        parts = tens | (parts &- tens &* 10) << 8
        return parts | 0x3030_3030_3030_3030
    }

    /// The number that eight digits are; nil when one of them is none.
    static func number(in word: UInt64) -> UInt64? {
        let high: UInt64 = 0xF0F0_F0F0_F0F0_F0F0
        // Adding six takes ':' and what follows it out of the row. A byte whose upper half is 3 does not
        // carry.
        guard word & high == 0x3030_3030_3030_3030,
            (word &+ 0x0606_0606_0606_0606) & high == 0x3030_3030_3030_3030
        else { return nil }
        var parts = word & 0x0F0F_0F0F_0F0F_0F0F
        parts = (parts &* 10 &+ parts >> 8) & 0x00FF_00FF_00FF_00FF
        parts = (parts &* 100 &+ parts >> 16) & 0x0000_FFFF_0000_FFFF
        return (parts &* 10_000 &+ parts >> 32) & 0xFFFF_FFFF
    }
}
