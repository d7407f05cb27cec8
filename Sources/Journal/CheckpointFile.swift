import PandoBytes

/// The file of a checkpoint that is being written, of the blocks of a ``CheckpointEncoder``. Until it has its
/// name it is ignored. ``CheckpointWriter`` joins encoder and file; separate ones may be used by two threads.
///
/// Needs a disk that no other thread uses meanwhile.
package struct CheckpointFile<Storage: Disk>: ~Copyable {
    private let disk: Storage
    private let file: Storage.File
    private let name: String
    private let unfinishedName: String
    /// Bytes written so far.
    package private(set) var byteCount: Int
    private var unsyncedByteCount = 0

    /// Bytes between two syncs. Without them the last sync would take long, and syncs of the journal on the
    /// same disk would wait for it.
    private let syncByteCount: Int

    /// Makes the unfinished file, and writes the header.
    /// - Parameter name: The name of the finished file; nil for that of a checkpoint of a data directory.
    /// - Throws: ``DiskFailure``.
    package init(
        _ header: CheckpointHeader, on disk: Storage, syncByteCount: Int, named name: String? = nil
    ) throws(DiskFailure) {
        self.syncByteCount = syncByteCount
        self.disk = disk
        self.name = name ?? header.name.text
        unfinishedName = self.name + CheckpointName.unfinishedEnd
        let bytes = header.bytes
        file = try disk.makeFile(unfinishedName) { file throws(DiskFailure) in
            try disk.write(bytes.rawSpan, to: file, at: 0)
        }
        byteCount = bytes.count
    }

    /// Writes the next blocks, and syncs after every ``syncByteCount`` bytes.
    /// - Throws: ``DiskFailure``. Then only ``abandon()`` may follow.
    package mutating func write(_ blocks: [UInt8]) throws(DiskFailure) {
        let (disk, file, byteOffset) = (disk, file, byteCount)
        try disk.write(blocks.rawSpan, to: file, at: byteOffset)
        byteCount += blocks.count
        unsyncedByteCount += blocks.count
        if unsyncedByteCount >= syncByteCount {
            try disk.sync(file)
            unsyncedByteCount = 0
        }
    }

    /// Writes the rest, makes the file durable, and gives it its name.
    /// - Parameter rest: The last blocks, with the end mark.
    /// - Returns: The size of the file. Its name is durable too.
    /// - Throws: ``DiskFailure``. If the file has no name yet, it is removed.
    package consuming func finish(_ rest: [UInt8]) throws(DiskFailure) -> Int {
        do throws(DiskFailure) {
            try write(rest)
            try disk.sync(file)
            try disk.rename(unfinishedName, to: name)
        } catch {
            // Releases the space of a full disk. If that fails, the next start removes the file.
            try? disk.remove(unfinishedName)
            throw error
        }
        try disk.syncDirectory()
        return byteCount
    }

    /// Writes the rest and makes the file durable. It has no name yet: an ``UnnamedCheckpoint`` gives it.
    /// - Parameter rest: The last blocks, with the end mark.
    /// - Throws: ``DiskFailure``; then the file is removed.
    package consuming func finishUnnamed(_ rest: [UInt8]) throws(DiskFailure) {
        do throws(DiskFailure) {
            try write(rest)
            try disk.sync(file)
        } catch {
            // Releases the space of a full disk. If that fails, the next start removes the file.
            try? disk.remove(unfinishedName)
            throw error
        }
    }

    /// Removes the unfinished file.
    /// - Throws: ``DiskFailure``. Then the next start removes it.
    package consuming func abandon() throws(DiskFailure) {
        try disk.remove(unfinishedName)
    }
}
