/// Which scheduled backups are kept: the newest of each of the last hours, days and weeks that have one. Periods are
/// those of UTC; a week begins on Monday. Besides, the newest of each of the last timelines: what a restore has left.
///
/// Periods without a backup do not count, so a server that was off for a month loses no backup by its next one.
package struct BackupRetention: Equatable, Sendable, CustomStringConvertible {
    /// How many hours, days and weeks.
    package var hours: Int
    package var days: Int
    package var weeks: Int

    /// Timelines whose newest backup is kept.
    static let timelineCount = 4

    /// The largest number of each.
    package static let highestCount = 100_000

    package init(hours: Int = 24, days: Int = 7, weeks: Int = 4) {
        self.hours = hours
        self.days = days
        self.weeks = weeks
    }

    /// Reads `24,7,4`; nil for anything else.
    package init?(_ text: String) {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            part.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } ? Int(part) : nil
        }
        guard parts.count == 3, let hours = parts[0], let days = parts[1], let weeks = parts[2],
            max(hours, days, weeks) <= Self.highestCount
        else { return nil }
        self.init(hours: hours, days: days, weeks: weeks)
    }

    package var description: String { "\(hours),\(days),\(weeks)" }

    private static let hour: Int64 = 3_600_000
    private static let day: Int64 = 24 * hour
    /// The first day of 1970 was a Thursday.
    private static let mondayOffset: Int64 = 3 * day

    /// The backups that are kept no more. The newest is always kept.
    /// - Complexity: O(n log n).
    package func superfluous(among names: [BackupName]) -> [BackupName] {
        let newestFirst = names.sorted(by: >)
        guard let newest = newestFirst.first else { return [] }
        var kept: Set<BackupName> = [newest]
        for (count, period) in [
            (hours, { (time: Int64) in time / Self.hour }), (days, { $0 / Self.day }),
            (weeks, { ($0 + Self.mondayOffset) / (7 * Self.day) }),
        ] {
            var periods = 0
            var last: Int64?
            for name in newestFirst where periods < count && period(name.milliseconds) != last {
                last = period(name.milliseconds)
                periods += 1
                kept.insert(name)
            }
        }
        let timelines = Set(names.map(\.timeline)).sorted(by: >).prefix(Self.timelineCount)
        for timeline in timelines {
            if let newest = newestFirst.first(where: { $0.timeline == timeline }) { kept.insert(newest) }
        }
        return newestFirst.reversed().filter { !kept.contains($0) }
    }
}
