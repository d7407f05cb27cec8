import PandoBytes

/// Which record may come next, across segments: the rules that a good checksum alone does not prove.
struct Succession {
    /// The sequence the next record must have; nil when any will do.
    var expected: SequenceNumber?
    /// The highest mark seen.
    var durable: SequenceNumber
    /// The first sequence of an entry that was begun and not yet committed.
    private(set) var openEntry: SequenceNumber?

    /// Whatever lies before `firstSequence` is on disk: a segment exists only then.
    init(firstSequence: SequenceNumber) {
        expected = firstSequence
        durable = SequenceNumber(firstSequence.rawValue &- 1)
    }

    /// Starts over at a record that was found by search.
    init(resumingAt header: RecordHeader) {
        expected = nil
        durable = header.durable
    }

    /// Takes a record with a good checksum, or says why it cannot stand here.
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

/// Reads one segment from its first entry to its end, or to the first thing that is wrong.
struct SegmentReader<Storage: Disk>: ~Copyable {
    let fileName: String
    let header: SegmentHeader
    var window: FileWindow<Storage>
    var succession: Succession
    private let seed: UInt32
    /// Where the next entry begins.
    private(set) var offset = JournalFormat.segmentHeaderByteCount
    /// Everything before this was known to be on disk by whoever wrote the record here: its mark is the
    /// sequence before its own.
    private(set) var settledOffset = JournalFormat.segmentHeaderByteCount
    /// Another segment follows: this one is full, and no zeros are its end.
    var isFollowed = false
    /// As it was where the entry begins.
    private var entrySuccession: Succession

    enum Step {
        /// A whole entry; its bytes are loaded in the window.
        case entry(Range<Int>, recordCount: Int, lastSequence: SequenceNumber)
        case end
        /// Not a record: damage, or the torn tail. `offset` stays where its entry begins.
        case bad(BadRecord, sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int)
        /// A record that cannot stand here.
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
    /// - Throws: ``JournalError/corrupt(_:)`` for a header that is none, or does not fit the name.
    static func open(_ name: SegmentName, mode: OpenMode, on disk: Storage) throws(JournalError)
        -> SegmentReader
    {
        let path = disk.directory + "/" + name.text
        let file = try onDisk { () throws(DiskFailure) in try disk.open(name.text, mode) }
        let byteCount = try onDisk { () throws(DiskFailure) in try disk.byteCount(of: file) }
        var window = FileWindow(of: file, path: path, byteCount: byteCount, on: disk)
        let range = 0..<min(byteCount, JournalFormat.segmentHeaderByteCount)
        do throws(DiskFailure) { try window.load(range) } catch { throw .disk(error) }
        switch SegmentHeader.read(window.bytes(range)) {
        case .failure(let flaw):
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 0, flaw: flaw))
        case .success(let header):
            guard header.timeline == name.timeline, header.firstSequence == name.firstSequence else {
                throw .corrupt(JournalProblem(file: name.text, byteOffset: 28, flaw: .nameContradictsHeader))
            }
            return SegmentReader(fileName: name.text, header: header, window: window)
        }
    }

    var byteCount: Int { window.fileByteCount }

    /// Reads and checks the next entry, every record of it.
    mutating func nextEntry() throws(DiskFailure) -> Step {
        while true {
            do throws(DiskFailure) {
                return try readEntry()
            } catch {
                guard try window.shrinks() else { throw error }
                beginEntryAgain()
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
                // A segment that was prepared, and not filled: the log ends here as at the end of a file.
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
            if record.durable.successor == record.sequence { settledOffset = position }
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

    /// Goes on at a record that ``find(after:minimum:isWanted:)`` found.
    mutating func resume(at offset: Int, with header: RecordHeader) {
        self.offset = offset
        succession = Succession(resumingAt: header)
    }

    /// Lends the entry that the last ``nextEntry()`` returned.
    @_lifetime(borrow self)
    func entry(_ range: Range<Int>, recordCount: Int, lastSequence: SequenceNumber) -> RecoveredEntry {
        RecoveredEntry(bytes: window.bytes(range), recordCount: recordCount, lastSequence: lastSequence)
    }

    /// A record whose checksum is good, or why there is none. Keeps everything since `entryOffset` loaded.
    private mutating func readRecord(
        at position: Int, entryOffset: Int
    ) throws(DiskFailure) -> Result<RecordHeader, BadRecord> {
        guard byteCount - position >= JournalFormat.recordHeaderByteCount else { return .failure(.cutShort) }
        try window.load(entryOffset..<position + JournalFormat.recordHeaderByteCount)
        let record = RecordHeader(
            window.bytes(position..<position + JournalFormat.recordHeaderByteCount), at: 0)
        // No record has the sequence 0; some segment's checksum of zeros is 0.
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

    /// After ``Step/bad(_:sequence:entry:byteOffset:)``: whether the record is there by now, since somebody
    /// who writes to the file has come so far. Then ``nextEntry()`` begins the entry again.
    mutating func isThereNow(at byteOffset: Int) throws(DiskFailure) -> Bool {
        window.forget()
        guard case .success = try readRecord(at: byteOffset, entryOffset: byteOffset) else { return false }
        beginEntryAgain()
        return true
    }

    /// ``nextEntry()`` reads the entry anew whose reading has ended in the midst of it.
    mutating func beginEntryAgain() { succession = entrySuccession }

    /// Searches everything behind a bad record at `byteOffset` for a good one that `isWanted`.
    mutating func find(
        after byteOffset: Int, where isWanted: (RecordHeader, _ byteOffset: Int) -> Bool
    ) throws(DiskFailure) -> RecordSearch.Answer {
        while true {
            do throws(DiskFailure) {
                var search = RecordSearch(seed: seed)
                return try search.run(
                    in: &window, from: byteOffset + JournalFormat.alignment, where: isWanted)
            } catch {
                guard try window.shrinks() else { throw error }
            }
        }
    }

    /// Looks for proof that the bad record was once on disk: a later record whose mark reaches its entry.
    ///
    /// A true later record lies at a multiple of 8 and at least a header's length per sequence away; anything
    /// else is a coincidence of payload bytes and is not even looked at.
    mutating func witness(
        against sequence: SequenceNumber, entry: SequenceNumber, byteOffset: Int
    ) throws(DiskFailure) -> RecordSearch.Answer {
        try find(after: byteOffset) { candidate, candidateOffset in
            let distance = UInt64((candidateOffset - byteOffset) / JournalFormat.recordHeaderByteCount)
            return candidate.durable >= entry && candidate.sequence > sequence
                && candidate.sequence.rawValue &- sequence.rawValue <= distance
        }
    }
}

extension BadRecord: Error {
    /// Zeros, as far as they were looked at.
    fileprivate var mayBeUnwritten: Bool { self == .unwritten || self == .cutShort }
}
