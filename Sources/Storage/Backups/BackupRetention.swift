/// Which scheduled backups are kept: the newest of each of the last hours, days and weeks that have one.
/// Periods are those of UTC; a week begins on Monday. Besides, the newest of each of the last timelines: what
/// a restore has left.
///
/// Periods without a backup do not count, so a server that was off for a month loses no backup by its next
/// one.
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

    /// The backups that are kept no more. The newest is always kept, and so is what would be kept if the
    /// newest that has passed a restore test were the newest of all: as long as the backups since then fail,
    /// they replace nothing.
    /// - Parameter tested: The newest that has passed a restore test; nil for none.
    /// - Returns: The oldest first.
    /// - Complexity: O(n log n).
    package func superfluous(among names: [BackupName], tested: BackupName? = nil) -> [BackupName] {
        var kept = Set(kept(of: names).keys)
        if let tested { kept.formUnion(self.kept(of: names.filter { $0 <= tested }).keys) }
        return names.sorted().filter { !kept.contains($0) }
    }

    /// The backups that are kept, each with the length of the shortest period of which it is the newest: zero
    /// for one that is kept for its timeline only.
    private func kept(of names: [BackupName]) -> [BackupName: Int64] {
        let newestFirst = names.sorted(by: >)
        guard let newest = newestFirst.first else { return [:] }
        var kept = [newest: Self.hour]
        for (count, length, offset) in [
            (hours, Self.hour, 0), (days, Self.day, 0), (weeks, 7 * Self.day, Self.mondayOffset),
        ] {
            var periods = 0
            var last: Int64?
            for name in newestFirst where periods < count {
                let period = (name.milliseconds + offset) / length
                guard period != last else { continue }
                last = period
                periods += 1
                kept[name] = min(length, kept[name] ?? length)
            }
        }
        let timelines = Set(names.map(\.timeline)).sorted(by: >).prefix(Self.timelineCount)
        for timeline in timelines {
            if let newest = newestFirst.first(where: { $0.timeline == timeline }), kept[newest] == nil {
                kept[newest] = 0
            }
        }
        return kept
    }

    // MARK: Ages

    /// How old each backup is, in milliseconds, as far as the backups prove it: from one to the next no more
    /// time counts than two of the periods of which the older one is kept, or two intervals. So a clock that
    /// jumps forward, or a server that was off, makes no backup old.
    /// - Parameters:
    ///   - names: Those that are kept.
    ///   - interval: Between two backups, in milliseconds.
    /// - Complexity: O(n log n).
    package func ages(of names: [BackupName], every interval: Int64) -> [BackupName: Int64] {
        let periods = kept(of: names)
        var ages: [BackupName: Int64] = [:]
        var (age, newer): (Int64, BackupName?) = (0, nil)
        for name in names.sorted(by: >) {
            if let newer {
                let limit = 2 * max(interval, periods[name] ?? 0, Self.hour)
                age += min(newer.milliseconds - name.milliseconds, limit)
            }
            ages[name] = age
            newer = name
        }
        return ages
    }
}
