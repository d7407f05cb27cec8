import PandoBytes

/// One good record and its offset, for display.
package struct InspectedRecord: Equatable, Sendable {
    package let file: String
    package let byteOffset: Int
    package let kind: RecordKind
    package let flags: RecordFlags
    package let namespace: UInt32
    package let sequence: SequenceNumber
    /// Milliseconds since 1970.
    package let timestamp: Int64
    package let durable: SequenceNumber
    /// The range of the payload in the file.
    package let payloadRange: Range<Int>
    /// Whether it is a record of a checkpoint. These have the sequence of the checkpoint, and no flags.
    package var isOfCheckpoint = false
    /// Whether it is a record of a checkpoint that begins the journal anew: of an import or a restore. What
    /// such a checkpoint holds is in no record of the journal.
    package var beginsJournal = false
}

/// A checkpoint that was read to its end.
package struct InspectedCheckpoint: Equatable, Sendable {
    package let file: String
    package let header: CheckpointHeader
    package let recordCount: Int
    package let byteCount: Int
}

/// The result of ``inspect(_:record:)``.
package struct InspectionReport: Equatable, Sendable {
    /// The undamaged checkpoints, the oldest first.
    package var checkpoints: [InspectedCheckpoint] = []
    package var segmentCount = 0
    package var entryCount = 0
    package var recordCount = 0
    package var lastSequence = SequenceNumber.zero
    /// In journal order. Empty for an undamaged journal. ``JournalFlaw/tornTail(byteCount:)`` alone is the
    /// normal result of a crash, or of a server that is writing. With any other problem the server refuses to
    /// start.
    package var problems: [JournalProblem] = []

    /// The most problems that are listed.
    package static let problemLimit = 1000
}

