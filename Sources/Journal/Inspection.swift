import PandoBytes

/// One intact record and where it lies, for people.
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
    /// In the file.
    package let payloadRange: Range<Int>
}

/// What ``inspect(_:record:)`` found.
package struct InspectionReport: Equatable, Sendable {
    package var segmentCount = 0
    package var entryCount = 0
    package var recordCount = 0
    package var lastSequence = SequenceNumber.zero
    /// In log order. Empty: the log is whole. Only ``JournalFlaw/tornTail(byteCount:)``: it is what a crash
    /// (or a server that is writing now) leaves. Anything else: the server will refuse it.
    package var problems: [JournalProblem] = []

    /// More is not written down: a log in that state needs no longer list.
    package static let problemLimit = 1000
}

/// Reads a whole log for `pando log` and `pando check data`: changes nothing, takes no lock, and goes on
/// behind every problem at the next record that is good.
///
/// - Parameter record: Gets each record of every whole entry, in log order, and its payload.
/// - Throws: Only when the disk itself fails.
/// - Complexity: One sequential read, and another of what lies between a problem and the next good record.
package func inspect<Storage: Disk>(
    _ disk: Storage, record: (InspectedRecord, _ payload: RawSpan) -> Void
) throws(DiskFailure) -> InspectionReport {
    var report = InspectionReport()
    let listing = SegmentName.Listing(try disk.list())
    for name in listing.unreadable {
        report.problems.append(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
    }
    var first: SegmentHeader?
    for (index, name) in listing.segments.enumerated() {
        let next = index + 1 < listing.segments.count ? listing.segments[index + 1] : nil
        report.segmentCount += 1
        do throws(JournalError) {
            var reader = try SegmentReader.open(name, mode: .read, on: disk)
            // The oldest segment may begin anywhere: which checkpoints there are is not ours to know.
            if first != nil, let flaw = reader.header.flaw(after: first, lastSequence: report.lastSequence) {
                report.problems.append(reader.problem(at: flaw.byteOffset, flaw.flaw))
            }
            if first == nil { first = reader.header }
            report.lastSequence = SequenceNumber(reader.header.firstSequence.rawValue &- 1)
            do throws(DiskFailure) {
                try inspect(&reader, next: next, into: &report, record: record)
            } catch {
                throw JournalError.disk(error)
            }
        } catch {
            switch error {
            case .corrupt(let problem): report.problems.append(problem)
            case .disk(let failure): throw failure
            case .poisoned, .lockedByAnotherProcess, .entryTooLarge:
                preconditionFailure("reading cannot say \(error)")
            }
        }
        if report.problems.count >= InspectionReport.problemLimit { break }
    }
    return report
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
            describe(range, of: reader, to: record)
            continue
        case .end:
            return
        case .contradiction(let flaw, let byteOffset):
            report.problems.append(reader.problem(at: byteOffset, flaw))
            guard try skip(&reader, behind: byteOffset) else { return }
        case .bad(let reason, let sequence, let entry, let byteOffset):
            let flaw = try reader.judge(reason, sequence, entry: entry, byteOffset: byteOffset, next: next)
            report.problems.append(reader.problem(at: byteOffset, flaw))
            if case .tornTail = flaw { return }
            guard try skip(&reader, behind: byteOffset) else { return }
        }
    }
}

/// Moves to the next good record that begins an entry; false when there is none.
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
