import CSystem

/// A system call on a file, by the name of its manual page.
package enum DiskOperation: String, Sendable {
    case makeDirectory = "mkdir"
    case list = "readdir"
    case open
    case size = "fstat"
    case read = "pread"
    case write = "pwritev"
    case sync = "fdatasync"
    case reserve = "fallocate"
    case truncate = "ftruncate"
    case rename
    case remove = "unlink"
    case syncDirectory = "fsync"
    case lock = "flock"
    /// Of the thread that writes a file.
    case startThread = "pthread_create"

    /// Whether a failure leaves open what of earlier calls is on the disk: then trying again does not help.
    var isSync: Bool { self == .sync || self == .syncDirectory }
}

/// A system call on a file that failed: what was tried, on what, and what the kernel said.
package struct DiskFailure: Error, Equatable, Sendable, CustomStringConvertible {
    package let operation: DiskOperation
    package let path: String
    /// The kernel's number, or 0 when the file ended before the bytes it should hold.
    package let errorNumber: Int32
    package let errorText: String

    package init(operation: DiskOperation, path: String, errorNumber: Int32, errorText: String) {
        self.operation = operation
        self.path = path
        self.errorNumber = errorNumber
        self.errorText = errorText
    }

    /// No room on the disk (or in the quota): there may be some later.
    package var isOutOfSpace: Bool { pando_disk_is_full(errorNumber) != 0 }

    /// Too many files are open, in the process or on the machine: there may be fewer later.
    package var lacksDescriptors: Bool { pando_disk_lacks_descriptors(errorNumber) != 0 }

    /// The machine has run out of something of which there may be more later: room on the disk, or
    /// descriptors.
    package var isShortage: Bool { isOutOfSpace || lacksDescriptors }

    /// A shortage that has left everything as it was, so that the same call may succeed later. Not after a
    /// failed sync: which of the earlier writes are on the disk is unknown then.
    package var mayBeRetried: Bool { isShortage && !operation.isSync }

    /// Nothing has that name.
    var isMissing: Bool { pando_disk_is_missing(errorNumber) != 0 }

    package var description: String {
        "\(path): \(operation.rawValue) failed: \(errorText) (errno \(errorNumber))"
    }
}

/// Why the journal cannot keep, or cannot trust, what it was given.
package enum JournalError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A system call failed. From `write` or `sync` it is final: see ``poisoned(by:)``.
    case disk(DiskFailure)
    /// An earlier write or sync failed. A failed `fsync` leaves the page cache in a state nobody can
    /// describe, so nothing is accepted until the log was opened, and thereby read, again.
    case poisoned(by: DiskFailure)
    /// Another process serves this directory; its id, if it left one.
    case lockedByAnotherProcess(directory: String, processID: Int64?)
    /// What is on the disk contradicts what was promised; nothing was changed.
    case corrupt(JournalProblem)
    /// The disk is full: so many bytes cannot be written now. Nothing was.
    case noRoom(byteCount: Int)
    /// Somebody else's files are there, or data that must not be replaced.
    case notEmpty(directory: String, file: String)
    /// Every timeline that there can be was used.
    case noTimelineLeft(directory: String)
    /// What is kept begins later than the moment that was asked for.
    case beforeLog(earliest: SequenceNumber)
    /// Nothing was appended.
    case entryTooLarge(byteCount: Int, byteLimit: Int)

    package var description: String {
        switch self {
        case .disk(let failure): failure.description
        case .poisoned(let failure): "the journal takes nothing more after this failure: \(failure)"
        case .lockedByAnotherProcess(let directory, let processID?):
            "\(directory): in use by process \(processID); one data directory serves one process"
        case .lockedByAnotherProcess(let directory, nil):
            "\(directory): in use by another process; one data directory serves one process"
        case .corrupt(let problem):
            "\(problem). Nothing was changed. `pando check data DIR` lists every problem, `pando log DIR` "
                + "prints what can be read; restore a backup, or move the file away to go on without it"
        case .noRoom(let byteCount): "the disk is full: there is no room for \(byteCount) bytes of log"
        case .notEmpty(let directory, let file): "\(directory): holds something already: \(file)"
        case .noTimelineLeft(let directory): "\(directory): no timeline is left"
        case .beforeLog(let earliest):
            "what is kept does not reach back so far: it begins with sequence \(earliest)"
        case .entryTooLarge(let byteCount, let byteLimit):
            "an entry of \(byteCount) bytes: the journal takes \(byteLimit)"
        }
    }
}

/// Runs what only the disk can make fail.
func onDisk<Result: ~Copyable>(_ body: () throws(DiskFailure) -> Result) throws(JournalError) -> Result {
    do throws(DiskFailure) {
        return try body()
    } catch {
        throw .disk(error)
    }
}

/// Something wrong at one place of the log.
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

    package var description: String { "\(file), byte \(byteOffset): \(flaw)" }
}

/// Why the bytes at some place are not a record.
package enum BadRecord: Equatable, Sendable {
    /// The file ends inside its header, or before the payload its header announces.
    case cutShort
    case payloadTooLarge(byteCount: Int)
    case checksumMismatch
    /// Zeros where its header should be, as in a segment that was prepared (``PreparedSegment``), but
    /// something follows.
    case unwritten
}

