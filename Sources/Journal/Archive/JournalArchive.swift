import PandoBytes

//  An archive is a directory, on another disk, with a copy of the journal of a data directory:
//
//      journal-00000001-0000000000000001.log            whole: read once more when it was complete; never changes again
//      journal-00000001-000000000000004f.log            whole
//      journal-00000001-00000000000000c3.log.partial    the segment that is being written, as far as it is on disk
//      timeline-00000002.history                        where a timeline that a restore has begun comes from
//
//  Each copy has the bytes of its segment. Only entries that are on the disk of the data directory are
//  copied, so the archive is never ahead of a journal that a power cut has shortened. With a backup, it
//  restores every moment behind the backup (``ArchivedJournal``).
//
//  So an archive that is ahead of the journal all the same, or has other records, proves that the data
//  directory is not what it was: it was set back to an earlier state (the snapshot of a machine), or it is a
//  copy of another one. Nothing of the archive is overwritten then: what the journal has lost is only there.

/// What ``JournalArchive/update(upTo:isCancelled:note:)`` reports.
package enum ArchiveEvent: Equatable, Sendable {
    /// So many bytes were copied, and are durable.
    case copied(byteCount: Int)
    /// The copy of a segment is whole.
    case closed(SegmentName)
    /// Something is missing between the archive and this segment: the data directory does not have the
    /// segments any more, because a checkpoint has made them superfluous before they were copied; or an
    /// import came between, which is in no journal. A restore needs a backup from behind the gap.
    case gap(before: SegmentName)
    /// A copy that is whole cannot be read from an offset on. A restore cannot pass it.
    case damaged(file: String, byteOffset: Int)
}

