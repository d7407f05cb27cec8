import PandoBytes

/// One pass over a directory that is not empty: the newest undamaged checkpoint, then the journal behind it.
struct DirectoryReader<Storage: Disk> {
    let disk: Storage
    let listing: DirectoryListing
    /// The moment up to which the directory is read; nil for everything.
    let moment: PointInTime?
    /// The timelines that the journal goes through; nil for that of its first segment.
    private let timeline: TimelineHistory?
    /// The sequence of a later checkpoint that began the journal anew, behind ``moment``. The journal behind
    /// it is not read.
    private var end: SequenceNumber?
    var summary = RecoverySummary()

    init(
        disk: Storage, listing: DirectoryListing, moment: PointInTime? = nil, timeline: TimelineHistory? = nil
    ) {
        self.disk = disk
        self.listing = listing
        self.moment = moment
        self.timeline = timeline
    }

    /// Restores the checkpoint, and replays the journal behind it.
    /// - Returns: The reader of the last segment, at the end of its last whole entry; nil when there is no
    ///   segment yet behind a checkpoint that begins the journal.
    /// - Throws: ``JournalError/corrupt(_:)``, ``JournalError/disk(_:)``,
    ///   ``JournalError/beforeJournal(earliest:)``.
    mutating func read(
        lastMode: OpenMode, into host: inout some RecoveryTarget
    ) throws(JournalError) -> SegmentReader<Storage>? {
        try restoreCheckpoint(into: &host)
        let reader: SegmentReader<Storage>?
        do throws(JournalError) {
            reader = try replaySegments(lastMode: lastMode, into: &host)
        } catch {
            throw attributed(error)
        }
        try refuseIfBehindDamage()
        return reader
    }

    // MARK: Damaged checkpoints

    /// Refuses a damaged checkpoint that the journal does not reach: an import or a restore made it, and its
    /// data is nowhere else.
    private func refuseIfBehindDamage() throws(JournalError) {
        let last = listing.segments.last?.text ?? ""
        for problem in summary.damagedCheckpoints {
            guard let name = CheckpointName(problem.file) else { continue }
            // Sequences of two timelines cannot be compared.
            if timeline == nil, name.timeline > summary.timeline {
                let flaw = JournalFlaw.foreignTimeline(expected: name.timeline, found: summary.timeline)
                throw .corrupt(
                    problem.irreplaceable(because: JournalProblem(file: last, byteOffset: 28, flaw: flaw)))
            }
            // No record comes before it, and yet it is there.
            let isBeginning = name.sequence == .zero
            let isReached = summary.hasReachedMoment || name.sequence <= summary.lastSequence
            guard isBeginning || !isReached, !isBehindMoment(problem) else { continue }
            let flaw = JournalFlaw.endsBeforeCheckpoint(
                last: summary.lastSequence, checkpoint: name.sequence)
            throw .corrupt(
                problem.irreplaceable(because: JournalProblem(file: last, byteOffset: 0, flaw: flaw)))
        }
    }

    /// An error of the journal before the record of a damaged checkpoint. With that checkpoint this part of
    /// the journal would not be needed, so the checkpoint is reported, and the error as the reason why it is.
    private func attributed(_ error: JournalError) -> JournalError {
        let damaged = summary.damagedCheckpoints.first { problem in
            guard let name = CheckpointName(problem.file), !isBehindMoment(problem) else { return false }
            return name.sequence > summary.lastSequence || name.sequence == .zero
        }
        guard let damaged else { return error }
        switch error {
        case .corrupt(let problem): return .corrupt(damaged.irreplaceable(because: problem))
        case .beforeJournal:
            guard let first = listing.segments.first else {
                let reason = JournalProblem(file: damaged.file, byteOffset: 0, flaw: .noSegments)
                return .corrupt(damaged.irreplaceable(because: reason))
            }
            let flaw = JournalFlaw.sequenceGap(
                expected: SequenceNumber(1), found: first.firstSequence)
            let reason = JournalProblem(file: first.text, byteOffset: 32, flaw: flaw)
            return .corrupt(damaged.irreplaceable(because: reason))
        default: return error
        }
    }

