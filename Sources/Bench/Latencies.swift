/// How long things took, exact to the microsecond: one counter per microsecond, so recording is one addition
/// and any percentile is exact.
struct Latencies {
    /// Longer ones are counted here; ``maximum`` keeps the true value of the longest.
    private static let longestMicroseconds = 4_000_000 - 1

    private var counts: [UInt32]
    private(set) var count = 0
    /// Microseconds.
    private(set) var maximum = 0

    init() {
        counts = Array(repeating: 0, count: Self.longestMicroseconds + 1)
    }

    mutating func record(nanoseconds: UInt64) {
        let microseconds = Int(clamping: nanoseconds / 1000)
        counts[min(microseconds, Self.longestMicroseconds)] &+= 1
        count += 1
        maximum = max(maximum, microseconds)
    }

    /// The shortest time within which `share` (0…1) of all were over, in microseconds; nil without any.
    func percentile(_ share: Double) -> Int? {
        guard count > 0 else { return nil }
        let rank = max(1, Int((share * Double(count)).rounded(.up)))
        var seen = 0
        for (microseconds, times) in counts.enumerated() {
            seen += Int(times)
            if seen >= rank { return microseconds }
        }
        return maximum
    }
}
