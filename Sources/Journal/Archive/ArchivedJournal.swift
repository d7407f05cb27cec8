import PandoBytes

/// A backup, and the archive of the journal behind it (``JournalArchive``), as if both were one data
/// directory: the backup is its only checkpoint. For reading.
///
/// The journal goes through the timelines of the archive, up to the newest one or to the one that is asked
/// for (``TimelineHistory``). What a timeline has behind the record at which the next one begins is left out:
/// it was given up by the restore.
///
/// ``readArchive(_:until:into:)`` reads it as any other directory, with all its checks: a foreign journal, a
/// gap and damage are refused.
package final class ArchivedJournal<Storage: Disk>: Disk {
    package struct File: Sendable {
        fileprivate let file: Storage.File
        /// Where the reading ends; nil for the end of the file.
        fileprivate let end: Int?
    }

    private let backup: Storage
    private let backupName: String
    private let header: CheckpointHeader
    /// The name under which ``list()`` has the backup.
    private let checkpoint: CheckpointName
    private let archive: Storage
    /// The timeline that is read, with its ancestors.
    package let timeline: TimelineHistory
    /// The newest timeline whose number is taken, in the archive or by the backup. The archive may have
    /// nothing of it but its history.
    package let newestTimeline: UInt32
    /// Copies that are not whole, and where their last whole entries end.
    private let partials: [SegmentName: Int]
    /// Where segments end that the next timeline does not have as a whole.
    private let cuts: [SegmentName: Int]
    /// Bytes behind the last whole entry that cannot be read: a power cut has interrupted their copying, or
    /// they are damaged. The durable marks of the records there are those of the data directory, so they do
    /// not tell the two apart.
    package let unreadableByteCount: Int

    /// - Parameters:
    ///   - name: The file of the backup, in the directory `backup`.
    ///   - header: Of the backup.
    ///   - wanted: The timeline to be read; nil for the newest of which the archive has a part, or that of
    ///     the backup.
    /// - Throws: ``JournalError/corrupt(_:)`` for a damaged history, and for a backup that the timeline does
    ///   not contain; ``JournalError/disk(_:)``.
    package init(
        _ name: String, in backup: Storage, _ header: CheckpointHeader, archive: Storage,
        timeline wanted: UInt32? = nil
    ) throws(JournalError) {
        self.backup = backup
        backupName = name
        self.header = header
        checkpoint = header.name
        self.archive = archive
        let listing = ArchiveListing(try onDisk { () throws(DiskFailure) in try archive.list() })
        newestTimeline = max(listing.newestTimeline ?? 0, header.timeline)
        let timelines = ArchiveTimelines(listing, on: archive)
        let timeline = try timelines.history(
            of: wanted ?? max(timelines.newest ?? 0, header.timeline), orOf: header)
        guard timeline.contains(header.timeline, of: header.directory, upTo: header.sequence) else {
            let flaw = JournalFlaw.backupNotOnTimeline(
                timeline.timeline, backup: header.timeline, sequence: header.sequence)
            throw .corrupt(JournalProblem(file: name, byteOffset: 28, flaw: flaw))
        }
        self.timeline = timeline
        var (partials, cuts): ([SegmentName: Int], [SegmentName: Int]) = ([:], [:])
        var unreadableByteCount = 0
        for number in timeline.ancestors.map(\.timeline) + [timeline.timeline] {
            let end = timeline.end(of: number)
            let whole = listing.whole.last { $0.timeline == number }
            if let name = listing.partial.last(where: { $0.timeline == number && $0.isBehind(whole) }) {
                let found = try Self.endOfEntries(name, name.partialText, upTo: end, on: archive)
                if found.end > 0 { partials[name] = found.end }
                if end == nil { unreadableByteCount = found.byteCount - found.end }
            }
            guard let end else { continue }
            let last = listing.whole.last { $0.timeline == number && $0.firstSequence <= end }
            if let last {
                let found = try Self.endOfEntries(last, last.text, upTo: end, on: archive)
                // Reading a segment with a damaged header reports it.
                if found.end > 0 { cuts[last] = found.end }
            }
        }
        self.partials = partials
        self.cuts = cuts
        self.unreadableByteCount = unreadableByteCount
    }

    /// - Parameter end: The last record that is wanted; nil for all.
    /// - Returns: Where they end, and the length of the file. The end is 0 where the header cannot be read:
    ///   the copy was only begun, or it is damaged.
    private static func endOfEntries(
        _ name: SegmentName, _ file: String, upTo end: SequenceNumber?, on archive: Storage
    ) throws(JournalError) -> (end: Int, byteCount: Int) {
        do throws(JournalError) {
            var reader = try SegmentReader.open(name, mode: .read, on: archive, fileNamed: file)
            var offset = reader.offset
            do throws(DiskFailure) {
                while case .entry(_, _, let sequence) = try reader.nextEntry() {
                    if let end, sequence > end { break }
                    offset = reader.offset
                }
            } catch {
                throw JournalError.disk(error)
            }
            return (offset, reader.byteCount)
        } catch {
            guard case .corrupt(let problem) = error, problem.flaw.isUnwrittenHeader else { throw error }
            return try onDisk { () throws(DiskFailure) in
                (0, try archive.byteCount(of: try archive.open(file, .read)))
            }
        }
    }

    /// Refuses a backup whose last record is another one than the archive's of the same sequence, as far as
    /// the times show it: the archive's was written after the backup was made. Earlier versions made backups
    /// of data directories with records that were not on disk yet: a power cut could take such a record, and
    /// its sequence went to another one.
    fileprivate func refuseOtherRecord() throws(JournalError) {
        let names = try onDisk { () throws(DiskFailure) in try list() }
        let segments = names.compactMap { SegmentName($0) }.sorted()
        // Those of empty databases had no time then.
        guard header.timestamp > 0,
            let name = segments.last(where: { $0.firstSequence <= header.sequence })
        else { return }
        var reader = try SegmentReader.open(name, mode: .read, on: self)
        var problem: JournalProblem?
        do throws(DiskFailure) {
            while case .entry(let range, _, let last) = try reader.nextEntry(), last <= header.sequence {
                guard last == header.sequence, reader.timestamp(at: range.lowerBound) > header.timestamp
                else { continue }
                problem = reader.problem(at: range.lowerBound, .backupDiffers(sequence: last))
            }
        } catch {
            throw .disk(error)
        }
        if let problem { throw .corrupt(problem) }
    }

    package var directory: String { archive.directory }

    package var overwritesInPlace: Bool { false }

    /// The backup, and the segments of its timelines.
    /// - Throws: ``DiskFailure`` of the archive.
    package func list() throws(DiskFailure) -> [String] {
        let whole = ArchiveListing(try archive.list()).whole.filter(isWanted)
        let rest = partials.keys.filter { isWanted($0) && !whole.contains($0) }
        return [checkpoint.text] + (whole + rest).map(\.text)
    }

    private func isWanted(_ segment: SegmentName) -> Bool {
        if segment.timeline == timeline.timeline { return true }
        guard let end = timeline.end(of: segment.timeline) else { return false }
        return segment.firstSequence <= end
    }

    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        precondition(mode == .read, "an archive is not changed by reading it")
        if name == checkpoint.text { return File(file: try backup.open(backupName, .read), end: nil) }
        let segment = SegmentName(name)
        do throws(DiskFailure) {
            return File(file: try archive.open(name, .read), end: segment.flatMap { cuts[$0] })
        } catch {
            guard error.isMissing, let segment, let end = partials[segment] else { throw error }
            return File(file: try archive.open(segment.partialText, .read), end: end)
        }
    }

    package func byteCount(of file: File) throws(DiskFailure) -> Int {
        let byteCount = try archive.byteCount(of: file.file)
        return min(byteCount, file.end ?? byteCount)
    }

    @unsafe package func read(
        _ file: File, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(DiskFailure) -> Int {
        // The caller's buffer, passed on.
        unsafe try archive.read(file.file, at: offset, into: buffer)
    }

    // Reading calls none of these.

    package func write(_ bytes: RawSpan, to file: File, at offset: Int) throws(DiskFailure) { refuse() }
    package func sync(_ file: File) throws(DiskFailure) { refuse() }
    package func reserve(_ range: Range<Int>, of file: File) throws(DiskFailure) { refuse() }
    package func truncate(_ file: File, to byteCount: Int) throws(DiskFailure) { refuse() }
    package func rename(_ oldName: String, to newName: String) throws(DiskFailure) { refuse() }
    package func remove(_ name: String) throws(DiskFailure) { refuse() }
    package func syncDirectory() throws(DiskFailure) { refuse() }
    package func lock(_ name: String) throws(DiskFailure) -> LockOutcome<File> { refuse() }

    private func refuse() -> Never { preconditionFailure("an archive is not changed by reading it") }
}

