import PandoBytes

/// Makes keys that sort by the time they were made (realtime §13.2): 20 characters of a 64-symbol
/// alphabet in ASCII order, the first 8 the time, the other 12 random.
///
/// Pure: time and random bits come with each call. Its keys strictly increase, also within one millisecond,
/// where the random part counts on instead of being drawn again, and when the clock it is told goes back.
package struct PushIDGenerator: Sendable {
    /// 72 random bits, of which 64 are in `low`.
    package struct RandomBits: Equatable, Sendable {
        package var high: UInt8
        package var low: UInt64

        package init(high: UInt8, low: UInt64) {
            self.high = high
            self.low = low
        }
    }

    /// The last time that fits 8 characters: in the year 10889.
    package static let lastMillisecond: Int64 = 1 << 48 - 1

    private var milliseconds: Int64 = -1
    private var random = RandomBits(high: 0, low: 0)

    package init() {}

    /// The next key.
    /// - Parameters:
    ///   - milliseconds: Since 1970. Brought into 0…``lastMillisecond``; earlier than at the last call counts
    ///     as the same.
    ///   - random: Uniform. Not looked at when the millisecond is that of the last call.
    package mutating func next(milliseconds now: Int64, random fresh: RandomBits) -> Key {
        let now = min(max(now, 0), Self.lastMillisecond)
        if now > milliseconds {
            milliseconds = now
            random = fresh
        } else {
            countOn()
        }
        return Self.key(milliseconds, random)
    }

    /// One more, with carry; past the last random part comes the first one of the next millisecond.
    private mutating func countOn() {
        random.low &+= 1
        guard random.low == 0 else { return }
        random.high &+= 1
        guard random.high == 0 else { return }
        // Past the last millisecond keys would repeat; 2^72 of them in one are not made.
        milliseconds = min(milliseconds + 1, Self.lastMillisecond)
    }

    private static func key(_ milliseconds: Int64, _ random: RandomBits) -> Key {
        // 48 bits of time and 72 random ones, six a character.
        let time = UInt64(truncatingIfNeeded: milliseconds)
        return Key(sixBits: time << 16 | UInt64(random.high) << 8 | random.low >> 56, random.low)
    }
}
