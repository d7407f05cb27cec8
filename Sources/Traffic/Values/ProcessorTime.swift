import Glibc

/// Processor time a process (0: this one) has used, all its threads together, in nanoseconds; nil when there
/// is no such process.
package func processorNanoseconds(of process: Int32) -> UInt64? {
    var clock = clockid_t()
    var time = timespec()
    // Both calls write into the structures, or fail.
    guard unsafe clock_getcpuclockid(process, &clock) == 0, unsafe clock_gettime(clock, &time) == 0 else {
        return nil
    }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