/// Reads a backup and the archived journal behind it.
/// - Parameter moment: Nil for everything that is archived.
/// - Returns: ``RecoverySummary/timeline`` is that of the last record that counts.
/// - Throws: As ``readDirectory(_:into:)``; ``JournalError/beforeJournal(earliest:)`` for a moment before the
///   backup, unless the archive begins with the first record; ``JournalFlaw/backupDiffers(sequence:)`` for a
///   backup that is not of this journal.
package func readArchive<Storage: Disk>(
    _ journal: ArchivedJournal<Storage>, until moment: PointInTime?, into host: inout some RecoveryTarget
) throws(JournalError) -> RecoverySummary {
    let summary = try readDirectory(journal, until: moment, along: journal.timeline, into: &host)
    if summary.checkpoint != nil { try journal.refuseOtherRecord() }
    return summary
}

/// Reads the header of a checkpoint of any name, such as a backup.
/// - Throws: ``JournalError/corrupt(_:)`` where it is none, ``JournalError/disk(_:)``.
package func readCheckpointHeader<Storage: Disk>(
    _ name: String, on disk: Storage
) throws(JournalError) -> CheckpointHeader {
    try CheckpointReader.open(fileNamed: name, on: disk).header
}

/// The time of the first entry of a segment in an archive.
/// - Parameter file: Its file, whole or partial.
/// - Returns: Milliseconds since 1970; nil where it cannot be read, or has none.
/// - Throws: ``DiskFailure``.
package func firstTime<Storage: Disk>(
    ofArchived file: String, on archive: Storage
) throws(DiskFailure) -> Int64? {
    guard let name = SegmentName(file) ?? SegmentName(partial: file) else { return nil }
    do throws(JournalError) {
        var reader = try SegmentReader.open(name, mode: .read, on: archive, fileNamed: file)
        do throws(DiskFailure) {
            guard case .entry(let range, _, _) = try reader.nextEntry() else { return nil }
            return reader.timestamp(at: range.lowerBound)
        } catch {
            throw JournalError.disk(error)
        }
    } catch {
        if case .disk(let failure) = error { throw failure }
        return nil
    }
}

