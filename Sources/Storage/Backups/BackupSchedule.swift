import PandoTime

/// When the next scheduled backup is made. A value: its caller reports the time.
///
/// Backups are made in even steps from the first one on. A step that comes while a backup is still being made
/// is left out, and so is a failed one: the next step tries again. While the directory is not there, it is
/// looked for more often.
struct BackupSchedule {
    private let interval: Duration
    private(set) var due: MonotonicTime

    /// - Parameters:
    ///   - age: Of the newest backup; nil where there is none, or where it must be followed at once. A
    ///     negative age is a wrong clock's, then or now: the next backup is made at once.
    init(every interval: Duration, newestIsOld age: Duration?, at now: MonotonicTime) {
        precondition(interval > .zero)
        self.interval = interval
        due = age.map { $0 < .zero ? now : now + max(.zero, interval - $0) } ?? now
    }

    /// The directory was not there.
    mutating func postpone(at now: MonotonicTime) { due = min(due, now + Self.retryInterval) }

    private static let retryInterval: Duration = .seconds(60)

    /// - Returns: Whether a backup is due; then the next one is due a step later.
    mutating func beginIfDue(at now: MonotonicTime) -> Bool {
        guard due <= now else { return false }
        due = due + interval
        // Steps that have passed are left out; the next one keeps the rhythm.
        if due <= now {
            let steps = ((now - due) / interval).rounded(.down) + 1
            due = due + interval * steps
        }
        return true
    }
}
