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
}
