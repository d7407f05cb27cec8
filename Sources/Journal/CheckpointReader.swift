import PandoBytes

/// Reads one checkpoint from its first block to its end mark, in the memory of its largest block.
struct CheckpointReader<Storage: Disk>: ~Copyable {
    let fileName: String
    let header: CheckpointHeader
    private var window: FileWindow<Storage>
    private let seed: UInt32
    private(set) var recordCount: UInt64 = 0
    /// Where the next block begins.
    private(set) var offset = CheckpointFormat.headerByteCount

    private init(fileName: String, header: CheckpointHeader, window: consuming FileWindow<Storage>) {
        self.fileName = fileName
        self.header = header
        self.window = window
        seed = header.seed
    }

    var byteCount: Int { window.fileByteCount }

    /// Opens the file and reads its header.
    /// - Throws: ``JournalError/corrupt(_:)`` for an invalid header, or one that contradicts the name.
    static func open(_ name: CheckpointName, on disk: Storage) throws(JournalError) -> CheckpointReader {
        let reader = try open(fileNamed: name.text, on: disk)
        guard reader.header.name == name else {
            throw .corrupt(JournalProblem(file: name.text, byteOffset: 28, flaw: .nameContradictsHeader))
        }
        return reader
    }

    /// The same for a file of any name, such as a backup.
    /// - Parameter fromDisk: Drops the system's copy of the file in memory first, so that the disk is read.
    static func open(
        fileNamed name: String, on disk: Storage, fromDisk: Bool = false
    ) throws(JournalError) -> CheckpointReader {
        let path = disk.directory + "/" + name
        let file = try onDisk { () throws(DiskFailure) in try disk.open(name, .read) }
        if fromDisk { disk.dropCache(of: file) }
        let byteCount = try onDisk { () throws(DiskFailure) in try disk.byteCount(of: file) }
        var window = FileWindow(of: file, path: path, byteCount: byteCount, on: disk)
        let range = 0..<min(byteCount, CheckpointFormat.headerByteCount)
        do throws(DiskFailure) { try window.load(range) } catch { throw .disk(error) }
        switch CheckpointHeader.read(window.bytes(range)) {
        case .failure(let flaw):
            throw .corrupt(JournalProblem(file: name, byteOffset: 0, flaw: flaw))
        case .success(let header):
            return CheckpointReader(fileName: name, header: header, window: window)
        }
    }

    func problem(at byteOffset: Int, _ flaw: JournalFlaw) -> JournalProblem {
        JournalProblem(file: fileName, byteOffset: byteOffset, flaw: flaw)
    }

    /// Checks the next block, and calls `body` for each of its records.
    /// - Parameter body: Gets a record, and its offset in the file.
    /// - Returns: false at the end mark.
    /// - Throws: ``JournalError/corrupt(_:)``, ``JournalError/disk(_:)``.
    mutating func readBlock(
        _ body: (borrowing RecoveredRecord, _ byteOffset: Int) throws(EntryRejection) -> Void
    ) throws(JournalError) -> Bool {
        let start = offset
        let records = try checkBlock()
        offset = records.upperBound
        guard !records.isEmpty else {
            guard offset == byteCount else { throw .corrupt(problem(at: offset, .bytesBehindEnd)) }
            return false
        }
        let bytes = window.bytes(records)
        var position = 0
        while position < bytes.byteCount {
            // The checksum is good, so Pando wrote these bytes. Fields of a newer version are refused.
            let recordOffset = records.lowerBound + position
            guard bytes.byteCount - position >= CheckpointFormat.recordHeaderByteCount else {
                throw .corrupt(problem(at: start, .checkpointDamaged(.cutShort)))
            }
            let length = Int(bytes.littleEndian(at: position, as: UInt32.self))
            let rawKind = bytes.littleEndian(at: position + 4, as: UInt16.self)
            guard let kind = RecordKind(rawValue: rawKind) else {
                throw .corrupt(problem(at: recordOffset, .unknownKind(rawKind)))
            }
            let flags = bytes.littleEndian(at: position + 6, as: UInt16.self)
            guard flags == 0 else { throw .corrupt(problem(at: recordOffset, .unknownFlags(flags))) }
            let namespace = bytes.littleEndian(at: position + 8, as: UInt32.self)
            position += CheckpointFormat.recordHeaderByteCount
            guard length <= bytes.byteCount - position else {
                throw .corrupt(problem(at: start, .checkpointDamaged(.cutShort)))
            }
            let payload = bytes.extracting(position..<position + length)
            do throws(EntryRejection) {
                try body(
                    RecoveredRecord(kind: kind, namespace: namespace, of: header, payload: payload),
                    recordOffset)
            } catch {
                let flaw = JournalFlaw.rejected(sequence: header.sequence, reason: error.reason)
                throw .corrupt(problem(at: recordOffset, flaw))
            }
            position += length
            recordCount &+= 1
        }
        return true
    }

    /// The block header at `offset`, which is loaded.
    private var blockHeader: (checksum: UInt32, length: Int, firstRecord: UInt64) {
        let head = window.bytes(offset..<offset + CheckpointFormat.blockHeaderByteCount)
        return (
            head.littleEndian(at: 0, as: UInt32.self), Int(head.littleEndian(at: 4, as: UInt32.self)),
            head.littleEndian(at: 8, as: UInt64.self)
        )
    }

    /// Loads and checks the next block.
    /// - Returns: The range of its records; empty for the end mark.
    private mutating func checkBlock() throws(JournalError) -> Range<Int> {
        let headerByteCount = CheckpointFormat.blockHeaderByteCount
        guard byteCount - offset >= headerByteCount else {
            throw .corrupt(problem(at: offset, .checkpointUnfinished))
        }
        do throws(DiskFailure) { try window.load(offset..<offset + headerByteCount) } catch {
            throw .disk(error)
        }
        let (checksum, length, firstRecord) = blockHeader
        guard length <= CheckpointFormat.blockByteLimit else {
            throw .corrupt(problem(at: offset, .checkpointDamaged(.payloadTooLarge(byteCount: length))))
        }
        let end = offset + headerByteCount + length
        guard end <= byteCount else { throw .corrupt(problem(at: offset, .checkpointDamaged(.cutShort))) }
        do throws(DiskFailure) { try window.load(offset..<end) } catch { throw .disk(error) }
        guard crc32c(window.bytes(offset + 4..<end), continuing: seed) == checksum else {
            throw .corrupt(problem(at: offset, .checkpointDamaged(.checksumMismatch)))
        }
        guard firstRecord == recordCount else {
            throw .corrupt(problem(at: offset, .checkpointGap(expected: recordCount, found: firstRecord)))
        }
        return offset + headerByteCount..<end
    }
}