/// Reads every checkpoint and the whole journal, for `pando log` and `pando check data`, without changes and
/// without the lock. After a problem it continues: in the journal at the next good record, in a checkpoint,
/// and where the disk cannot read a file, with the next file. A server may be writing: what it removes
/// meanwhile, because its checkpoints need it no more, is left out.
///
/// - Parameter record: Gets the records of each checkpoint, the oldest first, up to the first damage in it;
///   then each record of every whole entry, in journal order; and its payload.
/// - Throws: ``DiskFailure``, where the directory cannot be listed, and for want of permission, memory or
///   descriptors.
/// - Complexity: One sequential read, and a second one between each problem and the next good record.
package func inspect<Storage: Disk>(
    _ disk: Storage, record: (InspectedRecord, _ payload: RawSpan) -> Void
) throws(DiskFailure) -> InspectionReport {
    var report = InspectionReport()
    let listing = DirectoryListing(try disk.list()).ofCurrentTimeline
    for name in listing.unreadable {
        report.problems.append(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
    }
    for name in listing.checkpoints {
        do throws(JournalError) {
            report.checkpoints.append(try inspect(name, on: disk, record: record))
        } catch {
            if try isRemoved(name, error, on: disk) { continue }
            try note(error, of: name.text, in: &report)
        }
    }
    // The oldest checkpoint needs the journal behind it too, since recovery may fall back to it.
    if let oldest = listing.checkpoints.first, let name = listing.segments.first,
        name.firstSequence > oldest.sequence.successor
    {
        report.problems.append(
            JournalProblem(
                file: name.text, byteOffset: 32,
                flaw: .sequenceGap(expected: oldest.sequence.successor, found: name.firstSequence)))
    } else if let oldest = listing.checkpoints.first, listing.segments.isEmpty,
        let newest = report.checkpoints.last, !newest.header.beginsJournal
    {
        report.problems.append(JournalProblem(file: oldest.text, byteOffset: 0, flaw: .noSegments))
    }
    // Segments before the one that continues the oldest checkpoint are superseded. An interrupted removal may
    // have left any of them.
    let oldestNeeded = listing.oldestNeeded
    var first: SegmentHeader?
    var segments = listing.segments[...]
    /// The segment before was removed by a server, or a part of it cannot be read.
    var isBehindMissing = false
    while let name = segments.popFirst() {
        let next = segments.first
        report.segmentCount += 1
        do throws(JournalError) {
            var reader = try SegmentReader.open(name, mode: .read, on: disk)
            reader.isFollowed = next != nil
            for checkpoint in report.checkpoints where first == nil {
                if let problem = checkpoint.mismatch(with: reader.header) {
                    report.problems.append(problem)
                }
            }
            // The beginning of the oldest segment was checked above. Without a checkpoint it must be the
            // first record.
            let beginning = SequenceNumber(reader.header.firstSequence.rawValue &- 1)
            let isSuperseded = oldestNeeded.map { name <= $0 } ?? false
            let isFree =
                isBehindMissing || !listing.checkpoints.isEmpty && (first == nil || isSuperseded)
            let last = isFree ? beginning : report.lastSequence
            if let flaw = reader.header.flaw(after: first, lastSequence: last),
                !report.checkpoints.contains(where: { $0.begins(reader.header, behind: last) }),
                !listing.checkpoints.contains(where: {
                    $0.explains(flaw.flaw, before: reader.header, in: report)
                })
            {
                report.problems.append(reader.problem(at: flaw.byteOffset, flaw.flaw))
            }
            if first == nil { first = reader.header }
            isBehindMissing = false
            report.lastSequence = beginning
            do throws(DiskFailure) {
                try inspect(&reader, next: next, into: &report, record: record)
            } catch {
                throw JournalError.disk(error)
            }
        } catch {
            if let left = try segmentsLeft(behind: name, error, on: disk) {
                report.segmentCount -= 1
                segments = left[...]
                isBehindMissing = true
                continue
            }
            try note(error, of: name.text, in: &report)
            if case .disk = error { isBehindMissing = true }
        }
        if report.problems.count >= InspectionReport.problemLimit { break }
    }
    if let newest = report.checkpoints.last, newest.header.sequence > report.lastSequence,
        !newest.header.beginsJournal, !isBehindMissing, let name = listing.segments.last
    {
        let flaw = JournalFlaw.endsBeforeCheckpoint(
            last: report.lastSequence, checkpoint: newest.header.sequence)
        report.problems.append(JournalProblem(file: name.text, byteOffset: 0, flaw: flaw))
    }
    return report
}

/// Whether a checkpoint that cannot be opened was removed because there are newer ones.
private func isRemoved<Storage: Disk>(
    _ name: CheckpointName, _ error: JournalError, on disk: Storage
) throws(DiskFailure) -> Bool {
    guard case .disk(let failure) = error, failure.isMissing else { return false }
    let listing = DirectoryListing(try disk.list()).ofCurrentTimeline
    guard let newest = listing.checkpoints.last else { return false }
    return name < newest && !listing.checkpoints.contains(name)
}

/// The segments that are there now behind one that was removed because the oldest checkpoint does not need
/// it.
/// - Returns: Nil where it was not removed.
private func segmentsLeft<Storage: Disk>(
    behind name: SegmentName, _ error: JournalError, on disk: Storage
) throws(DiskFailure) -> [SegmentName]? {
    guard case .disk(let failure) = error, failure.isMissing else { return nil }
    let listing = DirectoryListing(try disk.list()).ofCurrentTimeline
    guard let needed = listing.oldestNeeded, name < needed, !listing.segments.contains(name) else {
        return nil
    }
    return listing.segments.filter { needed <= $0 }
}

extension DirectoryListing {
    /// The segment that continues the oldest checkpoint; nil where there is none.
    fileprivate var oldestNeeded: SegmentName? {
        checkpoints.first.flatMap { oldest in
            segments.last { $0.firstSequence <= oldest.sequence.successor }
        }
    }
}

private func note(
    _ error: JournalError, of file: String, in report: inout InspectionReport
) throws(DiskFailure) {
    switch error {
    case .corrupt(let problem): report.problems.append(problem)
    case .disk(let failure):
        guard failure.isUnreadable else { throw failure }
        report.problems.append(JournalProblem(file: file, byteOffset: 0, flaw: .unreadable(failure)))
    case .poisoned, .lockedByAnotherProcess, .entryTooLarge, .diskFull, .beforeJournal, .notEmpty,
        .noTimelineLeft, .writtenDamaged, .nameNotDurable:
        preconditionFailure("reading cannot fail with \(error)")
    }
}

private func inspect<Storage: Disk>(
    _ name: CheckpointName, on disk: Storage, record: (InspectedRecord, _ payload: RawSpan) -> Void
) throws(JournalError) -> InspectedCheckpoint {
    var reader = try CheckpointReader.open(name, on: disk)
    let header = reader.header
    while try reader.readBlock({ found, byteOffset throws(EntryRejection) in
        let start = byteOffset + CheckpointFormat.recordHeaderByteCount
        record(
            InspectedRecord(
                file: name.text, byteOffset: byteOffset, kind: found.kind, flags: [],
                namespace: found.namespace,
                sequence: found.sequence, timestamp: found.timestamp, durable: found.sequence,
                payloadRange: start..<start + found.payload.byteCount, isOfCheckpoint: true,
                beginsJournal: header.beginsJournal),
            found.payload)
    }) {}
    return InspectedCheckpoint(
        file: name.text, header: header, recordCount: Int(clamping: reader.recordCount),
        byteCount: reader.byteCount)
}

extension CheckpointName {
    /// Whether a flaw is a gap before a segment behind this checkpoint, which is damaged and reported. An
    /// import may have made it, and then the journal begins anew with the segment.
    fileprivate func explains(
        _ flaw: JournalFlaw, before segment: SegmentHeader, in report: InspectionReport
    ) -> Bool {
        guard case .sequenceGap = flaw else { return false }
        return sequence.successor == segment.firstSequence && timeline == segment.timeline
            && !report.checkpoints.contains { $0.header.name == self }
    }
}

extension InspectedCheckpoint {
    /// Whether a segment may begin behind this checkpoint although the journal before ends earlier.
    fileprivate func begins(_ segment: SegmentHeader, behind last: SequenceNumber) -> Bool {
        header.beginsJournal && header.sequence > last && segment.firstSequence == header.sequence.successor
            && segment.directory == header.directory && segment.timeline == header.timeline
    }

    /// The problem of a checkpoint that does not belong to the journal of `segment`; nil for none.
    fileprivate func mismatch(with segment: SegmentHeader) -> JournalProblem? {
        if header.directory != segment.directory {
            let flaw = JournalFlaw.foreignDirectory(expected: segment.directory, found: header.directory)
            return JournalProblem(file: file, byteOffset: 12, flaw: flaw)
        }
        if header.timeline != segment.timeline {
            let flaw = JournalFlaw.foreignTimeline(expected: segment.timeline, found: header.timeline)
            return JournalProblem(file: file, byteOffset: 28, flaw: flaw)
        }
        return nil
    }
}

private func inspect<Storage: Disk>(
    _ reader: inout SegmentReader<Storage>, next: SegmentName?, into report: inout InspectionReport,
    record: (InspectedRecord, _ payload: RawSpan) -> Void
) throws(DiskFailure) {
    while report.problems.count < InspectionReport.problemLimit {
        switch try reader.nextEntry() {
        case .entry(let range, let recordCount, let lastSequence):
            report.entryCount += 1
            report.recordCount += recordCount
            report.lastSequence = lastSequence
            let first = lastSequence.rawValue &- UInt64(recordCount) &+ 1
            for checkpoint in report.checkpoints {
                let sequence = checkpoint.header.sequence
                guard sequence.rawValue >= first, sequence < lastSequence else { continue }
                let flaw = JournalFlaw.checkpointInsideEntry(checkpoint: sequence, last: lastSequence)
                report.problems.append(reader.problem(at: range.lowerBound, flaw))
            }
            describe(range, of: reader, to: record)
            continue
        case .end:
            return
        case .contradiction(let flaw, let byteOffset):
            report.problems.append(reader.problem(at: byteOffset, flaw))
            guard try skip(&reader, behind: byteOffset) else { return }
        case .bad(let reason, let sequence, let entry, let byteOffset):
            guard
                let flaw = try reader.classify(
                    reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
            else { continue }
            report.problems.append(reader.problem(at: byteOffset, flaw))
            if case .tornTail = flaw { return }
            guard try skip(&reader, behind: byteOffset) else { return }
        }
    }
}

/// Moves to the next good record that begins an entry.
/// - Returns: false when there is none.
private func skip<Storage: Disk>(
    _ reader: inout SegmentReader<Storage>, behind byteOffset: Int
) throws(DiskFailure) -> Bool {
    guard
        case .found(let header, let offset) = try reader.find(
            after: byteOffset, where: { header, _ in header.flags.contains(.begin) })
    else { return false }
    reader.resume(at: offset, with: header)
    return true
}

private func describe<Storage: Disk>(
    _ range: Range<Int>, of reader: borrowing SegmentReader<Storage>,
    to record: (InspectedRecord, _ payload: RawSpan) -> Void
) {
    let bytes = reader.window.bytes(range)
    var offset = 0
    while offset < bytes.byteCount {
        let header = RecordHeader(bytes, at: offset)
        guard let kind = RecordKind(rawValue: header.rawKind) else {
            preconditionFailure("kinds were checked")
        }
        let start = offset + JournalFormat.recordHeaderByteCount
        let payload = start..<start + Int(header.payloadByteCount)
        record(
            InspectedRecord(
                file: reader.fileName, byteOffset: range.lowerBound + offset, kind: kind, flags: header.flags,
                namespace: header.namespace, sequence: header.sequence, timestamp: header.timestamp,
                durable: header.durable,
                payloadRange: range.lowerBound + payload.lowerBound..<range.lowerBound + payload.upperBound),
            bytes.extracting(payload))
        offset += header.recordByteCount
    }
}
