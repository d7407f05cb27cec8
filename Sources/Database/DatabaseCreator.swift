import Logging
import PandoEngine
import PandoJournal
import PandoStorage

/// Creates databases when a client first names them, where this server does that (`--dev`).
struct DatabaseCreator {
    private let isEnabled: Bool
    private let databaseLimit: Int
    private let logger: Logger
    private var hasReportedLimit = false

    init(_ options: DatabaseOptions, _ logger: Logger) {
        isEnabled = options.createsNamespaces
        databaseLimit = options.databaseLimit
        self.logger = logger
    }

    /// Creates a database that is open to all clients, and appends that to the journal.
    /// - Parameter name: As a client spelled it; nil means `default`. There is no such database.
    /// - Returns: Nil for one that is not created.
    /// - Throws: ``JournalRefusal/diskFull``; then nothing was changed.
    mutating func create(
        _ name: String?, in databases: inout DatabaseTable, _ journal: inout JournalAppender,
        at clock: WallClock
    ) throws(JournalRefusal) -> StoredDatabase? {
        guard isEnabled, let name = NamespaceName.canonical(name ?? NamespaceName.standard) else {
            return nil
        }
        guard databases.count < databaseLimit else {
            reportLimit()
            return nil
        }
        try journal.checkSpace(forPayloadOf: name.utf8.count)
        let database = databases.create(name, access: .open)
        journal.append(
            JournalRecord(
                .namespaceMade, namespace: database.id, timestamp: clock.now(), payload: Array(name.utf8)))
        return database
    }

    /// Logs once that no more databases are created: to its client it is a database that does not exist.
    private mutating func reportLimit() {
        guard !hasReportedLimit else { return }
        hasReportedLimit = true
        logger.warning(
            """
            --dev: there are \(databaseLimit) databases, and no more are created on first use; requests for others \
            get the reply for an unknown namespace. Use fewer names, or start with an empty directory
            """)
    }
}
