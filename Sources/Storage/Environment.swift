import Glibc
import PandoReactor
import PandoTime

/// The time and the randomness that storage and databases use. Any thread may use it.
package enum Environment: Sendable {
    /// The clocks and the random generator of this machine.
    case machine
    /// Those of a simulation or a test.
    case scripted(ScriptedEnvironment)

    /// Milliseconds since 1970 on the machine's clock; may go back when the clock is set.
    package var wallMilliseconds: Int64 {
        switch self {
        case .machine: wallTime()
        case .scripted(let script): script.wallMilliseconds
        }
    }

    /// A clock that never goes back.
    package var monotonicTime: MonotonicTime {
        switch self {
        case .machine: .now
        case .scripted(let script): script.monotonicTime
        }
    }

    /// The clock that measures how long requests take; a simulation advances it by a fixed step per reading.
    package var workTime: MonotonicTime {
        switch self {
        case .machine: .now
        case .scripted(let script): script.workTime
        }
    }

    /// Nanoseconds that the calling thread has had a processor. In a simulation it always has one. Costs a
    /// system call.
    package var threadProcessorNanoseconds: UInt64 {
        switch self {
        case .machine:
            var time = timespec()
            let result = unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            precondition(result == 0, "each thread has this clock")
            return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
        case .scripted(let script): return script.workNanoseconds
        }
    }

    /// One less than the number of small requests that are processed between two readings of ``workTime``: a
    /// power of two less one. A reading takes 25 ns, as much as some levels of the tree. (The timestamps stay
    /// correct: all requests of a burst arrived before its first was processed.)
    package var clockReadMask: Int {
        switch self {
        case .machine: 63
        case .scripted: 0
        }
    }

    /// The most light requests of one session that are processed in one turn: of sets, 20 to 50 µs, a
    /// fraction of what a session may have before the next one.
    package var lightRunCount: Int {
        switch self {
        case .machine: 16
        case .scripted(let script): script.lightRunCount
        }
    }

    /// Whether worker threads take over long work. In a simulation all work is done at once, so that requests
    /// are processed in the order of their arrival.
    package var hasWorkers: Bool {
        switch self {
        case .machine: true
        case .scripted: false
        }
    }

    /// 64 random bits.
    package func randomBits() -> UInt64 {
        switch self {
        case .machine:
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        case .scripted(let script): return script.randomBits()
        }
    }
}

/// The machine's wall clock: milliseconds since 1970.
package func wallTime() -> Int64 {
    var time = timespec()
    let result = unsafe clock_gettime(CLOCK_REALTIME, &time)
    precondition(result == 0, "the realtime clock is always there")
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}
