import PandoBytes

// What an archive has, and whether that is a beginning of this journal.

extension JournalArchive {
    /// Refuses an archive that is not of this journal, and changes nothing:
    /// - of another data directory, or of a later timeline: another data directory goes on there, which was
    ///   restored from this one or from one before it;
    /// - ahead of the journal, or with other records than the journal.
    /// - Parameter position: How far the journal is on disk.
    /// - Throws: ``JournalError/corrupt(_:)`` with a flaw that ``JournalFlaw/isArchiveConflict``; also for a
    ///   copy of a newer version. ``JournalError/disk(_:)``.
    /// - Complexity: One read of the newest copies, and of their segments.
    package func refuseIfForeign(at position: JournalPosition) throws(JournalError) {
        let listing = try targetListing()
        try refuseIfForeign(listing)
        try refuseIfDifferent(listing, try sourceSegments(upTo: position), position)
    }

    /// The segments of the journal up to a place, which is in the last one.
    func sourceSegments(upTo position: JournalPosition) throws(JournalError) -> [SegmentName] {
        let names = try onDisk { () throws(DiskFailure) in try source.list() }
        let segments = DirectoryListing(names).segments.filter {
            $0.timeline == timeline.timeline && $0 <= position.segment
        }
        guard segments.last == position.segment else {
            throw .corrupt(JournalProblem(file: position.segment.text, byteOffset: 0, flaw: .noSegments))
        }
        return segments
    }

    /// The first sequence of the oldest copy of this timeline.
    /// - Precondition: There is one.
    func firstSequence() throws(JournalError) -> SequenceNumber {
        let listing = try targetListing()
        let first = (listing.whole + listing.partial).filter { $0.timeline == timeline.timeline }.min()
        guard let first else { preconditionFailure("a copy was begun") }
        return first.firstSequence
    }

    private func targetListing() throws(JournalError) -> ArchiveListing {
        ArchiveListing(try onDisk { () throws(DiskFailure) in try target.list() })
    }