/// Chooses the segments of an archive that no restore needs: those whose records a backup has, which is kept.
/// - Parameters:
///   - names: The names in the archive.
///   - timeline: Of the backup, and `sequence` the last record that it has.
/// - Returns: The files, the oldest first, each with the files that follow it. Of copies that are not whole,
///   only those of earlier timelines are among them: nothing is added to these any more.
package func archivedSegments(
    of names: [String], coveredBy timeline: UInt32, _ sequence: SequenceNumber
) -> [(file: String, behind: ArraySlice<String>)] {
    let all = Array(ArchiveListing(names).newestFirst.reversed())
    let files = all.map { $0.file }
    var superseded: [(file: String, behind: ArraySlice<String>)] = []
    for (index, copy) in all.enumerated() {
        // Not the same segment once more: a copy that is not whole may be left beside the whole one.
        guard let next = all[index...].firstIndex(where: { copy.name < $0.name }) else { break }
        // A later timeline begins with what a backup of it has.
        let isCovered =
            copy.name.timeline < timeline
            || copy.name.timeline == timeline && copy.file == copy.name.text
                && all[next].name.timeline == timeline
                && all[next].name.firstSequence <= sequence.successor
        if isCovered { superseded.append((copy.file, files[next...])) }
    }
    return superseded
}
