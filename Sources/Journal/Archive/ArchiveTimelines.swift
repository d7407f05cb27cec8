/// The timelines of which an archive has a part.
package struct ArchiveTimelines<Storage: Disk> {
    private let listing: ArchiveListing
    private let archive: Storage

    /// Lists an archive.
    /// - Throws: ``JournalError/disk(_:)``.
    package init(of archive: Storage) throws(JournalError) {
        self.init(ArchiveListing(try onDisk { () throws(DiskFailure) in try archive.list() }), on: archive)
    }

    init(_ listing: ArchiveListing, on archive: Storage) {
        self.listing = listing
        self.archive = archive
    }

    /// The newest timeline of which there is a copy of a segment: the one that a restore follows. Nil where
    /// there is none.
    package var newest: UInt32? { listing.newestCopiedTimeline }

    /// A timeline with its ancestors, as far as the archive has them.
    /// - Parameter header: Of a backup, which may be of that timeline and know its data directory.
    /// - Throws: ``JournalError/corrupt(_:)`` for a damaged history, and where nothing of the timeline is
    ///   known; ``JournalError/disk(_:)``.
    package func history(
        of timeline: UInt32, orOf header: CheckpointHeader
    ) throws(JournalError) -> TimelineHistory {
        if let history = try TimelineHistory.read(timeline, on: archive) { return history }
        if header.timeline == timeline {
            return TimelineHistory(timeline: timeline, directory: header.directory)
        }
        guard let directory = try directory(of: timeline) else {
            let flaw = JournalFlaw.backupNotOnTimeline(
                timeline, backup: header.timeline, sequence: header.sequence)
            throw .corrupt(
                JournalProblem(file: TimelineHistory.fileName(timeline), byteOffset: 0, flaw: flaw))
        }
        return TimelineHistory(timeline: timeline, directory: directory)
    }

    /// The data directory of a timeline, as the newest of its segments with a readable header says. Nil where
    /// there is none.
    /// - Throws: ``JournalError/disk(_:)``.
    package func directory(of timeline: UInt32) throws(JournalError) -> DirectoryID? {
        for (name, file) in listing.newestFirst where name.timeline == timeline {
            do throws(JournalError) {
                return try SegmentReader.open(name, mode: .read, on: archive, fileNamed: file).header
                    .directory
            } catch {
                guard case .corrupt = error else { throw error }
            }
        }
        return nil
    }
}
