import PandoBytes

/// What opening a journal found and did.
package struct RecoverySummary: Equatable, Sendable {
    /// The directory held no journal: one was made.
    package var isNew = false
    /// The checkpoint that the log was replayed onto; nil when it was read from its beginning.
    package var checkpoint: CheckpointHeader?
    package var checkpointByteCount = 0
    package var checkpointRecordCount = 0
    /// Newer checkpoints that were passed over, the newest first.
    /// ``Journal/open(on:newDirectoryID:timeline:options:into:)`` has put them aside.
    package var damagedCheckpoints: [JournalProblem] = []
    /// Whose log it is; nil of a directory that holds none, unless one was made.
    package var directory: DirectoryID?
    package var timeline: UInt32 = 0
    /// Segments that were read: those before the checkpoint are not.
    package var segmentCount = 0
    /// Whole entries in them, those before the checkpoint included.
    package var entryCount = 0
    package var recordCount = 0
    /// Bytes of the entries after the checkpoint.
    package var replayedByteCount = 0
    /// The last record in the log, now on disk.
    package var lastSequence = SequenceNumber.zero
    /// What follows is behind the moment up to which was read.
    package var hasReachedMoment = false
    /// What was cut off the end: writes that never were acknowledged.
    package var tornByteCount = 0
    /// Room at the end that was prepared and not filled, cut off as well.
    package var unfilledByteCount = 0
}

/// Who builds a state from what a data directory holds.
///
/// Gets the records of one checkpoint, if there is one, then the entries that follow it. Whatever it throws
/// names the record that made no sense: in a checkpoint that sends recovery to the one before, in the log it
/// refuses the log.
package protocol Recovering {
    /// Forget everything: what came so far was of a checkpoint that turned out to be damaged.
    mutating func startOver()
    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection)
    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection)
}

extension Journal {
    /// The file whose lock says that the directory is in use.
    static var lockName: String { "LOCK" }

    /// Takes the directory, reads its newest good checkpoint and the log behind it, and makes ready to
    /// append.
    ///
    /// Makes the first segment when there is none. Every whole entry behind the checkpoint is given to
    /// `host`, in order; when this returns, all of them are on disk (whoever wrote them may have died before
    /// the sync), and a torn tail is gone. When it throws, what `host` saw must be thrown away.
    ///
    /// - Parameters:
    ///   - newDirectoryID: Random; used only when the directory holds no journal yet.
    ///   - host: Fresh; gets what is found.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/corrupt(_:)`` (the log was not
    ///   changed), ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read of the checkpoint and of the segments behind it; memory for the
    ///   largest entry or block, or 1 MiB.
    package static func open(
        on disk: Storage, newDirectoryID: DirectoryID, timeline: UInt32 = 1,
        options: JournalOptions = .init(),
        into host: inout some Recovering
    ) throws(JournalError) -> Journal {
        let lock = try takeLock(on: disk)
        let listing = try readableListing(of: disk)
        try onDisk { () throws(DiskFailure) in
            for name in listing.unfinished { try disk.remove(name) }
        }
        if listing.segments.isEmpty, listing.checkpoints.isEmpty {
            let header = SegmentHeader(
                directory: newDirectoryID, timeline: timeline, firstSequence: SequenceNumber(1))
            var summary = RecoverySummary()
            summary.isNew = true
            summary.directory = header.directory
            summary.timeline = header.timeline
            summary.segmentCount = 1
            do throws(DiskFailure) {
                let file = try SegmentMaker.make(header, on: disk, room: 0)
                return Journal(
                    disk: disk, file: file, lock: lock, header: header,
                    byteOffset: JournalFormat.segmentHeaderByteCount, options: options, recovery: summary)
            } catch {
                throw .disk(error)
            }
        }
        var recovery = DirectoryReader(disk: disk, listing: listing)
        guard var reader = try recovery.read(lastMode: .readWrite, into: &host) else {
            return try begin(behind: recovery.summary, superseding: listing.superseded, disk, lock, options)
        }
        let (header, end) = (reader.header, reader.offset)
        do throws(DiskFailure) {
            // Whoever wrote the tail, or named the file, may have died before the sync, or because of it.
            try reader.window.settle(reader.settledOffset..<end, end: end)
            for problem in recovery.summary.damagedCheckpoints {
                try disk.rename(problem.file, to: problem.file + CheckpointFormat.damagedSuffix)
            }
            try disk.syncDirectory()
        } catch {
            throw .disk(error)
        }
        return Journal(
            disk: disk, file: reader.finish(), lock: lock, header: header, byteOffset: end, options: options,
            recovery: recovery.summary)
    }

