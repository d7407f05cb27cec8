import Foundation
import Logging
import PandoDatabase
import PandoJournal
import PandoReactor
import PandoSettings
import PandoStorage
import PandoTime

/// Scheduled backups and the archive of the journal, as a server has them: none, one or both.
///
/// Their disks may not answer for ever, such as one on the network. So only their own threads use them, and
/// the start and the end of the server wait for these threads for a limited time.
///
/// `@unchecked Sendable`: what is mutable is used on the main thread, and at the end by the thread that ends
/// the storage.
final class BackupServices: @unchecked Sendable {
    /// How long a start waits until the directories are open, before it reads the data directory: longer than
    /// a disk takes that answers, and short enough for a start that the data directory refuses.
    static let claimTimeout: Duration = .seconds(1)
    /// How long a start waits in all for a disk that has not answered within ``claimTimeout``.
    static let openTimeout: Duration = .seconds(5)
    /// How long a start waits until the archive is compared with the journal, and the backups are listed.
    /// Where the disk answers only after ``claimTimeout``, from its answer on.
    static let firstLookTimeout: Duration = .seconds(10)
    /// How long a start that is refused waits for the threads: those whose disk answers end what they do.
    static let refusalStopTime: Duration = .seconds(1)

    /// The directories, locked as far as they are there and answer: before the data directory is read, so
    /// that a mistake shows at once.
    struct Directories {
        let backups: BackupDirectory?
        let archive: BackupDirectory?
        /// Those whose disk has not answered yet. Their threads open them.
        fileprivate private(set) var unresponsive: [BackupUse] = []
        /// Until then the start waits for these.
        fileprivate let answerDeadline: MonotonicTime

        fileprivate var all: [BackupDirectory] { [backups, archive].compactMap { $0 } }

        /// - Parameter dataDirectory: Remembers which directories it uses; nil for a server in memory.
        /// - Throws: ``StorageError`` for what only another configuration mends. A directory that is not
        ///   there now, or whose disk does not answer, does not keep the server from serving.
        ///   ``SocketError`` where the process has no free thread.
        init(_ options: BackupOptions, dataDirectory: String?) throws {
            let began = MonotonicTime.now
            answerDeadline = began + BackupServices.openTimeout
            backups = Self.directory(options.directory, .backups, dataDirectory)
            archive = Self.directory(options.archiveDirectory, .archive, dataDirectory)
            let claims = try all.map { directory in
                try ThreadCall("pando-claim") { () -> StorageError? in
                    do throws(StorageError) { try directory.claim() } catch { return error }
                    return nil
                }
            }
            let deadline = began + BackupServices.claimTimeout
            let refusals = endingProcessOnSignals { claims.map { $0.value(until: deadline) } }
            for (directory, refusal) in zip(all, refusals) {
                guard let refusal else {
                    unresponsive.append(directory.use)
                    continue
                }
                if let refusal { throw refusal }
            }
        }

        private static func directory(
            _ path: String?, _ use: BackupUse, _ dataDirectory: String?
        ) -> BackupDirectory? {
            guard let path else { return nil }
            // With `isDirectory`, it is not asked of the disk.
            return BackupDirectory(
                at: URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL.path, use: use,
                rememberedIn: dataDirectory)
        }

