import PandoBytes

/// Copies the checkpoints and the log of a directory, also while a server writes to it: what is there then
/// can be read as the directory could at one moment, and at any before it.
///
/// Checkpoints go first, so that none is ahead of its log; a segment only grows, so what was copied of it is
/// a prefix, whose torn end recovery cuts off. Files that the server removes meanwhile make it begin anew.
///
/// - Parameters:
///   - target: Another directory; files of the same names are replaced.
///   - progress: Is told now and then how many bytes were copied.
/// - Returns: Bytes copied, all of them durable.
/// - Complexity: One pass, in the memory of a mebibyte.
package func copyLog<Storage: Disk>(
    of source: Storage, to target: Storage, progress: (_ byteCount: Int) -> Void
) throws(JournalError) -> Int {
    var attemptsLeft = 10
    while true {
        let listing = try readableListing(of: source)
        do throws(DiskFailure) {
            var byteCount = 0
            for name in listing.checkpoints.map(\.text) + listing.segments.map(\.text) {
                try copy(name, from: source, to: target, &byteCount, progress)
            }
            try target.syncDirectory()
            return byteCount
        } catch {
            attemptsLeft -= 1
            let now = try readableListing(of: source)
            guard attemptsLeft > 0, now.segments != listing.segments || now.checkpoints != listing.checkpoints
            else {
                throw .disk(error)
            }
            for name in listing.checkpoints.map(\.text) + listing.segments.map(\.text) {
                try? target.remove(name)
            }
        }
    }
}

private func copy<Storage: Disk>(
    _ name: String, from source: Storage, to target: Storage, _ total: inout Int, _ progress: (Int) -> Void
) throws(DiskFailure) {
    let file = try source.open(name, .read)
    let byteCount = try source.byteCount(of: file)
    var window = FileWindow(of: file, path: source.directory + "/" + name, byteCount: byteCount, on: source)
    let copy = try target.open(name, .create)
    var offset = 0
    while offset < byteCount {
        let range = offset..<min(offset + FileWindow<Storage>.usualByteCount, byteCount)
        try window.load(range)
        try GatheredBytes.with(window.bytes(range)) { gathered throws(DiskFailure) in
            try target.write(gathered, to: copy, at: offset)
        }
        offset = range.upperBound
        progress(total + offset)
    }
    total += byteCount
    try target.sync(copy)
}

/// What is in a directory besides its lock.
package struct DirectoryContents: Sendable {
    /// Segments and checkpoints, of any timeline.
    package var journalFiles: [String]
    /// Whatever else, but for what nobody relies on.
    package var otherFiles: [String]
    /// The newest timeline; 0 when there is none.
    package var newestTimeline: UInt32

    package init<Storage: Disk>(of disk: Storage) throws(DiskFailure) {
        let names = try disk.list()
        let listing = Listing(names)
        journalFiles = listing.checkpoints.map(\.text) + listing.segments.map(\.text) + listing.unreadable
        newestTimeline = max(
            listing.checkpoints.map(\.timeline).max() ?? 0, listing.segments.map(\.timeline).max() ?? 0)
        let known = Set(
            journalFiles + listing.unfinished + [Journal<Storage>.lockName, "lost+found", ".", ".."])
        otherFiles = names.filter { !known.contains($0) }.sorted()
    }
}
