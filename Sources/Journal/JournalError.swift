import COperatingSystem

/// An error of the journal.
package enum JournalError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A system call failed. From `write` or `sync` it is final: see ``poisoned(by:)``.
    case disk(DiskFailure)
    /// An earlier write or sync failed. After a failed `fsync` it is unknown what the disk holds, so nothing
    /// is accepted until the journal was opened, and thereby read, again.
    case poisoned(by: DiskFailure)
    /// Another process uses this directory: its id, if the lock file contains one.
    case lockedByAnotherProcess(directory: String, processID: Int64?)
    /// The files are damaged, or contradict each other. Nothing was changed.
    case corrupt(JournalProblem)
    /// The disk is full: there is no space for so many bytes. Nothing was written.
    case diskFull(byteCount: Int)
    /// The directory contains other files, or data that must not be replaced.
    case notEmpty(directory: String, file: String)
    /// Every possible timeline was used.
    case noTimelineLeft(directory: String)
    /// The oldest checkpoint or record is later than the requested moment.
    case beforeJournal(earliest: SequenceNumber)
    /// What was written is read back otherwise. It has no name, and the data from before is unchanged.
    case writtenDamaged(JournalProblem)
    /// A checkpoint has its name, so the next start uses it. But the directory could not be synced, so a
    /// power cut may take the name back.
    case nameNotDurable(file: String, DiskFailure)
    /// An entry or a payload exceeds its limit. Nothing was accepted.
    case entryTooLarge(byteCount: Int, byteLimit: Int)

    package var description: String {
        switch self {
        case .disk(let failure): failure.description
        case .poisoned(let failure): "the journal cannot be written after this failure: \(failure)"
        case .lockedByAnotherProcess(let directory, let processID):
            "\(directory): in use by \(lockOwner(processID)); one data directory serves one process"
        case .corrupt(let problem):
            "\(problem). Nothing was changed. `pando check data DIR` lists every problem, `pando log DIR` "
                + "prints what can be read; \(problem.flaw.advice)"
        case .diskFull(let byteCount): "the disk is full: there is no space for \(byteCount) bytes of journal"
        case .notEmpty(let directory, let file):
            "\(directory): not empty: contains \(file). Nothing was changed; give an empty or a new directory"
        case .noTimelineLeft(let directory):
            "\(directory): all numbers of timelines are used; restore into an empty directory"
        case .beforeJournal(let earliest):
            "the data directory does not reach back to this moment: it begins with sequence \(earliest)"
        case .writtenDamaged(let problem):
            "what was written is read back otherwise: \(problem). It has no name, so the next start "
                + "removes it, and the data from before is unchanged; look for a failing disk or memory"
        case .nameNotDurable(let file, let failure):
            "\(file) has its name, so the change has taken effect; but the directory could not be synced: \(failure). "
                + "A power cut before the next start may bring back the data from before"
        case .entryTooLarge(let byteCount, let byteLimit):
            "an entry of \(byteCount) bytes: the limit of the journal is \(byteLimit)"
        }
    }
}

/// Who holds the lock of a directory, for messages.
/// - Parameter processID: What the lock file says; nil where it says nothing.
package func lockOwner(_ processID: Int64?) -> String {
    guard let processID else { return "another process" }
    guard processID == pando_disk_process_id() else { return "process \(processID)" }
    return "process \(processID), which is this one: another option names the same directory"
}

/// Calls `body`, and turns its failure into ``JournalError/disk(_:)``.
func onDisk<Result: ~Copyable>(_ body: () throws(DiskFailure) -> Result) throws(JournalError) -> Result {
    do throws(DiskFailure) {
        return try body()
    } catch {
        throw .disk(error)
    }
}

/// One problem of a file of the journal.
package struct JournalProblem: Error, Equatable, Sendable, CustomStringConvertible {
    /// The file's name in the data directory.
    package let file: String
    package let byteOffset: Int
    package let flaw: JournalFlaw

    package init(file: String, byteOffset: Int, flaw: JournalFlaw) {
        self.file = file
        self.byteOffset = byteOffset
        self.flaw = flaw
    }

    package var description: String {
        flaw.isReadFailure ? "\(file): \(flaw)" : "\(file), byte \(byteOffset): \(flaw)"
    }
}

/// Why the bytes at an offset are not a record.
package enum BadRecord: Equatable, Sendable {
    /// The file ends inside the header, or inside the payload.
    case cutShort
    case payloadTooLarge(byteCount: Int)
    case checksumMismatch
    /// Zeros in place of the header, as in a prepared segment (``PreparedSegment``), but other bytes follow.
    case unwritten
}

