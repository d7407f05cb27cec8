import PandoBytes

//  An archive is a directory, on another disk, with a copy of the log of a data directory:
//
//      journal-00000001-0000000000000001.log            whole: read once more when it was complete; never changes again
//      journal-00000001-000000000000004f.log            whole
//      journal-00000001-00000000000000c3.log.partial    the segment that is being written, as far as it is on disk
//
//  Each copy has the bytes of its segment. Only entries that are on the disk of the data directory are copied, so the
//  archive is never ahead of a log that a power cut has shortened. With a backup, it restores every moment behind the
//  backup (``ArchivedLog``).

/// What ``LogArchive/update(upTo:isCancelled:note:)`` reports.
package enum ArchiveEvent: Equatable, Sendable {
    /// So many bytes were copied, and are durable.
    case copied(byteCount: Int)
    /// The copy of a segment is whole.
    case closed(SegmentName)
    /// The data directory does not have the segments any more that belong between the archive and this one: a
    /// checkpoint has made them superfluous before they were copied. A restore needs a backup from behind the gap.
    case gap(before: SegmentName)
}

/// Copies the log of one data directory into an archive, as it is written. Reads the data directory without its lock.
///
/// Knows nothing but the two directories: what is missing in the archive is what has to be copied, so there is no queue,
/// and a new process continues where the last one ended.
///
/// Needs two disks that no other thread uses meanwhile.
package struct LogArchive<Storage: Disk> {
    private let source: Storage
    private let target: Storage
    private let directory: DirectoryID
    private let timeline: UInt32
    /// The copy that is continued; nil before the first update, and after a failure.
    private var copy: Copy?

    private struct Copy {
        let name: SegmentName
        let file: Storage.File
        /// Bytes of the segment that are in the copy, and durable.
        var byteCount: Int
    }

    /// - Parameters:
    ///   - source: The data directory.
    ///   - target: The archive.
    ///   - directory: The id of the data directory, and `timeline` that of its log.
    package init(of source: Storage, in target: Storage, directory: DirectoryID, timeline: UInt32) {
        self.source = source
        self.target = target
        self.directory = directory
        self.timeline = timeline
    }

    /// The segment that the archive does not have as a whole yet; nil before the first update, and after a failure.
    package var segment: SegmentName? { copy?.name }

    /// Refuses an archive of another data directory.
    /// - Throws: ``JournalError/corrupt(_:)``, ``JournalError/disk(_:)``.
    package func refuseIfForeign() throws(JournalError) {
        let listing = ArchiveListing(try onDisk { () throws(DiskFailure) in try target.list() })
        guard let (name, file) = listing.newest(of: timeline) else { return }
        let header: SegmentHeader
        do throws(JournalError) {
            header = try SegmentReader.open(name, mode: .read, on: target, fileNamed: file).header
        } catch {
            // A partial copy without a whole header was begun, and is made again.
            if case .corrupt(let problem) = error, file != name.text, problem.byteOffset == 0 { return }
            throw error
        }
        guard header.directory == directory else {
            throw .corrupt(
                JournalProblem(
                    file: file, byteOffset: 12,
                    flaw: .foreignDirectory(expected: directory, found: header.directory)))
        }
    }

    /// Copies everything that is not in the archive yet.
    /// - Parameters:
    ///   - position: How far the log is on disk.
    ///   - isCancelled: Asked between two pieces of about a mebibyte.
    /// - Returns: Whether everything is in the archive; false where it was cancelled.
    /// - Throws: ``JournalError/disk(_:)``; ``JournalError/corrupt(_:)`` for damage of a segment, which is not copied.
    ///   The next call tries again.
    /// - Complexity: O(bytes to copy) in the memory of a mebibyte or of the largest entry; and one read of a segment
    ///   when its copy is whole.
    package mutating func update(
        upTo position: LogPosition, isCancelled: () -> Bool = { false }, note: (ArchiveEvent) -> Void
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
        upTo position: LogPosition, _ isCancelled: () -> Bool, _ note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Bool {
        let names = try onDisk { () throws(DiskFailure) in try source.list() }
        let segments = DirectoryListing(names).segments.filter {
            $0.timeline == timeline && $0 <= position.segment
        }
        guard segments.last == position.segment else {
            throw .corrupt(JournalProblem(file: position.segment.text, byteOffset: 0, flaw: .noSegments))
        }
        var current: Copy
        if let copy, segments.contains(copy.name) {
            current = copy
        } else {
            current = try beginAgain(segments, upTo: position, note)
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
            try close(current.name, before: next)
            note(.closed(name))
        }
        preconditionFailure("the last segment has no next")
    }

    // MARK: What the archive has

    /// Finds the first segment that the archive does not have as a whole.
    private func beginAgain(
        _ segments: [SegmentName], upTo position: LogPosition, _ note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Copy {
        try refuseIfForeign()
        let listing = ArchiveListing(try onDisk { () throws(DiskFailure) in try target.list() })
        let whole = listing.whole.last { $0.timeline == timeline }
        if let whole, whole >= position.segment {
            // Another copy of the data directory has written more.
            let flaw = JournalFlaw.sequenceRepeats(
                expected: whole.firstSequence.successor, found: position.segment.firstSequence)
            throw .corrupt(JournalProblem(file: whole.text, byteOffset: 0, flaw: flaw))
        }
        let partial = listing.partial.last { $0.timeline == timeline && $0.isBehind(whole) }
        if let partial, segments.contains(partial) {
            if let resumed = try resume(partial, upTo: position) { return resumed }
            return try make(partial)
        }
        guard let wanted = segments.first(where: { $0.isBehind(whole) }) else {
            preconditionFailure("the last segment is not in the archive")
        }
        if let partial {
            // The data directory does not have its segment any more. The copy may be whole all the same.
            if try lastSequence(of: partial, in: partial.partialText).successor == wanted.firstSequence {
                try close(partial, before: wanted)
                note(.closed(partial))
            } else {
                note(.gap(before: wanted))
            }
        } else if let whole, !segments.contains(whole),
            try lastSequence(of: whole, in: whole.text).successor != wanted.firstSequence
        {
            note(.gap(before: wanted))
        }
        return try make(wanted)
    }

    /// - Returns: The last sequence of a copy, before any torn tail.
    private func lastSequence(of name: SegmentName, in file: String) throws(JournalError) -> SequenceNumber {
        var reader = try SegmentReader.open(name, mode: .read, on: target, fileNamed: file)
        var last = SequenceNumber(name.firstSequence.rawValue &- 1)
        while true {
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            guard case .entry(_, _, let sequence) = step else { return last }
            last = sequence
        }
    }

    /// Continues a copy, if it is a beginning of the segment.
    private func resume(_ name: SegmentName, upTo position: LogPosition) throws(JournalError) -> Copy? {
        let end: Int
        do throws(JournalError) {
            end = try endOfCopy(name)
        } catch {
            guard case .corrupt = error else { throw error }
            return nil
        }
        guard name < position.segment || end <= position.byteOffset else { return nil }
        do throws(DiskFailure) {
            guard try hasSameBytes(name, upTo: end) else { return nil }
            // Once more: a sync of them, or of the name, may have failed.
            let file = try rewrite(name.partialText, upTo: end)
            try target.syncDirectory()
            return Copy(name: name, file: file, byteCount: end)
        } catch {
            throw .disk(error)
        }
    }

    /// The end of the last whole entry of a partial copy.
    private func endOfCopy(_ name: SegmentName) throws(JournalError) -> Int {
        var reader = try SegmentReader.open(name, mode: .read, on: target, fileNamed: name.partialText)
        do throws(DiskFailure) {
            while case .entry = try reader.nextEntry() {}
        } catch {
            throw .disk(error)
        }
        return reader.offset
    }

    /// Writes a file of the archive again, makes it durable, and cuts off what is behind `end`.
    private func rewrite(_ name: String, upTo end: Int) throws(DiskFailure) -> Storage.File {
        var window = try window(on: name, of: target, .readWrite)
        try window.rewriteDurably(0..<end, end: end)
        return window.finish()
    }

    private func hasSameBytes(_ name: SegmentName, upTo end: Int) throws(DiskFailure) -> Bool {
        var original = try window(on: name.text, of: source)
        var copied = try window(on: name.partialText, of: target)
        guard original.fileByteCount >= end, copied.fileByteCount >= end else { return false }
        var offset = 0
        while offset < end {
            let range = offset..<min(offset + FileWindow<Storage>.usualByteCount, end)
            try original.load(range)
            try copied.load(range)
            guard original.bytes(range).hasSameBytes(as: copied.bytes(range)) else { return false }
            offset = range.upperBound
        }
        return true
    }

    private func window(
        on name: String, of disk: Storage, _ mode: OpenMode = .read
    ) throws(DiskFailure) -> FileWindow<Storage> {
        let file = try disk.open(name, mode)
        return FileWindow(
            of: file, path: disk.directory + "/" + name, byteCount: try disk.byteCount(of: file), on: disk)
    }

    // MARK: Copying

    /// Makes an empty copy.
    private func make(_ name: SegmentName) throws(JournalError) -> Copy {
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
        guard reader.header.directory == directory else {
            let flaw = JournalFlaw.foreignDirectory(expected: directory, found: reader.header.directory)
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

    /// Reads a copy that should be whole, and gives it its name.
    /// - Throws: ``JournalError/corrupt(_:)`` where it is not whole.
    private func close(_ name: SegmentName, before next: SegmentName) throws(JournalError) {
        let last = try lastSequence(of: name, in: name.partialText)
        guard last.successor == next.firstSequence else {
            throw .corrupt(
                JournalProblem(
                    file: name.partialText, byteOffset: 0,
                    flaw: .sequenceGap(expected: last.successor, found: next.firstSequence)))
        }
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
    fileprivate mutating func readEntries(atLeast byteCount: Int, behind start: Int) throws(JournalError)
        -> Bool
    {
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

extension RawSpan {
    fileprivate func hasSameBytes(as other: RawSpan) -> Bool {
        guard byteCount == other.byteCount else { return false }
        var offset = 0
        while byteCount - offset >= 8 {
            guard
                littleEndian(at: offset, as: UInt64.self) == other.littleEndian(at: offset, as: UInt64.self)
            else { return false }
            offset += 8
        }
        while offset < byteCount {
            guard littleEndian(at: offset, as: UInt8.self) == other.littleEndian(at: offset, as: UInt8.self)
            else { return false }
            offset += 1
        }
        return true
    }
}

/// The files of an archive, by their names, in the order of the log. All other names are ignored.
struct ArchiveListing {
    var whole: [SegmentName]
    var partial: [SegmentName]

    init(_ names: [String]) {
        whole = names.compactMap { SegmentName($0) }.sorted()
        partial = names.compactMap { SegmentName(partial: $0) }.sorted()
    }

    /// The newest copy of a timeline, and its file.
    func newest(of timeline: UInt32) -> (name: SegmentName, file: String)? {
        let newestWhole = whole.last { $0.timeline == timeline }
        let newestPartial = partial.last { $0.timeline == timeline }
        if let newestPartial, newestWhole.map({ $0 < newestPartial }) ?? true {
            return (newestPartial, newestPartial.partialText)
        }
        return newestWhole.map { ($0, $0.text) }
    }
}

extension SegmentName {
    fileprivate func isBehind(_ other: SegmentName?) -> Bool { other.map { self > $0 } ?? true }
}
