import PandoBytes

/// The log of one data directory, open for appending. One owner, one thread.
///
/// How the host keeps its promises with it: gather whatever commits while the disk is busy, then
///
///     for delta in gathered { try journal.append(.delta, …) }   // many: memory only
///     try journal.write()                                       // one gathered write
///     try journal.sync()                                        // one fdatasync
///     release(everything up to journal.lastDurable)
///
/// so that one sync pays for the whole burst. With `--durability interval` the host syncs by the clock and
/// releases up to ``lastWritten``. Any error of `write` or `sync` is final: say it and exit; opening anew
/// reads what is there.
package struct Journal<Storage: Disk>: ~Copyable, Sendable {
    let disk: Storage
    var file: Storage.File
    /// Held, never read: the directory is ours as long as this is.
    private let lock: Storage.File
    /// The current segment's, from which its records' checksums continue.
    var seed: UInt32
    /// Where the next batch goes.
    var byteOffset: Int
    /// Up to here the disk has promised room in the current segment.
    var reservedEnd: Int
    /// Of the file that was prepared for the next segment; 0 while there is none.
    var preparedByteCount = 0
    /// Segments that were prepared before they were begun.
    package internal(set) var takenPreparedCount = 0
    /// From here on the segment is full.
    var rotationOffset: Int
    private var batch = PendingBatch()
    var failure: DiskFailure?
    let options: JournalOptions
    /// Why the segment at hand goes on although it is full; nil when it is not, or when the next one was
    /// begun.
    package internal(set) var postponedRotation: DiskFailure?
    /// Segments there are, made since the journal was opened or read by it.
    package internal(set) var segmentCount: Int
    var segmentFirstSequence: SequenceNumber

    /// What this journal was before: how the last run ended, and what it left.
    package let recovery: RecoverySummary
    package let directory: DirectoryID
    package let timeline: UInt32

    // Invariant: lastDurable <= lastWritten <= lastAppended.

    /// The last record accepted.
    package private(set) var lastAppended: SequenceNumber
    /// The last record the kernel has: it survives `kill -9`, but not a power cut.
    package private(set) var lastWritten: SequenceNumber
    /// The last record on disk. Only this is a promise.
    package private(set) var lastDurable: SequenceNumber

    init(
        disk: Storage, file: Storage.File, lock: Storage.File, header: SegmentHeader, byteOffset: Int,
        options: JournalOptions, recovery: RecoverySummary
    ) {
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

    /// The segment being written.
    package var segmentName: String {
        SegmentName(timeline: timeline, firstSequence: segmentFirstSequence).text
    }

    /// Bytes accepted and not yet written.
    package var pendingByteCount: Int { batch.byteCount }

    /// Accepts an entry of one record for the next batch and numbers it.
    ///
    /// Accepted is not durable: until ``sync()`` returns, a power cut may lose the record, and nothing that
    /// depends on it may leave the process.
    ///
    /// - Parameters:
    ///   - timestamp: When the server accepted the write; milliseconds since 1970.
    ///   - payload: 0 bytes … ``JournalFormat/payloadByteLimit``, opaque.
    /// - Returns: The record's number: one more than the last.
    /// - Throws: ``JournalError/poisoned(by:)`` after any failed write or sync;
    ///   ``JournalError/entryTooLarge``. Either way nothing was accepted.
    /// - Complexity: One copy of `payload`; no system call.
    @discardableResult
    package mutating func append(
        _ kind: RecordKind, namespace: UInt32, timestamp: Int64, payload: RawSpan
    ) throws(JournalError) -> SequenceNumber {
        let header = try admit(kind, namespace, timestamp, payloadByteCount: payload.byteCount)
        batch.append(header, payload: payload)
        lastAppended = header.sequence
        return header.sequence
    }

    /// The same for bytes that somebody holds anyway.
    /// - Complexity: No copy of `payload`; it is held until written.
    @discardableResult
    package mutating func append(
        _ kind: RecordKind, namespace: UInt32, timestamp: Int64, payload: SharedBytes
    ) throws(JournalError) -> SequenceNumber {
        let header = try admit(kind, namespace, timestamp, payloadByteCount: payload.count)
        batch.append(header, shared: payload)
        lastAppended = header.sequence
        return header.sequence
    }

    /// Accepts an entry of several records: after a crash either all of them are there or none.
    ///
    /// - Parameter records: At least one; together at most ``JournalFormat/entryByteLimit``.
    /// - Returns: The number of the last. Errors and cost as above.
    @discardableResult
    package mutating func append(entry records: [JournalRecord]) throws(JournalError) -> SequenceNumber {
        precondition(!records.isEmpty, "an entry has at least one record")
        try refuseIfPoisoned()
        var byteCount = 0
        for record in records {
            try refuseIfTooLarge(record.payload.count)
            byteCount += JournalFormat.recordByteCount(payloadByteCount: record.payload.count)
        }
        try refuseEntryIfTooLarge(byteCount)
        for (index, record) in records.enumerated() {
            var flags: RecordFlags = []
            if index == 0 { flags.insert(.begin) }
            if index == records.count - 1 { flags.insert(.commit) }
            accept(record.kind, flags, record.namespace, record.timestamp, record.payload.rawSpan)
        }
        return lastAppended
    }

    /// Numbers a record that has been let in, and keeps it for the next write.
    mutating func accept(
        _ kind: RecordKind, _ flags: RecordFlags, _ namespace: UInt32, _ timestamp: Int64, _ payload: RawSpan
    ) {
        lastAppended = lastAppended.successor
        batch.append(
            RecordHeader(
                payloadByteCount: UInt32(payload.byteCount), kind: kind, flags: flags, namespace: namespace,
                sequence: lastAppended, timestamp: timestamp, durable: .zero),
            payload: payload)
    }

    /// Hands everything accepted to the kernel: one gathered write, into a new segment when the old one is
    /// full. Nothing to do when nothing was accepted.
    package mutating func write() throws(JournalError) {
        try refuseIfPoisoned()
        if batch.isEmpty { return }
        if byteOffset >= rotationOffset { try rotate() }
        batch.seal(seed: seed, durable: lastDurable)
        do throws(DiskFailure) {
            let (disk, file, byteOffset) = (disk, file, byteOffset)
            try batch.withGathered { bytes throws(DiskFailure) in
                try disk.write(bytes, to: file, at: byteOffset)
            }
        } catch {
            failure = error
            throw .disk(error)
        }
        byteOffset += batch.byteCount
        reservedEnd = max(reservedEnd, byteOffset)
        batch.removeAll()
        lastWritten = lastAppended
    }

    /// Waits until everything written is on disk: one `fdatasync`, never a second try. Nothing to do when it
    /// is.
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

    func refuseIfTooLarge(_ payloadByteCount: Int) throws(JournalError) {
        if payloadByteCount > JournalFormat.payloadByteLimit {
            throw .entryTooLarge(byteCount: payloadByteCount, byteLimit: JournalFormat.payloadByteLimit)
        }
    }

    func refuseEntryIfTooLarge(_ byteCount: Int) throws(JournalError) {
        if byteCount > JournalFormat.entryByteLimit {
            throw .entryTooLarge(byteCount: byteCount, byteLimit: JournalFormat.entryByteLimit)
        }
    }

    /// The header of a lone record, if it may be appended.
    private func admit(
        _ kind: RecordKind, _ namespace: UInt32, _ timestamp: Int64, payloadByteCount: Int
    ) throws(JournalError) -> RecordHeader {
        try refuseIfPoisoned()
        try refuseIfTooLarge(payloadByteCount)
        return RecordHeader(
            payloadByteCount: UInt32(payloadByteCount), kind: kind, flags: [.begin, .commit],
            namespace: namespace, sequence: lastAppended.successor, timestamp: timestamp, durable: .zero)
    }
}
