import Glibc

/// Milliseconds since 1970 that never go back, whatever happens to the machine's clock: the order of times is the
/// order of commits.
struct WallClock {
    private var last: Int64

    /// - Parameter last: The latest time already written down.
    init(notBefore last: Int64 = 0) {
        self.last = last
    }

    mutating func now() -> Int64 {
        last = max(last, Self.read())
        return last
    }

    private static func read() -> Int64 {
        var time = timespec()
        let result = unsafe clock_gettime(CLOCK_REALTIME, &time)
        precondition(result == 0, "the realtime clock is always there")
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
