import Foundation
import Logging
import PandoDatabase
import PandoJournal
import PandoReactor
import PandoSettings
import PandoStorage

/// Scheduled backups and the archive of the journal, as a server has them: none, one or both.
///
/// `@unchecked Sendable`: what is mutable is used on the main thread, and at the end by the thread that ends
/// the storage.
final class BackupServices: @unchecked Sendable {
    /// The directories, locked as far as they are there: before the data directory is read, so that a mistake
    /// shows at once.
    struct Directories {
        var backups: BackupDirectory?
        var archive: BackupDirectory?

        fileprivate var all: [BackupDirectory] { [backups, archive].compactMap { $0 } }

        /// - Parameter dataDirectory: Remembers which directories it uses; nil for a server in memory.
        /// - Throws: ``StorageError`` for what only another configuration mends. A directory that is not
        ///   there now does not keep the server from serving.
        init(_ options: BackupOptions, dataDirectory: String?) throws(StorageError) {
            backups = try Self.open(options.directory, .backups, dataDirectory)
            archive = try Self.open(options.archiveDirectory, .archive, dataDirectory)
        }

        private static func open(
            _ path: String?, _ use: BackupUse, _ dataDirectory: String?
        ) throws(StorageError) -> BackupDirectory? {
            guard let path else { return nil }
            return try BackupDirectory(
                URL(fileURLWithPath: path).standardizedFileURL.path, use: use,
                rememberedIn: dataDirectory)
        }

        /// Records in the data directory which directories it uses, and logs which ones cannot be used.
        /// - Throws: ``StorageError/disk(_:)`` of the data directory, unless only space or descriptors are
        ///   short there: then the next start does it.
        fileprivate func remember(in dataDirectory: String?, _ logger: Logger) throws(StorageError) {
            for directory in all {
                do throws(DiskFailure) {
                    if let dataDirectory { try directory.remember(in: dataDirectory) }
                } catch {
                    guard error.isShortage else { throw .disk(error.description) }
                    logger.error(
                        "\(directory.use.option): cannot record in the data directory that the server uses \(directory.path); the next start will try again: \(error)"
                    )
                }
                do throws(BackupDirectory.Failure) { _ = try directory.open() } catch {
                    logger.error(
                        "\(directory.use.option): cannot be used now; the server runs without it and will try again: \(error)"
                    )
                }
            }
        }
    }

    private let directories: Directories
    private let metrics: BackupMetrics
    private let logger: Logger
    private var backups: BackupThread?
    private var archive: ArchiveThread?

    /// Starts the threads.
    /// - Parameters:
    ///   - origin: Where the journal ended at the start; nil without one.
    ///   - mark: How far the journal is on disk.
    ///   - beginning: A checkpoint that began the journal; nil for none.
    /// - Throws: ``StorageError`` for an archive that contradicts the journal, for backups that are ahead of
    ///   it, or of the data directory; ``SocketError`` where the process has no free descriptor or thread.
    init(
        _ configuration: Configuration, in directories: Directories, origin: JournalOrigin?,
        mark: JournalMark,
        beginning: CheckpointHeader?, metrics: BackupMetrics, logger: Logger, database: DatabaseExecutor
    ) throws {
        self.directories = directories
        self.metrics = metrics
        self.logger = logger
        try directories.remember(in: configuration.dataDirectory, logger)
        if let directory = directories.backups, let origin {
            try BackupThread.refuse(directory, behind: origin)
        }
        let archiveTrim = directories.archive == nil ? nil : ArchiveTrim.Latest()
        if let directory = directories.archive, let origin, let path = configuration.dataDirectory {
            let source = try SystemDisk(directory: path, create: false)
            archive = try ArchiveThread(
                of: source, in: directory, origin: origin, mark: mark, trim: archiveTrim, metrics: metrics,
                logger: logger)
            logger.info("the journal is archived in \(directory.path)")
        }
        if let directory = directories.backups {
            let cancelled = CancellationFlag()
            backups = try BackupThread(
                configuration.backups,
                in: BackupThread.Places(
                    backups: directory,
                    timeline: Self.timeline(of: origin, in: configuration.dataDirectory),
                    archiveTrim: archiveTrim,
                    mark: archive == nil ? nil : mark, beginning: beginning),
                test: RestoreTester.test(cancelled: cancelled, archive: metrics.activity(of: .archive)),
                metrics: metrics, logger: logger,
                cancelled: cancelled
            ) { give in database.post(.backup(give)) }
            logger.info(
                "a backup is made every \(configuration.backups.interval.components.seconds) s in \(directory.path)"
            )
        }
    }

    /// The timeline of the data directory, for its backups; nil for a server in memory. Where its history is
    /// damaged, the ancestors count as other data directories.
    private static func timeline(of origin: JournalOrigin?, in path: String?) -> TimelineHistory? {
        guard let origin, let path else { return nil }
        let history = (try? SystemDisk(directory: path, create: false)).flatMap {
            try? origin.history(on: $0)
        }
        return history ?? TimelineHistory(timeline: origin.timeline, directory: origin.directory)
    }

    /// Begins to log where a disk does not answer for long.
    /// - Parameter main: The main thread's loop.
    func watch(on main: EventLoop) {
        BackupDiskWatch(of: directories.all, metrics, on: main, logger).start()
    }

    /// From the next backup on, other backups are kept.
    func keep(_ retention: BackupRetention) { backups?.keep(retention) }

    /// Gives up the backup being written. Before the journal thread ends.
    func stopBackups() { backups.take()?.stop() }

    /// Archives the rest of the journal. After the journal thread has ended.
    func stopArchive() { archive.take()?.stop() }
}
