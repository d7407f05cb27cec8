import PandoBytes

/// Makes push ids: keys that are ordered by the time at which they were made (realtime §13.2). 20
/// characters of an alphabet of 64, in ASCII order: the first 8 are the time, the other 12 are random.
///
/// The caller passes time and random bits. Keys strictly increase, also if the time goes back: for a time
/// that is not later than the last one, the random part is incremented.
package struct PushIDGenerator: Sendable {
    /// 72 random bits, of which 64 are in `low`.
    package struct RandomBits: Equatable, Sendable {
        /// The first 8 bits.
        package var high: UInt8
        /// The other 64 bits.
        package var low: UInt64

        package init(high: UInt8, low: UInt64) {
            self.high = high
            self.low = low
        }
    }

    /// The last time that fits in 8 characters: in the year 10889.
    package static let lastMillisecond: Int64 = 1 << 48 - 1

    private var milliseconds: Int64 = -1
    private var random = RandomBits(high: 0, low: 0)

    package init() {}

    /// The next key.
    /// - Parameters:
    ///   - milliseconds: Since 1970, clamped to 0…``lastMillisecond``. A time before that of the last call
    ///     counts as the same.
    ///   - random: Uniformly distributed. Not used when the time is not later than that of the last call.
    package mutating func next(milliseconds now: Int64, random fresh: RandomBits) -> Key {
        let now = min(max(now, 0), Self.lastMillisecond)
        if now > milliseconds {
            milliseconds = now
            random = fresh
        } else {
            increment()
        }
        return Self.key(milliseconds, random)
    }

    /// Increments the random part. After the last one comes the first one of the next millisecond.
    private mutating func increment() {
        random.low &+= 1
        guard random.low == 0 else { return }
        random.high &+= 1
        guard random.high == 0 else { return }
        // Behind the last millisecond keys would repeat, but only after 2^72 keys in it.
        milliseconds = min(milliseconds + 1, Self.lastMillisecond)
    }

    private static func key(_ milliseconds: Int64, _ random: RandomBits) -> Key {
        // 48 bits of time and 72 random ones, six a character.
        let time = UInt64(truncatingIfNeeded: milliseconds)
        return Key(sixBits: time << 16 | UInt64(random.high) << 8 | random.low >> 56, random.low)
    }
}
