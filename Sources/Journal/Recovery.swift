import PandoBytes

/// What opening a journal found and did.
package struct RecoverySummary: Equatable, Sendable {
    /// The directory held no journal: one was made.
    package var isNew = false
    /// The checkpoint that the log was replayed onto; nil when it was read from its beginning.
    package var checkpoint: CheckpointHeader?
    package var checkpointByteCount = 0
    package var checkpointRecordCount = 0
    /// Newer checkpoints that were passed over, the newest first. ``Journal/open(on:newDirectoryID:timeline:options:into:)``
    /// has put them aside.
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
}

/// Who builds a state from what a data directory holds.
///
/// Gets the records of one checkpoint, if there is one, then the entries that follow it. Whatever it throws names the
/// record that made no sense: in a checkpoint that sends recovery to the one before, in the log it refuses the log.
package protocol Recovering {
    /// Forget everything: what came so far was of a checkpoint that turned out to be damaged.
    mutating func startOver()
    mutating func restore(_ record: borrowing RecoveredRecord) throws(EntryRejection)
    mutating func replay(_ entry: borrowing RecoveredEntry) throws(EntryRejection)
}

extension Journal {
    /// The file whose lock says that the directory is in use.
    static var lockName: String { "LOCK" }

    /// Takes the directory, reads its newest good checkpoint and the log behind it, and makes ready to append.
    ///
    /// Makes the first segment when there is none. Every whole entry behind the checkpoint is given to `host`, in
    /// order; when this returns, all of them are on disk (whoever wrote them may have died before the sync), and a torn
    /// tail is gone. When it throws, what `host` saw must be thrown away.
    ///
    /// - Parameters:
    ///   - newDirectoryID: Random; used only when the directory holds no journal yet.
    ///   - host: Fresh; gets what is found.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/corrupt(_:)`` (the log was not
    ///   changed), ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read of the checkpoint and of the segments behind it; memory for the largest entry
    ///   or block, or 1 MiB.
    package static func open(
        on disk: Storage, newDirectoryID: DirectoryID, timeline: UInt32 = 1, options: JournalOptions = .init(),
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
        guard let checkpoint = summary.checkpoint else { preconditionFailure("only a checkpoint needs no segment") }
        let header = SegmentHeader(
            directory: checkpoint.directory, timeline: checkpoint.timeline,
            firstSequence: checkpoint.sequence.successor)
        var summary = summary
        summary.segmentCount = 1
        do throws(DiskFailure) {
            // Whoever named the checkpoint may have died before its name was durable. Former timelines are gone for
            // good before the new one has a segment, by which the two could no longer be told from a mixture.
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

/// Reads a directory as recovery would, without its lock and without changing it: what a process that works on it has
/// written so far. A torn tail is passed over, and files that the other process removes meanwhile make it begin anew.
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

/// One pass over a directory that holds something: the newest good checkpoint, then the log behind it.
struct DirectoryReader<Storage: Disk> {
    let disk: Storage
    let listing: Listing
    /// Nothing behind it counts; nil for everything.
    let moment: PointInTime?
    /// What an import has made behind ``moment``: the log that goes on from there does not count either.
    private var end: SequenceNumber?
    var summary = RecoverySummary()

    init(disk: Storage, listing: Listing, moment: PointInTime? = nil) {
        self.disk = disk
        self.listing = listing
        self.moment = moment
    }

    /// - Returns: The reader of the last segment, where its last whole entry ends; nil when the log has yet to begin
    ///   behind its checkpoint.
    mutating func read(
        lastMode: OpenMode, into host: inout some Recovering
    ) throws(JournalError) -> SegmentReader<Storage>? {
        try restoreCheckpoint(into: &host)
        let reader = try replaySegments(lastMode: lastMode, into: &host)
        try refuseIfBehindDamage()
        return reader
    }

    /// A damaged checkpoint that the log does not reach was made by an import: what it held is nowhere else.
    private func refuseIfBehindDamage() throws(JournalError) {
        guard !summary.hasReachedMoment else { return }
        for problem in summary.damagedCheckpoints {
            guard let name = CheckpointName(problem.file), name.sequence > summary.lastSequence else { continue }
            if case .sequence(let last)? = moment, name.sequence > last { continue }
            throw .corrupt(problem)
        }
    }

    // MARK: The checkpoint

    private mutating func restoreCheckpoint(into host: inout some Recovering) throws(JournalError) {
        for name in listing.checkpoints.reversed() {
            do throws(JournalError) {
                var reader = try CheckpointReader.open(name, on: disk)
                if let moment, !moment.includes(reader.header) {
                    if reader.header.beginsLog { end = reader.header.sequence }
                    continue
                }
                try refuseIfForeign(reader.header, name)
                while try reader.readBlock({ record, _ throws(EntryRejection) in try host.restore(record) }) {}
                summary.checkpoint = reader.header
                summary.directory = reader.header.directory
                summary.timeline = reader.header.timeline
                summary.checkpointByteCount = reader.byteCount
                summary.checkpointRecordCount = Int(clamping: reader.recordCount)
                return
            } catch {
                guard case .corrupt(let problem) = error, problem.flaw.isDamagedCheckpoint else { throw error }
                // The older one and its log are kept for this.
                summary.damagedCheckpoints.append(problem)
                host.startOver()
            }
        }
    }

    /// A whole checkpoint of somewhere else is no damage: nothing here may be built on it.
    private func refuseIfForeign(_ header: CheckpointHeader, _ name: CheckpointName) throws(JournalError) {
        guard let last = listing.segments.last else {
            if header.beginsLog { return }
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 0, flaw: .noSegments))
        }
        let segment = try SegmentReader.open(last, mode: .read, on: disk).header
        if header.directory != segment.directory {
            let flaw = JournalFlaw.foreignDirectory(expected: segment.directory, found: header.directory)
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 12, flaw: flaw))
        }
        if header.timeline != segment.timeline {
            let flaw = JournalFlaw.foreignTimeline(expected: segment.timeline, found: header.timeline)
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 28, flaw: flaw))
        }
    }

    // MARK: The log behind it

    private mutating func replaySegments(
        lastMode: OpenMode, into host: inout some Recovering
    ) throws(JournalError) -> SegmentReader<Storage>? {
        let checkpoint = summary.checkpoint?.sequence ?? .zero
        // What is wholly in the checkpoint is not read: it may be half removed.
        let start = listing.segments.lastIndex { $0.firstSequence <= checkpoint.successor } ?? 0
        var segments = listing.segments[start...]
        if let end { segments = segments.prefix { $0.firstSequence < end } }
        var first: SegmentHeader?
        summary.lastSequence = checkpoint
        if summary.checkpoint?.beginsLog == true {
            // No record has its sequence: what began before it is another log, or another life of this one.
            segments = segments.drop { $0.firstSequence <= checkpoint }
            if segments.isEmpty { return nil }
        }
        if moment != nil, summary.checkpoint == nil, let name = segments.first, name.firstSequence.rawValue > 1 {
            throw .beforeLog(earliest: listing.checkpoints.first?.sequence ?? name.firstSequence)
        }
        for (name, next) in zip(segments, segments.dropFirst().map(Optional.some) + [nil]) {
            var reader = try SegmentReader.open(name, mode: next == nil ? lastMode : .read, on: disk)
            if let flaw = reader.header.flaw(after: first, lastSequence: summary.lastSequence) {
                throw .corrupt(JournalProblem(file: name.text, byteOffset: flaw.byteOffset, flaw: flaw.flaw))
            }
            if first == nil {
                first = reader.header
                summary.directory = reader.header.directory
                summary.timeline = reader.header.timeline
                summary.lastSequence = SequenceNumber(reader.header.firstSequence.rawValue &- 1)
            }
            summary.segmentCount += 1
            try replay(&reader, next: next, after: checkpoint, into: &host)
            guard next == nil || summary.hasReachedMoment else { continue }
            guard summary.lastSequence >= checkpoint else {
                let flaw = JournalFlaw.endsBeforeCheckpoint(
                    last: summary.lastSequence, checkpoint: checkpoint)
                throw .corrupt(JournalProblem(file: name.text, byteOffset: reader.offset, flaw: flaw))
            }
            summary.tornByteCount = reader.byteCount - reader.offset
            return reader
        }
        if moment != nil, summary.checkpoint == nil, let earliest = listing.checkpoints.first {
            throw .beforeLog(earliest: earliest.sequence)
        }
        let name = listing.checkpoints.last?.text ?? ""
        throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .noSegments))
    }

    /// Reads one segment to its end, or, in the last, to where the torn tail begins: `reader.offset`.
    private mutating func replay(
        _ reader: inout SegmentReader<Storage>, next: SegmentName?, after checkpoint: SequenceNumber,
        into host: inout some Recovering
    ) throws(JournalError) {
        while true {
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            switch step {
            case .entry(let range, let recordCount, let lastSequence):
                if let moment, lastSequence > checkpoint,
                    !moment.includes(entryEndingWith: lastSequence, at: reader.timestamp(at: range.lowerBound))
                {
                    summary.hasReachedMoment = true
                    return
                }
                let before = summary.lastSequence
                summary.entryCount += 1
                summary.recordCount += recordCount
                summary.lastSequence = lastSequence
                if lastSequence <= checkpoint { continue }
                guard before >= checkpoint else {
                    let flaw = JournalFlaw.checkpointInsideEntry(checkpoint: checkpoint, last: lastSequence)
                    throw .corrupt(reader.problem(at: range.lowerBound, flaw))
                }
                summary.replayedByteCount += range.count
                do throws(EntryRejection) {
                    try host.replay(reader.entry(range, recordCount: recordCount, lastSequence: lastSequence))
                } catch {
                    let flaw = JournalFlaw.rejected(sequence: lastSequence, reason: error.reason)
                    throw .corrupt(reader.problem(at: range.lowerBound, flaw))
                }
            case .end:
                return
            case .contradiction(let flaw, let byteOffset):
                throw .corrupt(reader.problem(at: byteOffset, flaw))
            case .bad(let reason, let sequence, let entry, let byteOffset):
                let flaw: JournalFlaw
                do throws(DiskFailure) {
                    flaw = try reader.judge(
                        reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
                } catch {
                    throw .disk(error)
                }
                if case .tornTail = flaw { return }
                throw .corrupt(reader.problem(at: byteOffset, flaw))
            }
        }
    }
}