/// Everything that can be wrong with a log.
package enum JournalFlaw: Error, Equatable, Sendable, CustomStringConvertible {
    case unreadableName
    case headerCutShort(byteCount: Int)
    case notASegment
    case unsupportedVersion(UInt32)
    case headerChecksumMismatch
    case impossibleFirstSequence(SequenceNumber)
    /// The name and the header give different timelines or first sequences.
    case nameContradictsHeader
    case foreignDirectory(expected: DirectoryID, found: DirectoryID)
    case foreignTimeline(expected: UInt32, found: UInt32)

    /// A bad record where a good one was promised: `witness` is a later sequence whose mark, or whose
    /// segment's existence, says so.
    case damaged(BadRecord, sequence: SequenceNumber, witness: SequenceNumber)
    /// A bad record where later bytes are too tangled to tell a torn tail from damage.
    case undecidable(BadRecord, sequence: SequenceNumber)
    /// Not promised by anybody: the next start cuts it off. Only inspection reports this.
    case tornTail(byteCount: Int)
    /// A segment that is not the last ends inside an entry.
    case entryUnfinished(sequence: SequenceNumber)

    case unknownKind(UInt16)
    case unknownFlags(UInt16)
    case sequenceGap(expected: SequenceNumber, found: SequenceNumber)
    case sequenceRepeats(expected: SequenceNumber, found: SequenceNumber)
    /// A mark that goes back, or claims the record itself or a later one.
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
    /// A checkpoint ends in the middle of an entry of the log.
    case checkpointInsideEntry(checkpoint: SequenceNumber, last: SequenceNumber)
    /// There is a checkpoint, and none of the segments that must follow it.
    case noSegments
    case notACheckpoint
    /// The log ends before the point the host already has a checkpoint of.
    case endsBeforeCheckpoint(last: SequenceNumber, checkpoint: SequenceNumber)
    /// The host could not make sense of an intact entry.
    case rejected(sequence: SequenceNumber, reason: String)

    package var description: String {
        switch self {
        case .unreadableName: "the name of a segment, but not as we write it"
        case .headerCutShort(let byteCount):
            "a segment begins with \(JournalFormat.segmentHeaderByteCount) bytes of header, "
                + "here are \(byteCount)"
        case .notASegment: "no segment of a journal: the first 8 bytes are not PNDOJRN1"
        case .unsupportedVersion(let version):
            "version \(version) of the format; this program reads version \(JournalFormat.version)"
        case .headerChecksumMismatch: "the segment's header is damaged: wrong checksum"
        case .impossibleFirstSequence(let sequence): "a segment cannot begin with sequence \(sequence)"
        case .nameContradictsHeader: "the file's name and its header contradict each other"
        case .foreignDirectory(let expected, let found):
            "belongs to data directory \(found), the rest of the log to \(expected)"
        case .foreignTimeline(let expected, let found):
            "belongs to timeline \(found), the rest of the log to \(expected)"
        case .damaged(let bad, let sequence, let witness):
            "record \(sequence) is damaged (\(bad)), but was on disk before record \(witness) was written"
        case .undecidable(let bad, let sequence):
            "record \(sequence) is bad (\(bad)), and what follows is too tangled to tell a torn tail from "
                + "damage"
        case .tornTail(let byteCount):
            "\(byteCount) bytes of unfinished, never acknowledged writes; the next start cuts them off"
        case .entryUnfinished(let sequence): "the segment ends inside the entry that begins with \(sequence)"
        case .unknownKind(let kind): "a record of kind \(kind), which only a newer program can know"
        case .unknownFlags(let flags): "a record with flags \(flags), which only a newer program can know"
        case .sequenceGap(let expected, let found): "sequence \(found) where \(expected) was expected: a gap"
        case .sequenceRepeats(let expected, let found):
            "sequence \(found) where \(expected) was expected: a repeat"
        case .impossibleMark(let mark): "an impossible durable mark: \(mark)"
        case .entryBeginsInsideEntry: "an entry begins before the one before it was committed"
        case .recordOutsideEntry: "a record continues an entry that was never begun"
        case .entryTooLarge(let byteCount): "an entry of \(byteCount) bytes or more"
        case .checkpointGap(let expected, let found):
            "record \(found) of the checkpoint where \(expected) was expected"
        case .checkpointUnfinished: "the checkpoint ends here, without its end mark"
        case .checkpointDamaged(let bad): "a damaged block of the checkpoint (\(bad))"
        case .bytesBehindEnd: "something follows the checkpoint's end mark"
        case .checkpointInsideEntry(let checkpoint, let last):
            "the checkpoint at \(checkpoint) lies inside the entry that ends with \(last)"
        case .noSegments: "a checkpoint, but no segment of the log that goes on from it"
        case .notACheckpoint: "no checkpoint: the first 8 bytes are not PNDOCHK1"
        case .endsBeforeCheckpoint(let last, let checkpoint):
            "the log ends at sequence \(last), before the checkpoint at \(checkpoint)"
        case .rejected(let sequence, let reason):
            "the entry that ends with \(sequence) makes no sense: \(reason)"
        }
    }
}

/// How the host says that an intact entry makes no sense to it.
package struct EntryRejection: Error, Equatable, Sendable {
    package let reason: String
    package init(_ reason: String) { self.reason = reason }
}
