import PandoBytes

/// A backup, and the archive of the log behind it (``LogArchive``), as if both were one data directory: the backup is
/// its only checkpoint. For reading.
///
/// ``readDirectory(_:until:into:)`` reads it as any other directory, with all its checks: a foreign log, a gap and damage
/// are refused.
package final class ArchivedLog<Storage: Disk>: Disk {
    package struct File: Sendable {
        fileprivate let file: Storage.File
        /// Where the reading ends; nil for the end of the file.
        fileprivate let end: Int?
    }

    private let backup: Storage
    private let backupName: String
    /// The name under which ``list()`` has the backup.
    private let checkpoint: CheckpointName
    private let archive: Storage
    /// The segment of which the archive has a part, and where its last whole entry ends; nil for none.
    private let partial: (name: SegmentName, end: Int)?
    /// Bytes behind that end that cannot be read: a power cut has interrupted their copying, or they are damaged. The
    /// durable marks of the records there are those of the data directory, so they do not tell the two apart.
    package let unreadableByteCount: Int

    /// - Parameters:
    ///   - name: The file of the backup, in the directory `backup`.
    ///   - header: Of the backup.
    /// - Throws: ``JournalError/disk(_:)``.
    package init(
        _ name: String, in backup: Storage, _ header: CheckpointHeader, archive: Storage
    ) throws(JournalError) {
        self.backup = backup
        backupName = name
        checkpoint = header.name
        self.archive = archive
        let listing = ArchiveListing(try onDisk { () throws(DiskFailure) in try archive.list() })
        guard let name = listing.partial.last(where: { $0.timeline == header.timeline }),
            let found = try Self.endOfEntries(name, on: archive)
        else {
            partial = nil
            unreadableByteCount = 0
            return
        }
        partial = (name, found.end)
        unreadableByteCount = found.byteCount - found.end
    }

    /// - Returns: Nil for a copy that was only begun.
    private static func endOfEntries(
        _ name: SegmentName, on archive: Storage
    ) throws(JournalError) -> (end: Int, byteCount: Int)? {
        do throws(JournalError) {
            var reader = try SegmentReader.open(
                name, mode: .read, on: archive, fileNamed: name.partialText)
            do throws(DiskFailure) {
                while case .entry = try reader.nextEntry() {}
            } catch {
                throw JournalError.disk(error)
            }
            return (reader.offset, reader.byteCount)
        } catch {
            guard case .corrupt = error else { throw error }
            return nil
        }
    }

    package var directory: String { archive.directory }

    package var overwritesInPlace: Bool { false }

    /// The backup, and the segments of its timeline.
    package func list() throws(DiskFailure) -> [String] {
        let segments = ArchiveListing(try archive.list()).whole.filter { $0.timeline == checkpoint.timeline }
        var names = [checkpoint.text] + segments.map(\.text)
        if let partial, !segments.contains(partial.name) { names.append(partial.name.text) }
        return names
    }

    package func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> File {
        precondition(mode == .read, "an archive is not changed by reading it")
        if name == checkpoint.text { return File(file: try backup.open(backupName, .read), end: nil) }
        do throws(DiskFailure) {
            return File(file: try archive.open(name, .read), end: nil)
        } catch {
            guard error.isMissing, let partial, partial.name.text == name else { throw error }
            return File(file: try archive.open(partial.name.partialText, .read), end: partial.end)
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
/// - Returns: The files, the oldest first, each with the file that continues it. Copies that are not whole are not among
///   them.
package func supersededSegments(
    ofArchive names: [String], timeline: UInt32, sequence: SequenceNumber
) -> [(file: String, next: String)] {
    let listing = ArchiveListing(names)
    let all = (listing.whole + listing.partial).sorted()
    var superseded: [(file: String, next: String)] = []
    for (segment, next) in zip(all, all.dropFirst()) where listing.whole.contains(segment) {
        // A later timeline begins with what a backup of it has.
        let isCovered =
            segment.timeline < timeline
            || segment.timeline == timeline && next.timeline == timeline
                && next.firstSequence <= sequence.successor
        guard isCovered else { continue }
        superseded.append((segment.text, listing.whole.contains(next) ? next.text : next.partialText))
    }
    return superseded
}
