import Logging
import PandoDatabase
import PandoJournal
import PandoReactor
import PandoStorage

/// Scheduled backups and the archive of the log, as a server has them: none, one or both.
///
/// `@unchecked Sendable`: what is mutable is used on the main thread only.
final class BackupServices: @unchecked Sendable {
    /// The directories, locked: before the data directory is read, so that a mistake shows at once.
    struct Directories {
        var backups: BackupDirectory?
        var archive: BackupDirectory?

        /// - Throws: ``StorageError``.
        init(_ options: BackupOptions) throws(StorageError) {
            if let path = options.directory { backups = try BackupDirectory(path, option: "--backup-to") }
            if let path = options.archiveDirectory {
                archive = try BackupDirectory(path, option: "--archive-to")
            }
        }
    }

    private var backups: BackupThread?
    private var archive: ArchiveThread?

    /// Starts the threads.
    /// - Parameters:
    ///   - origin: Where the log ended at the start; nil without a log.
    ///   - mark: How far the log is on disk.
    ///   - beginning: A checkpoint that began the log; nil for none.
    /// - Throws: ``StorageError`` for an archive of another data directory; ``DiskFailure`` where a directory cannot be
    ///   read; ``SocketError`` where the process has no free descriptor or thread.
    init(
        _ configuration: Configuration, in directories: Directories, origin: JournalOrigin?, mark: LogMark,
        beginning: CheckpointHeader?, metrics: BackupMetrics, logger: Logger, database: DatabaseExecutor
    ) throws {
        if let directory = directories.archive, let origin, let path = configuration.dataDirectory {
            archive = try ArchiveThread(
                of: try SystemDisk(directory: path, create: false), in: directory, origin: origin, mark: mark,
                metrics: metrics, logger: logger)
            logger.info("the log is archived in \(directory.path)")
        }
        if let directory = directories.backups {
            let cancelled = CancellationFlag()
            backups = try BackupThread(
                configuration.backups, in: directory, archive: directories.archive, beginning: beginning,
                drill: { BackupDrill.run($0, $1, $2, cancelled) }, metrics: metrics, logger: logger,
                cancelled: cancelled
            ) { give in database.post(.backup(give)) }
            logger.info(
                "a backup is made every \(configuration.backups.interval.components.seconds) s in \(directory.path)"
            )
        }
    }

    /// Gives up the backup being written. Before the journal thread ends.
    func stopBackups() { backups.take()?.stop() }

    /// Archives the rest of the log. After the journal thread has ended.
    func stopArchive() { archive.take()?.stop() }
}
