import PandoBytes

/// Makes segments so that one that has its name has its header, and room for what will follow.
enum SegmentMaker {
    /// - Parameter room: Bytes to take room for behind the header.
    /// - Throws: ``DiskFailure/isOutOfSpace`` before anything was made that counts, or what is final.
    static func make<Storage: Disk>(
        _ header: SegmentHeader, on disk: Storage, room: Int
    ) throws(DiskFailure) -> Storage.File {
        let name = SegmentName(timeline: header.timeline, firstSequence: header.firstSequence)
        let bytes = header.bytes
        let file = try disk.open(name.unfinishedText, .create)
        // Before the header, and before the name: what is to be written there has been promised a place.
        if room > 0 { try disk.reserve(0..<bytes.count + room, of: file) }
        try GatheredBytes.with(bytes.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: 0)
        }
        try disk.sync(file)
        try disk.rename(name.unfinishedText, to: name.text)
        // Only now may records go there: without this a power cut could take the name, and all of them.
        try disk.syncDirectory()
        return file
    }
}
