import PandoBytes

/// The journal of one data directory, open for appending. One owner, one thread.
///
/// The caller collects the entries that arrive while the disk is busy, and then does one write and one sync
/// for all of them:
///
///     try journal.append(&batch)     // numbers the records; memory only
///     try journal.write()            // one system call
///     try journal.sync()             // one fdatasync
///     release(everything up to journal.lastDurable)
///
/// With `--durability interval` the caller syncs at intervals, and releases up to ``lastWritten``. An error
/// of `write` or `sync` is final: the process has to report it and exit, and the next start reads what is on
/// the disk.
package struct Journal<Storage: Disk>: ~Copyable, Sendable {
    let disk: Storage
    var file: Storage.File
    /// Held and never read: no other process can open the directory meanwhile.
    private let lock: Storage.File
    /// The checksum of the current segment's header, from which the checksums of its records continue.
    var seed: UInt32
    /// Where the next write begins in the current segment. Invariant: `byteOffset <= reservedEnd`.
    var byteOffset: Int
    /// The end of the space that the disk has reserved for the current segment.
    var reservedEnd: Int
    /// The size of the file that was prepared for the next segment; 0 while there is none.
    var preparedByteCount = 0
    /// The number of segments that were made of a prepared file.
    package internal(set) var usedPreparedCount = 0
    /// From this offset on the segment is full, and the next write begins a new one.
    var rotationOffset: Int
    /// Entries that are accepted and not yet written.
    private var pending = JournalBatch()
    /// The first failed write or sync. Nothing more is accepted then.
    var failure: DiskFailure?
    let options: JournalOptions
    /// Why the last attempt to begin a new segment failed; nil when there was none, or the last one
    /// succeeded.
    package internal(set) var postponedRotation: DiskFailure?
    /// The number of segments that were read at the start or made since.
    package internal(set) var segmentCount: Int
    var segmentFirstSequence: SequenceNumber

    /// What the start found in the directory, and what it did.
    package let recovery: RecoverySummary
    package let directory: DirectoryID
    package let timeline: UInt32

    // Invariant: lastDurable <= lastWritten <= lastAppended; see `checkInvariants`.

    /// The last record that was accepted.
    package private(set) var lastAppended: SequenceNumber
    /// The last record that was written. It survives `kill -9`, but not a power cut.
    package private(set) var lastWritten: SequenceNumber
    /// The last record that is on disk, and survives a power cut.
    package private(set) var lastDurable: SequenceNumber

    init(
        disk: Storage, file: Storage.File, lock: Storage.File, header: SegmentHeader, byteOffset: Int,
        options: JournalOptions, recovery: RecoverySummary
    ) {
        precondition(
            byteOffset >= JournalFormat.segmentHeaderByteCount, "a record would overwrite the header")
        precondition(
            header.firstSequence <= recovery.lastSequence.successor, "the segment begins behind its records")
        self.disk = disk
        self.file = file
        self.lock = lock
        self.seed = header.seed
        self.byteOffset = byteOffset
        self.options = options
        reservedEnd = byteOffset
        rotationOffset = options.segmentByteLimit
        segmentCount = recovery.segmentCount
        segmentFirstSequence = header.firstSequence
        self.recovery = recovery
        directory = header.directory
        timeline = header.timeline
        lastAppended = recovery.lastSequence
        lastWritten = recovery.lastSequence
        lastDurable = recovery.lastSequence
    }

    /// The file name of the current segment.
    package var segmentName: String {
        SegmentName(timeline: timeline, firstSequence: segmentFirstSequence).text
    }

    /// Bytes that are accepted and not yet written.
    package var pendingByteCount: Int { pending.byteCount }

    /// Accepts the entries of a batch for the next write, and numbers their records.
    ///
    /// Accepted is not durable: until ``sync()`` returns, a power cut may lose the records, and nothing that
    /// depends on them may leave the process.
    ///
    /// - Parameter batch: Whole entries. It is empty afterwards, and may have another memory than before.
    /// - Throws: ``JournalError/poisoned(by:)`` after any failed write or sync;
    ///   ``JournalError/entryTooLarge``. In both cases nothing is accepted, and the batch is unchanged.
    /// - Complexity: O(1) for the first batch since the last write; one copy of its bytes for each further
    ///   one.
    package mutating func append(_ batch: inout JournalBatch) throws(JournalError) {
        try refuseIfPoisoned()
        precondition(batch.isWhole, "an entry has not ended")
        try batch.checkSizes()
        lastAppended = SequenceNumber(lastAppended.rawValue + UInt64(batch.recordCount))
        if pending.isEmpty {
            swap(&pending, &batch)
        } else {
            pending.append(batch)
            batch.removeAll()
        }
        checkInvariants()
    }

    /// Accepts one entry of several records: after a crash either all of them are there or none.
    ///
    /// - Parameter records: At least one; together at most ``JournalFormat/entryByteLimit``.
    /// - Returns: The sequence of the last record.
    /// - Throws: As ``append(_:)``.
    /// - Complexity: One copy of the payloads, two if entries are pending.
    @discardableResult
    package mutating func append(entry records: [JournalRecord]) throws(JournalError) -> SequenceNumber {
        var batch = JournalBatch()
        batch.append(entry: records)
        try append(&batch)
        return lastAppended
    }

    /// Writes everything that is accepted, with one system call but for what was inserted
    /// (``JournalBatch/insert(_:)``), into a new segment when the current one is full. Does nothing when
    /// nothing is pending.
    /// - Throws: ``JournalError/poisoned(by:)``, ``JournalError/disk(_:)``. Both are final.
    package mutating func write() throws(JournalError) {
        try refuseIfPoisoned()
        if pending.isEmpty { return }
        if byteOffset >= rotationOffset { try rotate() }
        precondition(
            lastWritten.rawValue + UInt64(pending.recordCount) == lastAppended.rawValue,
            "the pending records are not the ones that were numbered")
        pending.seal(seed: seed, firstSequence: lastWritten.successor, durable: lastDurable)
        do throws(DiskFailure) {
            var offset = byteOffset
            try pending.forEachPiece { piece throws(DiskFailure) in
                try disk.write(piece, to: file, at: offset)
                offset += piece.byteCount
            }
        } catch {
            failure = error
            throw .disk(error)
        }
        byteOffset += pending.byteCount
        reservedEnd = max(reservedEnd, byteOffset)
        pending.removeAll()
        lastWritten = lastAppended
        checkInvariants()
    }

    /// Waits until everything that is written is on disk: one `fdatasync`, which is never repeated after a
    /// failure. Does nothing when everything is on disk.
    /// - Throws: ``JournalError/poisoned(by:)``, ``JournalError/disk(_:)``. Both are final.
    package mutating func sync() throws(JournalError) {
        try refuseIfPoisoned()
        if lastDurable == lastWritten { return }
        do throws(DiskFailure) {
            try disk.sync(file)
        } catch {
            failure = error
            throw .disk(error)
        }
        lastDurable = lastWritten
    }

    func refuseIfPoisoned() throws(JournalError) {
        if let failure { throw .poisoned(by: failure) }
    }

    /// O(1).
    func checkInvariants() {
        assert(
            lastDurable <= lastWritten && lastWritten <= lastAppended, "a record is durable and not written")
        assert(pending.isEmpty == (lastWritten == lastAppended), "pending records are miscounted")
        assert(byteOffset <= reservedEnd, "more is written than the segment has space for")
        assert(byteOffset % JournalFormat.alignment == 0, "a record does not begin at a multiple of 8")
        assert(segmentFirstSequence <= lastWritten.successor, "the segment begins behind its records")
    }
}
