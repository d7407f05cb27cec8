import PandoBytes

/// Writes one checkpoint, record by record, in the memory of one block.
///
///     var writer = try CheckpointWriter(header, on: disk)
///     try writer.append(…)                  // many
///     let file = try writer.finish()        // now it is durable, and has its name
///
/// The log up to the covered sequence must be durable before ``finish()``: a checkpoint ahead of its log is
/// refused at the next start, unless the log begins behind it. An error leaves at most the unfinished file,
/// which ``abandon()`` and the next start remove. A disk of its own, or nobody else on the one given: a disk
/// is used by one thread at a time.
package struct CheckpointWriter<Storage: Disk>: ~Copyable {
    private var encoder: CheckpointEncoder
    private var file: CheckpointFile<Storage>

    /// Makes the unfinished file.
    /// - Parameter syncByteCount: Bytes between two syncs; more where no log waits for the disk.
    package init(
        _ header: CheckpointHeader, on disk: Storage, syncByteCount: Int = 4 << 20
    ) throws(DiskFailure) {
        encoder = CheckpointEncoder(header)
        file = try CheckpointFile(header, on: disk, syncByteCount: syncByteCount)
    }

    /// Bytes written so far, the block being filled included.
    package var byteCount: Int { file.byteCount + encoder.pendingByteCount }

    /// - Parameter payload: At most ``JournalFormat/payloadByteLimit``.
    /// - Complexity: One copy of `payload`; now and then a write of about a mebibyte, and a sync.
    package mutating func append(
        _ kind: RecordKind, namespace: UInt32, payload: RawSpan
    ) throws(DiskFailure) {
        encoder.append(kind, namespace: namespace, payload: payload)
        if encoder.isFull { try file.write(encoder.takeBlock()) }
    }

    /// Writes the end mark, makes the file durable, and gives it its name.
    /// - Returns: What was written. The name is durable, too.
    package consuming func finish() throws(DiskFailure) -> (byteCount: Int, recordCount: Int) {
        let recordCount = encoder.recordCount
        let byteCount = try file.finish(encoder.finish())
        return (byteCount, Int(clamping: recordCount))
    }

    /// Gives up, and the disk its room back.
    package consuming func abandon() throws(DiskFailure) {
        try file.abandon()
    }
}

/// Removes what no recovery needs once a checkpoint is durable: checkpoints but for the newest `count`, and
/// segments of which every record is in the oldest of those kept. While there are fewer checkpoints the whole
/// log stays: it is what to fall back to. Checkpoints go for good before their log does: whatever a power cut
/// leaves, each checkpoint that is there has its log.
/// - Parameter count: At least 2 in a server: the older one is for when the newer is damaged.
/// - Returns: The names removed, the oldest first.
/// - Throws: After ``DiskFailure/mayBeRetried`` nothing is lost that is needed: the next call removes what
///   this one left.
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
