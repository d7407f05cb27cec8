import Logging
import PandoJournal
import PandoReactor
import PandoTime

/// The archive thread: copies the log into an archive, each second what has become durable since. Its priority is low: it
/// runs when the other threads wait.
///
/// A failure never stops the server: it is counted and logged, and tried again. While it lasts, some of the log is kept
/// although its checkpoints do not need it (`heldSegmentLimit`); what is removed before it was copied is a gap in the
/// archive.
package final class ArchiveThread: Sendable {
    /// Has no messages: it looks at the clock.
    private let thread: WorkerThread<Never>

    private static let niceness = 10
    /// The time between two looks: about as much is lost with the disk of the data directory.
    private static let interval: Duration = .seconds(1)
    private static let retryInterval: Duration = .seconds(5)
    /// How long the last copy may take when the server stops.
    private static let stopTime: Duration = .seconds(10)

    /// - Parameters:
    ///   - source: The data directory; used by this thread alone.
    ///   - mark: How far its log is on disk.
    /// - Throws: ``StorageError`` where the archive is that of another data directory, or cannot be read; ``SocketError``
    ///   where the process has no free descriptor or thread.
    package init(
        of source: SystemDisk, in directory: BackupDirectory, origin: JournalOrigin, mark: LogMark,
        metrics: BackupMetrics, logger: Logger
    ) throws {

        do throws(JournalError) {
            let target: SystemDisk
            do throws(DiskFailure) { target = try directory.open() } catch { throw .disk(error) }
            try LogArchive(
                of: source, in: target, directory: origin.directory, timeline: origin.timeline
            ).refuseIfForeign()
        } catch {
            if case .corrupt(let problem) = error {
                throw StorageError.locked(
                    "--archive-to: \(directory.path): not the archive of this data directory: \(problem)")
            }
            throw StorageError(error)
        }
        metrics.archivedTime.set(Int(Environment.machine.wallMilliseconds / 1000))
        // Until it is known what is archived, everything is kept.
        mark.archiving = .zero
        thread = try WorkerThread("pando-archive", niceness: Self.niceness)
        try thread.start { queue in
            var copier = ArchiveCopier(
                open: { () throws(DiskFailure) in
                    LogArchive(
                        of: source, in: try directory.open(), directory: origin.directory,
                        timeline: origin.timeline)
                }, metrics: metrics, logger: logger)
            var none: [Never] = []
            var retryTime: MonotonicTime?
            while queue.receive(into: &none, timeout: Self.interval) {
                if let retryTime, retryTime > .now { continue }
                // Before the mark is read: what was on disk then is in front of the mark.
                let time = Environment.machine.wallMilliseconds
                guard let position = mark.position else { continue }
                let isCopied = copier.copy(upTo: position, at: time) { queue.isStopping }
                if let segment = copier.segment { mark.archiving = segment.firstSequence }
                retryTime = isCopied || queue.isStopping ? nil : .now + Self.retryInterval
            }
            // What became durable while the server stopped.
            let deadline = MonotonicTime.now + Self.stopTime
            let time = Environment.machine.wallMilliseconds
            if let position = mark.position {
                _ = copier.copy(upTo: position, at: time) { deadline < .now }
            }
        }
    }

    /// Copies the rest, and ends the thread. The journal thread has ended before.
    package func stop() { thread.stop() }
}

/// Copies the log, and counts what it does; it has no thread of its own.
struct ArchiveCopier<Storage: Disk> {
    private let open: () throws(DiskFailure) -> LogArchive<Storage>
    /// Nil before the first copy, and after a failure.
    private var archive: LogArchive<Storage>?
    private let metrics: BackupMetrics
    private let logger: Logger
    private var hasFailed = false
    /// How far the archive reaches.
    private var copied: LogPosition?

    /// - Parameter open: Opens the archive, which may be on a disk that comes and goes.
    init(
        open: @escaping () throws(DiskFailure) -> LogArchive<Storage>, metrics: BackupMetrics, logger: Logger
    ) {
        self.open = open
        self.metrics = metrics
        self.logger = logger
    }

    /// The segment that the archive does not have as a whole yet; nil before the first copy, and after a failure.
    var segment: SegmentName? { archive?.segment }

    /// Copies everything that is on disk and not in the archive.
    /// - Parameter milliseconds: A time, since 1970, at which nothing behind `position` was on disk.
    /// - Returns: false after a failure, or where it was cancelled.
    mutating func copy(
        upTo position: LogPosition, at milliseconds: Int64, isCancelled: () -> Bool
    ) -> Bool {
        let time = Int(milliseconds / 1000)
        guard copied != position else {
            metrics.archivedTime.set(time)
            return true
        }
        do throws(JournalError) {
            var archive: LogArchive<Storage>
            if let kept = self.archive.take() {
                archive = kept
            } else {
                do throws(DiskFailure) { archive = try open() } catch { throw .disk(error) }
            }
            let isDone = try archive.update(upTo: position, isCancelled: isCancelled) {
                [metrics, logger] event in
                switch event {
                case .copied(let byteCount): metrics.archivedBytes.add(byteCount)
                case .closed(let segment):
                    metrics.archivedSegments.add()
                    logger.info("archived: \(segment.text)")
                case .gap(let segment):
                    metrics.archiveGaps.add()
                    logger.error(
                        "the archive has a gap before \(segment.text): a checkpoint has made the segments before it superfluous, and they were removed before they were copied. A restore with the archive needs a backup from now on"
                    )
                }
            }
            self.archive = archive
            guard isDone else { return false }
        } catch {
            metrics.archiveFailures.add()
            hasFailed = true
            logger.error("the log cannot be archived, it is tried again: \(error.ofArchive)")
            return false
        }
        if hasFailed { logger.notice("the log is archived again") }
        hasFailed = false
        copied = position
        metrics.archivedTime.set(time)
        return true
    }
}

extension JournalError {
    /// The advice that the journal gives for a damaged log does not fit a copy, so it is left out.
    fileprivate var ofArchive: String {
        if case .corrupt(let problem) = self { problem.description } else { description }
    }
}
