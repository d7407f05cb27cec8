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
    /// - Parameters:
    ///   - tested: The newest that has passed a restore test; nil for none.
    ///   - now: The machine's clock; milliseconds since 1970.
    /// - Returns: The oldest first, in the order of the journal.
    /// - Complexity: O(n log n).
    package func superfluous(
        among names: [BackupName], tested: BackupName? = nil, at now: Int64
    ) -> [BackupName] {
        let names = names.sorted { $0.isBefore($1, at: now) }
        var kept = Set(self.kept(of: names, at: now).keys)
        if let tested {
            let earlier = names.filter { !tested.isBefore($0, at: now) }
            kept.formUnion(self.kept(of: earlier, at: now).keys)
        }
        return names.filter { !kept.contains($0) }
    }

    /// The backups that are kept, each with the length of the shortest period of which it is the newest: zero
    /// for one that is kept for its timeline only.
    ///
    /// Those with a future time in their names are kept by the same rule, apart from the others: the clock
    /// was ahead when they were made, or it is behind now, and then all good backups have such names.
    /// - Parameter names: In the order of the journal.
    private func kept(of names: [BackupName], at now: Int64) -> [BackupName: Int64] {
        guard let newest = names.last else { return [:] }
        var kept = [newest: Self.hour]
        for isAhead in [false, true] {
            let newestFirst = names.reversed().filter { $0.isAhead(of: now) == isAhead }
            for (count, length, offset) in [
                (hours, Self.hour, 0), (days, Self.day, 0), (weeks, 7 * Self.day, Self.mondayOffset),
            ] {
                // Names of a clock that was wrong may come back to a period.
                var periods: Set<Int64> = []
                for name in newestFirst where periods.count < count {
                    let period = (name.milliseconds + offset) / length
                    guard periods.insert(period).inserted else { continue }
                    kept[name] = min(length, kept[name] ?? length)
                }
            }
        }
        let timelines = Set(names.map(\.timeline)).sorted(by: >).prefix(Self.timelineCount)
        for timeline in timelines {
            if let newest = names.last(where: { $0.timeline == timeline }), kept[newest] == nil {
                kept[newest] = 0
            }
        }
        return kept
    }

    // MARK: Ages

    /// How old a backup is, as far as the backups prove it.
    package struct Age: Equatable, Sendable {
        /// It is at least so much older than the newest one.
        package var milliseconds: Int64
        /// When it was made at the latest; milliseconds since 1970. Its name says a later time where a clock
        /// was ahead.
        package var time: Int64
    }

    /// How old each backup is, as far as the backups prove it: from one to the next no more time counts than
    /// two of the periods of which the older one is kept, or two intervals. So a clock that jumps forward, or
    /// a server that was off, makes no backup old. Nor does a clock that was ahead: what the journal has
    /// first was made first, whatever the names say.
    /// - Parameters:
    ///   - names: Those that are kept.
    ///   - interval: Between two backups, in milliseconds.
    ///   - now: The machine's clock; milliseconds since 1970.
    /// - Returns: Ages that do not fall from one to the one before it in the journal.
    /// - Complexity: O(n log n).
    package func ages(
        of names: [BackupName], every interval: Int64, at now: Int64
    ) -> [BackupName: Age] {
        let names = names.sorted { $0.isBefore($1, at: now) }
        let periods = kept(of: names, at: now)
        var ages: [BackupName: Age] = [:]
        var newer: Age?
        for name in names.reversed() {
            var age = Age(milliseconds: 0, time: min(name.milliseconds, now))
            if let newer {
                age.time = min(age.time, newer.time)
                let limit = 2 * max(interval, periods[name] ?? 0, Self.hour)
                age.milliseconds = newer.milliseconds + min(newer.time - age.time, limit)
            }
            ages[name] = age
            newer = age
        }
        return ages
    }
}
