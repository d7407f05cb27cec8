import Glibc
import PandoReactor
import Synchronization

/// What databases take from the world besides files and messages: time and chance. A simulation decides both.
package enum Environment: Sendable {
    case machine
    case scripted(ScriptedSurroundings)

    /// Milliseconds since 1970, as the machine believes: may go back.
    var wallMilliseconds: Int64 {
        switch self {
        case .machine:
            var time = timespec()
            let result = unsafe clock_gettime(CLOCK_REALTIME, &time)
            precondition(result == 0, "the realtime clock is always there")
            return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        case .scripted(let script): return script.wallMilliseconds
        }
    }

    var monotonicTime: MonotonicTime {
        switch self {
        case .machine: .now
        case .scripted(let script):
            MonotonicTime(nanoseconds: UInt64(script.monotonicMilliseconds) * 1_000_000)
        }
    }

    /// What work takes: time on a machine; in a script, so much for each look.
    var workTime: MonotonicTime {
        switch self {
        case .machine: .now
        case .scripted(let script): script.nextWorkTime()
        }
    }

    /// Small requests that are done between two looks at a clock, which takes 25 ns, as much as some levels
    /// of the tree. The time it tells is between the moment each was sent and that of its answer, since all
    /// of a burst were here before it. One less than a power of two.
    var lookMask: Int {
        switch self {
        case .machine: 63
        case .scripted: 0
        }
    }

    /// Whether there are workers to leave long work to; in a script it is done at once, so that the order of
    /// requests is that of their arrival.
    var hasWorkers: Bool {
        switch self {
        case .machine: true
        case .scripted: false
        }
    }

    func randomBits() -> UInt64 {
        switch self {
        case .machine:
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        case .scripted(let script): return script.randomBits()
        }
    }
}

/// Time that stands still until it is told to go on, and the same chance for the same seed.
package final class ScriptedSurroundings: Sendable {
    private let wall: Atomic<Int64>
    private let monotonic = Atomic<Int64>(0)
    private let state: Atomic<UInt64>
    private let work = Atomic<UInt64>(0)
    private let looks = Atomic<UInt64>(0)
    /// Nanoseconds that the work between two looks takes, and that of every 16th pair of looks or so.
    private let workStep: UInt64
    private let heavyWorkStep: UInt64

    /// - Parameters:
    ///   - milliseconds: Since 1970.
    ///   - workStep: Nanoseconds that each piece of work is said to take.
    ///   - heavyWorkStep: The same for one piece in 16; nil for ``workStep``.
    package init(
        startingAt milliseconds: Int64, seed: UInt64, workStep: UInt64 = 0, heavyWorkStep: UInt64? = nil
    ) {
        self.workStep = workStep
        self.heavyWorkStep = heavyWorkStep ?? workStep
        wall = Atomic(milliseconds)
        state = Atomic(seed)
    }

    package var wallMilliseconds: Int64 { wall.load(ordering: .relaxed) }
    /// Since the beginning; never goes back.
    package var monotonicMilliseconds: Int64 { monotonic.load(ordering: .relaxed) }

    /// Both clocks go on.
    /// - Precondition: Not back.
    package func advance(by milliseconds: Int64) {
        precondition(milliseconds >= 0)
        wall.add(milliseconds, ordering: .relaxed)
        monotonic.add(milliseconds, ordering: .relaxed)
    }

    /// Somebody sets the machine's clock.
    package func setWall(_ milliseconds: Int64) {
        wall.store(milliseconds, ordering: .relaxed)
    }

    /// Nanoseconds of work up to the last look.
    package var workNanoseconds: UInt64 { work.load(ordering: .relaxed) }
    /// How often the clock of work was looked at.
    package var lookCount: UInt64 { looks.load(ordering: .relaxed) }

    /// Nanoseconds of the work before one look; looks are counted from 0.
    package func workNanoseconds(before look: UInt64) -> UInt64 {
        // The upper bits of a product with an odd number are well mixed.
        (look &* 0x9E37_79B9_7F4A_7C15) >> 60 == 0 ? heavyWorkStep : workStep
    }

    func nextWorkTime() -> MonotonicTime {
        let look = looks.add(1, ordering: .relaxed).oldValue
        return MonotonicTime(
            nanoseconds: work.add(workNanoseconds(before: look), ordering: .relaxed).newValue)
    }

    /// SplitMix64.
    func randomBits() -> UInt64 {
        var z = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