/// Every possible problem of a journal.
package enum JournalFlaw: Error, Equatable, Sendable, CustomStringConvertible {
    case unreadableName
    /// The disk cannot read the file (``DiskFailure/isUnreadable``). Its bytes may be good.
    case unreadable(DiskFailure)
    case headerCutShort(byteCount: Int)
    case notASegment
    case unsupportedVersion(UInt32)
    case headerChecksumMismatch
    case impossibleFirstSequence(SequenceNumber)
    /// The name and the header have different timelines or first sequences.
    case nameContradictsHeader
    case foreignDirectory(expected: DirectoryID, found: DirectoryID)
    case foreignTimeline(expected: UInt32, found: UInt32)

    /// A bad record that was on disk before: the durable mark of the record `witness`, or the segment that
    /// begins with it, proves that.
    case damaged(BadRecord, sequence: SequenceNumber, witness: SequenceNumber)
    /// A bad record, and the search behind it gave up, so that it is unknown whether it is a torn tail or
    /// damage.
    case undecidable(BadRecord, sequence: SequenceNumber)
    /// Incomplete or unsynced writes; with `--durability always` none was acknowledged. The next start
    /// truncates them. Only an inspection reports this.
    case tornTail(byteCount: Int)
    /// A segment that is not the last ends inside an entry.
    case entryUnfinished(sequence: SequenceNumber)

    case unknownKind(UInt16)
    case unknownFlags(UInt16)
    case sequenceGap(expected: SequenceNumber, found: SequenceNumber)
    case sequenceRepeats(expected: SequenceNumber, found: SequenceNumber)
    /// A durable mark that is lower than an earlier one, or not lower than the record itself.
    case impossibleMark(SequenceNumber)
    case entryBeginsInsideEntry
    case recordOutsideEntry
    case entryTooLarge(byteCount: Int)

    /// A checkpoint's record where another was expected: a part is missing or out of place.
    case checkpointGap(expected: UInt64, found: UInt64)
    /// A checkpoint ends before its end mark.
    case checkpointUnfinished
    /// A block of a checkpoint is damaged.
    case checkpointDamaged(BadRecord)
    case bytesBehindEnd
    /// A checkpoint ends in the middle of an entry of the journal.
    case checkpointInsideEntry(checkpoint: SequenceNumber, last: SequenceNumber)
    /// There is a checkpoint, and none of the segments that must follow it.
    case noSegments
    case notACheckpoint
    case checkpointHeaderDamaged
    case impossibleCheckpoint(SequenceNumber)
    /// A checkpoint that cannot be used, and without it the rest of the directory does not fit together, for
    /// the reason given.
    indirect case irreplaceable(JournalFlaw, because: JournalProblem)
    /// The journal ends before the point the caller already has a checkpoint of.
    case endsBeforeCheckpoint(last: SequenceNumber, checkpoint: SequenceNumber)
    /// The caller could not make sense of an intact entry.
    case rejected(sequence: SequenceNumber, reason: String)

    /// An archive has records that the journal does not have: the data directory is older than its archive.
    case archiveAhead(archived: SequenceNumber, journal: SequenceNumber)
    /// An archive has other records than the journal.
    case archiveDiffers
    /// An archive goes on with a later timeline, of another data directory.
    case laterTimelineArchived(UInt32, of: DirectoryID, journal: UInt32)
    /// The history of a timeline is not what a restore writes.
    case damagedHistory
    /// An archive has another record of the sequence than the backup with which it is to be restored.
    case backupDiffers(sequence: SequenceNumber)
    /// The timeline to be restored does not contain the backup.
    case backupNotOnTimeline(UInt32, backup: UInt32, sequence: SequenceNumber)

    package var description: String {
        switch self {
        case .unreadableName: "the name of a segment or a checkpoint, but not in this program's format"
        case .unreadable(let failure): "cannot be read: \(failure)"
        case .headerCutShort(let byteCount):
            "a segment begins with \(JournalFormat.segmentHeaderByteCount) bytes of header, "
                + "this file has only \(byteCount)"
        case .notASegment: "not a segment of a journal: the first 8 bytes are not PNDOJRN1"
        case .unsupportedVersion(let version):
            "version \(version) of the format; this program reads version \(JournalFormat.version)"
        case .headerChecksumMismatch: "the segment's header is damaged: wrong checksum"
        case .impossibleFirstSequence(let sequence): "a segment cannot begin with sequence \(sequence)"
        case .nameContradictsHeader: "the file's name and its header contradict each other"
        case .foreignDirectory(let expected, let found):
            "belongs to data directory \(found), the rest of the journal to \(expected)"
        case .foreignTimeline(let expected, let found):
            "belongs to timeline \(found), the rest of the journal to \(expected)"
        case .damaged(let bad, let sequence, let witness):
            "record \(sequence) is damaged (\(bad)), but was on disk before record \(witness) was written"
        case .undecidable(let bad, let sequence):
            "record \(sequence) is bad (\(bad)), and the bytes behind it do not show whether it is a torn tail "
                + "or damage"
        case .tornTail(let byteCount):
            "\(byteCount) bytes of incomplete or unsynced writes, none of them acknowledged with --durability "
                + "always (or a last batch that the disk has damaged); the next start cuts them off, and keeps "
                + "a copy"
        case .entryUnfinished(let sequence): "the segment ends inside the entry that begins with \(sequence)"
        case .unknownKind(let kind): "a record of the unknown kind \(kind), perhaps of a newer version"
        case .unknownFlags(let flags): "a record with the unknown flags \(flags), perhaps of a newer version"
        case .sequenceGap(let expected, let found): "sequence \(found) where \(expected) was expected: a gap"
        case .sequenceRepeats(let expected, let found):
            "sequence \(found) where \(expected) was expected: a repeat"
        case .impossibleMark(let mark): "an impossible durable mark: \(mark)"
        case .entryBeginsInsideEntry: "an entry begins before the previous one was committed"
        case .recordOutsideEntry: "a record continues an entry that was never begun"
        case .entryTooLarge(let byteCount): "an entry of \(byteCount) bytes or more"
        case .checkpointGap(let expected, let found):
            "record \(found) of the checkpoint where \(expected) was expected"
        case .checkpointUnfinished: "the checkpoint ends here, without its end mark"
        case .checkpointDamaged(let bad): "a damaged block of the checkpoint (\(bad))"
        case .bytesBehindEnd: "bytes follow the checkpoint's end mark"
        case .checkpointInsideEntry(let checkpoint, let last):
            "the checkpoint at \(checkpoint) lies inside the entry that ends with \(last)"
        case .noSegments: "there is no segment of the journal after this checkpoint"
        case .notACheckpoint: "not a checkpoint: the first 8 bytes are not PNDOCHK1"
        case .checkpointHeaderDamaged: "the checkpoint's header is damaged: wrong checksum"
        case .impossibleCheckpoint(let sequence): "a checkpoint cannot have sequence \(sequence)"
        case .irreplaceable(let flaw, let reason):
            "\(flaw); this checkpoint is needed: the older ones and the journal do not have all data without it (\(reason))"
        case .endsBeforeCheckpoint(let last, let checkpoint):
            "the journal ends at sequence \(last), before the checkpoint at \(checkpoint)"
        case .rejected(let sequence, let reason):
            "the entry that ends with \(sequence) cannot be applied: \(reason)"
        case .archiveAhead(let archived, let journal):
            "the archive has records up to \(archived), but the journal ends with \(journal): the data directory was set "
                + "back to an earlier state, and the writes behind it are in the archive only"
        case .archiveDiffers:
            "the archive has other records than the journal: the data directory was set back to an earlier state, "
                + "or is a copy of another one, and was written since"
        case .laterTimelineArchived(let timeline, let directory, let journal):
            "the archive goes on with timeline \(timeline) of data directory \(directory), and this journal is "
                + "timeline \(journal): a data directory that was restored has taken its place"
        case .damagedHistory: "not the history of a timeline as a restore writes it"
        case .backupDiffers(let sequence):
            "the archive's record \(sequence) is not the one with which the backup ends: it was written after the backup was made. "
                + "The journal has lost the backup's record, in a power cut, or because the data directory was set back"
        case .backupNotOnTimeline(let timeline, let backup, let sequence):
            "the backup is of timeline \(backup), at sequence \(sequence), which is no part of timeline \(timeline)"
        }
    }
}

