import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

@Suite struct TokenBucketTests {
    @Test(
        arguments: [
            // rate, costs at 0 s,       wait in ms, because
            (1, [], nil, "full"),
            (1, Array(repeating: 1, count: 9), nil, "one is left"),
            (1, Array(repeating: 1, count: 10), 0, "ten seconds' worth: the next after any time at all"),
            (1, Array(repeating: 1, count: 11), 1000, "in debt of one"),
            (100, [1001], 10, "in debt of one"),
            (1, [1000], 990_000, "a request of any cost, and then a long time nothing"),
            (3, [31], 333, "a third of a second"),
            (5, [0, 0], nil, "nothing costs nothing"),
        ] as [(Int, [Int], Int?, String)])
    func waits(rate: Int, costs: [Int], milliseconds: Int?, reason: String) {
        var bucket = TokenBucket()
        for cost in costs { bucket.spend(cost, perSecond: rate, at: testStart) }
        #expect(bucket.wait(at: testStart).map { Int($0 / .milliseconds(1)) } == milliseconds, "\(reason)")
    }

    @Test func largestCostsSaturate() {
        var bucket = TokenBucket()
        bucket.spend(.max, perSecond: 1, at: testStart)
        bucket.spend(.max, perSecond: 1, at: testStart)
        #expect((bucket.wait(at: testStart) ?? .zero) > .seconds(1 << 30))
        #expect(!bucket.isFull(at: testStart))
    }

    /// Against a bucket that counts its tokens. Steps of a token's time keep both exact.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func behavesAsABucketThatCounts(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for rate in [1, 4, 10, 1000] {
            var bucket = TokenBucket()
            let capacity = rate * 10
            var level = capacity
            var now = testStart
            for _ in 0..<500 {
                let steps =
                    Int.random(in: 0...4, using: &generator) * Int.random(in: 0...rate, using: &generator)
                now = now + .nanoseconds(Int64(steps) * (1_000_000_000 / Int64(rate)))
                level = min(capacity, level + steps)
                let cost = Int.random(
                    in: 0...Int.random(in: 1...(3 * rate), using: &generator), using: &generator)
                #expect((bucket.wait(at: now) == nil) == (level > 0), "seed \(seed), rate \(rate)")
                #expect(bucket.isFull(at: now) == (level == capacity), "seed \(seed), rate \(rate)")
                guard level > 0 else { continue }
                bucket.spend(cost, perSecond: rate, at: now)
                level -= cost
            }
        }
    }

    @Test(arguments: [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)])
    func retryAfterIsInWholeSeconds(milliseconds: Int, seconds: Int) {
        let excess = RateExcess(limit: .writesPerSecond, wait: .milliseconds(milliseconds))
        #expect(excess.retrySeconds == seconds)
    }
}
