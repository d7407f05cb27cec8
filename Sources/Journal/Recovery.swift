import PandoBytes

extension Journal {
    /// The file whose lock says that the directory is in use.
    package static var lockFileName: String { "LOCK" }

    /// Locks the directory, reads its newest undamaged checkpoint and the journal behind it, and opens the
    /// journal for appending. Makes the first segment when there is none.
    ///
    /// `host` gets every whole entry behind the checkpoint, in order. When this returns, all that was read is
    /// on disk (the process that wrote it may have crashed before the sync, or another program may have
    /// copied the files here), and a torn tail is truncated, with a copy of it beside (``TornTail``). When it
    /// throws, the state of `host` must be dropped.
    ///
    /// - Parameters:
    ///   - newDirectoryID: Random; used only when the directory contains no journal yet.
    ///   - host: Without state.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/notEmpty(directory:file:)`` for a
    ///   directory without a journal that holds anything else (it was not changed),
    ///   ``JournalError/corrupt(_:)`` (the journal was not changed), ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read of the checkpoint and of the segments behind it; memory for the
    ///   largest entry or block, or 1 MiB.
    package static func open(
        on disk: Storage, newDirectoryID: DirectoryID, timeline: UInt32 = 1,
        options: JournalOptions = .init(),
        into host: inout some RecoveryTarget
    ) throws(JournalError) -> Journal {
        try refuseForeignFiles(on: disk)
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
        var end = try recovery.read(lastMode: .readWrite, into: &host)
        var summary = recovery.summary
        try onDisk { () throws(DiskFailure) in try syncFiles(listing, of: disk) }
        guard var reader = end.take() else {
            return try begin(behind: summary, superseding: listing.superseded, disk, lock, options)
        }
        let (header, endOffset) = (reader.header, reader.offset)
        do throws(DiskFailure) {
            if let tail = summary.tornTail { summary.tornTail = try reader.window.keep(tail, on: disk) }
            // The process that wrote the end, or renamed the file, may have crashed before its sync, or
            // because the sync failed.
            try reader.window.rewriteDurably(reader.durableOffset..<endOffset, end: endOffset)
            // A file that the disk cannot read now may be good.
            for problem in summary.damagedCheckpoints where !problem.flaw.isReadFailure {
                try disk.rename(problem.file, to: problem.file + CheckpointFormat.damagedSuffix)
            }
            try disk.syncDirectory()
        } catch {
            throw .disk(error)
        }
        return Journal(
            disk: disk, file: reader.finish(), lock: lock, header: header, byteOffset: endOffset,
            options: options, recovery: summary)
    }

    /// A path that was mistyped must not become a data directory. Before the lock, whose file would be a
    /// change.
    /// - Throws: ``JournalError/notEmpty(directory:file:)``, ``JournalError/disk(_:)``.
    private static func refuseForeignFiles(on disk: Storage) throws(JournalError) {
        let contents = try onDisk { () throws(DiskFailure) in try DirectoryContents(of: disk) }
        guard contents.journalFiles.isEmpty, let file = contents.foreignFiles.first else { return }
        throw .notEmpty(directory: disk.directory, file: file)
    }

    /// Makes the first segment behind a checkpoint that begins the journal, of an import or a restore.
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
            // The process that renamed the checkpoint may have crashed before the name was durable. Files of
            // earlier timelines are removed durably before the new one has a segment: afterwards they would
            // be a mixture of timelines, which recovery refuses.
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
        switch try onDisk({ () throws(DiskFailure) in try disk.lock(lockFileName) }) {
        case .acquired(let file): return file
        case .held(let processID):
            throw .lockedByAnotherProcess(directory: disk.directory, processID: processID)
        }
    }
}
