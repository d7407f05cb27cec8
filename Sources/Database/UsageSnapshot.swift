import PandoTree

/// Which path patterns cost most, as the databases know it. Their listeners are not counted yet: that makes
/// text of what clients listen to, and one session may listen to 16 paths of 24 KB. The thread that asks
/// counts them (``paths``).
package struct UsageSnapshot: Sendable {
    /// What a session listens to.
    struct Listens: Sendable {
        var database: String
        /// How many listens it has.
        var count: Int
        /// The locations of some of them.
        var paths: [Path]
    }

    /// The most expensive first, each with 0 ``PathUsage/listeners``.
    var usage: [PathUsage] = []
    /// One for each session that was looked at.
    var listens: [Listens] = []
    /// All sessions.
    var sessionCount = 0

    /// The usage of a database that there is not.
    package init() {}

    private struct Place: Hashable {
        var database: String
        var pattern: String
    }

    /// The path patterns that cost most, the most expensive first, with about the number of their listeners.
    /// - Complexity: O(patterns + locations of all sessions that were looked at).
    package var paths: [PathUsage] {
        guard !listens.isEmpty else { return usage }
        var counts: [Place: Int] = [:]
        for entry in usage { counts[Place(database: entry.database, pattern: entry.pattern)] = 0 }
        for session in listens where !session.paths.isEmpty {
            // Of a session with more listens, the others are taken to be like these.
            let share = session.count / session.paths.count
            for path in session.paths {
                counts[Place(database: session.database, pattern: SlowOperations.pattern(of: path))]? += share
            }
        }
        return usage.map { entry in
            var entry = entry
            let count = counts[Place(database: entry.database, pattern: entry.pattern)] ?? 0
            entry.listeners = count * sessionCount / listens.count
            return entry
        }
    }
}
