import PandoTime

/// What a client has taken, or sent, over the last seconds.
package enum ClientProgress: Int, Comparable, Sendable {
    /// Less than the slowest client that is served (``ConnectionLimits/slowestBytesPerSecond``).
    case stalled
    /// It was not looked at long enough.
    case unknown
    case steady

    package static func < (left: ClientProgress, right: ClientProgress) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// How fast a client takes what it is sent, or sends what is due from it, judged by samples: the rate between
/// an older sample and the last one.
///
/// A client that reads slowly acknowledges in steps, with pauses between them: minutes at the lowest rate
/// (``OutputRate``). So the first bytes after a pause count for the time in which they would be taken at that
/// rate, also for output that begins in this time, and a client is not known as stalled before it had
/// ``firstStepPatience`` for its first step. What a client that never reads has acknowledged is what the
/// buffers of its system have taken at the beginning, before any pause.
package struct ProgressMonitor: Sendable {
    package enum Direction: Sendable {
        /// Bytes that the client's system has acknowledged, while output is unsent.
        case output
        /// Bytes that the client has sent, while none is.
        case input
    }

    private struct Sample {
        var byteCount: Int
        var time: MonotonicTime
    }

    /// The time that is judged at least, and at most: a rate over less says little, since the buffers of the
    /// client's system take some at once; a rate over more says little of now.
    package static let shortestWindow: Duration = .seconds(2)
    package static let longestWindow: Duration = .seconds(15)
    /// The most time that a step counts for: at the lowest rate, Linux's largest one takes 211 s
    /// (``OutputRate``).
    package static let longestStep: Duration = .seconds(240)
    /// How long a client may take for the first step of its output: Linux's largest one takes so long at
    /// 13 KB/s.
    package static let firstStepPatience: Duration = .seconds(8)

    private var direction = Direction.input
    private var older: Sample?
    private var newer: Sample?
    private var last: Sample?
    /// When the first sample was noted: of this direction, and behind a long time without.
    private var firstTime: MonotonicTime?
    /// When the output last grew, or was first found not to have grown.
    private var grewAt: MonotonicTime?
    /// Nothing was taken for ``shortestWindow``, although output waited.
    private var hasPaused = false
    /// Until when the last step counts; nil without one.
    private var stepEnd: MonotonicTime?

    package init() {}

    /// Whether another sample would say more.
    package func isDue(at now: MonotonicTime) -> Bool {
        last.map { now - $0.time >= Self.shortestWindow / 2 } ?? true
    }

    /// Notes a sample. At most one in ``shortestWindow`` begins a window.
    /// - Parameter byteCount: Bytes in all, in this direction; it never falls.
    package mutating func note(_ byteCount: Int, of direction: Direction, at now: MonotonicTime) {
        if direction != self.direction {
            let stepEnd = stepEnd
            self = Self()
            self.direction = direction
            self.stepEnd = stepEnd
        }
        if direction == .output { noteStep(byteCount, at: now) }
        firstTime = firstTime ?? now
        let sample = Sample(byteCount: byteCount, time: now)
        last = sample
        guard let newer else { return self.newer = sample }
        if now - newer.time >= Self.shortestWindow {
            older = newer
            self.newer = sample
        }
    }

    private mutating func noteStep(_ byteCount: Int, at now: MonotonicTime) {
        let growth = byteCount - (last?.byteCount ?? byteCount)
        guard growth > 0 else {
            grewAt = grewAt ?? now
            if let grewAt, now - grewAt >= Self.shortestWindow { hasPaused = true }
            return
        }
        if hasPaused {
            let seconds = Double(growth) / Double(ConnectionLimits.slowestBytesPerSecond)
            let end = now + min(.seconds(seconds), Self.longestStep)
            stepEnd = max(stepEnd ?? end, end)
        }
        hasPaused = false
        grewAt = now
        // It has taken what it had then, and nothing is known of what it has now.
        if let last, now - last.time > Self.longestWindow { (firstTime, older, newer) = (nil, nil, nil) }
    }

    /// Judges the samples.
    package func progress(at now: MonotonicTime) -> ClientProgress {
        if direction == .output, let stepEnd, now < stepEnd { return .steady }
        guard let last, let firstTime,
            let first = [newer, older].compactMap({ $0 }).first(where: {
                isWindow(from: $0.time, to: last.time)
            })
        else { return .unknown }
        let needed = Double(ConnectionLimits.slowestBytesPerSecond) * ((last.time - first.time) / .seconds(1))
        if Double(last.byteCount - first.byteCount) >= needed { return .steady }
        return direction == .output && now - firstTime < Self.firstStepPatience ? .unknown : .stalled
    }

    private func isWindow(from start: MonotonicTime, to end: MonotonicTime) -> Bool {
        let window = end - start
        return window >= Self.shortestWindow && window <= Self.longestWindow
    }
}
