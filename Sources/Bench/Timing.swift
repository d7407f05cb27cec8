import CCounting
import Glibc

/// How often each call is made.
struct MicroEffort {
    var rounds: Int
    /// Counts allocations and references, too: in a process of one thread only.
    var counts: Bool

    static func / (effort: MicroEffort, divisor: Int) -> MicroEffort {
        MicroEffort(rounds: max(1, effort.rounds / divisor), counts: effort.counts)
    }
}

/// What one call took on average.
struct Timing {
    var name: String
    /// Processor time: it does not depend on other processes of the machine.
    var nanoseconds: Double
    /// Calls of the runtime that allocate an object, and that count references.
    var allocations = 0.0
    var retains = 0.0
    var releases = 0.0
    /// How many calls had the right result: all of them. The count also keeps the optimiser from removing the
    /// work.
    var rightCount: Int
    let rounds: Int

    /// The number of calls for the counts: they do not vary, and counting is slow.
    private static let countedRounds = 1000

    init(_ name: String, _ effort: MicroEffort, _ body: () -> Bool) {
        self.name = name
        rounds = effort.rounds
        for _ in 0..<(rounds / 10) { _ = body() }
        rightCount = 0
        let start = threadNanoseconds()
        for _ in 0..<rounds where body() { rightCount += 1 }
        nanoseconds = Double(threadNanoseconds() - start) / Double(rounds)
        guard effort.counts else { return }
        let counted = min(rounds, Self.countedRounds)
        pando_counting_start()
        for _ in 0..<counted { _ = body() }
        let counts = pando_counting_stop()
        allocations = Double(counts.allocations) / Double(counted)
        retains = Double(counts.retains) / Double(counted)
        releases = Double(counts.releases) / Double(counted)
    }

    static let head = columns("", ["ns", "allocations", "retains", "releases"])

    var text: String { Self.columns(name, [nanoseconds, allocations, retains, releases].map(Self.tenths)) }

    private static func columns(_ name: String, _ columns: [String]) -> String {
        columns.reduce(padded(name, to: 44)) { $0 + padded("", to: 13 - $1.count) + $1 }
    }

    private static func padded(_ text: String, to count: Int) -> String {
        text + String(repeating: " ", count: max(0, count - text.count))
    }

    private static func tenths(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}

/// Processor time of this thread so far.
private func threadNanoseconds() -> Int64 {
    var time = timespec()
    // The clock exists on every Linux, and the pointer is to our own variable.
    _ = unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