    /// Finds the first segment that the archive does not have as a whole.
    /// - Parameter segments: Of the journal, up to `position`.
    func beginAgain(
        _ segments: [SegmentName], upTo position: JournalPosition, _ note: (ArchiveEvent) -> Void
    ) throws(JournalError) -> Copy {
        let listing = try targetListing()
        try refuseIfForeign(listing)
        try refuseIfDifferent(listing, segments, position, note)
        try copyHistory(listing)
        let whole = listing.whole.last { $0.timeline == timeline.timeline }
        let partial = listing.partial.last { $0.timeline == timeline.timeline && $0.isBehind(whole) }
        if let partial, segments.contains(partial) { return try resume(partial) }
        // The archive is not ahead, so the journal has a segment behind what is whole there.
        guard let wanted = segments.first(where: { $0.isBehind(whole) }) else {
            preconditionFailure("the last segment is not in the archive")
        }
        if let partial {
            // The data directory does not have its segment any more. The copy may be whole all the same.
            let found = try extent(partial, in: partial.partialText)
            if found.last.successor == wanted.firstSequence {
                _ = try rewrite(partial, upTo: found.end)
                try nameWhole(partial)
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

    // MARK: Whose archive it is

    private func refuseIfForeign(_ listing: ArchiveListing) throws(JournalError) {
        for (name, file) in listing.newestFirst {
            // A copy without a whole header was begun, and belongs to nothing yet.
            guard let owner = try header(of: name, in: file)?.directory else { continue }
            guard let flaw = try flaw(ofOwner: owner, name.timeline) else { return }
            throw .corrupt(JournalProblem(file: file, byteOffset: 12, flaw: flaw))
        }
    }

    /// Why this journal may not be archived behind the newest timeline there; nil where it may.
    private func flaw(ofOwner owner: DirectoryID, _ newest: UInt32) throws(JournalError) -> JournalFlaw? {
        let flaw = JournalFlaw.foreignDirectory(expected: timeline.directory, found: owner)
        if newest == timeline.timeline { return owner == timeline.directory ? nil : flaw }
        if newest > timeline.timeline {
            return .laterTimelineArchived(newest, of: owner, journal: timeline.timeline)
        }
        if timeline.ancestors.contains(where: { $0.directory == owner && $0.timeline == newest }) {
            return nil
        }
        // Another branch of the same origin: its data directory was given up for an earlier state.
        let other = try TimelineHistory.read(newest, on: target)
        let origin = other?.origin ?? owner
        return origin == timeline.origin ? nil : flaw
    }

    /// - Returns: The header of a copy; nil for one that was begun only, and for a damaged one.
    private func header(of name: SegmentName, in file: String) throws(JournalError) -> SegmentHeader? {
        do throws(JournalError) {
            return try SegmentReader.open(name, mode: .read, on: target, fileNamed: file).header
        } catch {
            guard case .corrupt(let problem) = error, problem.flaw.isUnwrittenHeader else { throw error }
            return nil
        }
    }

    /// Before the first segment of a timeline: a restore can follow it then. The copies of this timeline are
    /// those of this journal (``refuseIfForeign(_:)``): another history of it is that of a directory of which
    /// nothing is archived.
    private func copyHistory(_ listing: ArchiveListing) throws(JournalError) {
        guard !timeline.ancestors.isEmpty else { return }
        if listing.histories.contains(timeline.timeline) {
            do throws(JournalError) {
                guard try TimelineHistory.read(timeline.timeline, on: target) != timeline else { return }
            } catch {
                guard case .corrupt = error else { throw error }
            }
        }
        do throws(DiskFailure) { try timeline.write(on: target) } catch { throw .disk(error) }
    }

    // MARK: Whether it is a beginning of this journal

    /// What a copy holds up to the first bytes that are no entry.
    struct Extent {
        /// 0 without a whole header.
        var end: Int
        /// That before the first sequence for a copy without entries.
        var last: SequenceNumber
        var fileByteCount: Int
    }

    private func refuseIfDifferent(
        _ listing: ArchiveListing, _ segments: [SegmentName], _ position: JournalPosition,
        _ note: (ArchiveEvent) -> Void = { _ in }
    ) throws(JournalError) {
        let whole = listing.whole.last { $0.timeline == timeline.timeline }
        let partial = listing.partial.last { $0.timeline == timeline.timeline && $0.isBehind(whole) }
        let wholeExtent: Extent? =
            if let whole { try extent(whole, in: whole.text) } else { nil }
        let partialExtent: Extent? =
            if let partial { try extent(partial, in: partial.partialText) } else { nil }
        let comparison = Comparison(
            segments: segments, position: position,
            archived: max(wholeExtent?.last ?? .zero, partialExtent?.last ?? .zero))
        // Both: two histories may have a segment of the same name behind different records.
        if let whole, let wholeExtent {
            try refuseIfDifferent(whole, in: whole.text, wholeExtent, comparison)
            // Without a header it is damaged even where it is empty.
            let isDamaged = wholeExtent.end < max(wholeExtent.fileByteCount, 1)
            if isDamaged { note(.damaged(file: whole.text, byteOffset: wholeExtent.end)) }
            // A segment is whole in the archive only when the journal has gone on to the next.
            guard let next = segments.first(where: { $0 > whole }) else {
                throw comparison.conflict(of: whole.text)
            }
            let isNext = wholeExtent.last.successor == next.firstSequence
            // Behind it an import may have taken a sequence, or the journal has lost segments. Otherwise the
            // journal repeats records, or has more of them in the same segment.
            let mayHaveGap =
                if wholeExtent.last < next.firstSequence {
                    try !hasMore(of: whole, than: wholeExtent, segments)
                } else {
                    false
                }
            guard isDamaged || isNext || mayHaveGap else { throw comparison.conflict(of: whole.text) }
        }
        if let partial, let partialExtent {
            try refuseIfDifferent(partial, in: partial.partialText, partialExtent, comparison)
            if !segments.contains(partial), let next = segments.first(where: { $0 > partial }) {
                guard partialExtent.last < next.firstSequence else {
                    throw comparison.conflict(of: partial.partialText)
                }
            }
        }
    }

    /// Whether the journal has a segment with more than its copy.
    private func hasMore(
        of name: SegmentName, than extent: Extent, _ segments: [SegmentName]
    ) throws(JournalError) -> Bool {
        guard segments.contains(name) else { return false }
        do throws(DiskFailure) {
            return try source.byteCount(of: try source.open(name.text, .read)) > extent.end
        } catch {
            throw .disk(error)
        }
    }

    /// What the copies are compared with.
    private struct Comparison {
        /// Of the journal, up to `position`.
        let segments: [SegmentName]
        let position: JournalPosition
        /// The last record in the archive.
        let archived: SequenceNumber

        func conflict(of file: String) -> JournalError {
            let flaw =
                archived > position.sequence
                ? JournalFlaw.archiveAhead(archived: archived, journal: position.sequence) : .archiveDiffers
            return .corrupt(JournalProblem(file: file, byteOffset: 0, flaw: flaw))
        }
    }

    private func refuseIfDifferent(
        _ name: SegmentName, in file: String, _ extent: Extent, _ comparison: Comparison
    ) throws(JournalError) {
        guard comparison.segments.contains(name) else {
            // A journal loses its oldest segments first, so one without this segment has none before it.
            guard let oldest = comparison.segments.first, oldest < name else { return }
            throw comparison.conflict(of: file)
        }
        let position = comparison.position
        let limit = name == position.segment ? position.byteOffset : nil
        let isSame: Bool
        do throws(DiskFailure) {
            isSame = try hasSameBytes(name, in: file, extent, notBehind: limit)
        } catch {
            throw .disk(error)
        }
        guard !isSame else { return }
        // Not the copy's fault where the segment is damaged: then this throws.
        var reader = try SegmentReader.open(name, mode: .read, on: source, upTo: limit)
        reader.isFollowed = limit == nil
        _ = try reader.readEntries(atLeast: .max, behind: 0)
        throw comparison.conflict(of: file)
    }

    /// Reads the entries of a copy. What is behind them a power cut has torn, or it is damaged.
    func extent(_ name: SegmentName, in file: String) throws(JournalError) -> Extent {
        let last = SequenceNumber(name.firstSequence.rawValue &- 1)
        guard try header(of: name, in: file) != nil else {
            do throws(DiskFailure) {
                let byteCount = try target.byteCount(of: try target.open(file, .read))
                return Extent(end: 0, last: last, fileByteCount: byteCount)
            } catch {
                throw .disk(error)
            }
        }
        var reader = try SegmentReader.open(name, mode: .read, on: target, fileNamed: file)
        var extent = Extent(end: reader.offset, last: last, fileByteCount: reader.byteCount)
        while true {
            let step: SegmentReader<Storage>.Step
            do throws(DiskFailure) { step = try reader.nextEntry() } catch { throw .disk(error) }
            guard case .entry(_, _, let sequence) = step else { return extent }
            extent.end = reader.offset
            extent.last = sequence
        }
    }

    /// - Returns: The last sequence of a copy, before any torn tail.
    private func lastSequence(of name: SegmentName, in file: String) throws(JournalError) -> SequenceNumber {
        try extent(name, in: file).last
    }

    /// Whether a copy has the bytes of its segment, and is not longer.
    /// - Parameter limit: The end of the segment; nil for that of its file.
    private func hasSameBytes(
        _ name: SegmentName, in file: String, _ extent: Extent, notBehind limit: Int?
    ) throws(DiskFailure) -> Bool {
        var original = try window(on: name.text, of: source)
        var copied = try window(on: file, of: target)
        guard extent.fileByteCount <= limit ?? original.fileByteCount,
            extent.end <= original.fileByteCount
        else { return false }
        var offset = 0
        while offset < extent.end {
            let range = offset..<min(offset + FileWindow<Storage>.usualByteCount, extent.end)
            try original.load(range)
            try copied.load(range)
            guard original.bytes(range).hasSameBytes(as: copied.bytes(range)) else { return false }
            offset = range.upperBound
        }
        return true
    }

    // MARK: Going on

    /// Continues a copy that is a beginning of its segment.
    private func resume(_ name: SegmentName) throws(JournalError) -> Copy {
        let end = try extent(name, in: name.partialText).end
        guard end > 0 else { return try make(name) }
        return Copy(name: name, file: try rewrite(name, upTo: end), byteCount: end)
    }

    /// Makes the entries of a copy that an earlier process, or an earlier attempt, has written durable, and
    /// removes what is behind them: a sync of them, or of the name, may have failed. After that only writing
    /// them again makes them durable.
    private func rewrite(_ name: SegmentName, upTo end: Int) throws(JournalError) -> Storage.File {
        do throws(DiskFailure) {
            var window = try window(on: name.partialText, of: target, .readWrite)
            try window.rewriteDurably(0..<end, end: end)
            let file = window.finish()
            try target.syncDirectory()
            return file
        } catch {
            throw .disk(error)
        }
    }

    func window(
        on name: String, of disk: Storage, _ mode: OpenMode = .read
    ) throws(DiskFailure) -> FileWindow<Storage> {
        let file = try disk.open(name, mode)
        return FileWindow(
            of: file, path: disk.directory + "/" + name, byteCount: try disk.byteCount(of: file), on: disk)
    }
}

extension JournalFlaw {
    /// Whether an archive and a journal contradict each other, so that the journal must not be archived
    /// there.
    package var isArchiveConflict: Bool {
        switch self {
        case .foreignDirectory, .laterTimelineArchived, .archiveAhead, .archiveDiffers: true
        default: false
        }
    }

    /// Whether a file may have been made and not written: of a newer version it was.
    var isUnwrittenHeader: Bool {
        switch self {
        case .headerCutShort, .notASegment, .headerChecksumMismatch: true
        default: false
        }
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