    /// Whether a checkpoint is later than the record up to which the directory is read, by its name.
    private func isBehindMoment(_ problem: JournalProblem) -> Bool {
        guard case .sequence(let last)? = moment, let name = CheckpointName(problem.file) else {
            return false
        }
        return name.sequence > last
    }

    /// Notes a checkpoint that cannot be used. The older one and its journal are kept for this case.
    /// - Throws: `error`, where recovery may not use the checkpoint before instead.
    private mutating func passOver(
        _ name: CheckpointName, because error: JournalError, for host: inout some RecoveryTarget
    ) throws(JournalError) {
        // A backup in front of an archive is the only checkpoint: there is none before it.
        guard let problem = error.problem(ofCheckpoint: name.text),
            timeline == nil || !problem.flaw.isReadFailure
        else { throw error }
        summary.damagedCheckpoints.append(problem)
        // What its header says of the journal before it is not known. For an earlier record the segments
        // behind it are not needed in any case.
        if isBehindMoment(problem) { end = name.sequence }
        host.startOver()
    }

    // MARK: The checkpoint

    private mutating func restoreCheckpoint(into host: inout some RecoveryTarget) throws(JournalError) {
        // Checkpoints of earlier timelines hold what a restore has replaced.
        for name in listing.checkpoints.reversed() where name.timeline == listing.checkpoints.last?.timeline {
            var reader: CheckpointReader<Storage>
            do throws(JournalError) {
                reader = try CheckpointReader.open(name, on: disk)
            } catch {
                try passOver(name, because: error, for: &host)
                continue
            }
            if let moment, !moment.includes(reader.header) {
                if reader.header.beginsJournal { end = reader.header.sequence }
                continue
            }
            try refuseIfForeign(reader.header, name)
            do throws(JournalError) {
                while try reader.readBlock({ record, _ throws(EntryRejection) in try host.restore(record) }) {
                }
            } catch {
                try passOver(name, because: error, for: &host)
                continue
            }
            summary.checkpoint = reader.header
            summary.directory = reader.header.directory
            summary.timeline = reader.header.timeline
            summary.checkpointByteCount = reader.byteCount
            summary.checkpointRecordCount = Int(clamping: reader.recordCount)
            return
        }
    }

