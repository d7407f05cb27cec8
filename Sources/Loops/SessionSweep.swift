import PandoConnections
import PandoReactor
import PandoSettings
import PandoTime

/// Looks now and then at the sessions of one loop, which may have gone silent, or are too slow; and more
/// often at what they take: a client that reads 10 KB/s acknowledges 34 KB after 3.4 s, and then nothing for
/// 13 s (measured), so that without a sample shortly before this step it is not known as one
/// (``PandoConnections/ProgressMonitor``). Confined to the loop.
final class SessionSweep {
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

    /// Sessions whose progress is looked at in one tick: a system call of half a microsecond for each that
    /// has unsent output.
    private static let sampledCount = 512

    private let table: SessionTable
    private let loop: EventLoop
    private let interval: Duration
    private let presenceStep: Duration

    init(_ table: SessionTable, on loop: EventLoop, _ configuration: Configuration) {
        self.table = table
        self.loop = loop
        presenceStep = configuration.presenceStep
        // A few times per timeout.
        interval = min(
            configuration.idleTimeout / 5, configuration.requestTimeout / 2, presenceStep,
            Self.longestSweepInterval)
    }

    /// Begins the next sweep in time, again and again.
    func schedule() {
        loop.schedule(after: interval) { [self] in sweep(from: 0) }
    }

    /// Begins the next look at what clients take in time, again and again.
    func scheduleSamples() {
        loop.schedule(after: ProgressMonitor.shortestWindow / 2) { [self] in sample(from: 0) }
    }

    private func sample(from start: Int) {
        let end = min(table.slots.count, start + Self.sampledCount)
        // Sessions may have gone since the last part.
        guard start < end else { return scheduleSamples() }
        for session in table.slots[start..<end] { session?.sampleProgress() }
        loop.schedule(after: Self.sweepPause) { [self] in sample(from: end) }
    }

    /// A part of the sessions in one tick, the next in a later one: sessions that came together fall silent
    /// together, and to ping thousands at once would make all other clients wait.
    private func sweep(from start: Int) {
        let tickCount = max(1, min(Self.sweepTickCount, Int(presenceStep / Self.sweepPause)))
        let end = min(table.slots.count, start + max(Self.sweptCount, table.slots.count / tickCount))
        for session in table.slots[start..<end] { session?.tick() }
        guard end < table.slots.count else { return schedule() }
        loop.schedule(after: Self.sweepPause) { [self] in sweep(from: end) }
    }
}
