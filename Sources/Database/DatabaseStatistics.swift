import PandoEngine
import PandoTree

/// Asks the databases what they hold. They set the gauges of ``DatabaseMetrics`` that need a look at all
/// databases, and say what some sessions listen to.
package struct DatabaseStatisticsRequest: Sendable {
    /// Sessions whose listens are wanted.
    package var sessions: [SessionID]
    /// Called by the thread that runs the databases.
    package var completion: @Sendable (_ listens: [SessionID: DatabaseStatistics.Session]) -> Void

    package init(
        of sessions: [SessionID],
        completion: @escaping @Sendable (_ listens: [SessionID: DatabaseStatistics.Session]) -> Void
    ) {
        self.sessions = sessions
        self.completion = completion
    }
}

package enum DatabaseStatistics {
    /// What the databases know of a session.
    package struct Session: Sendable {
        package var database: String
        package var uid: String?
        package var isAdministrator: Bool
        package var listenCount: Int
        /// Some of the locations that it listens to.
        package var paths: [Path]
    }

    /// Locations that are named for one session; the others are only counted.
    package static let pathLimit = 16
    /// Sessions that one request may ask about.
    package static let sessionLimit = 1024
}
