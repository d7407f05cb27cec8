import Glibc

/// One line on a terminal's stderr that is written over each second. Nothing anywhere else.
final class Progress {
    private let plan: Plan

    /// - Returns: nil when stderr is no terminal.
    init?(_ plan: Plan) {
        guard isatty(STDERR_FILENO) == 1 else { return nil }
        self.plan = plan
    }

    func show(second: Int, _ interval: Interval, _ latencies: Latencies, problems: Int) {
        let whole = (plan.warmUp + plan.duration) / 1_000_000_000
        let isWarmingUp = (second + 1) * 1_000_000_000 <= plan.warmUp
        var line = "\(plan.target.name) \(plan.work.name)  \(second + 1)/\(whole) s"
        line += isWarmingUp ? " (warm-up)" : ""
        line += "  \(Figures.grouped(Double(interval.operations))) operations/s"
        if interval.deliveries > 0 {
            line += "  \(Figures.grouped(Double(interval.deliveries))) deliveries/s"
        }
        if latencies.totalCount > 0 {
            line += "  p50 \(Figures.decimal(latencies.microseconds(at: 50), places: 0)) µs"
            line += "  p99 \(Figures.decimal(latencies.microseconds(at: 99), places: 0)) µs"
        }
        line += "  errors \(problems)"
        writeAll("\r\u{1B}[K" + line, to: STDERR_FILENO)
    }

    func clear() { writeAll("\r\u{1B}[K", to: STDERR_FILENO) }
}
