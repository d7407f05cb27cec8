import PandoReactor
import PandoTime

// Looks now and then at sessions that may have gone silent, or are too slow.

extension IOLoop {
    /// The longest between two sweeps, whatever the timeouts: streams say in time that they live (rest
    /// §8.1).
    private static let longestSweepInterval: Duration = .seconds(5)
    /// Sessions that are looked at in one tick: less than a millisecond, if all of them must be sent a ping
    /// (11 µs each).
    private static let sweptCount = 64
    /// Ticks that a sweep takes at most, so that it ends in about three seconds however many there are.
    private static let sweepTickCount = 400
    /// Between two of them: a tick of the loop's timers.
    private static let sweepPause: Duration = .milliseconds(8)

    /// A few times per timeout.
    func scheduleSweep() {
        let interval = min(
            configuration.idleTimeout / 5, configuration.requestTimeout / 2, configuration.presenceStep,
            Self.longestSweepInterval)
        loop.schedule(after: interval) { [self] in sweep(from: 0) }
    }

    /// A part of the sessions in one tick, the next in a later one: sessions that came together fall silent
    /// together, and to ping thousands at once would make all other clients wait.
    private func sweep(from start: Int) {
        let tickCount = max(1, min(Self.sweepTickCount, Int(configuration.presenceStep / Self.sweepPause)))
        let end = min(sessions.count, start + max(Self.sweptCount, sessions.count / tickCount))
        for session in sessions[start..<end] { session?.tick() }
        guard end < sessions.count else { return scheduleSweep() }
        loop.schedule(after: Self.sweepPause) { [self] in sweep(from: end) }
    }
}
