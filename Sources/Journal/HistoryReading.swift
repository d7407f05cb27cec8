import PandoBytes

// Reading the journal of a running server backwards, segment by segment, for what happened to a part of the
// data.

/// Gets the entries of the journal, the newest segment first, and each segment's in the order of the journal.
package protocol SegmentVisitor {
    /// An entry of the current segment.
    /// - Returns: Whether the later entries of this segment are wanted.
    mutating func visit(_ entry: borrowing RecoveredEntry) -> Bool
    /// The segment has ended.
    /// - Returns: Whether the segment before it is wanted.
    mutating func endSegment() -> Bool
}

/// Reads the segments of a directory from the newest to the oldest, without its lock and without changes. A
/// torn tail is skipped. A segment that the server has removed meanwhile ends the reading, as the oldest
/// segment does.
/// - Throws: ``JournalError/corrupt(_:)`` for damage in a segment that was read, ``JournalError/disk(_:)``.
/// - Complexity: One read of the segments that are wanted; memory for the largest entry, or 1 MiB.
package func readSegmentsBackward<Storage: Disk>(
    _ disk: Storage, into visitor: inout some SegmentVisitor
) throws(JournalError) {
    let listing = try readableListing(of: disk)
    for (index, name) in listing.segments.enumerated().reversed() {
        let next = index + 1 < listing.segments.count ? listing.segments[index + 1] : nil
        do throws(JournalError) {
            try readSegment(name, next: next, on: disk, into: &visitor)
        } catch {
            // Only the oldest ones are removed.
            guard try readableListing(of: disk).segments.contains(name) else { return }
            throw error
        }
        guard visitor.endSegment() else { return }
    }
}

private func readSegment<Storage: Disk>(
    _ name: SegmentName, next: SegmentName?, on disk: Storage, into visitor: inout some SegmentVisitor
) throws(JournalError) {
    var reader = try SegmentReader.open(name, mode: .read, on: disk)
    reader.isFollowed = next != nil
    while true {
        let step: SegmentReader<Storage>.Step
        do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
        switch step {
        case .entry(let range, let recordCount, let lastSequence):
            let entry = reader.entry(range, recordCount: recordCount, lastSequence: lastSequence)
            guard visitor.visit(entry) else { return }
        case .end: return
        case .contradiction(let flaw, let byteOffset):
            throw .corrupt(reader.problem(at: byteOffset, flaw))
        case .bad(let reason, let sequence, let entry, let byteOffset):
            guard
                try reader.tornByteCount(
                    reason, sequence, entry: entry, byteOffset: byteOffset, next: next) != nil
            else { continue }
            return
        }
    }
}

/// The earliest moment that the files of a directory reach, without its lock and without changes.
///
/// Where the journal is there from its first record on, every moment can be read; the result is the time of
/// that record.
/// - Returns: Milliseconds since 1970; nil where nothing was written yet.
/// - Throws: ``JournalError/corrupt(_:)``, ``JournalError/disk(_:)``.
package func earliestTime<Storage: Disk>(in disk: Storage) throws(JournalError) -> Int64? {
    var attemptsLeft = 10
    while true {
        let listing = try readableListing(of: disk)
        do throws(JournalError) {
            return try earliestTime(of: listing, on: disk)
        } catch {
            attemptsLeft -= 1
            let now = try readableListing(of: disk)
            let hasChanged = now.segments != listing.segments || now.checkpoints != listing.checkpoints
            guard hasChanged, attemptsLeft > 0 else { throw error }
        }
    }
}

private func earliestTime<Storage: Disk>(
    of listing: DirectoryListing, on disk: Storage
) throws(JournalError) -> Int64? {
    if let first = listing.segments.first, first.firstSequence.rawValue == 1 {
        var visitor = FirstTime()
        try readSegment(first, next: listing.segments.dropFirst().first, on: disk, into: &visitor)
        if let time = visitor.time { return time }
    }
    for name in listing.checkpoints {
        do throws(JournalError) {
            return try CheckpointReader.open(name, on: disk).header.timestamp
        } catch {
            if case .disk(let failure) = error, !failure.isUnreadable { throw error }
        }
    }
    return nil
}

/// Finds the time of the first entry of a segment.
private struct FirstTime: SegmentVisitor {
    var time: Int64?

    mutating func visit(_ entry: borrowing RecoveredEntry) -> Bool {
        entry.forEach { if time == nil { time = $0.timestamp } }
        return false
    }

    mutating func endSegment() -> Bool { false }
}

/// The time of a record of the journal, without its lock and without changes.
/// - Returns: Milliseconds since 1970, of the entry with the record; nil where the directory does not have
///   it any more, or not yet.
/// - Throws: ``JournalError``.
/// - Complexity: One read of the segment with the record.
package func time<Storage: Disk>(
    ofRecord sequence: SequenceNumber, on disk: Storage
) throws(JournalError) -> Int64? {
    let segments = try readableListing(of: disk).segments
    guard let name = segments.last(where: { $0.firstSequence <= sequence }) else { return nil }
    var reader = try SegmentReader.open(name, mode: .read, on: disk)
    do throws(DiskFailure) {
        while case .entry(let range, _, let last) = try reader.nextEntry() {
            if last >= sequence { return reader.timestamp(at: range.lowerBound) }
        }
    } catch {
        throw .disk(error)
    }
    return nil
}
