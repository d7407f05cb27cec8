import PandoBytes

/// The file of one checkpoint on its way to a disk, to which the blocks of a ``CheckpointEncoder`` are given:
/// what has not its name yet is nothing, whatever happens. ``CheckpointWriter`` is both; apart they may be
/// two threads'.
///
/// A disk of its own, or nobody else on the one given: a disk is used by one thread at a time.
package struct CheckpointFile<Storage: Disk>: ~Copyable {
    private let disk: Storage
    private let file: Storage.File
    private let name: CheckpointName
    /// Bytes written so far.
    package private(set) var byteCount: Int
    private var unsyncedByteCount = 0

    /// Bytes between two syncs. Without them the last one would be long, and until it is done the log's own,
    /// on the same disk, would stand behind all that had gathered.
    private let syncByteCount: Int

    /// Makes the unfinished file, and writes the header.
    package init(_ header: CheckpointHeader, on disk: Storage, syncByteCount: Int) throws(DiskFailure) {
        self.syncByteCount = syncByteCount
        self.disk = disk
        name = header.name
        let bytes = header.bytes
        let file = try disk.open(name.unfinishedText, .create)
        try GatheredBytes.with(bytes.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: 0)
        }
        self.file = file
        byteCount = bytes.count
    }

    /// Writes the next blocks, and now and then syncs.
    package mutating func write(_ blocks: [UInt8]) throws(DiskFailure) {
        let (disk, file, byteOffset) = (disk, file, byteCount)
        try GatheredBytes.with(blocks.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: byteOffset)
        }
        byteCount += blocks.count
        unsyncedByteCount += blocks.count
        if unsyncedByteCount >= syncByteCount {
            try disk.sync(file)
            unsyncedByteCount = 0
        }
    }

    /// Writes what is left, the end mark behind it, makes the file durable, and gives it its name.
    /// - Returns: Bytes written. The name is durable, too.
    package consuming func finish(_ rest: [UInt8]) throws(DiskFailure) -> Int {
        do throws(DiskFailure) {
            try write(rest)
            try disk.sync(file)
        } catch {
            // A full disk gets its room back; what cannot be removed, the next start removes.
            try? disk.remove(name.unfinishedText)
            throw error
        }
        try disk.rename(name.unfinishedText, to: name.text)
        try disk.syncDirectory()
        return byteCount
    }

    /// Gives up, and the disk its room back.
    package consuming func abandon() throws(DiskFailure) {
        try disk.remove(name.unfinishedText)
    }
}
