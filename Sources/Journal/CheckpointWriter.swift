import PandoBytes

/// Writes one checkpoint, record by record, in the memory of one block.
///
///     var writer = try CheckpointWriter(header, on: disk)
///     try writer.append(…)                  // many
///     let file = try writer.finish()        // now it is durable, and has its name
///
/// The log up to the covered sequence must be durable before ``finish()``: a checkpoint ahead of its log is refused at
/// the next start. An error leaves at most the unfinished file, which ``abandon()`` and the next start remove. A disk
/// of its own, or nobody else on the one given: a disk is used by one thread at a time.
package struct CheckpointWriter<Storage: Disk>: ~Copyable {
    private let disk: Storage
    private let file: Storage.File
    private let name: CheckpointName
    private let seed: UInt32
    /// The block being filled, its header in front.
    private var block: [UInt8] = []
    private var byteOffset: Int
    private var recordCount: UInt64 = 0
    /// Records in the blocks that were written.
    private var writtenRecordCount: UInt64 = 0
    private var unsyncedByteCount = 0

    /// Bytes between two syncs. Without them the last one would be long, and until it is done the log's own, on the
    /// same disk, would stand behind all that had gathered.
    private static var syncByteCount: Int { 4 << 20 }

    /// Makes the unfinished file.
    package init(_ header: CheckpointHeader, on disk: Storage) throws(DiskFailure) {
        self.disk = disk
        name = header.name
        seed = header.seed
        let bytes = header.bytes
        let file = try disk.open(name.unfinishedText, .create)
        try GatheredBytes.with(bytes.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: 0)
        }
        self.file = file
        byteOffset = bytes.count
        beginBlock()
    }

    /// Bytes written so far, the block being filled included.
    package var byteCount: Int { byteOffset + block.count }

    /// - Parameter payload: At most ``JournalFormat/payloadByteLimit``.
    /// - Complexity: One copy of `payload`; now and then a write of about a mebibyte, and a sync.
    package mutating func append(
        _ kind: RecordKind, namespace: UInt32, payload: RawSpan
    ) throws(DiskFailure) {
        precondition(payload.byteCount <= JournalFormat.payloadByteLimit, "no record of the log is as large")
        block.append(littleEndian: UInt32(payload.byteCount))
        block.append(littleEndian: kind.rawValue)
        block.append(littleEndian: UInt16(0))
        block.append(littleEndian: namespace)
        block.append(payload)
        recordCount += 1
        if block.count >= CheckpointFormat.blockByteCount { try writeBlock() }
    }

    /// Writes the end mark, makes the file durable, and gives it its name.
    /// - Returns: What was written. The name is durable, too.
    package consuming func finish() throws(DiskFailure) -> (byteCount: Int, recordCount: Int) {
        if block.count > CheckpointFormat.blockHeaderByteCount { try writeBlock() }
        try writeBlock()
        try disk.sync(file)
        try disk.rename(name.unfinishedText, to: name.text)
        try disk.syncDirectory()
        return (byteOffset, Int(clamping: recordCount))
    }

    /// Gives up, and the disk its room back.
    package consuming func abandon() throws(DiskFailure) {
        try disk.remove(name.unfinishedText)
    }

    private mutating func beginBlock() {
        block.removeAll(keepingCapacity: block.capacity <= 4 * CheckpointFormat.blockByteCount)
        block.append(littleEndian: UInt64(0))
        block.append(littleEndian: recordCount)
        writtenRecordCount = recordCount
    }

    private mutating func writeBlock() throws(DiskFailure) {
        block.replace(littleEndian: UInt32(block.count - CheckpointFormat.blockHeaderByteCount), at: 4)
        block.replace(
            littleEndian: crc32c(block.rawSpan.extracting(4..<block.count), continuing: seed), at: 0)
        let (disk, file, byteOffset) = (disk, file, byteOffset)
        try GatheredBytes.with(block.rawSpan) { gathered throws(DiskFailure) in
            try disk.write(gathered, to: file, at: byteOffset)
        }
        self.byteOffset += block.count
        unsyncedByteCount += block.count
        beginBlock()
        if unsyncedByteCount >= Self.syncByteCount {
            try disk.sync(file)
            unsyncedByteCount = 0
        }
    }
}

/// Removes what no recovery needs once a checkpoint is durable: checkpoints but for the newest `count`, and segments
/// of which every record is in the oldest of those kept. While there are fewer checkpoints the whole log stays: it is
/// what to fall back to. Checkpoints go for good before their log does: whatever a power cut leaves, each checkpoint
/// that is there has its log.
/// - Parameter count: At least 2 in a server: the older one is for when the newer is damaged.
/// - Returns: The names removed, the oldest first.
package func removeSuperseded<Storage: Disk>(
    on disk: Storage, timeline: UInt32, keepingCheckpoints count: Int
) throws(DiskFailure) -> [String] {
    let listing = Listing(try disk.list())
    let checkpoints = listing.checkpoints.filter { $0.timeline == timeline }
    guard count > 0, checkpoints.count >= count else { return [] }
    guard let oldest = checkpoints.suffix(count).first else { return [] }
    let supersededCheckpoints = checkpoints.dropLast(count).map(\.text)
    let segments = listing.segments.filter { $0.timeline == timeline }
    let supersededSegments = zip(segments, segments.dropFirst()).compactMap { segment, next in
        next.firstSequence <= oldest.sequence.successor ? segment.text : nil
    }
    try remove(supersededCheckpoints, on: disk)
    try remove(supersededSegments, on: disk)
    return supersededCheckpoints + supersededSegments
}

/// Removes files for good.
private func remove<Storage: Disk>(_ names: [String], on disk: Storage) throws(DiskFailure) {
    guard !names.isEmpty else { return }
    for name in names { try disk.remove(name) }
    try disk.syncDirectory()
}
