import PandoTime
import Testing

@testable import PandoConnections

@Suite struct LivenessTests {
    private enum Event {
        case active
        /// So many bytes have arrived at the client's system in all.
        case taken(Int)
    }

    /// Looks each second, with a timeout of ten; a ping is written behind 1000 bytes.
    @Test(
        arguments: [
            // events by second                       pinged  closed  because
            ([:], 11, 18, "its system acknowledges nothing"),
            ([5: .active], 16, nil, "silence counts from the last word"),
            ([12: .taken(1000)], 11, 18, "the ping arrived, and nobody answered for half the timeout"),
            (
                Dictionary(uniqueKeysWithValues: (12...60).map { ($0, .taken($0)) }), 11, nil,
                "the ping is behind what the client takes"
            ),
            ([12: .taken(999)], 11, 18, "it takes nothing more"),
            ([12: .taken(1000), 15: .active], 11, nil, "it answered"),
            ([14: .taken(500), 18: .taken(800), 22: .taken(1000)], 11, 28, "a slow link has its own time"),
        ] as [([Int: Event], Int?, Int?, String)])
    private func silence(events: [Int: Event], pinged: Int?, closed: Int?, because: String) {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var liveness = Liveness(at: start)
        var taken = 0
        var (pingedAt, closedAt): (Int?, Int?)
        let last = (closed ?? events.keys.max() ?? 11) + (closed == nil ? 5 : 0)
        for second in 1...max(last, (pinged ?? 0) + 1) {
            let now = start + .seconds(second)
            switch events[second] {
            case .active?: liveness.noteActivity(at: now)
            case .taken(let count)?: taken = count
            case nil: break
            }
            switch liveness.check(at: now, timeout: .seconds(10), taken: { taken }) {
            case .nothing: break
            case .ping:
                pingedAt = pingedAt ?? second
                liveness.pinged(behind: 1000, at: now)
            case .close: closedAt = closedAt ?? second
            }
        }
        #expect(pingedAt == pinged, "\(because)")
        #expect(closedAt == closed, "\(because)")
    }

    /// Looks each second at a client that is never pinged.
    @Test(
        arguments: [
            // timeout  events by second                closed  because
            (10, [:], 91, "it may be silent for two keep-alives"),
            (75, [:], 113, "or for as long as others, if that is longer"),
            (10, [80: .active], 171, "silence counts from what it said"),
            (10, [80: .taken(1000)], 171, "and from what its system has acknowledged"),
            (10, [80: .taken(1000), 100: .active, 140: .taken(1001)], 231, "from the last of both"),
            (10, [20: .taken(7), 30: .taken(7)], 111, "the same count is not a sign of life"),
        ] as [(Int, [Int: Event], Int, String)])
    private func silenceWithoutPings(timeout: Int, events: [Int: Event], closed: Int, because: String) {
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        var liveness = Liveness(at: start, answersPings: false)
        var taken = 0
        var closedAt: Int?
        for second in 1...closed where closedAt == nil {
            let now = start + .seconds(second)
            switch events[second] {
            case .active?: liveness.noteActivity(at: now)
            case .taken(let count)?: taken = count
            case nil: break
            }
            #expect(liveness.needsAcknowledgedByteCount)
            let action = liveness.check(at: now, timeout: .seconds(timeout), taken: { taken })
            #expect(action != .ping, "\(because)")
            if action == .close { closedAt = second }
        }
        #expect(closedAt == closed, "\(because)")
    }

    /// Each idle connection has one.
    @Test func size() { #expect(MemoryLayout<Liveness>.size == 24) }
}
