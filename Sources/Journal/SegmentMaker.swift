import PandoBytes

/// Makes segments so that one that has its name has its header, and room for what will follow.
enum SegmentMaker {
    /// - Parameters:
    ///   - room: Bytes to take room for behind the header.
    ///   - preparedByteCount: Of the file that ``PreparedSegment`` has made, which becomes the segment; 0 for
    ///     none.
    /// - Throws: ``DiskFailure/mayBeRetried`` before anything was made that counts, or what is final.
    static func make<Storage: Disk>(
        _ header: SegmentHeader, on disk: Storage, room: Int, preparedByteCount: Int = 0
    ) throws(DiskFailure) -> Storage.File {
        let name = SegmentName(timeline: header.timeline, firstSequence: header.firstSequence)
        let bytes = header.bytes
        let isPrepared = preparedByteCount > 0
        let unfinished = isPrepared ? PreparedSegment.name : name.unfinishedText
        // Opened anew, not taken from who made it: the failure of a sync is told once to each who has the
        // file open.
        let file = try disk.open(unfinished, isPrepared ? .readWrite : .create)
        // Before the header, and before the name: what is to be written there has been promised a place.
        let end = bytes.count + room
        if room > 0, end > preparedByteCount { try disk.reserve(preparedByteCount..<end, of: file) }
        try GatheredBytes.with(bytes.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: 0)
        }
        try disk.sync(file)
        try disk.rename(unfinished, to: name.text)
        // Only now may records go there: without this a power cut could take the name, and all of them.
        try disk.syncDirectory()
        return file
    }
}

/// The file of a segment to come, written full of zeros while there is time.
///
/// A sync of bytes that lie where bytes were written before has only them to write. Where a file grows, or
/// fills room that was only promised, the file system must write down what has become of it as well: on ext4
/// a sync of 4 KiB then takes 1.2 to 1.6 times as long (`pando-bench machine`), one of 64 KiB nearly twice.
package enum PreparedSegment {
    /// What the file is called until it becomes a segment. A start removes it, as everything unfinished.
    static let name = SegmentName.prefix + "prepared" + SegmentName.unfinishedSuffix
    /// Written and synced at a time: while one is under way, a sync of the log waits for about as long.
    static let stepByteCount = 256 << 10
    /// A larger segment is prepared up to here: so much more a start has to look at, and the disk to hold.
    static let byteLimit = 64 << 20

    /// Makes the file. On its own thread, with its own door to the files: the log goes on meanwhile.
    /// - Parameters:
    ///   - byteCount: At least 1.
    ///   - noteShortage: Is called when there is no room or no descriptor for it.
    ///   - isAbandoned: Is asked between steps; true gives up.
    /// - Returns: Whether it is there. If not, there was no room, or no descriptor, or it was given up, and
    ///   nothing is left of it.
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
                try GatheredBytes.with(step) { gathered throws(DiskFailure) in
                    try disk.write(gathered, to: file, at: offset)
                }
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

    /// Removes the file. Nothing to do when somebody else has.
    static func remove<Storage: Disk>(from disk: Storage) throws(DiskFailure) {
        do throws(DiskFailure) {
            try disk.remove(name)
        } catch {
            guard error.isMissing else { throw error }
        }
    }
}
