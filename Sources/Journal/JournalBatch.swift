import PandoBytes

/// Records on their way to the journal, in the very bytes that the segment will hold.
///
///     bytes     ┌ header ┬ payload ┬ padding ┐┌ header ┬ payload ┬ padding ┐┌ header ┬ …
///     entries   └──────────────────── one entry ─────────────────────────┘└── the next …
///
/// The place of each header is reserved before the payload is printed behind it, so nothing is copied between
/// the printing and the write. ``endRecord(_:namespace:timestamp:)`` fills in what is known then. Sequence,
/// durable mark and checksum follow last, when ``Journal/write()`` seals the batch.
///
/// One buffer for everything: an array for each record would cost more than the printing. Only long texts
/// that another thread has printed stay where they are (``insert(_:)``).
package struct JournalBatch: Sendable {
    /// A place to roll back to: see ``rollback(to:)``.
    package struct Savepoint {
        /// ``JournalBatch/byteCount`` at the savepoint. The difference to the current one is the size of what
        /// was appended since. (The caller subtracts the two properties itself: a method of another module
        /// would retain the batch during the call.)
        package let byteCount: Int
        fileprivate let recordCount: Int
        fileprivate let offset: Int
        fileprivate let insertionCount: Int
    }

    /// A part of a record that is not in ``JournalBatch/bytes``.
    private struct RecordPart {
        /// Where the record begins in ``JournalBatch/bytes``.
        let recordOffset: Int
        let insertion: ByteInsertion
    }

    /// Whole records, and behind them the header and the payload of a record that was begun. The payload is
    /// appended here.
    package var bytes: [UInt8] = []
    /// What belongs into ``bytes`` and is not there, by offset.
    private var parts: [RecordPart] = []
    /// Bytes of all ``parts``.
    private var insertedByteCount = 0
    /// Bytes of the whole records. They take as many in the journal.
    package private(set) var byteCount = 0
    /// Where the whole records end in ``bytes``.
    private var offset = 0
    /// Whole records.
    package private(set) var recordCount = 0
    /// Where the last whole record begins. Valid while ``hasOpenEntry``.
    private var lastRecordOffset = 0
    /// Records were ended since the last end of an entry.
    private var hasOpenEntry = false

    package init() {}

    /// An empty batch with capacity for as much as another one holds: successive batches are of similar size.
    package init(withCapacityOf other: JournalBatch) {
        bytes.reserveCapacity(min(other.bytes.count, Self.reservedByteLimit))
    }

    package var isEmpty: Bool { recordCount == 0 }

    /// Whether the batch has memory that is worth reusing.
    package var hasCapacity: Bool { bytes.capacity > 0 }

    package var savepoint: Savepoint {
        Savepoint(
            byteCount: byteCount, recordCount: recordCount, offset: offset, insertionCount: parts.count)
    }

    // MARK: Appending

    /// Begins a record: reserves its header. The caller then appends the payload to ``bytes``.
    /// - Precondition: No record is begun.
    package mutating func beginRecord() {
        precondition(bytes.count == offset, "the record before has not ended")
        bytes.append(atMost: JournalFormat.recordHeaderByteCount) { writer in
            for _ in 0..<JournalFormat.recordHeaderByteCount / 8 { writer.append(littleEndian: UInt64(0)) }
        }
    }

    /// Inserts bytes into the payload of the record that was begun. O(insertions): they are not copied.
    /// - Parameter insertions: By offset in ``bytes``.
    package mutating func insert(_ insertions: [ByteInsertion]) {
        precondition(bytes.count > offset, "no record was begun")
        for insertion in insertions {
            precondition(insertion.offset > offset && insertion.offset <= bytes.count)
            parts.append(RecordPart(recordOffset: offset, insertion: insertion))
            insertedByteCount += insertion.bytes.count
        }
    }

    /// Ends the record that was begun. Its payload is what was appended to ``bytes``, and inserted, since.
    /// - Parameter timestamp: When the server accepted it; milliseconds since 1970.
    package mutating func endRecord(_ kind: RecordKind, namespace: UInt32, timestamp: Int64) {
        let payloadByteCount =
            bytes.count + insertedByteCount - byteCount - JournalFormat.recordHeaderByteCount
        precondition(payloadByteCount >= 0 && payloadByteCount <= UInt32.max, "no record was begun")
        let flags: RecordFlags = hasOpenEntry ? [] : .begin
        bytes.replace(littleEndian: UInt32(payloadByteCount), at: offset + RecordHeader.lengthOffset)
        bytes.replace(
            littleEndian: RecordHeader.kindWord(kind, flags, namespace),
            at: offset + RecordHeader.kindOffset)
        bytes.replace(littleEndian: timestamp, at: offset + RecordHeader.timestampOffset)
        for _ in 0..<JournalFormat.paddingByteCount(payloadByteCount: payloadByteCount) { bytes.append(0) }
        lastRecordOffset = offset
        hasOpenEntry = true
        offset = bytes.count
        byteCount = offset + insertedByteCount
        recordCount += 1
        assert(byteCount % JournalFormat.alignment == 0, "a record does not begin at a multiple of 8")
    }

    /// Ends an entry: the records since the entry before are recovered together or not at all.
    /// - Precondition: There is at least one, and no record is begun.
    package mutating func endEntry() {
        precondition(hasOpenEntry && bytes.count == offset, "an entry has at least one whole record")
        // `commit` is in the low byte of the flags.
        bytes[lastRecordOffset + RecordHeader.flagsOffset] |= UInt8(RecordFlags.commit.rawValue)
        hasOpenEntry = false
    }

    /// Appends an entry of several records. One copy of the payloads.
    /// - Parameter records: At least one.
    package mutating func append(entry records: [JournalRecord]) {
        for record in records {
            beginRecord()
            bytes.append(record.payload.rawSpan)
            endRecord(record.kind, namespace: record.namespace, timestamp: record.timestamp)
        }
        endEntry()
    }

    /// Appends all entries of another batch. One copy of its ``bytes``.
    mutating func append(_ other: borrowing JournalBatch) {
        precondition(isWhole && other.isWhole, "an entry has not ended")
        for part in other.parts {
            parts.append(
                RecordPart(
                    recordOffset: offset + part.recordOffset,
                    insertion: ByteInsertion(part.insertion.bytes, at: offset + part.insertion.offset)))
        }
        insertedByteCount += other.insertedByteCount
        bytes.append(other.bytes.rawSpan)
        offset += other.offset
        byteCount += other.byteCount
        recordCount += other.recordCount
    }

    /// No record and no entry is begun.
    var isWhole: Bool { !hasOpenEntry && bytes.count == offset }

    // MARK: Rolling back

    /// Whole records behind the savepoint.
    package func recordCount(since savepoint: Savepoint) -> Int { recordCount - savepoint.recordCount }

    /// The longest payload behind the savepoint. O(records behind it).
    package func longestPayloadByteCount(since savepoint: Savepoint) -> Int {
        var longest = 0
        forEachRecord(from: savepoint) { _, payloadByteCount in
            longest = max(longest, payloadByteCount)
        }
        return longest
    }

    /// Removes everything behind the savepoint, a record or an entry that was begun included.
    /// - Precondition: The savepoint was taken between two entries of this batch, and is still in it.
    package mutating func rollback(to savepoint: Savepoint) {
        precondition(savepoint.byteCount <= byteCount && savepoint.recordCount <= recordCount)
        bytes.removeLast(bytes.count - savepoint.offset)
        parts.removeLast(parts.count - savepoint.insertionCount)
        offset = savepoint.offset
        byteCount = savepoint.byteCount
        insertedByteCount = byteCount - offset
        recordCount = savepoint.recordCount
        hasOpenEntry = false
        // The removed records may have been large, and the next ones may come late.
        if isEmpty, bytes.capacity > Self.keptByteLimit { bytes = [] }
    }

    /// Removes everything. The memory stays, unless it is large.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: bytes.capacity <= Self.keptByteLimit)
        if !parts.isEmpty { parts = [] }
        offset = 0
        byteCount = 0
        insertedByteCount = 0
        recordCount = 0
        hasOpenEntry = false
    }

    /// Capacity that a new batch reserves at most, and that an empty one keeps at most: arrays grow to twice
    /// of what they hold.
    private static let reservedByteLimit = 256 << 10
    private static let keptByteLimit = 512 << 10

    // MARK: Sealing

    /// Visits the whole records behind a savepoint, or all.
    private func forEachRecord(
        from start: Savepoint? = nil, _ body: (_ offset: Int, _ payloadByteCount: Int) -> Void
    ) {
        var (offset, next) = (start?.offset ?? 0, start?.insertionCount ?? 0)
        while offset < self.offset {
            let length = bytes.rawSpan.littleEndian(at: offset + RecordHeader.lengthOffset, as: UInt32.self)
            body(offset, Int(length))
            let start = offset
            offset += JournalFormat.recordByteCount(payloadByteCount: Int(length))
            while next < parts.count, parts[next].recordOffset == start {
                offset -= parts[next].insertion.bytes.count
                next += 1
            }
        }
        assert(offset == self.offset, "the lengths do not lead to the end of the batch")
    }

    /// Checks that every entry may be appended. O(1) for a batch that is not larger than one payload may be.
    /// - Throws: ``JournalError/entryTooLarge(byteCount:byteLimit:)``.
    func checkSizes() throws(JournalError) {
        guard byteCount > JournalFormat.payloadByteLimit else { return }
        var longestPayload = 0
        var longestEntry = 0
        var entryByteCount = 0
        forEachRecord { offset, payloadByteCount in
            let flags = bytes.rawSpan.littleEndian(at: offset + RecordHeader.flagsOffset, as: UInt16.self)
            if RecordFlags(rawValue: flags).contains(.begin) { entryByteCount = 0 }
            entryByteCount += JournalFormat.recordByteCount(payloadByteCount: payloadByteCount)
            longestPayload = max(longestPayload, payloadByteCount)
            longestEntry = max(longestEntry, entryByteCount)
        }
        if longestPayload > JournalFormat.payloadByteLimit {
            throw .entryTooLarge(byteCount: longestPayload, byteLimit: JournalFormat.payloadByteLimit)
        }
        if longestEntry > JournalFormat.entryByteLimit {
            throw .entryTooLarge(byteCount: longestEntry, byteLimit: JournalFormat.entryByteLimit)
        }
    }

    /// Fills in sequence, durable mark and checksum of every record, right before the write: so the mark is
    /// as high as it can be.
    /// - Parameters:
    ///   - seed: The checksum of the segment's header.
    ///   - firstSequence: Of the first record.
    ///   - durable: The last record that is on disk.
    mutating func seal(seed: UInt32, firstSequence: SequenceNumber, durable: SequenceNumber) {
        precondition(isWhole, "an entry has not ended")
        precondition(durable < firstSequence, "a record cannot be on disk before it is written")
        var sequence = firstSequence
        var (offset, next) = (0, 0)
        while offset < self.offset {
            bytes.replace(littleEndian: sequence.rawValue, at: offset + RecordHeader.sequenceOffset)
            bytes.replace(littleEndian: durable.rawValue, at: offset + RecordHeader.durableOffset)
            let length = bytes.rawSpan.littleEndian(at: offset + RecordHeader.lengthOffset, as: UInt32.self)
            var end = offset + JournalFormat.recordByteCount(payloadByteCount: Int(length))
            var (checksum, start) = (seed, offset + RecordHeader.lengthOffset)
            while next < parts.count, parts[next].recordOffset == offset {
                let insertion = parts[next].insertion
                checksum = crc32c(
                    bytes.rawSpan.extracting(start..<insertion.offset), continuing: checksum)
                checksum = crc32c(insertion.bytes.rawSpan, continuing: checksum)
                start = insertion.offset
                end -= insertion.bytes.count
                next += 1
            }
            checksum = crc32c(bytes.rawSpan.extracting(start..<end), continuing: checksum)
            bytes.replace(littleEndian: checksum, at: offset)
            sequence = sequence.successor
            offset = end
        }
        assert(sequence.rawValue - firstSequence.rawValue == UInt64(recordCount), "records are miscounted")
    }

    /// Visits all bytes of a sealed batch, in order and in few pieces: small insertions are copied for that.
    func forEachPiece(_ body: (RawSpan) throws(DiskFailure) -> Void) throws(DiskFailure) {
        guard !parts.isEmpty else { return try body(bytes.rawSpan) }
        var start = 0
        var copy: [UInt8] = []
        for part in parts {
            let insertion = part.insertion
            copy.append(bytes.rawSpan.extracting(start..<insertion.offset))
            start = insertion.offset
            if insertion.bytes.count < Self.copiedByteLimit {
                copy.append(insertion.bytes.rawSpan)
                if copy.count < Self.copiedByteLimit { continue }
            }
            if !copy.isEmpty { try body(copy.rawSpan) }
            copy.removeAll(keepingCapacity: true)
            if insertion.bytes.count >= Self.copiedByteLimit { try body(insertion.bytes.rawSpan) }
        }
        copy.append(bytes.rawSpan.extracting(start...))
        try body(copy.rawSpan)
    }

    /// Insertions of fewer bytes are copied before they are written: a copy is cheaper than a system call.
    private static let copiedByteLimit = 256 << 10
}
