import PandoBytes

// The words for what a reader finds:
//
//   bad            no record that can be read (``BadRecord``): damaged, torn, or not written yet
//   contradiction  a good record that cannot follow the ones before it (``Succession``)
//   evidence       what proves that a bad record was on disk once: the *witness*, a later record whose
//                  durable mark reaches its entry, or a later segment
//   damage         a bad record with evidence: a start refuses the journal. So it does where too much
//                  looks like a later record to decide (undecidable)
//   torn tail      a bad record without evidence: a start cuts it off, and keeps a copy (``TornTail``)
//   flaw, problem  any of these (``JournalFlaw``), and the same with its file and offset (``JournalProblem``)

/// The rules for the next record, across segments, which a good checksum alone does not prove.
struct Succession {
    /// The sequence of the next record; nil for any.
    var expected: SequenceNumber?
    /// The highest durable mark so far.
    var durable: SequenceNumber
    /// The first sequence of the entry that is begun and not committed.
    private(set) var openEntry: SequenceNumber?

    /// All records before `firstSequence` are on disk: otherwise the segment would not exist.
    init(firstSequence: SequenceNumber) {
        expected = firstSequence
        durable = SequenceNumber(firstSequence.rawValue &- 1)
    }

    /// Continues at a record that a search has found.
    init(resumingAt header: RecordHeader) {
        expected = nil
        durable = header.durable
    }

    /// Accepts the next record, whose checksum is good.
    /// - Returns: Why it cannot follow; nil when it can.
    mutating func accept(_ header: RecordHeader) -> JournalFlaw? {
        if let expected, header.sequence != expected {
            return header.sequence > expected
                ? .sequenceGap(expected: expected, found: header.sequence)
                : .sequenceRepeats(expected: expected, found: header.sequence)
        }
        if RecordKind(rawValue: header.rawKind) == nil { return .unknownKind(header.rawKind) }
        if !RecordFlags([.begin, .commit]).isSuperset(of: header.flags) {
            return .unknownFlags(header.flags.rawValue)
        }
        if header.durable < durable || header.durable >= (openEntry ?? header.sequence) {
            return .impossibleMark(header.durable)
        }
        if header.flags.contains(.begin) {
            if openEntry != nil { return .entryBeginsInsideEntry }
            openEntry = header.sequence
        } else if openEntry == nil {
            return .recordOutsideEntry
        }
        if header.flags.contains(.commit) { openEntry = nil }
        durable = header.durable
        expected = header.sequence.successor
        return nil
    }
}

/// Reads one segment from its first entry to its end, or to the first problem.
struct SegmentReader<Storage: Disk>: ~Copyable {
    let fileName: String
    let header: SegmentHeader
    var window: FileWindow<Storage>
    var succession: Succession
    private let seed: UInt32
    /// The offset of the next entry.
    private(set) var offset = JournalFormat.segmentHeaderByteCount
    /// All bytes before this offset were on disk when the record here was written: its durable mark is the
    /// sequence before its own.
    private(set) var durableOffset = JournalFormat.segmentHeaderByteCount
    /// Another segment follows. Then zeros are not the end of this one.
    var isFollowed = false
    /// The rules at the beginning of the current entry.
    private var entrySuccession: Succession

    enum Step {
        /// A whole entry. Its bytes are loaded.
        case entry(Range<Int>, recordCount: Int, lastSequence: SequenceNumber)
        case end
        /// Not a record: damage, or a torn tail. `offset` stays at the beginning of its entry.
        case bad(BadRecord, sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int)
        /// A good record that cannot follow the ones before.
        case contradiction(JournalFlaw, byteOffset: Int)
    }

    private init(fileName: String, header: SegmentHeader, window: consuming FileWindow<Storage>) {
        self.fileName = fileName
        self.header = header
        self.window = window
        succession = Succession(firstSequence: header.firstSequence)
        entrySuccession = succession
        seed = header.seed
    }

