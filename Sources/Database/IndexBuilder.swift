import PandoEngine
import PandoStorage
import PandoTree

/// Has the indexes of databases built by a worker thread, on snapshots, while the databases go on:
///
///     query, write, rules ──▶ Engine.takeIndexWork ──▶ worker ──▶ indexed ──▶ Engine.finish ──▶ in force
///                                     ▲                                            └─ too much has changed since
///                                     └────────────────────────────────────────────────────┘
///
/// No request waits for an index. Without worker threads an index is built at once. Used by one thread at a time.
final class IndexBuilder {
    private let start: @Sendable (PreparationJob) -> Void
    private let release: @Sendable (consuming any Sendable) -> Void
    private let post: @Sendable (DatabaseMessage) -> Void
    private let hasWorkers: Bool

    /// - Parameter post: Posts a message to the databases, from any thread.
    init(
        _ workers: PreparationWorkers, hasWorkers: Bool, post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        start = workers.start
        release = workers.release
        self.hasWorkers = hasWorkers
        self.post = post
    }

    /// Starts what a database's indexes need, if anything. O(1), mostly.
    func startWork(in database: StoredDatabase) {
        while database.engine.hasIndexWork {
            let (jobs, dropped) = database.engine.takeIndexWork()
            if !dropped.isEmpty { release(dropped) }
            for job in jobs {
                guard hasWorkers else {
                    database.engine.finish(job.perform())
                    continue
                }
                let name = database.name
                start(
                    PreparationJob(session: Self.session, work: .index(job)) { [post] preparation in
                        if case .index(let result) = preparation { post(.indexed(name, result)) }
                    })
            }
        }
    }

    /// Takes what a worker has computed.
    func finish(_ result: IndexJobResult, in database: StoredDatabase) {
        database.engine.finish(result)
        // The snapshot's pages that have changed since are freed with it.
        release(result)
        startWork(in: database)
    }

    /// No session has this number: the jobs are no client's.
    private static let session = SessionID(.max)
}
