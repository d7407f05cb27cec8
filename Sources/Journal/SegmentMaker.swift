import PandoBytes

/// Makes segments. A segment that has its name also has its header, and reserved space.
enum SegmentMaker {
    /// - Parameters:
    ///   - reserved: Bytes to reserve behind the header.
    ///   - preparedByteCount: The size of the file that ``PreparedSegment`` made, which becomes the segment;
    ///     0 for none.
    /// - Throws: A failure that ``DiskFailure/mayBeRetried``, before the segment has its name; any other is
    ///   final.
    static func make<Storage: Disk>(
        _ header: SegmentHeader, on disk: Storage, reserving reserved: Int, preparedByteCount: Int = 0
    ) throws(DiskFailure) -> Storage.File {
        let name = header.name
        let bytes = header.bytes
        let isPrepared = preparedByteCount > 0
        let unfinished = isPrepared ? PreparedSegment.name : name.unfinishedText
        let end = bytes.count + reserved
        func fill(_ file: Storage.File) throws(DiskFailure) {
            // Before the header and the name: the space that was reserved in the old segment must be reserved
            // here.
            if reserved > 0, end > preparedByteCount { try disk.reserve(preparedByteCount..<end, of: file) }
            try disk.write(bytes.rawSpan, to: file, at: 0)
            try disk.sync(file)
            try disk.rename(unfinished, to: name.text)
        }
        let file: Storage.File
        if isPrepared {
            // Opened anew: the kernel reports a failed sync once to each open file, so this one sees it.
            // After a shortage the next attempt uses it.
            file = try disk.open(unfinished, .readWrite)
            try fill(file)
        } else {
            file = try disk.makeFile(unfinished, fill)
        }
        // Before any record: a power cut could otherwise lose the name, and all records with it.
        try disk.syncDirectory()
        return file
    }
}

/// The file of the next segment, written full of zeros in advance.
///
/// A sync of bytes that overwrite others writes only these bytes. Where a file grows, or uses space that was
/// only reserved, the file system has to write metadata too: on ext4 a sync of 4 KiB then takes 1.2 to 1.6
/// times as long (`pando-bench machine`), one of 64 KiB nearly twice.
package enum PreparedSegment {
    /// The name of the file until it becomes a segment. A start removes it, like all unfinished files.
    static let name = SegmentName.prefix + "prepared" + SegmentName.unfinishedSuffix
    /// Bytes that are written and synced at once. A sync of the journal waits for about as long as one such
    /// step takes.
    static let stepByteCount = 256 << 10
    /// The largest prepared file. A start has to read so much more, and the disk to hold it.
    static let byteLimit = 64 << 20

    /// Makes the file. On a thread and with a disk of its own: the journal is written meanwhile.
    /// - Parameters:
    ///   - byteCount: At least 1.
    ///   - noteShortage: Called when space or descriptors are short.
    ///   - isAbandoned: Called between steps; true stops and removes the file.
    /// - Returns: Whether the file was made. If not, space or descriptors were short, or it was abandoned.
    /// - Throws: Any other failure of the disk, which is final.
    package static func make<Storage: Disk>(
        byteCount: Int, on disk: Storage, noteShortage: (DiskFailure) -> Void = { _ in },
        isAbandoned: () -> Bool
    ) throws(DiskFailure) -> Bool {
        do throws(DiskFailure) {
            let file = try disk.open(name, .create)
            try disk.reserve(0..<byteCount, of: file)
            let zeros = [UInt8](repeating: 0, count: min(byteCount, stepByteCount))
            var offset = 0
            while offset < byteCount {
                if isAbandoned() {
                    try remove(from: disk)
                    return false
                }
                let step = zeros.rawSpan.extracting(first: min(zeros.count, byteCount - offset))
                try disk.write(step, to: file, at: offset)
                try disk.sync(file)
                offset += step.byteCount
            }
            return true
        } catch {
            guard error.isShortage else { throw error }
            noteShortage(error)
            try remove(from: disk)
            return false
        }
    }

    /// Removes the file, if it exists.
    static func remove<Storage: Disk>(from disk: Storage) throws(DiskFailure) {
        do throws(DiskFailure) {
            try disk.remove(name)
        } catch {
            guard error.isMissing else { throw error }
        }
    }
}