    /// Opens the file and reads its header.
    /// - Parameters:
    ///   - fileName: Where the segment is; nil for its own name.
    ///   - limit: Where the reading ends, as at the end of the file; nil for the end of the file.
    /// - Throws: ``JournalError/corrupt(_:)`` for an invalid header, or one that contradicts the name.
    static func open(
        _ name: SegmentName, mode: OpenMode, on disk: Storage, fileNamed fileName: String? = nil,
        upTo limit: Int? = nil
    ) throws(JournalError) -> SegmentReader {
        let fileName = fileName ?? name.text
        let path = disk.directory + "/" + fileName
        let file = try onDisk { () throws(DiskFailure) in try disk.open(fileName, mode) }
        let fileByteCount = try onDisk { () throws(DiskFailure) in try disk.byteCount(of: file) }
        let byteCount = min(limit ?? fileByteCount, fileByteCount)
        var window = FileWindow(of: file, path: path, byteCount: byteCount, on: disk)
        let range = 0..<min(byteCount, JournalFormat.segmentHeaderByteCount)
        do throws(DiskFailure) { try window.load(range) } catch { throw .disk(error) }
        switch SegmentHeader.read(window.bytes(range)) {
        case .failure(let flaw):
            throw .corrupt(JournalProblem(file: fileName, byteOffset: 0, flaw: flaw))
        case .success(let header):
            guard header.timeline == name.timeline, header.firstSequence == name.firstSequence else {
                throw .corrupt(JournalProblem(file: fileName, byteOffset: 28, flaw: .nameContradictsHeader))
            }
            return SegmentReader(fileName: fileName, header: header, window: window)
        }
    }

    var byteCount: Int { window.fileByteCount }

    /// Reads the next entry, and checks every record of it.
    /// - Throws: ``DiskFailure``.
    mutating func nextEntry() throws(DiskFailure) -> Step {
        while true {
            do throws(DiskFailure) {
                return try readEntry()
            } catch {
                guard try window.updateForTruncation() else { throw error }
                restartEntry()
            }
        }
    }

    private mutating func readEntry() throws(DiskFailure) -> Step {
        var position = offset
        var recordCount = 0
        entrySuccession = succession
        while true {
            if position == byteCount && recordCount == 0 { return .end }
            let record: RecordHeader
            switch try readRecord(at: position, entryOffset: offset) {
            case .failure(let reason):
                // The rest of a prepared segment: the journal ends here, as at the end of a file.
                if recordCount == 0, reason.mayBeUnwritten, !isFollowed,
                    try window.isUnwritten(from: position)
                {
                    return .end
                }
                let sequence = succession.expected ?? .zero
                return .bad(
                    reason, sequence: sequence, entry: succession.openEntry ?? sequence, byteOffset: position)
            case .success(let found):
                record = found
            }
            if let flaw = succession.accept(record) { return .contradiction(flaw, byteOffset: position) }
            if record.durable.successor == record.sequence { durableOffset = position }
            position += record.recordByteCount
            recordCount += 1
            if position - offset > JournalFormat.entryByteLimit {
                return .contradiction(.entryTooLarge(byteCount: position - offset), byteOffset: offset)
            }
            if record.flags.contains(.commit) {
                let range = offset..<position
                offset = position
                return .entry(range, recordCount: recordCount, lastSequence: record.sequence)
            }
        }
    }

    /// Continues at an offset where an entry begins: the bytes before it were read by another reader.
    /// - Throws: ``DiskFailure``.
    mutating func resume(at offset: Int) throws(DiskFailure) {
        guard offset > JournalFormat.segmentHeaderByteCount,
            byteCount - offset >= JournalFormat.recordHeaderByteCount
        else {
            self.offset = offset
            return
        }
        let range = offset..<offset + JournalFormat.recordHeaderByteCount
        try window.load(range)
        // Its checksum is checked when it is read.
        resume(at: offset, with: RecordHeader(window.bytes(range), at: 0))
    }

