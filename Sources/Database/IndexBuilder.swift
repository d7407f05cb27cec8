import PandoEngine
import PandoStorage
import PandoTree

/// Has the indexes of databases built by a worker thread, on snapshots, while the databases go on:
///
///     query, write, rules ──▶ Engine.takeIndexWork ──▶ worker ──▶ indexed ──▶ Engine.finishSome ──▶ in force
///                                     ▲                                            └─ too much has changed since
///                                     └────────────────────────────────────────────────────┘
///
/// No request waits for an index. Without worker threads an index is built at once. Those that no rule
/// declares have one limit of bytes, over all databases: ``limitMemory(after:)``. Used by one thread at a
/// time.
final class IndexBuilder {
    private let start: @Sendable (PreparationJob) -> Void
    private let release: @Sendable (consuming any Sendable) -> Void
    private let post: @Sendable (DatabaseMessage) -> Void
    private let hasWorkers: Bool
    /// Bytes that the indexes of all databases which no rule declares may take together.
    let byteLimit: Int
    /// The databases with such indexes, by their ids, and the bytes of them when they were last looked at.
    private var holders: [UInt32: (database: StoredDatabase, byteCount: Int)] = [:]
    /// Bytes of all ``holders``.
    private var byteCount = 0

    /// Databases that are looked at where all of them together exceed ``byteLimit``.
    var holderCount: Int { holders.count }

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
    /// query has used for the longest time in any database first. An engine has index work whenever its
    /// indexes have grown by 64 KiB, so what is known of the others is late by that, at most.
    /// - Parameter database: Its indexes may have changed.
    /// - Complexity: O(1) within the limit; otherwise O(databases with such indexes), and O(locations with
    ///   indexes) for each that is dropped. However many databases there are: clients may create them.
    func limitMemory(after database: StoredDatabase) {
        count(database)
        guard byteCount > byteLimit else { return }
        for holder in Array(holders.values) { count(holder.database) }
        while byteCount > byteLimit {
            var oldest: (use: Int64, database: StoredDatabase)?
            for (database, _) in holders.values {
                guard let use = database.engine.tree.leastRecentIndexUse else { continue }
                if let oldest, (oldest.use, oldest.database.id) < (use, database.id) { continue }
                oldest = (use, database)
            }
            guard let database = oldest?.database else { return }
            database.engine.tree.dropLeastRecentlyUsedIndex()
            count(database)
            startWork(in: database)
        }
    }

    /// Counts what the indexes of a database take now. O(1).
    private func count(_ database: StoredDatabase) {
        let now = database.engine.tree.onDemandIndexByteCount
        byteCount += now - (holders[database.id]?.byteCount ?? 0)
        holders[database.id] = now > 0 ? (database, now) : nil
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
                if case .sweep = job {
                    // Nothing to compute: the next step has its turn among the others.
                    post(.indexed(name, .swept))
                    continue
                }
                start(
                    PreparationJob(session: Self.session, work: .index(job)) { [post] preparation in
                        if case .index(let result) = preparation { post(.indexed(name, result)) }
                    })
            }
        }
    }

    /// Takes what a worker has computed, or a part of it: then the rest is posted, and others have their turn
    /// before it.
    func finish(_ result: IndexJobResult, in database: StoredDatabase) {
        if let rest = database.engine.tree.finishSome(result) {
            post(.indexed(database.name, rest))
        } else {
            // The snapshot's pages that have changed since are freed with it.
            release(result)
        }
        startWork(in: database)
    }

    /// No session has this number: the jobs are no client's.
    private static let session = SessionID(.max)
}
