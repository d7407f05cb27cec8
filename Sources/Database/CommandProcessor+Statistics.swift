import PandoEngine
import PandoStorage

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
