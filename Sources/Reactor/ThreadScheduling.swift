import COperatingSystem
import PandoTime

// How the system shares the processors among threads.

/// Sets the nice value of the calling thread (setpriority(2)), for long work: threads that handle small
/// requests then get more of the processors. Does nothing where the system does not allow it.
/// - Parameter niceness: 1 to 19; other threads have 0.
package func lowerThreadPriority(to niceness: Int = 10) { pando_lower_thread_priority(Int32(niceness)) }

/// How many processors this process may run on (sched_getaffinity(2)): under `taskset`, or in a container,
/// fewer than the machine has. At least 1.
package func usableProcessorCount() -> Int { Int(pando_usable_processor_count()) }

/// Has the calling thread scheduled with a short time slice (sched_setattr(2), Linux 6.12 and later).
///
/// For threads that do little at a time and for which clients wait. When such a thread wakes up, it takes the
/// place of a thread with a longer slice that runs then, and does not wait until that slice ends: 0.7 to
/// 2.8 ms by default, depending on the number of processors. Its share of the processors stays the same.
///
/// Does nothing where the system does not know this or does not allow it, and for threads of the real-time
/// and deadline policies.
/// - Parameter slice: 0.1 to 100 ms; the system uses the nearest of these.
package func shortenTimeSlice(to slice: Duration = promptTimeSlice) {
    pando_set_time_slice(UInt64(clamping: slice.nanosecondCount))
}

/// The time slice of threads for which clients wait.
///
/// Measured with `pando-load hostile` on two processors, medians of four runs in turns with the system's
/// slice of 1.4 ms: the bystander's p99 is 0.79 of what it was beside `pipelined-gets`, 0.72 beside
/// `big-bodies`, 0.6 beside `unread-output`. With 1 ms it is about the same as with 1.4 ms.
package let promptTimeSlice: Duration = .microseconds(300)

/// The time slice of the calling thread.
/// - Returns: Nil where the system does not report it: before Linux 6.12, and for real-time and deadline
///   policies.
package func currentTimeSlice() -> Duration? {
    let nanoseconds = pando_time_slice_ns()
    return nanoseconds == 0 ? nil : .nanoseconds(Int64(clamping: nanoseconds))
}