extension JournalError {
    /// Why a checkpoint cannot be used, where recovery may use the one before instead: it is damaged, or the
    /// disk cannot read it. Nil for every other error.
    /// - Parameter file: The checkpoint, from whose reading the error is.
    func problem(ofCheckpoint file: String) -> JournalProblem? {
        switch self {
        case .corrupt(let problem) where problem.flaw.isDamagedCheckpoint: problem
        case .disk(let failure) where failure.isUnreadable:
            JournalProblem(file: file, byteOffset: 0, flaw: .unreadable(failure))
        default: nil
        }
    }
}

extension JournalFlaw {
    /// Whether the disk cannot read a file, whose bytes may be good.
    package var isReadFailure: Bool {
        switch self {
        case .unreadable: true
        case .irreplaceable(let flaw, _): flaw.isReadFailure
        default: false
        }
    }

    /// What to do. A start without a file of this directory loses what only that file holds, acknowledged
    /// writes among it, so only files that are perhaps not its own are to be moved away.
    fileprivate var advice: String {
        switch self {
        case .unreadableName, .foreignDirectory, .foreignTimeline, .damagedHistory:
            "restore a backup, or move the file away to start without it"
        case .irreplaceable:
            "restore a backup, and keep the file: a start without it loses what it holds"
        default: "restore a backup, and keep the file: a start without it loses acknowledged writes"
        }
    }
}

/// The error of a caller that cannot apply an intact record.
package struct EntryRejection: Error, Equatable, Sendable {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }
}
