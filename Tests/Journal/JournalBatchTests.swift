import PandoBytes
import PandoRandom
import PandoSimulatedDisk
import Testing

@testable import PandoJournal

/// A batch, and the records that the journal writes of it.
struct JournalBatchTests {
    private static func append(_ texts: [String], to batch: inout JournalBatch) {
        batch.append(
            entry: texts.map {
                JournalRecord(.delta, namespace: 1, timestamp: 1000, payload: Array($0.utf8))
            })
    }

    private static func entry(_ texts: [String]) -> Entry {
        Entry(texts.map { .init(kind: .delta, namespace: 1, timestamp: 1000, payload: Array($0.utf8)) })
    }

    private static func written(_ batches: [JournalBatch]) throws -> [Entry] {
        let disk = SimulatedDisk()
        var none: [Entry] = []
        var journal = try openJournal(on: disk, entries: &none)
        for var batch in batches { try journal.append(&batch) }
        try journal.write()
        try journal.sync()
        disk.losePower(seed: 1)
        return try recover(disk).entries
    }

    /// Each row is a list of batches of entries of payloads.
    @Test(
        arguments: [
            ([[["one"]]], "one record"),
            ([[[""]]], "an empty payload"),
            ([[["1234567"], ["12345678"], ["123456789"]]], "every padding"),
            ([[["a", "b", "c"], ["d"]]], "an entry of several records"),
            ([[["a"]], [["b", "c"]], [["d"]]], "batches that are pending together"),
            ([[["a"]], [], [["b"]]], "an empty batch between"),
        ] as [([[[String]]], String)])
    func entriesAreRecoveredAsAppended(batches: [[[String]]], reason: String) throws {
        let journalBatches = batches.map { entries in
            var batch = JournalBatch()
            for entry in entries { Self.append(entry, to: &batch) }
            #expect(batch.byteCount == batch.bytes.count && batch.isEmpty == entries.isEmpty)
            return batch
        }
        #expect(try Self.written(journalBatches) == batches.flatMap { $0.map(Self.entry) }, "\(reason)")
    }

    /// A batch that is printed into in place has the same bytes as one that records are copied into.
    @Test func recordsPrintedInPlaceEqualCopiedOnes() {
        var (printed, copied) = (JournalBatch(), JournalBatch())
        for text in ["one", "two and a half"] {
            printed.beginRecord()
            for byte in text.utf8 { printed.bytes.append(byte) }
            printed.endRecord(.delta, namespace: 1, timestamp: 1000)
        }
        printed.endEntry()
        Self.append(["one", "two and a half"], to: &copied)
        #expect(printed.bytes == copied.bytes && printed.recordCount == 2 && printed.isWhole)
    }

    @Test func rollbackRemovesEntriesAndTheRecordThatWasBegun() throws {
        var batch = JournalBatch()
        Self.append(["kept"], to: &batch)
        let (bytes, savepoint) = (batch.bytes, batch.savepoint)
        Self.append(["removed", "too"], to: &batch)
        batch.beginRecord()
        batch.bytes.append(contentsOf: Array("begun".utf8))
        #expect(batch.recordCount(since: savepoint) == 2)
        batch.rollback(to: savepoint)
        #expect(batch.bytes == bytes && batch.recordCount == 1 && batch.isWhole)
        Self.append(["next"], to: &batch)
        #expect(try Self.written([batch]) == [Self.entry(["kept"]), Self.entry(["next"])])
    }

    @Test func longestPayloadIsOfTheRecordsBehindTheSavepoint() {
        var batch = JournalBatch()
        Self.append(["a long payload before"], to: &batch)
        let savepoint = batch.savepoint
        #expect(batch.longestPayloadByteCount(since: savepoint) == 0)
        Self.append(["123", "12345", "1"], to: &batch)
        #expect(batch.longestPayloadByteCount(since: savepoint) == 5)
    }

    /// The journal exchanges its memory with that of the first batch, further ones are copied; both come back
    /// empty.
    @Test func appendedBatchesComeBackEmpty() throws {
        var none: [Entry] = []
        var journal = try openJournal(on: SimulatedDisk(), entries: &none)
        for number in 1...3 {
            var batch = JournalBatch()
            Self.append(["\(number)"], to: &batch)
            try journal.append(&batch)
            #expect(batch.isEmpty && batch.bytes.isEmpty && batch.byteCount == 0)
            #expect(journal.lastAppended == SequenceNumber(UInt64(number)))
        }
        #expect(journal.pendingByteCount == 3 * 48)
        try journal.write()
        #expect(journal.pendingByteCount == 0 && journal.lastWritten == SequenceNumber(3))
    }

    /// Whatever is inserted, and where: the same bytes are written as if it had been copied.
    @Test(arguments: 0..<20)
    func insertedBytesAreWrittenAsCopiedOnes(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var pending = (inserted: JournalBatch(), copied: JournalBatch())
        for _ in 0..<3 {
            var (inserted, copied) = (JournalBatch(), JournalBatch())
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let savepoint = (inserted.savepoint, copied.savepoint)
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    Self.appendRecord(to: &inserted, &copied, using: &random)
                }
                #expect(inserted.byteCount == copied.byteCount)
                #expect(
                    inserted.longestPayloadByteCount(since: savepoint.0)
                        == copied.longestPayloadByteCount(since: savepoint.1))
                if Int.random(in: 0..<4, using: &random) == 0 {
                    inserted.rollback(to: savepoint.0)
                    copied.rollback(to: savepoint.1)
                } else {
                    inserted.endEntry()
                    copied.endEntry()
                }
            }
            pending.inserted.append(inserted)
            pending.copied.append(copied)
        }
        #expect(pending.inserted.byteCount == pending.copied.byteCount)
        #expect(pending.copied.byteCount == pending.copied.bytes.count)
        for batch in [\(inserted: JournalBatch, copied: JournalBatch).inserted, \.copied] {
            pending[keyPath: batch].seal(
                seed: 7, firstSequence: SequenceNumber(9), durable: SequenceNumber(3))
        }
        var written: [UInt8] = []
        try pending.inserted.forEachPiece { written.append($0) }
        #expect(written == pending.copied.bytes)
    }

    /// Appends one record to both, without and with insertions.
    private static func appendRecord(
        to inserted: inout JournalBatch, _ copied: inout JournalBatch, using random: inout SeededGenerator
    ) {
        inserted.beginRecord()
        copied.beginRecord()
        var insertions: [ByteInsertion] = []
        for _ in 0..<Int.random(in: 0...3, using: &random) {
            let count = [0, 1, 7, 100, 300 << 10].randomElement(using: &random) ?? 0
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
            if Bool.random(using: &random) {
                inserted.bytes.append(contentsOf: bytes)
            } else {
                insertions.append(ByteInsertion(bytes, at: inserted.bytes.count))
            }
            copied.bytes.append(contentsOf: bytes)
        }
        inserted.insert(insertions)
        inserted.endRecord(.delta, namespace: 1, timestamp: 1000)
        copied.endRecord(.delta, namespace: 1, timestamp: 1000)
    }
}