/// Copies the journal of one data directory into an archive, as it is written. Reads the data directory
/// without its lock.
///
/// Knows nothing but the two directories: what is missing in the archive is what has to be copied, so there
/// is no queue, and a new process continues where the last one ended.
///
/// Needs two disks that no other thread uses meanwhile.
package struct JournalArchive<Storage: Disk> {
    let source: Storage
    package let target: Storage
    /// Of the journal.
    let timeline: TimelineHistory
    /// The copy that is continued; nil before the first update, and after a failure.
    private var copy: Copy?
    /// The last record before the first that the archive has of this timeline; nil before the first update.
    package private(set) var begin: SequenceNumber?

    struct Copy {
        let name: SegmentName
        let file: Storage.File
        /// Bytes of the segment that are in the copy, and durable.
        var byteCount: Int
    }

    /// - Parameters:
    ///   - source: The data directory.
    ///   - target: The archive.
    ///   - timeline: That of the journal, with its ancestors.
    package init(of source: Storage, in target: Storage, timeline: TimelineHistory) {
        self.source = source
        self.target = target
        self.timeline = timeline
    }

    /// The segment that the archive does not have as a whole yet; nil before the first update, and after a
    /// failure.
    package var segment: SegmentName? { copy?.name }

    /// Copies everything that is not in the archive yet.
    /// - Parameters:
    ///   - position: How far the journal is on disk.
    ///   - isCancelled: Asked between two pieces of about a mebibyte, of what is copied and of what is read
    ///     once more.
    /// - Returns: Whether everything is in the archive; false where it was cancelled.
    /// - Throws: ``JournalError/disk(_:)``; ``JournalError/corrupt(_:)`` for damage of a segment, which is
    ///   not copied, and for an archive that is not of this journal (``refuseIfForeign(at:)``), which is not
    ///   changed. The next call tries again.
    /// - Complexity: O(bytes to copy) in the memory of a mebibyte or of the largest entry; and one read of a
    ///   segment when its copy is whole.
    package mutating func update(
        upTo position: JournalPosition, isCancelled: () -> Bool = { false }, note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Bool {
        do throws(JournalError) {
            return try copyMissing(upTo: position, isCancelled, note)
        } catch {
            // After a failed write or sync it is unknown what the disk holds.
            copy = nil
            throw error
        }
    }

    private mutating func copyMissing(
        upTo position: JournalPosition, _ isCancelled: () -> Bool, _ note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Bool {
        let segments = try sourceSegments(upTo: position)
        var current: Copy
        if let copy, segments.contains(copy.name) {
            current = copy
        } else {
            current = try beginAgain(segments, upTo: position, note)
            begin = try firstSequence().predecessor
        }
        for (name, next) in zip(segments, segments.dropFirst().map(Optional.some) + [nil])
        where name >= current.name {
            if name != current.name { current = try make(name) }
            let isWhole = try append(
                to: &current, upTo: next == nil ? position.byteOffset : nil, isCancelled, note)
            guard isWhole, let next else {
                copy = current
                return isWhole
            }
            guard let last = try close(current, isCancelled) else {
                copy = current
                return false
            }
            note(.closed(name))
            if last.successor < next.firstSequence { note(.gap(before: next)) }
        }
        preconditionFailure("the last segment has no next")
    }

    // MARK: Copying

    /// Makes an empty copy.
    func make(_ name: SegmentName) throws(JournalError) -> Copy {
        do throws(DiskFailure) {
            let file = try target.open(name.partialText, .create)
            try target.syncDirectory()
            return Copy(name: name, file: file, byteCount: 0)
        } catch {
            throw .disk(error)
        }
    }

    /// Appends what the copy lacks, and makes it durable.
    /// - Parameter end: How far the segment is on disk; nil for one that is whole.
    /// - Returns: false where it was cancelled.
    private func append(
        to copy: inout Copy, upTo end: Int?, _ isCancelled: () -> Bool, _ note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Bool {
        if let end, end == copy.byteCount { return true }
        var reader = try SegmentReader.open(copy.name, mode: .read, on: source, upTo: end)
        reader.isFollowed = end == nil
        guard reader.header.directory == timeline.directory else {
            let flaw = JournalFlaw.foreignDirectory(
                expected: timeline.directory, found: reader.header.directory)
            throw .corrupt(reader.problem(at: 12, flaw))
        }
        do throws(DiskFailure) { try reader.resume(at: max(copy.byteCount, reader.offset)) } catch {
            throw .disk(error)
        }
        var goesOn = true
        while goesOn {
            if isCancelled() { return false }
            // Up to here the entries are good.
            goesOn = try reader.readEntries(
                atLeast: FileWindow<Storage>.usualByteCount, behind: copy.byteCount)
            let range = copy.byteCount..<reader.offset
            do throws(DiskFailure) {
                try copyBytes(range, to: copy)
            } catch {
                throw .disk(error)
            }
            copy.byteCount = range.upperBound
            if !range.isEmpty { note(.copied(byteCount: range.count)) }
        }
        return true
    }

    private func copyBytes(_ range: Range<Int>, to copy: Copy) throws(DiskFailure) {
        guard !range.isEmpty else { return }
        var window = try window(on: copy.name.text, of: source)
        var offset = range.lowerBound
        while offset < range.upperBound {
            let piece = offset..<min(offset + FileWindow<Storage>.usualByteCount, range.upperBound)
            try window.load(piece)
            try target.write(window.bytes(piece), to: copy.file, at: offset)
            offset = piece.upperBound
        }
        try target.sync(copy.file)
    }

    /// Reads a copy that has every byte of its segment, and gives it its name.
    /// - Returns: Its last sequence. The journal may go on behind a later one: an import takes a sequence,
    ///   and has no record. Nil where it was cancelled: the next update reads the copy again.
    /// - Throws: ``JournalError/corrupt(_:)`` where the bytes cannot be read.
    private func close(_ copy: Copy, _ isCancelled: () -> Bool) throws(JournalError) -> SequenceNumber? {
        guard let found = try entries(of: copy, isCancelled) else { return nil }
        guard found.end == copy.byteCount else {
            throw .corrupt(
                JournalProblem(
                    file: copy.name.partialText, byteOffset: found.end,
                    flaw: .entryUnfinished(sequence: found.last.successor)))
        }
        try nameWhole(copy.name)
        return found.last
    }

    /// Reads the entries of a copy that has a header.
    /// - Returns: Where they end, and the last sequence; nil where it was cancelled.
    private func entries(
        of copy: Copy, _ isCancelled: () -> Bool
    ) throws(JournalError) -> (end: Int, last: SequenceNumber)? {
        var reader = try SegmentReader.open(
            copy.name, mode: .read, on: target, fileNamed: copy.name.partialText)
        var (end, last) = (reader.offset, SequenceNumber(copy.name.firstSequence.rawValue &- 1))
        var askedAt = 0
        while true {
            if end - askedAt >= FileWindow<Storage>.usualByteCount {
                if isCancelled() { return nil }
                askedAt = end
            }
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            guard case .entry(_, _, let sequence) = step else { return (end, last) }
            (end, last) = (reader.offset, sequence)
        }
    }

    /// Gives a copy that is whole its name.
    func nameWhole(_ name: SegmentName) throws(JournalError) {
        do throws(DiskFailure) {
            try target.rename(name.partialText, to: name.text)
            try target.syncDirectory()
        } catch {
            throw .disk(error)
        }
    }
}

extension SegmentReader {
    /// Reads entries until there are enough bytes.
    /// - Returns: Whether there may be more.
    /// - Throws: ``JournalError/corrupt(_:)`` for a bad record: everything that is read is on disk.
    mutating func readEntries(atLeast byteCount: Int, behind start: Int) throws(JournalError) -> Bool {
        while offset - start < byteCount {
            let step: Step
            do throws(DiskFailure) { step = try nextEntry() } catch { throw .disk(error) }
            switch step {
            case .entry: continue
            case .end: return false
            case .contradiction(let flaw, let byteOffset): throw .corrupt(problem(at: byteOffset, flaw))
            case .bad(let reason, let sequence, let entry, let byteOffset):
                throw .corrupt(
                    problem(at: byteOffset, .damaged(reason, sequence: sequence, witness: entry.successor)))
            }
        }
        return true
    }
}
