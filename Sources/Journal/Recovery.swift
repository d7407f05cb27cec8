import PandoBytes

/// What the opening of a journal found and did.
package struct RecoverySummary: Equatable, Sendable {
    /// The directory contained no journal, and a new one was made.
    package var isNew = false
    /// The checkpoint that the log was replayed onto; nil when it was read from its beginning.
    package var checkpoint: CheckpointHeader?
    package var checkpointByteCount = 0
    package var checkpointRecordCount = 0
    /// Damaged checkpoints that were skipped, the newest first.
    /// ``Journal/open(on:newDirectoryID:timeline:options:into:)`` renames them.
    package var damagedCheckpoints: [JournalProblem] = []
    /// The id of the directory; nil for one without a journal, unless a new one was made.
    package var directory: DirectoryID?
    package var timeline: UInt32 = 0
    /// Segments that were read, without those before the checkpoint.
    package var segmentCount = 0
    /// Whole entries in these segments, those before the checkpoint included.
    package var entryCount = 0
    package var recordCount = 0
    /// Bytes of the entries after the checkpoint.
    package var replayedByteCount = 0
    /// The last record of the log. It is on disk.
    package var lastSequence = SequenceNumber.zero
    /// There are entries behind the moment up to which the directory was read.
    package var hasReachedMoment = false
    /// Bytes that were truncated at the end: writes that were never acknowledged.
    package var tornByteCount = 0
    /// Prepared bytes at the end that were never used, and were truncated as well.
    package var unfilledByteCount = 0
}

/// Builds a state from the records of a data directory.
///
/// It gets the records of one checkpoint, if there is one, and then the entries behind it. It throws for a record that
/// it cannot apply. In a checkpoint, recovery then falls back to the one before; in the log, it refuses the log.
package protocol RecoveryTarget {
    /// Drops the state: the records so far were of a checkpoint that is damaged.
    mutating func startOver()
    /// Applies a record of a checkpoint.
    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection)
    /// Applies an entry of the log.
    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection)
}

extension Journal {
    /// The file whose lock says that the directory is in use.
    static var lockName: String { "LOCK" }

    /// Locks the directory, reads its newest undamaged checkpoint and the log behind it, and opens the log for
    /// appending. Makes the first segment when there is none.
    ///
    /// `host` gets every whole entry behind the checkpoint, in order. When this returns, all of them are on disk (the
    /// process that wrote them may have crashed before the sync), and a torn tail is truncated. When it throws, the
    /// state of `host` must be dropped.
    ///
    /// - Parameters:
    ///   - newDirectoryID: Random; used only when the directory contains no journal yet.
    ///   - host: Without state.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/corrupt(_:)`` (the log was not
    ///   changed), ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read of the checkpoint and of the segments behind it; memory for the
    ///   largest entry or block, or 1 MiB.
    package static func open(
        on disk: Storage, newDirectoryID: DirectoryID, timeline: UInt32 = 1,
        options: JournalOptions = .init(),
        into host: inout some RecoveryTarget
    ) throws(JournalError) -> Journal {
        let lock = try acquireLock(on: disk)
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
                let file = try SegmentMaker.make(header, on: disk, reserving: 0)
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
            // The process that wrote the end, or renamed the file, may have crashed before its sync, or because the sync failed.
            try reader.window.rewriteDurably(reader.durableOffset..<end, end: end)
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

    /// Makes the first segment behind a checkpoint that begins the log, of an import or a restore.
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
            // The process that renamed the checkpoint may have crashed before the name was durable. Files of earlier
            // timelines are removed durably before the new one has a segment: afterwards they would be a mixture of
            // timelines, which recovery refuses.
            try disk.syncDirectory()
            if !names.isEmpty {
                for name in names { try disk.remove(name) }
                try disk.syncDirectory()
            }
            let file = try SegmentMaker.make(header, on: disk, reserving: 0)
            return Journal(
                disk: disk, file: file, lock: lock, header: header,
                byteOffset: JournalFormat.segmentHeaderByteCount, options: options, recovery: summary)
        } catch {
            throw .disk(error)
        }
    }

    /// Locks the directory without reading it.
    /// - Returns: The lock, which is held as long as this value exists.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/disk(_:)``.
    package static func acquireLock(on disk: Storage) throws(JournalError) -> Storage.File {
        switch try onDisk({ () throws(DiskFailure) in try disk.lock(lockName) }) {
        case .acquired(let file): return file
        case .held(let processID):
            throw .lockedByAnotherProcess(directory: disk.directory, processID: processID)
        }
    }
}

/// Reads a directory as recovery would, but without its lock and without changes: everything that a running server has
/// written so far. A torn tail is skipped. If the server removes files meanwhile, the reading starts again.
/// - Throws: As ``Journal/open(on:newDirectoryID:timeline:options:into:)``.
package func readDirectory<Storage: Disk>(
    _ disk: Storage, into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    try readUnlocked(disk, until: nil, into: &host)
}

func readUnlocked<Storage: Disk>(
    _ disk: Storage, until moment: PointInTime?, into host: inout some RecoveryTarget
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
            let hasChanged = now.segments != listing.segments || now.checkpoints != listing.checkpoints
            guard hasChanged, attemptsLeft > 0 else { throw error }
            host.startOver()
        }
    }
}

func readableListing<Storage: Disk>(of disk: Storage) throws(JournalError) -> DirectoryListing {
    let listing = DirectoryListing(try onDisk { () throws(DiskFailure) in try disk.list() })
    if let name = listing.unreadable.first {
        throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
    }
    return try onDisk { () throws(DiskFailure) in try listing.ofCurrentTimeline(on: disk) }
}