    /// Refuses an undamaged checkpoint of another directory or timeline.
    private func refuseIfForeign(_ header: CheckpointHeader, _ name: CheckpointName) throws(JournalError) {
        guard let last = listing.segments.last else {
            if header.beginsJournal { return }
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 0, flaw: .noSegments))
        }
        if let timeline {
            guard timeline.contains(header.timeline, of: header.directory, upTo: header.sequence) else {
                let flaw = JournalFlaw.backupNotOnTimeline(
                    timeline.timeline, backup: header.timeline, sequence: header.sequence)
                throw .corrupt(JournalProblem(file: name.text, byteOffset: 28, flaw: flaw))
            }
            return
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

    // MARK: The journal behind it

    private mutating func replaySegments(
        lastMode: OpenMode, into host: inout some RecoveryTarget
    ) throws(JournalError) -> SegmentReader<Storage>? {
        let checkpoint = summary.checkpoint?.sequence ?? .zero
        // Segments whose records are all in the checkpoint are not read: some of them may be removed already.
        let start = listing.segments.lastIndex { $0.firstSequence <= checkpoint.successor } ?? 0
        var segments = listing.segments[start...]
        if let end { segments = segments.prefix { $0.firstSequence < end } }
        var first: SegmentHeader?
        summary.lastSequence = checkpoint
        if summary.checkpoint?.beginsJournal == true {
            // No record has its sequence. Segments that begin before it are of an earlier journal.
            segments = segments.drop { $0.firstSequence <= checkpoint }
            if segments.isEmpty { return nil }
        }
        if moment != nil, summary.checkpoint == nil, let name = segments.first,
            name.firstSequence.rawValue > 1
        {
            throw .beforeJournal(earliest: listing.checkpoints.first?.sequence ?? name.firstSequence)
        }
        for (name, next) in zip(segments, segments.dropFirst().map(Optional.some) + [nil]) {
            var reader = try SegmentReader.open(name, mode: next == nil ? lastMode : .read, on: disk)
            reader.isFollowed = next != nil
            if let flaw = reader.header.flaw(
                after: first, lastSequence: summary.lastSequence, along: timeline)
            {
                throw .corrupt(JournalProblem(file: name.text, byteOffset: flaw.byteOffset, flaw: flaw.flaw))
            }
            if first == nil {
                first = reader.header
                if summary.checkpoint == nil {
                    summary.directory = reader.header.directory
                    summary.timeline = reader.header.timeline
                }
                summary.lastSequence = SequenceNumber(reader.header.firstSequence.rawValue &- 1)
            }
            summary.segmentCount += 1
            summary.segments.append(name)
            try replay(&reader, next: next, after: checkpoint, into: &host)
            guard next == nil || summary.hasReachedMoment else { continue }
            guard summary.lastSequence >= checkpoint else {
                let flaw = JournalFlaw.endsBeforeCheckpoint(
                    last: summary.lastSequence, checkpoint: checkpoint)
                throw .corrupt(JournalProblem(file: name.text, byteOffset: reader.offset, flaw: flaw))
            }
            return reader
        }
        if moment != nil, summary.checkpoint == nil, let earliest = listing.checkpoints.first {
            throw .beforeJournal(earliest: earliest.sequence)
        }
        let name = listing.checkpoints.last?.text ?? ""
        throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .noSegments))
    }

    /// Replays one segment to its end, or in the last one to the beginning of the torn tail: `reader.offset`.
    private mutating func replay(
        _ reader: inout SegmentReader<Storage>, next: SegmentName?, after checkpoint: SequenceNumber,
        into host: inout some RecoveryTarget
    ) throws(JournalError) {
        while true {
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            switch step {
            case .entry(let range, let recordCount, let lastSequence):
                if let moment, lastSequence > checkpoint,
                    !moment.includes(
                        entryEndingWith: lastSequence, at: reader.timestamp(at: range.lowerBound))
                {
                    summary.hasReachedMoment = true
                    return
                }
                let before = summary.lastSequence
                if lastSequence > checkpoint {
                    summary.directory = reader.header.directory
                    summary.timeline = reader.header.timeline
                }
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
                summary.unfilledByteCount = max(0, reader.byteCount - reader.offset)
                return
            case .contradiction(let flaw, let byteOffset):
                throw .corrupt(reader.problem(at: byteOffset, flaw))
            case .bad(let reason, let sequence, let entry, let byteOffset):
                guard
                    let byteCount = try reader.tornByteCount(
                        reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
                else { continue }
                summary.noteTornTail(byteCount, at: reader.offset, of: reader.header.name)
                return
            }
        }
    }
}

extension JournalProblem {
    /// This problem of a checkpoint, where the rest of the directory does not fit together without it.
    fileprivate func irreplaceable(because reason: JournalProblem) -> JournalProblem {
        JournalProblem(
            file: file, byteOffset: byteOffset, flaw: .irreplaceable(flaw, because: reason))
    }
}

extension JournalFlaw {
    /// Whether recovery may use the checkpoint before instead. It refuses everything else: a newer version,
    /// another directory or timeline, a journal that does not follow.
    var isDamagedCheckpoint: Bool {
        switch self {
        case .notACheckpoint, .checkpointHeaderDamaged, .impossibleCheckpoint, .nameContradictsHeader,
            .checkpointGap, .checkpointUnfinished, .checkpointDamaged, .bytesBehindEnd, .rejected:
            true
        default: false
        }
    }
}

extension SegmentHeader {
    /// Why this segment cannot follow the ones before, and the offset of the field; nil when it can.
    /// - Parameter history: The timelines that the journal goes through; nil for that of its first segment.
    func flaw(
        after first: SegmentHeader?, lastSequence: SequenceNumber, along history: TimelineHistory? = nil
    ) -> (flaw: JournalFlaw, byteOffset: Int)? {
        if let history {
            guard history.contains(timeline, of: directory, upTo: firstSequence.predecessor) else {
                return (.foreignDirectory(expected: history.directory, found: directory), 12)
            }
        }
        guard let first else {
            // The oldest segment must reach back to the checkpoint.
            if firstSequence <= lastSequence.successor { return nil }
            return (.sequenceGap(expected: lastSequence.successor, found: firstSequence), 32)
        }
        if history == nil, directory != first.directory {
            return (.foreignDirectory(expected: first.directory, found: directory), 12)
        }
        if history == nil, timeline != first.timeline {
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
