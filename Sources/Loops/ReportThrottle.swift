import PandoTime

/// Keeps a report that repeats from filling the log.
struct ReportThrottle {
    /// Between two reports of the same kind.
    static let usualInterval: Duration = .seconds(10)

    private let interval: Duration
    private var last: MonotonicTime?

    init(interval: Duration = usualInterval) {
        self.interval = interval
    }

    /// Whether a report may be made now; then the next must wait.
    mutating func mayReport(at now: MonotonicTime) -> Bool {
        guard last.map({ now - $0 >= interval }) ?? true else { return false }
        last = now
        return true
    }
}