    /// Continues at a record that ``find(after:where:)`` found.
    mutating func resume(at offset: Int, with header: RecordHeader) {
        self.offset = offset
        succession = Succession(resumingAt: header)
    }

    /// The entry that the last ``nextEntry()`` returned, borrowed.
    @_lifetime(borrow self)
    func entry(_ range: Range<Int>, recordCount: Int, lastSequence: SequenceNumber) -> RecoveredEntry {
        RecoveredEntry(bytes: window.bytes(range), recordCount: recordCount, lastSequence: lastSequence)
    }

    /// Reads a record and checks its checksum. Everything since `entryOffset` stays loaded.
    private mutating func readRecord(
        at position: Int, entryOffset: Int
    ) throws(DiskFailure) -> Result<RecordHeader, BadRecord> {
        guard byteCount - position >= JournalFormat.recordHeaderByteCount else { return .failure(.cutShort) }
        try window.load(entryOffset..<position + JournalFormat.recordHeaderByteCount)
        let record = RecordHeader(
            window.bytes(position..<position + JournalFormat.recordHeaderByteCount), at: 0)
        // No record has the sequence 0. (In some segments the checksum of zeros is 0.)
        guard record.sequence > .zero || record.checksum != 0 || record.payloadByteCount > 0 else {
            return .failure(.unwritten)
        }
        guard record.payloadByteCount <= JournalFormat.payloadByteLimit else {
            return .failure(.payloadTooLarge(byteCount: Int(record.payloadByteCount)))
        }
        let end = position + record.recordByteCount
        guard end <= byteCount else { return .failure(.cutShort) }
        try window.load(entryOffset..<end)
        guard crc32c(window.bytes(position + 4..<end), continuing: seed) == record.checksum else {
            return .failure(.checksumMismatch)
        }
        return .success(record)
    }

    /// After ``Step/bad(_:sequence:entry:byteOffset:)``: whether the record is good by now, because a server
    /// has written it meanwhile. Then ``nextEntry()`` reads the entry again.
    mutating func isReadableNow(at byteOffset: Int) throws(DiskFailure) -> Bool {
        window.unload()
        guard case .success = try readRecord(at: byteOffset, entryOffset: byteOffset) else { return false }
        restartEntry()
        return true
    }

    /// Makes ``nextEntry()`` read the current entry from its beginning.
    mutating func restartEntry() { succession = entrySuccession }

    /// Searches behind a bad record at `byteOffset` for a good one that `isWanted`.
    /// - Throws: ``DiskFailure``.
    mutating func find(
        after byteOffset: Int, where isWanted: (RecordHeader, _ byteOffset: Int) -> Bool
    ) throws(DiskFailure) -> RecordSearch.Outcome {
        while true {
            do throws(DiskFailure) {
                var search = RecordSearch(seed: seed)
                return try search.search(
                    in: &window, from: byteOffset + JournalFormat.alignment, where: isWanted)
            } catch {
                guard try window.updateForTruncation() else { throw error }
            }
        }
    }

    /// Searches for evidence that a bad record was on disk: a later record whose durable mark reaches its
    /// entry.
    ///
    /// A later record is at a multiple of 8, and at least the length of a header per sequence away. Other
    /// candidates are payload bytes by coincidence, and are skipped.
    /// - Throws: ``DiskFailure``.
    mutating func evidence(
        against sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int
    ) throws(DiskFailure) -> RecordSearch.Outcome {
        try find(after: byteOffset) { candidate, candidateOffset in
            let distance = UInt64((candidateOffset - byteOffset) / JournalFormat.recordHeaderByteCount)
            return candidate.durable >= entry && candidate.sequence > sequence
                && candidate.sequence.rawValue &- sequence.rawValue <= distance
        }
    }
}

extension BadRecord: Error {
    /// Whether the bytes that were read may all be zeros.
    fileprivate var mayBeUnwritten: Bool { self == .unwritten || self == .cutShort }
}