extension JournalFlaw {
    /// What recovery answers by taking the checkpoint before. All else is a reason to refuse: a newer version, another
    /// directory or timeline, a log that does not fit.
    var isDamagedCheckpoint: Bool {
        switch self {
        case .notACheckpoint, .headerChecksumMismatch, .impossibleFirstSequence, .nameContradictsHeader, .checkpointGap,
            .checkpointUnfinished, .checkpointDamaged, .bytesBehindEnd, .rejected:
            true
        default: false
        }
    }
}

extension SegmentHeader {
    /// What keeps this segment from following the ones before it, and where in its header.
    func flaw(
        after first: SegmentHeader?, lastSequence: SequenceNumber
    ) -> (flaw: JournalFlaw, byteOffset: Int)? {
        guard let first else {
            // The oldest segment there is: it must reach back to the checkpoint.
            if firstSequence <= lastSequence.successor { return nil }
            return (.sequenceGap(expected: lastSequence.successor, found: firstSequence), 32)
        }
        if directory != first.directory {
            return (.foreignDirectory(expected: first.directory, found: directory), 12)
        }
        if timeline != first.timeline {
            return (.foreignTimeline(expected: first.timeline, found: timeline), 28)
        }
        let expected = lastSequence.successor
        if firstSequence > expected { return (.sequenceGap(expected: expected, found: firstSequence), 32) }
        if firstSequence < expected {
            return (.sequenceRepeats(expected: expected, found: firstSequence), 32)
        }
        return nil
    }
}