        /// Records in the data directory which directories it uses.
        /// - Throws: ``StorageError/disk(_:)`` of the data directory, unless only space or descriptors are
        ///   short there: then the next start does it.
        fileprivate func remember(in dataDirectory: String?, _ logger: Logger) throws(StorageError) {
            guard let dataDirectory else { return }
            for directory in all {
                do throws(DiskFailure) { try directory.remember(in: dataDirectory) } catch {
                    guard error.isShortage else { throw .disk(error.description) }
                    logger.error(
                        "\(directory.use.option): cannot record in the data directory that the server uses \(directory.path); the next start will try again: \(error)"
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
    /// A thread waits for a disk that does not answer, and was left to itself.
    private(set) var hasLeftThreads = false

    /// Starts the threads, and waits for what they find. A start that they refuse does not wait for a disk
    /// that does not answer: the process must end by `_exit`, since its thread goes on.
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
        do {
            try startThreads(
                configuration, origin: origin, mark: mark, beginning: beginning, database: database)
            try waitForFirstLooks()
        } catch {
            let deadline = MonotonicTime.now + Self.refusalStopTime
            archive?.requestStop()
            _ = backups?.stop(until: deadline)
            _ = archive?.stop(until: deadline)
            throw error
        }
    }

    private func startThreads(
        _ configuration: Configuration, origin: JournalOrigin?, mark: JournalMark,
        beginning: CheckpointHeader?, database: DatabaseExecutor
    ) throws {
        try directories.remember(in: configuration.dataDirectory, logger)
        let archiveTrim = directories.archive == nil ? nil : ArchiveTrim.Latest()
        if let directory = directories.archive, let origin, let path = configuration.dataDirectory {
            let source = try SystemDisk(directory: path, create: false)
            archive = try ArchiveThread(
                of: source, in: directory, origin: origin, mark: mark, trim: archiveTrim, metrics: metrics,
                logger: logger)
        }
        if let directory = directories.backups {
            let cancelled = CancellationFlag()
            backups = try BackupThread(
                configuration.backups,
                in: BackupThread.Places(
                    backups: directory,
                    origin: configuration.dataDirectory == nil ? nil : origin,
                    journal: try configuration.dataDirectory.map { path throws(DiskFailure) in
                        try SystemDisk(directory: path, create: false)
                    },
                    timeline: Self.timeline(of: origin, in: configuration.dataDirectory),
                    archiveTrim: archiveTrim,
                    mark: archive == nil ? nil : mark, beginning: beginning),
                test: RestoreTester.test(cancelled: cancelled, archive: metrics.activity(of: .archive)),
                metrics: metrics, logger: logger, cancelled: cancelled
            ) { give in database.post(.backup(give)) }
        }
    }

    /// Waits until the threads know what is in their directories.
    /// - Throws: ``StorageError`` for a directory that the server must not use: another process uses it, or
    ///   it contradicts the journal.
    private func waitForFirstLooks() throws(StorageError) {
        let deadline = MonotonicTime.now + Self.firstLookTimeout
        // A refusal by a disk that answers does not wait for one that does not.
        let isUnresponsive = { [directories] (directory: BackupDirectory) in
            directories.unresponsive.contains(directory.use)
        }
        for directory in directories.all.filter({ !isUnresponsive($0) }) {
            let outcome = try waitForFirstLook(at: directory, until: deadline, afterAnswer: .zero)
            directory.log(outcome, after: Self.firstLookTimeout, logger)
        }
        for directory in directories.all.filter(isUnresponsive) {
            // It may have answered while the data directory was read, for longer than that.
            let deadline = max(directories.answerDeadline, .now + Self.claimTimeout)
            let outcome = try waitForFirstLook(
                at: directory, until: deadline, afterAnswer: Self.firstLookTimeout)
            directory.log(outcome, after: Self.openTimeout, logger)
        }
    }

    private func waitForFirstLook(
        at directory: BackupDirectory, until deadline: MonotonicTime, afterAnswer lookTime: Duration
    ) throws(StorageError) -> FirstLook.Outcome {
        try endingProcessOnSignals { () throws(StorageError) in
            switch directory.use {
            case .archive:
                try archive?.waitForFirstLook(until: deadline, afterAnswer: lookTime) ?? .complete
            case .backups:
                try backups?.waitForFirstLook(until: deadline, afterAnswer: lookTime) ?? .complete
            }
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

    /// Gives up the backup being written. Does not wait for that.
    func cancelBackup() { backups?.requestStop() }

    /// Archives the rest of the journal, and ends the threads. After the journal thread has ended.
    ///
    /// A thread whose disk does not answer is left to itself: what the journal has is durable.
    func stop() {
        archive?.requestStop()
        backups?.requestStop()
        let now = MonotonicTime.now
        if let backups = backups.take(), !backups.stop(until: now + BackupThread.stopTime) {
            leave(directories.backups, after: BackupThread.stopTime)
        }
        if let archive = archive.take(), !archive.stop(until: now + ArchiveThread.stopTime) {
            leave(directories.archive, after: ArchiveThread.stopTime)
        }
    }

    private func leave(_ directory: BackupDirectory?, after timeout: Duration) {
        hasLeftThreads = true
        guard let directory else { return }
        logger.error(
            "stopping: \(directory.use.option): the disk of \(directory.path) has not answered for \(timeout.components.seconds) s; the server ends without it"
        )
    }
}

/// Lets SIGTERM and SIGINT end the process while the main thread only waits: before it handles them itself.
/// `wait` must start no thread.
private func endingProcessOnSignals<Result, Failure: Error>(
    _ wait: () throws(Failure) -> Result
) throws(Failure) -> Result {
    Signals.setEndsProcess(true)
    defer { Signals.setEndsProcess(false) }
    return try wait()
}

extension BackupDirectory {
    /// Says in the log that a start does not wait any longer.
    /// - Parameter timeout: How long it has waited for the disk to answer.
    fileprivate func log(_ outcome: FirstLook.Outcome, after timeout: Duration, _ logger: Logger) {
        switch outcome {
        case .complete: break
        case .incomplete:
            logger.error(
                "\(use.option): the disk of \(path) is slow, or does not answer any more: the first look at the directory has not ended within \(BackupServices.firstLookTimeout.components.seconds) s; the server runs without it, and uses it once that has ended"
            )
        case .unanswered:
            logger.error(
                "\(use.option): the disk of \(path) has not answered for \(timeout.components.seconds) s; the server runs without it, and uses it once it answers"
            )
        }
    }
}
