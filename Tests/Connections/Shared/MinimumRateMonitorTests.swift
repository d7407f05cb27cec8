import PandoTime
import Testing

@testable import PandoConnections

/// Looks each second at bytes that move; the window is ten seconds, the least 5 bytes a second.
@Suite struct PaceTests {
    @Test(
        arguments: [
            // bytes by second        too slow at   because
            ([0, 100, 100, 100], nil, "a pause shorter than the window"),
            ([0] + Array(repeating: 0, count: 20), 11, "nothing at all for longer than the window"),
            (Array(stride(from: 0, to: 400, by: 5)), nil, "just fast enough"),
            (Array(stride(from: 0, to: 160, by: 4)), 11, "too slow from the start"),
            ([0, 1_000_000] + (0..<40).map { 1_000_001 + $0 }, 22, "what came fast before buys no time"),
            ([0, 1_000_000] + Array(repeating: 1_000_000, count: 40), 12, "nothing more, however much came"),
            (Array(stride(from: 0, to: 10_000_000, by: 100_000)), nil, "fast"),
        ] as [([Int], Int?, String)])
    func tooSlow(counts: [Int], at second: Int?, because: String) {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var pace = MinimumRateMonitor(at: start)
        let found = counts.indices.first { second in
            pace.isTooSlow(
                counts[second], at: start + .seconds(second), window: .seconds(10), bytesPerSecond: 5)
        }
        #expect(found == second, "\(because)")
    }
}
