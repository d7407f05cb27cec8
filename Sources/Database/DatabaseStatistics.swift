import PandoEngine
import PandoStorage
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

extension CommandProcessor {
    /// O(databases + their indexes + sessions asked for). Makes no text of what clients have sent: one
    /// session may listen to 16 paths of 24 KB.
    func perform(_ request: DatabaseStatisticsRequest) {
        var counts = LiveTree.Counts()
        for database in databases.all { counts += database.engine.tree.counts }
        metrics.databases.set(databases.all.count)
        metrics.defaultListens.set(counts.defaultListens)
        metrics.filteredListens.set(counts.filteredListens)
        metrics.windows.set(counts.windows)
        metrics.indexes.set(counts.indexes)
        metrics.onDemandIndexBytes.set(counts.onDemandIndexBytes)
        clock.now()
        metrics.clockLag.set(Int(clamping: clock.machineLag / 1000))
        metrics.indexEntries.set(counts.indexEntries)
        var found: [SessionID: DatabaseStatistics.Session] = [:]
        for id in request.sessions.prefix(DatabaseStatistics.sessionLimit) {
            guard let session = sessions[id] else { continue }
            let database = session.database
            found[id] = DatabaseStatistics.Session(
                database: database.name, uid: session.credential.uid?.string,
                isAdministrator: session.credential.isAdmin,
                listenCount: database.engine.tree.listenCount(of: id),
                paths: database.engine.tree.listenPaths(of: id, atMost: DatabaseStatistics.pathLimit))
        }
        request.completion(found)
    }
}