extension SegmentReader {
    func problem(at byteOffset: Int, _ flaw: JournalFlaw) -> JournalProblem {
        JournalProblem(file: fileName, byteOffset: byteOffset, flaw: flaw)
    }

    /// What a bad record means: a torn tail, which was promised to nobody, or damage.
    mutating func judge(
        _ reason: BadRecord, _ sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int,
        next: SegmentName?
    ) throws(DiskFailure) -> JournalFlaw {
        if let next {
            if byteOffset == byteCount { return .entryUnfinished(sequence: entry) }
            return .damaged(reason, sequence: sequence, witness: next.firstSequence)
        }
        switch try witness(against: sequence, entry: entry, byteOffset: byteOffset) {
        case .none: return .tornTail(byteCount: byteCount - offset)
        case .found(let header, _): return .damaged(reason, sequence: sequence, witness: header.sequence)
        case .tooTangled: return .undecidable(reason, sequence: sequence)
        }
    }

    /// The time of the loaded record at `offset`.
    func timestamp(at offset: Int) -> Int64 {
        RecordHeader(window.bytes(offset..<offset + JournalFormat.recordHeaderByteCount), at: 0).timestamp
    }

    /// Gives up the reader's memory and keeps the file.
    consuming func finish() -> Storage.File { window.finish() }
}
