import PandoBytes

/// Copies the checkpoints and the journal of a directory, also while a server writes to it. The copy can be
/// read as the directory was at one moment during the copying, or at any earlier one.
///
/// Checkpoints are copied first, so that none is ahead of its journal. The last segment is read entry by
/// entry, to find the end of the last whole one, and copied up to there: the server writes inside a prepared
/// segment, so pieces that are read one after the other are no prefix of the journal. If the server removes
/// files meanwhile, the copying starts again. At the end what was copied is made durable in the source, too
/// (``syncJournal(of:upTo:)``).
///
/// - Parameters:
///   - target: Another directory. Files of the same names are replaced.
///   - progress: Called after each piece with the number of bytes copied so far.
/// - Returns: The number of bytes copied, all of them durable.
/// - Throws: ``JournalError/corrupt(_:)`` for damage in the last segment, ``JournalError/disk(_:)``.
/// - Complexity: One pass, two over the last segment, in the memory of a mebibyte or of the largest entry.
package func copyJournal<Storage: Disk>(
    of source: Storage, to target: Storage, progress: (_ byteCount: Int) -> Void
) throws(JournalError) -> Int {
    var attemptsLeft = 10
    while true {
        let listing = try readableListing(of: source)
        do throws(JournalError) {
            var byteCount = 0
            let histories = listing.histories.map(TimelineHistory.fileName)
            for name in listing.checkpoints.map(\.text) + histories
                + listing.segments.dropLast().map(\.text)
            {
                try copyFile(name, from: source, to: target, &byteCount, progress)
            }
            if let last = listing.segments.last {
                let end = try endOfEntries(in: last, on: source)
                try copyFile(last.text, upTo: end, from: source, to: target, &byteCount, progress)
            }
            try onDisk { () throws(DiskFailure) in
                try target.syncDirectory()
                try syncJournal(of: source, upTo: listing.segments.last)
            }
            return byteCount
        } catch {
            attemptsLeft -= 1
            let now = try readableListing(of: source)
            guard attemptsLeft > 0, now.segments != listing.segments || now.checkpoints != listing.checkpoints
            else {
                throw error
            }
            for name in listing.checkpoints.map(\.text) + listing.segments.map(\.text) {
                try? target.remove(name)
            }
        }
    }
}

/// The end of the last whole entry of the last segment.
private func endOfEntries<Storage: Disk>(in name: SegmentName, on disk: Storage) throws(JournalError) -> Int {
    var reader = try SegmentReader.open(name, mode: .read, on: disk)
    var problem: JournalProblem?
    do throws(DiskFailure) {
        while problem == nil {
            switch try reader.nextEntry() {
            case .entry: continue
            case .end: return reader.offset
            case .contradiction(let flaw, let byteOffset): problem = reader.problem(at: byteOffset, flaw)
            case .bad(let reason, let sequence, let entry, let byteOffset):
                switch try reader.classify(reason, sequence, entry: entry, byteOffset: byteOffset, next: nil)
                {
                case nil: continue
                case .tornTail: return reader.offset
                case let flaw?: problem = reader.problem(at: byteOffset, flaw)
                }
            }
        }
    } catch {
        throw .disk(error)
    }
    guard let problem else { preconditionFailure("the search ends with a problem or with an offset") }
    throw .corrupt(problem)
}

private func copyFile<Storage: Disk>(
    _ name: String, upTo end: Int? = nil, from source: Storage, to target: Storage, _ total: inout Int,
    _ progress: (Int) -> Void
) throws(JournalError) {
    do throws(DiskFailure) {
        try copyBytes(name, upTo: end, from: source, to: target, &total, progress)
    } catch {
        throw .disk(error)
    }
}

private func copyBytes<Storage: Disk>(
    _ name: String, upTo end: Int?, from source: Storage, to target: Storage, _ total: inout Int,
    _ progress: (Int) -> Void
) throws(DiskFailure) {
    let file = try source.open(name, .read)
    let fileByteCount = try source.byteCount(of: file)
    let byteCount = min(end ?? fileByteCount, fileByteCount)
    var window = FileWindow(of: file, path: source.directory + "/" + name, byteCount: byteCount, on: source)
    let copy = try target.open(name, .create)
    var offset = 0
    while offset < byteCount {
        let range = offset..<min(offset + FileWindow<Storage>.usualByteCount, byteCount)
        try window.load(range)
        try target.write(window.bytes(range), to: copy, at: offset)
        offset = range.upperBound
        progress(total + offset)
    }
    total += byteCount
    try target.sync(copy)
    // It is read once more.
    target.dropCache(of: copy)
}

/// The files of a directory, apart from its lock.
package struct DirectoryContents: Sendable {
    /// Segments and checkpoints, of any timeline.
    package var journalFiles: [String]
    /// All other files, without unfinished ones.
    package var otherFiles: [String]
    /// The newest timeline; 0 when there is none.
    package var newestTimeline: UInt32

    /// What of ``otherFiles`` no server has made: damaged checkpoints, torn tails and each ``PlaceFile`` are
    /// left out.
    var foreignFiles: [String] {
        otherFiles.filter { name in
            !name.hasSuffix(CheckpointFormat.damagedSuffix) && TornTailName(name) == nil
                && PlaceFile(rawValue: name) == nil
        }
    }

    /// Lists the directory.
    /// - Throws: ``DiskFailure``.
    package init<Storage: Disk>(of disk: Storage) throws(DiskFailure) {
        let names = try disk.list()
        let listing = DirectoryListing(names)
        journalFiles = listing.checkpoints.map(\.text) + listing.segments.map(\.text) + listing.unreadable
        newestTimeline = max(
            listing.checkpoints.map(\.timeline).max() ?? 0, listing.segments.map(\.timeline).max() ?? 0)
        let known = Set(
            journalFiles + listing.unfinished + listing.histories.map(TimelineHistory.fileName) + [
                Journal<Storage>.lockFileName, "lost+found", ".", "..",
            ])
        otherFiles = names.filter { !known.contains($0) }.sorted()
    }
}
