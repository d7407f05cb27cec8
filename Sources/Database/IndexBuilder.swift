import PandoEngine
import PandoStorage
import PandoTree

/// Has the indexes of databases built by a worker thread, on snapshots, while the databases go on:
///
///     query, write, rules ──▶ Engine.takeIndexWork ──▶ worker ──▶ indexed ──▶ Engine.finish ──▶ in force
///                                     ▲                                            └─ too much has changed since
///                                     └────────────────────────────────────────────────────┘
///
/// No request waits for an index. Without worker threads an index is built at once. Those that no rule
/// declares have one limit of bytes, over all databases: ``limitMemory(of:)``. Used by one thread at a time.
final class IndexBuilder {
    private let start: @Sendable (PreparationJob) -> Void
    private let release: @Sendable (consuming any Sendable) -> Void
    private let post: @Sendable (DatabaseMessage) -> Void
    private let hasWorkers: Bool
    /// Bytes that the indexes of all databases which no rule declares may take together.
    let byteLimit: Int

    /// - Parameter post: Posts a message to the databases, from any thread.
    init(
        _ workers: PreparationWorkers, hasWorkers: Bool, byteLimit: Int,
        post: @escaping @Sendable (DatabaseMessage) -> Void
    ) {
        start = workers.start
        release = workers.release
        self.hasWorkers = hasWorkers
        self.byteLimit = byteLimit
        self.post = post
    }

    /// Drops indexes that no rule declares while all of them take more than ``byteLimit``: the one that no
    /// query has used for the longest time in any database first.
    /// - Complexity: O(databases), and O(locations with indexes) for each that is dropped.
    func limitMemory(of databases: some Collection<StoredDatabase>) {
        var byteCount = databases.reduce(0) { $0 + $1.engine.tree.onDemandIndexByteCount }
        while byteCount > byteLimit {
            var oldest: (use: Int64, database: StoredDatabase)?
            for database in databases where database.engine.tree.onDemandIndexByteCount > 0 {
                guard let use = database.engine.tree.leastRecentIndexUse else { continue }
                if let oldest, (oldest.use, oldest.database.id) < (use, database.id) { continue }
                oldest = (use, database)
            }
            guard let database = oldest?.database else { return }
            byteCount -= database.engine.tree.onDemandIndexByteCount
            database.engine.tree.dropLeastRecentlyUsedIndex()
            byteCount += database.engine.tree.onDemandIndexByteCount
            startWork(in: database)
        }
    }

    /// Starts what a database's indexes need, if anything. O(1), mostly.
    func startWork(in database: StoredDatabase) {
        while database.engine.tree.hasIndexWork {
            let (jobs, dropped) = database.engine.tree.takeIndexWork()
            if !dropped.isEmpty { release(dropped) }
            for job in jobs {
                guard hasWorkers else {
                    database.engine.tree.finish(job.perform())
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
        database.engine.tree.finish(result)
        // The snapshot's pages that have changed since are freed with it.
        release(result)
        startWork(in: database)
    }

    /// No session has this number: the jobs are no client's.
    private static let session = SessionID(.max)
}
