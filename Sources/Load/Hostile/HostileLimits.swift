import PandoTraffic

/// The limits that a server must keep for honest clients beside hostile ones. Times are nanoseconds, memory
/// is bytes.
struct HostileLimits: Sendable {
    /// A baseline is taken as at least this much memory: below it, what an allocator keeps is most of it.
    static let leastMemoryStart = 64 << 20

    /// The bystander's 99th percentile is at most this factor times its quiet one.
    var p99Factor = 2.0
    /// The quiet 99th percentile is taken as at least this: what a machine of two cores adds by itself.
    var p99Floor = 5_000_000
    var longestWait = 50_000_000
    var memoryLimit = 1 << 30
    /// After a phase the memory is at most this factor times what it was before the attackers came.
    var memoryAfterFactor = 1.5

    /// Resident bytes that a phase may leave behind.
    func memoryAllowedAfter(start: Int) -> Int {
        Int(Double(max(start, Self.leastMemoryStart)) * memoryAfterFactor)
    }

    /// - Parameter quiet: The bystander's 99th percentile in the quiet phase.
    func p99Allowed(quiet: Int) -> Int { Int(Double(max(quiet, p99Floor)) * p99Factor) }
}
