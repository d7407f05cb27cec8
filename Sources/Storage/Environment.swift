import Glibc
import PandoReactor

/// The time and the randomness that storage and databases use: those of the machine (``MachineEnvironment``), or
/// those of a simulation (``ScriptedEnvironment``). Any thread may use it.
package protocol Environment: AnyObject, Sendable {
    /// Milliseconds since 1970 on the machine's clock; may go back when the clock is set.
    var wallMilliseconds: Int64 { get }

    /// A clock that never goes back.
    var monotonicTime: MonotonicTime { get }

    /// The clock that measures how long requests take; a simulation advances it by a fixed step per reading.
    var workTime: MonotonicTime { get }

    /// One less than the number of small requests that are processed between two readings of ``workTime``: a
    /// power of two less one. A reading takes 25 ns, as much as some levels of the tree. (The timestamps stay
    /// correct: all requests of a burst arrived before its first was processed.)
    var clockReadMask: Int { get }

    /// Whether worker threads take over long work. In a simulation all work is done at once, so that requests
    /// are processed in the order of their arrival.
    var hasWorkers: Bool { get }

    /// 64 random bits.
    func randomBits() -> UInt64
}

/// The clocks and the random generator of this machine.
package final class MachineEnvironment: Environment {
    fileprivate static let shared = MachineEnvironment()

    package var wallMilliseconds: Int64 {
        var time = timespec()
        let result = unsafe clock_gettime(CLOCK_REALTIME, &time)
        precondition(result == 0, "the realtime clock is always there")
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    package var monotonicTime: MonotonicTime { .now }
    package var workTime: MonotonicTime { .now }
    package var clockReadMask: Int { 63 }
    package var hasWorkers: Bool { true }

    package func randomBits() -> UInt64 {
        var generator = SystemRandomNumberGenerator()
        return generator.next()
    }
}

extension Environment where Self == MachineEnvironment {
    package static var machine: MachineEnvironment { .shared }
}
