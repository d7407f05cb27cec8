import PandoEngine
import PandoStorage
import PandoTree

// What indexes and query windows need beside commands, and what comes of it.

extension CommandProcessor {
    /// Starts what a database's indexes and listens need, and keeps all databases' indexes within their
    /// limit. O(1), mostly.
    func startIndexWork(in database: StoredDatabase) {
        guard database.engine.tree.hasIndexWork else { return }
        indexes.startWork(in: database)
        indexes.limitMemory(after: database)
        sendScanPushes(of: database)
    }

    /// Notes that a query was answered, so that its index is built, or kept.
    func noteUse(of query: Query, at path: Path, in database: StoredDatabase) {
        database.engine.tree.noteUse(of: query, at: path, isLasting: false, at: clock.last)
        startIndexWork(in: database)
    }

    /// Takes what a worker has computed for a database's indexes and listens.
    func finish(_ result: IndexJobResult, in database: StoredDatabase) {
        indexes.finish(result, in: database)
        indexes.limitMemory(after: database)
        sendScanPushes(of: database)
        if database.engine.tree.hasWindowOutcome { handleWindowOutcome(of: database) }
    }

    /// Notifies connections of what their sessions hold, tells clients which listens have ended because their
    /// windows have grown too much (realtime §5.4), and has windows freed by another thread.
    func handleWindowOutcome(of database: StoredDatabase) {
        let (recharged, outgrown, ended) = database.engine.tree.removeWindowOutcome()
        // One by one: the thread that frees them does other things between two.
        for window in ended { releases.add(window) }
        for listen in outgrown {
            metrics.sessionLimits.add(.listenBytes)
            if encoder.streams[listen.session] != nil {
                encoder.cancelStream(listen.session, nil)
            } else {
                let text = sessions[listen.session]?.queryTexts.remove(listen.tag)
                encoder.revoke(listen.path, queryText: text, listen.session)
            }
        }
        for session in recharged { publishHeldBytes(of: session) }
    }

    /// Encodes the pushes of queries that other threads have answered since the last call.
    private func sendScanPushes(of database: StoredDatabase) {
        let pushes = database.engine.tree.removeScanPushes()
        guard !pushes.isEmpty else { return }
        encoder.encode(
            coalescer.isEmpty ? pushes : coalescer.replaceForLagging(pushes, in: database.engine.root))
    }
}
