import Logging
import PandoJournal

/// Copies the journal, and counts what it does; it has no thread of its own.
struct ArchiveCopier<Storage: Disk> {
    private let open: () throws(BackupDirectory.Failure) -> JournalArchive<Storage>
    private let isUnchanged: () -> Bool
    /// Nil before the first copy, and after a failure.
    private var archive: JournalArchive<Storage>?
    private let metrics: BackupMetrics
    private let logger: Logger
    private var hasFailed = false
    /// It has succeeded once.
    private var hasCopied = false
    /// How far the archive reaches.
    private var copied: JournalPosition?
    /// The last record before what the archive has without a gap.
    private var begin = SequenceNumber.zero

    /// - Parameters:
    ///   - open: Opens the archive, which may be on a disk that comes and goes.
    ///   - isUnchanged: Whether what was opened is still at its path.
    init(
        open: @escaping () throws(BackupDirectory.Failure) -> JournalArchive<Storage>,
        isUnchanged: @escaping () -> Bool = { true }, metrics: BackupMetrics, logger: Logger
    ) {
        self.open = open
        self.isUnchanged = isUnchanged
        self.metrics = metrics
        self.logger = logger
    }

    /// The segment that the archive does not have as a whole yet; nil before the first copy, and after a
    /// failure.
    var segment: SegmentName? { archive?.segment }

    /// What the archive has without a gap, as far as this knows; nil before the first copy, and after a
    /// failure.
    var archived: ClosedRange<SequenceNumber>? {
        copied.map { min(begin, $0.sequence)...$0.sequence }
    }

    /// Copies everything that is on disk and not in the archive.
    /// - Parameter milliseconds: A time, since 1970, at which nothing behind `position` was on disk.
    /// - Returns: false after a failure, or where it was cancelled.
    mutating func copy(
        upTo position: JournalPosition, at milliseconds: Int64, isCancelled: () -> Bool
    ) -> Bool {
        let time = Int(milliseconds / 1000)
        guard copied != position else {
            metrics.archivedTime.set(time)
            return true
        }
        var archive: JournalArchive<Storage>
        do throws(BackupDirectory.Failure) {
            archive = if let kept = self.archive.take() { kept } else { try open() }
        } catch {
            fail(error.archiveFailure, "\(error)")
            return false
        }
        do throws(JournalError) {
            var gap: SequenceNumber?
            let isDone = try archive.update(upTo: position, isCancelled: isCancelled) { event in
                if case .gap(let segment) = event { gap = segment.firstSequence }
                note(event)
            }
            self.archive = archive
            begin = max(begin, gap?.predecessor ?? .zero, archive.begin ?? .zero)
            guard isDone else { return false }
        } catch {
            fail(error.archiveFailure, error.ofArchive)
            return false
        }
        if !hasCopied {
            logger.info(
                "the journal is archived in \(archive.target.directory), so far up to sequence \(position.sequence)"
            )
        } else if hasFailed {
            logger.notice("the journal is archived again")
        }
        hasCopied = true
        hasFailed = false
        copied = position
        metrics.archivedTime.set(time)
        return true
    }

    /// Removes what has become superfluous, also while nothing can be copied: the disk may be full.
    ///
    /// Whether the archive is of this journal is found out anew: another directory may be there by now, and
    /// where the start has not waited for its disk, nothing has refused it. From an archive that contradicts
    /// the journal nothing is removed: what the journal has lost is only there.
    /// - Returns: false after a failure. Then the trim is not taken.
    mutating func trim(
        _ latest: ArchiveTrim.Latest, with trimmer: ArchiveTrimmer<Storage>, at position: JournalPosition
    ) -> Bool {
        guard latest.isWaiting else { return true }
        let archive: JournalArchive<Storage>
        do throws(BackupDirectory.Failure) { archive = try open() } catch {
            failTrim(error.archiveFailure, "\(error)")
            return false
        }
        do throws(JournalError) { try archive.refuseIfForeign(at: position) } catch {
            failTrim(error.archiveFailure, error.ofArchive)
            return false
        }
        if let trim = latest.take() { trimmer.trim(archive.target, trim) }
        return true
    }

    /// Has the next copy open the archive again if another directory is there by now.
    mutating func checkPlace() {
        guard archive != nil, !isUnchanged() else { return }
        archive = nil
        copied = nil
    }

    /// Copies go on where they have been going on, unless the archive contradicts the journal: what only the
    /// look at older files has met, such as one that cannot be read, keeps nothing from being copied.
    private mutating func failTrim(_ reason: BackupMetrics.ArchiveFailure, _ text: String) {
        guard archive != nil, reason != .conflict else { return fail(reason, text) }
        metrics.archiveRemovalFailures.add()
        logger.error("archived segments cannot be removed now; the server will try again: \(text)")
    }

    private mutating func fail(_ reason: BackupMetrics.ArchiveFailure, _ text: String) {
        archive = nil
        copied = nil
        hasFailed = true
        metrics.archiveFailures.add(reason)
        logger.error("the journal cannot be archived; the server will try again: \(text)")
    }

    private func note(_ event: ArchiveEvent) {
        switch event {
        case .copied(let byteCount): metrics.archivedBytes.add(byteCount)
        case .closed(let segment):
            metrics.archivedSegments.add()
            logger.info("archived: \(segment.text)")
        case .gap(let segment):
            metrics.archiveGaps.add()
            logger.error(
                "the archive has a gap before \(segment.text): an import came before it, which is in no journal; or the data directory does not have the segments before it any more, and they were not copied. A restore with the archive needs a backup that is made from now on"
            )
        case .damaged(let file, let byteOffset):
            metrics.archiveFailures.add(.damaged)
            logger.error(
                "the archive is damaged: \(file) cannot be read from byte \(byteOffset) on. A restore with the archive needs a backup made after the damaged part"
            )
        }
    }
}

extension JournalError {
    /// What counts an archive that cannot be written for this error.
    var archiveFailure: BackupMetrics.ArchiveFailure {
        switch self {
        case .corrupt(let problem) where problem.flaw.isArchiveConflict: .conflict
        case .corrupt: .damaged
        default: .disk
        }
    }

    /// The advice that the journal gives for a damaged journal does not fit a copy, so it is left out.
    var ofArchive: String {
        guard case .corrupt(let problem) = self else { return description }
        let advice =
            problem.flaw.isArchiveConflict
            ? ". Nothing in the archive was changed. `pando restore BACKUP --archive DIR --data NEW` restores what is there; to go on with this data directory, give it another --archive-to"
            : ""
        return "\(problem)\(advice)"
    }
}

extension BackupDirectory.Failure {
    fileprivate var archiveFailure: BackupMetrics.ArchiveFailure {
        switch self {
        case .disk: .disk
        case .missing, .inUse: .missing
        case .damaged: .damaged
        }
    }
}
