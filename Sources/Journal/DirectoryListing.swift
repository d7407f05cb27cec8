/// The files of a data directory that say where the directories beside it are: of its backups, and of its
/// archive.
package enum PlaceFile: String {
    case backups = "backup.place"
    case archive = "archive.place"
}

/// The journal's files in a data directory, by their names. All other names are ignored.
struct DirectoryListing {
    /// In journal order.
    var segments: [SegmentName] = []
    /// The oldest first.
    var checkpoints: [CheckpointName] = []
    /// Names like those of segments or checkpoints that cannot be read.
    var unreadable: [String] = []
    /// Files that were not finished, because of a crash or because they are being made. They are never read.
    var unfinished: [String] = []
    /// Timelines of which there is a ``TimelineHistory``.
    var histories: [UInt32] = []

    init(_ names: [String]) {
        for name in names.sorted() {
            if name.hasPrefix(SegmentName.prefix) {
                if let segment = SegmentName(name) {
                    segments.append(segment)
                } else if name.hasSuffix(SegmentName.unfinishedSuffix) {
                    unfinished.append(name)
                } else if name.hasSuffix(SegmentName.suffix) {
                    unreadable.append(name)
                }
            } else if name.hasPrefix(CheckpointName.prefix) {
                if let checkpoint = CheckpointName(name) {
                    checkpoints.append(checkpoint)
                } else if name.hasSuffix(CheckpointName.unfinishedSuffix) {
                    unfinished.append(name)
                } else if name.hasSuffix(CheckpointName.suffix) {
                    unreadable.append(name)
                }
            } else if let timeline = TimelineHistory.timeline(ofFile: name) {
                histories.append(timeline)
            } else if Self.isUnfinishedSmallFile(name) {
                unfinished.append(name)
            }
        }
        segments.sort()
        checkpoints.sort()
    }

    /// Whether it is a file that a crash has kept from replacing another one as a whole
    /// (``replaceSmallFile(_:with:on:)``): a history, or where a directory beside this one is.
    private static func isUnfinishedSmallFile(_ name: String) -> Bool {
        guard name.hasSuffix(CheckpointName.unfinishedEnd) else { return false }
        let finished = String(name.dropLast(CheckpointName.unfinishedEnd.utf8.count))
        return PlaceFile(rawValue: finished) != nil
            || TimelineHistory.timeline(ofFile: finished) != nil
    }

    /// Segments and checkpoints of timelines that a restore has ended. The next start removes them.
    private(set) var superseded: [String] = []

    /// The listing without files of earlier timelines, if there is a checkpoint that begins a new one.
    ///
    /// Until a start removes the earlier files, such a checkpoint is the only file of its timeline. Its name
    /// says so, not its content: when it is damaged, the data from before the restore must not come back. Any
    /// other mixture of timelines was not made by Pando, and recovery refuses it.
    var ofCurrentTimeline: DirectoryListing {
        guard let newest = checkpoints.last, segments.last.map({ $0.timeline < newest.timeline }) ?? true,
            segments.contains(where: { $0.timeline != newest.timeline })
                || checkpoints.contains(where: { $0.timeline != newest.timeline }),
            checkpoints.filter({ $0.timeline == newest.timeline }).count == 1
        else { return self }
        var current = self
        current.superseded =
            segments.map(\.text) + checkpoints.dropLast().map(\.text)
            + histories.filter { $0 < newest.timeline }.map(TimelineHistory.fileName)
        current.segments = []
        current.checkpoints = [newest]
        return current
    }
}

/// The files that count.
/// - Parameter hasTimelines: Whether the journal goes through several timelines (``ArchivedJournal``): then
///   none of their files is superseded. In a data directory, a restore has ended the earlier ones.
/// - Throws: ``JournalError/corrupt(_:)`` for a name that cannot be read, ``JournalError/disk(_:)``.
func readableListing<Storage: Disk>(
    of disk: Storage, hasTimelines: Bool = false
) throws(JournalError) -> DirectoryListing {
    let listing = DirectoryListing(try onDisk { () throws(DiskFailure) in try disk.list() })
    if let name = listing.unreadable.first {
        throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: .unreadableName))
    }
    return hasTimelines ? listing : listing.ofCurrentTimeline
}
