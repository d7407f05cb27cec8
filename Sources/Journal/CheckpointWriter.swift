import PandoBytes

/// Writes one checkpoint, record by record, in the memory of one block.
///
///     var writer = try CheckpointWriter(header, on: disk)
///     try writer.append(…)                  // many
///     let file = try writer.finish()        // now the file is durable, and has its name
///
/// The journal up to the covered sequence must be durable before ``finish()``: the next start refuses a
/// checkpoint that is ahead of its journal, unless the journal begins behind it. After an error at most the
/// unfinished file is left, which ``abandon()`` and the next start remove. Needs a disk that no other thread
/// uses meanwhile.
package struct CheckpointWriter<Storage: Disk>: ~Copyable {
    private var encoder: CheckpointEncoder
    private var file: CheckpointFile<Storage>

    /// Makes the unfinished file.
    /// - Parameters:
    ///   - syncByteCount: Bytes between two syncs. More is faster, where no journal is written meanwhile.
    ///   - name: The name of the finished file; nil for that of a checkpoint of a data directory.
    /// - Throws: ``DiskFailure``.
    package init(
        _ header: CheckpointHeader, on disk: Storage, syncByteCount: Int = 4 << 20, named name: String? = nil
    ) throws(DiskFailure) {
        encoder = CheckpointEncoder(header)
        file = try CheckpointFile(header, on: disk, syncByteCount: syncByteCount, named: name)
    }

    /// Bytes so far, the current block included.
    package var byteCount: Int { file.byteCount + encoder.pendingByteCount }

    /// Appends a record.
    /// - Parameter payload: At most ``JournalFormat/payloadByteLimit`` bytes.
    /// - Throws: ``DiskFailure``. Then only ``abandon()`` may follow.
    /// - Complexity: One copy of `payload`. When a block is full, a write of about a mebibyte, and perhaps a
    ///   sync.
    package mutating func append(
        _ kind: RecordKind, namespace: UInt32, payload: RawSpan
    ) throws(DiskFailure) {
        encoder.append(kind, namespace: namespace, payload: payload)
        if encoder.isFull { try file.write(encoder.endBlock()) }
    }

    /// Writes the end mark, makes the file durable, and gives it its name, which is durable too.
    /// - Returns: The size of the file, and the number of its records.
    /// - Throws: ``DiskFailure``.
    package consuming func finish() throws(DiskFailure) -> (byteCount: Int, recordCount: Int) {
        let recordCount = encoder.recordCount
        let byteCount = try file.finish(encoder.finish())
        return (byteCount, Int(clamping: recordCount))
    }

    /// Removes the unfinished file.
    /// - Throws: ``DiskFailure``. Then the next start removes it.
    package consuming func abandon() throws(DiskFailure) {
        try file.abandon()
    }
}

/// Removes files that no recovery needs: all checkpoints but the newest `count`, and the segments whose
/// records are all in the oldest remaining checkpoint. While there are fewer checkpoints the whole journal
/// stays, since recovery may need it. The removal of checkpoints is made durable before their segments are
/// removed, so that after a power cut each remaining checkpoint has its journal.
/// - Parameters:
///   - count: At least 2 in a server: recovery uses the older one when the newer is damaged.
///   - unreadable: Checkpoints that the disk cannot read. They do not count: recovery could not use them.
///   - needed: Segments from this sequence on are still to be archived: at most ``heldSegmentLimit`` of them
///     stay; nil for none.
/// - Returns: The removed names, the oldest first.
/// - Throws: ``DiskFailure``. If it ``DiskFailure/mayBeRetried``, the next call removes the rest.
package func removeSuperseded<Storage: Disk>(
    on disk: Storage, timeline: UInt32, keepingCheckpoints count: Int, besides unreadable: Set<String> = [],
    archivingFrom needed: SequenceNumber? = nil
) throws(DiskFailure) -> [String] {
    let listing = DirectoryListing(try disk.list())
    let checkpoints = listing.checkpoints.filter { $0.timeline == timeline }
    let readable = checkpoints.filter { !unreadable.contains($0.text) }
    guard count > 0, readable.count >= count else { return [] }
    guard let oldest = readable.suffix(count).first else { return [] }
    let supersededCheckpoints = checkpoints.filter { $0 < oldest }.map(\.text)
    let segments = listing.segments.filter { $0.timeline == timeline }
    let uncovered = zip(segments, segments.dropFirst()).compactMap { segment, next in
        next.firstSequence <= oldest.sequence.successor ? segment : nil
    }
    let archived = uncovered.filter { $0.firstSequence < needed ?? JournalFormat.endOfSequences }
    let held = uncovered.dropFirst(archived.count)
    let removable = (archived + held.dropLast(heldSegmentLimit)).map(\.text)
    try removeDurably(supersededCheckpoints, on: disk)
    try removeDurably(removable, on: disk)
    return supersededCheckpoints + removable
}

/// Removes what a checkpoint that begins the journal makes superfluous, where the last one before it began
/// the journal, too: as many checkpoints remain as there were before, and two at least. So imports that
/// follow one another need the space of one, while the checkpoints that a server has kept are replaced one by
/// one.
/// - Parameters:
///   - checkpoint: Is on the disk, with its name.
///   - recovery: What the start before it has found.
///   - isArchived: Whether the segments are to be archived. Then at most ``heldSegmentLimit`` of them stay.
/// - Returns: The removed names, the oldest first.
/// - Throws: ``DiskFailure``. Then a server removes the rest behind its next checkpoint.
package func removeSuperseded<Storage: Disk>(
    by checkpoint: CheckpointHeader, behind recovery: RecoverySummary, isArchived: Bool, on disk: Storage
) throws(DiskFailure) -> [String] {
    guard recovery.checkpoint?.beginsJournal == true else { return [] }
    let unreadable = recovery.unreadableCheckpoints
    let earlier = DirectoryListing(try disk.list()).checkpoints.filter {
        $0.timeline == checkpoint.timeline && $0 < checkpoint.name && !unreadable.contains($0.text)
    }
    return try removeSuperseded(
        on: disk, timeline: checkpoint.timeline, keepingCheckpoints: max(2, earlier.count),
        besides: unreadable, archivingFrom: isArchived ? .zero : nil)
}

/// The most superseded segments that wait for an archive; with the usual size of a segment a gibibyte.
package let heldSegmentLimit = 16

/// Removes files, and makes that durable.
private func removeDurably<Storage: Disk>(_ names: [String], on disk: Storage) throws(DiskFailure) {
    guard !names.isEmpty else { return }
    for name in names { try disk.remove(name) }
    try disk.syncDirectory()
}
