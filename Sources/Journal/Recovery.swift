import PandoBytes

/// What opening a journal found and did.
package struct RecoverySummary: Equatable, Sendable {
    /// The directory held no journal: one was made.
    package var isNew = false
    package var segmentCount = 0
    /// Whole entries in the log, those before the checkpoint included.
    package var entryCount = 0
    package var recordCount = 0
    /// The last record in the log, now on disk.
    package var lastSequence = SequenceNumber.zero
    /// What was cut off the end: writes that never were acknowledged.
    package var tornByteCount = 0
}

extension Journal {
    /// The file whose lock says that the directory is in use.
    static var lockName: String { "LOCK" }

    /// Takes the directory, reads its log from the beginning, and makes ready to append.
    ///
    /// Makes the first segment when there is none. Every whole entry is given to `replay`, in order; when
    /// this returns, all of them are on disk (whoever wrote them may have died before the sync), and a torn
    /// tail is gone. When it throws, what `replay` saw must be thrown away.
    ///
    /// - Parameters:
    ///   - newDirectoryID: Random; used only when the directory holds no journal yet.
    ///   - checkpoint: The host already has everything up to here: those entries are checked and not
    ///     replayed.
    ///   - replay: Gets each entry after `checkpoint`; may reject one, which refuses the log at its place.
    /// - Throws: ``JournalError/lockedByAnotherProcess``, ``JournalError/corrupt(_:)`` (the log was not
    ///   changed), ``JournalError/disk(_:)``.
    /// - Complexity: One sequential read; memory for the largest entry or 1 MiB.
    package static func open(
        on disk: Storage, newDirectoryID: DirectoryID, timeline: UInt32 = 1,
        after checkpoint: SequenceNumber = .zero,
        replay: (borrowing RecoveredEntry) throws(EntryRejection) -> Void
    ) throws(JournalError) -> Journal {
        let lock = try takeLock(on: disk)
        let listing = SegmentName.Listing(try onDisk { () throws(DiskFailure) in try disk.list() })
        if let name = listing.unreadable.first {
            throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
        }
        try onDisk { () throws(DiskFailure) in
            for name in listing.unfinished { try disk.remove(name) }
        }
        if listing.segments.isEmpty {
            let header = SegmentHeader(
                directory: newDirectoryID, timeline: timeline, firstSequence: checkpoint.successor)
            return try make(header, on: disk, lock: lock)
        }
        return try recover(listing.segments, on: disk, lock: lock, after: checkpoint, replay: replay)
    }

    private static func takeLock(on disk: Storage) throws(JournalError) -> Storage.File {
        switch try onDisk({ () throws(DiskFailure) in try disk.lock(lockName) }) {
        case .acquired(let file): return file
        case .held(let processID):
            throw .lockedByAnotherProcess(directory: disk.directory, processID: processID)
        }
    }

    /// Makes the first segment. The header is on disk before the file has its name: see
    /// `JournalFormat.swift`.
    private static func make(
        _ header: SegmentHeader, on disk: Storage, lock: Storage.File
    ) throws(JournalError) -> Journal {
        let name = SegmentName(timeline: header.timeline, firstSequence: header.firstSequence)
        let bytes = header.bytes
        do throws(DiskFailure) {
            let unfinished = try disk.open(name.unfinishedText, .create)
            try GatheredBytes.with(bytes.rawSpan) { gathered throws(DiskFailure) in
                try disk.write(gathered, to: unfinished, at: 0)
            }
            try disk.sync(unfinished)
            try disk.rename(name.unfinishedText, to: name.text)
            try disk.syncDirectory()
            var summary = RecoverySummary()
            summary.isNew = true
            summary.segmentCount = 1
            summary.lastSequence = SequenceNumber(header.firstSequence.rawValue &- 1)
            return Journal(
                disk: disk, file: unfinished, lock: lock, header: header, byteOffset: bytes.count,
                recovery: summary)
        } catch {
            throw .disk(error)
        }
    }

    private static func recover(
        _ segments: [SegmentName], on disk: Storage, lock: Storage.File, after checkpoint: SequenceNumber,
        replay: (borrowing RecoveredEntry) throws(EntryRejection) -> Void
    ) throws(JournalError) -> Journal {
        var summary = RecoverySummary()
        var first: SegmentHeader?
        // The host has everything up to the checkpoint: the log may begin right after it, or before.
        summary.lastSequence = checkpoint
        for (index, name) in segments.enumerated() {
            let next = index + 1 < segments.count ? segments[index + 1] : nil
            var reader = try SegmentReader.open(name, mode: next == nil ? .readWrite : .read, on: disk)
            if let flaw = reader.header.flaw(after: first, lastSequence: summary.lastSequence) {
                throw .corrupt(JournalProblem(file: name.text, byteOffset: flaw.byteOffset, flaw: flaw.flaw))
            }
            if first == nil {
                first = reader.header
                summary.lastSequence = SequenceNumber(reader.header.firstSequence.rawValue &- 1)
            }
            summary.segmentCount += 1
            try read(&reader, next: next, after: checkpoint, into: &summary, replay: replay)

            if next == nil {
                guard summary.lastSequence >= checkpoint else {
                    throw .corrupt(
                        JournalProblem(
                            file: name.text, byteOffset: reader.offset,
                            flaw: .endsBeforeCheckpoint(last: summary.lastSequence, checkpoint: checkpoint)))
                }
                let (header, end) = (reader.header, reader.offset)
                summary.tornByteCount = reader.byteCount - end
                do throws(DiskFailure) {
                    // Whoever wrote the tail, or named the file, may have died before the sync, or because of
                    // it.
                    try reader.window.settle(reader.settledOffset..<end, end: end)
                    try disk.syncDirectory()
                } catch {
                    throw .disk(error)
                }
                let file = reader.finish()
                return Journal(
                    disk: disk, file: file, lock: lock, header: header, byteOffset: end, recovery: summary)
            }
        }
        preconditionFailure("there is a last segment")
    }

    /// Reads one segment to its end, or, in the last, to where the torn tail begins: `reader.offset`.
    private static func read(
        _ reader: inout SegmentReader<Storage>, next: SegmentName?, after checkpoint: SequenceNumber,
        into summary: inout RecoverySummary,
        replay: (borrowing RecoveredEntry) throws(EntryRejection) -> Void
    ) throws(JournalError) {
        while true {
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            switch step {
            case .entry(let range, let recordCount, let lastSequence):
                summary.entryCount += 1
                summary.recordCount += recordCount
                summary.lastSequence = lastSequence
                if lastSequence <= checkpoint { continue }
                do throws(EntryRejection) {
                    try replay(reader.entry(range, recordCount: recordCount, lastSequence: lastSequence))
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

    /// Gives up the reader's memory and keeps the file.
    consuming func finish() -> Storage.File { window.finish() }
}
