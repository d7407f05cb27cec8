import PandoRandom
import PandoReactor
import PandoTime
import Synchronization

/// Clocks that stand still until they are advanced, and random bits that follow from a seed: an
/// ``Environment`` for simulations and tests. Any thread.
package final class ScriptedEnvironment: Sendable {
    private let wall: Atomic<Int64>
    private let monotonic = Atomic<Int64>(0)
    private let random: Mutex<SeededGenerator>
    private let work = Atomic<UInt64>(0)
    private let reads = Atomic<UInt64>(0)
    /// Nanoseconds by which a reading advances ``workTime``, and by which about every 16th one does.
    private let workStep: UInt64
    private let heavyWorkStep: UInt64
    /// See ``Environment/lightRunCount``.
    package let lightRunCount: Int

    /// - Parameters:
    ///   - milliseconds: Since 1970.
    ///   - seed: Of ``randomBits()``.
    ///   - workStep: Nanoseconds that each piece of work takes.
    ///   - heavyWorkStep: Nanoseconds that one piece of work in 16 takes; nil for `workStep`.
    ///   - lightRunCount: Light requests that are one piece of work.
    package init(
        startingAt milliseconds: Int64, seed: UInt64, workStep: UInt64 = 0, heavyWorkStep: UInt64? = nil,
        lightRunCount: Int = 1
    ) {
        self.lightRunCount = lightRunCount
        self.workStep = workStep
        self.heavyWorkStep = heavyWorkStep ?? workStep
        wall = Atomic(milliseconds)
        random = Mutex(SeededGenerator(seed: seed))
    }

    package var wallMilliseconds: Int64 { wall.load(ordering: .relaxed) }
    /// Milliseconds since the beginning; never goes back.
    package var monotonicMilliseconds: Int64 { monotonic.load(ordering: .relaxed) }
    package var monotonicTime: MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(monotonicMilliseconds) * 1_000_000)
    }

    /// Advances both clocks.
    /// - Precondition: `milliseconds` is not negative.
    package func advance(by milliseconds: Int64) {
        precondition(milliseconds >= 0)
        wall.add(milliseconds, ordering: .relaxed)
        monotonic.add(milliseconds, ordering: .relaxed)
    }

    /// Sets the machine's clock, forward or back.
    /// - Parameter milliseconds: Since 1970.
    package func setWall(_ milliseconds: Int64) {
        wall.store(milliseconds, ordering: .relaxed)
    }

    /// Nanoseconds of work up to the last reading of ``workTime``.
    package var workNanoseconds: UInt64 { work.load(ordering: .relaxed) }
    /// How often ``workTime`` was read.
    package var lookCount: UInt64 { reads.load(ordering: .relaxed) }

    /// Nanoseconds of work before one reading; readings are counted from 0.
    package func workNanoseconds(before reading: UInt64) -> UInt64 {
        // The upper bits of a product with an odd number are well mixed.
        (reading &* 0x9E37_79B9_7F4A_7C15) >> 60 == 0 ? heavyWorkStep : workStep
    }

    package var workTime: MonotonicTime {
        let reading = reads.add(1, ordering: .relaxed).oldValue
        return MonotonicTime(
            nanoseconds: work.add(workNanoseconds(before: reading), ordering: .relaxed).newValue)
    }

    /// The next 64 random bits.
    package func randomBits() -> UInt64 { random.withLock { $0.next() } }
}