    /// Makes the first segment behind a checkpoint that begins the log: an import's, or a restore's.
    private static func begin(
        behind summary: RecoverySummary, superseding names: [String], _ disk: Storage, _ lock: Storage.File,
        _ options: JournalOptions
    ) throws(JournalError) -> Journal {
        guard let checkpoint = summary.checkpoint else {
            preconditionFailure("only a checkpoint needs no segment")
        }
        let header = SegmentHeader(
            directory: checkpoint.directory, timeline: checkpoint.timeline,
            firstSequence: checkpoint.sequence.successor)
        var summary = summary
        summary.segmentCount = 1
        do throws(DiskFailure) {
            // Whoever named the checkpoint may have died before its name was durable. Former timelines are
            // gone for good before the new one has a segment, by which the two could no longer be told from a
            // mixture.
            try disk.syncDirectory()
            if !names.isEmpty {
                for name in names { try disk.remove(name) }
                try disk.syncDirectory()
            }
            let file = try SegmentMaker.make(header, on: disk, room: 0)
            return Journal(
                disk: disk, file: file, lock: lock, header: header,
                byteOffset: JournalFormat.segmentHeaderByteCount, options: options, recovery: summary)
        } catch {
            throw .disk(error)
        }
    }

    /// Takes the directory without looking at what it holds.
    /// - Returns: The lock, as long as it is kept.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/disk(_:)``.
    package static func takeLock(on disk: Storage) throws(JournalError) -> Storage.File {
        switch try onDisk({ () throws(DiskFailure) in try disk.lock(lockName) }) {
        case .acquired(let file): return file
        case .held(let processID):
            throw .lockedByAnotherProcess(directory: disk.directory, processID: processID)
        }
    }
}

/// Reads a directory as recovery would, without its lock and without changing it: what a process that works
/// on it has written so far. A torn tail is passed over, and files that the other process removes meanwhile
/// make it begin anew.
/// - Throws: As ``Journal/open(on:newDirectoryID:timeline:options:into:)``.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, into host: inout some Recovering
) throws(JournalError) -> RecoverySummary {
    try readUnlocked(disk, until: nil, into: &host)
}

func readUnlocked<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime?, into host: inout some Recovering
) throws(JournalError) -> RecoverySummary {
    var attemptsLeft = 10
    while true {
        let listing = try readableListing(of: disk)
        var recovery = DirectoryReader(disk: disk, listing: listing, moment: moment)
        if listing.segments.isEmpty, listing.checkpoints.isEmpty {
            recovery.summary.isNew = true
            return recovery.summary
        }
        do throws(JournalError) {
            _ = try recovery.read(lastMode: .read, into: &host)
            return recovery.summary
        } catch {
            attemptsLeft -= 1
            let now = try readableListing(of: disk)
            let hasMoved = now.segments != listing.segments || now.checkpoints != listing.checkpoints
            guard hasMoved, attemptsLeft > 0 else { throw error }
            host.startOver()
        }
    }
}

func readableListing<Storage: Disk>(of disk: Storage) throws(JournalError) -> Listing {
    let listing = Listing(try onDisk { () throws(DiskFailure) in try disk.list() })
    if let name = listing.unreadable.first {
        throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
    }
    return try onDisk { () throws(DiskFailure) in try listing.ofCurrentTimeline(on: disk) }
}
