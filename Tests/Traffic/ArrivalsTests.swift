import Testing

@testable import PandoTraffic

/// The moments at which operations are due.
@Suite struct ArrivalsTests {
    private func take(_ count: Int, _ arrivals: inout Arrivals) -> [Int] {
        (0..<count).compactMap { _ in arrivals.take(dueAt: .max) }
    }

    @Test func evenArrivalsDoNotDrift() {
        var arrivals = Arrivals(.even(perSecond: 3), start: 1000, share: (0, 1), seed: 1)
        #expect(take(4, &arrivals) == [1000, 333_334_333, 666_667_667, 1_000_001_000])
        #expect(take(2_999_997, &arrivals).last == 1_000_000_000_001_000)
    }

    @Test func workersShareOnePattern() {
        var merged: [Int] = []
        for index in 0..<4 {
            var arrivals = Arrivals(.even(perSecond: 1000), start: 0, share: (index, 4), seed: 1)
            merged += take(250, &arrivals)
        }
        #expect(merged.sorted() == (0..<1000).map { $0 * 1_000_000 })
    }

    @Test func arrivalsAreNotDueEarly() {
        var arrivals = Arrivals(.even(perSecond: 10), start: 0, share: (0, 1), seed: 1)
        #expect(arrivals.take(dueAt: 0) == 0)
        #expect(arrivals.take(dueAt: 99_999_999) == nil)
        // Asked late, it still gives the moments that were meant: this is what latency counts from.
        #expect(
            [arrivals.take(dueAt: 250_000_000), arrivals.take(dueAt: 250_000_000)] == [
                100_000_000, 200_000_000,
            ])
        #expect(arrivals.take(dueAt: 250_000_000) == nil)
    }

    @Test func bursts() {
        var arrivals = Arrivals(.bursts(of: 3, everyNanoseconds: 50), start: 7, share: (0, 1), seed: 1)
        #expect(take(7, &arrivals) == [7, 7, 7, 57, 57, 57, 107])
    }

    @Test func poissonHasItsRateAndItsSpread() {
        var arrivals = Arrivals(.poisson(perSecond: 1000), start: 0, share: (0, 1), seed: 9)
        let moments = take(20_000, &arrivals)
        #expect(moments == moments.sorted())
        let gaps = zip(moments.dropFirst(), moments).map { Double($0 - $1) }
        let mean = gaps.reduce(0, +) / Double(gaps.count)
        #expect(abs(mean / 1e6 - 1) < 0.05)
        // Of exponential gaps 1/e are longer than the mean.
        let longer = Double(gaps.count { $0 > mean }) / Double(gaps.count)
        #expect(abs(longer - 0.3679) < 0.02)
        var again = Arrivals(.poisson(perSecond: 1000), start: 0, share: (0, 1), seed: 9)
        #expect(take(20_000, &again) == moments)
    }
}
