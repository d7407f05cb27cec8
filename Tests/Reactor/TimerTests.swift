import PandoRandom
import PandoTime
import Testing

@testable import PandoReactor

@Suite struct TimerWheelTests {
    /// The wheel against a list sorted by (tick, order of scheduling).
    @Test(arguments: 0..<8 as Range<UInt64>)
    func agreesWithSortedList(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let tick: UInt64 = 8_000_000
        var now = UInt64.random(in: 0...(1 << 40), using: &random)
        var wheel = TimerWheel<Int>(tick: .milliseconds(8), now: MonotonicTime(nanoseconds: now))
        var model: [(tick: UInt64, id: Int)] = []
        var tokens: [Int: TimerToken] = [:]
        var spent: [TimerToken] = []
        var elapsed = now / tick

        for id in 0..<4000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                // From "already past" to "in centuries", evenly by magnitude.
                let magnitude = UInt64.random(in: 0..<62, using: &random)
                let wait = UInt64.random(in: 0...(1 << magnitude), using: &random)
                let deadline = Bool.random(using: &random) ? now &+ wait : now - min(now, wait % (1 << 30))
                let due = max((deadline + tick - 1) / tick, elapsed + 1)
                tokens[id] = wheel.schedule(at: MonotonicTime(nanoseconds: deadline), id)
                model.append((due, id))
            case 6..<8:
                guard let victim = tokens.keys.sorted().randomElement(using: &random) else { continue }
                let token = tokens.removeValue(forKey: victim)!
                #expect(wheel.cancel(token) == victim)
                model.removeAll { $0.id == victim }
                spent.append(token)
            case 8:
                if let token = spent.randomElement(using: &random) {
                    #expect(wheel.cancel(token) == nil, "a spent token named a new timer")
                }
            default:
                let magnitude = UInt64.random(in: 0..<45, using: &random)
                now += UInt64.random(in: 0...(1 << magnitude), using: &random)
                elapsed = now / tick
                if let next = wheel.nextExpiry, let first = model.map(\.tick).min() {
                    #expect(next.nanoseconds / tick <= first, "would sleep past a timer")
                }
                wheel.advance(to: MonotonicTime(nanoseconds: now))
                var due = model.filter { $0.tick <= elapsed }
                due.sort { ($0.tick, $0.id) < ($1.tick, $1.id) }
                // An expired timer may still be cancelled.
                if due.count > 1, Bool.random(using: &random) {
                    let victim = due.removeLast().id
                    #expect(wheel.cancel(tokens.removeValue(forKey: victim)!) == victim)
                }
                var fired: [Int] = []
                while let id = wheel.popExpired() {
                    fired.append(id)
                    if let token = tokens.removeValue(forKey: id) { spent.append(token) }
                }
                #expect(fired == due.map(\.id), "seed \(seed)")
                model.removeAll { $0.tick <= elapsed }
            }
            wheel.checkInvariants()
            #expect(wheel.count == model.count)
            #expect((wheel.nextExpiry == nil) == model.isEmpty)
        }
    }

    @Test func timersAreNeverEarly() {
        var wheel = TimerWheel<Int>(tick: .milliseconds(8), now: MonotonicTime(nanoseconds: 0))
        _ = wheel.schedule(at: MonotonicTime(nanoseconds: 8_000_001), 1)
        wheel.advance(to: MonotonicTime(nanoseconds: 15_999_999))
        #expect(wheel.popExpired() == nil, "the deadline is rounded up to 16 ms")
        wheel.advance(to: MonotonicTime(nanoseconds: 16_000_000))
        #expect(wheel.popExpired() == 1)
    }

    @Test func greatestDeadlineIsKept() {
        var wheel = TimerWheel<Int>(tick: .nanoseconds(1), now: MonotonicTime(nanoseconds: 1))
        let token = wheel.schedule(at: MonotonicTime(nanoseconds: .max), 1)
        wheel.advance(to: MonotonicTime(nanoseconds: .max - 1))
        #expect(wheel.popExpired() == nil)
        #expect(wheel.cancel(token) == 1)
    }

    @Test func removeAllRemovesExpiredTimersToo() {
        var wheel = TimerWheel<Int>(now: MonotonicTime(nanoseconds: 0))
        let token = wheel.schedule(at: MonotonicTime(nanoseconds: 1), 1)
        _ = wheel.schedule(at: MonotonicTime(nanoseconds: 1 << 50), 2)
        wheel.advance(to: MonotonicTime(nanoseconds: 1 << 30))
        wheel.removeAll()
        #expect(wheel.count == 0)
        #expect(wheel.popExpired() == nil)
        #expect(wheel.nextExpiry == nil)
        #expect(wheel.cancel(token) == nil)
    }

    @Test func arithmeticSaturates() {
        let end = MonotonicTime(nanoseconds: .max)
        #expect(end + .seconds(1) == end)
        #expect(MonotonicTime(nanoseconds: 5) + .seconds(-1) == MonotonicTime(nanoseconds: 5))
        #expect(MonotonicTime(nanoseconds: 5) - end == .zero)
        #expect(MonotonicTime(nanoseconds: 0) + .seconds(Int64.max) == end)
    }
}
