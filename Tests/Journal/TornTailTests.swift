import PandoBytes
import PandoSimulatedDisk
import Testing

@testable import PandoJournal

/// What a start cuts off the end of the journal is kept beside it: whether it is torn or damaged, only an
/// operator can tell.
@Suite struct TornTailTests {
    static let entries = [Entry("first"), Entry("the second"), Entry("3")]
    /// Where the last of these entries begins.
    static let lastOffset = 152

    /// With one bit of the last record flipped.
    static func damagedDisk() throws -> SimulatedDisk {
        let disk = try makeDisk(entries.map { [$0] })
        disk.flipBit(of: firstSegment, at: (lastOffset + 40) * 8)
        return disk
    }

    static func copies(on disk: SimulatedDisk) -> [String] { disk.fileNames.filter { $0.contains(".torn-") } }

    @Test func whatIsCutOffIsKeptAndNamed() throws {
        let disk = try Self.damagedDisk()
        let whole = try #require(disk.contents[firstSegment])
        let last = try #require(whole.lastIndex { $0 != 0 })
        let (entries, summary) = try recover(disk)
        #expect(entries == Array(Self.entries.dropLast()))
        let tail = try #require(summary.tornTail)
        #expect(tail.segment.text == firstSegment && tail.byteOffset == Self.lastOffset)
        #expect(tail.sequence == SequenceNumber(3) && tail.byteCount == last + 1 - Self.lastOffset)
        let bytes = Array(whole[Self.lastOffset...last])
        let checksum = String(slowCRC32C(bytes, continuing: 0), radix: 16)
        let name =
            "\(firstSegment).torn-152-" + String(repeating: "0", count: 8 - checksum.utf8.count) + checksum
        #expect(tail.copy == name && Self.copies(on: disk) == [name])
        #expect(disk.contents[name] == bytes && tail.copiedByteCount == bytes.count)
        // It is no part of the journal.
        disk.killProcess()
        #expect(try recover(disk).summary.tornTail == nil && Self.copies(on: disk) == [name])
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty)
    }

    @Test func nothingIsKeptOfWholeJournal() throws {
        let disk = try makeDisk([Self.entries])
        #expect(try recover(disk).summary.tornTail == nil && Self.copies(on: disk).isEmpty)
    }

    /// The power fails before any operation of the start, and the next one finishes it: there is the copy. (A
    /// truncation that was not synced may leave a shorter tail, which is kept, too.)
    @Test(arguments: 0..<4 as Range<UInt64>)
    func copyIsDurableBeforeAnythingIsCutOff(seed: UInt64) throws {
        let rehearsal = try Self.damagedDisk()
        let start = rehearsal.operationCount
        _ = try recover(rehearsal)
        for crashPoint in start..<rehearsal.operationCount {
            let disk = try Self.damagedDisk()
            disk.crashPoint = crashPoint
            #expect(throws: JournalError.self) { try recover(disk) }
            disk.losePower(seed: seed)
            _ = try recover(disk)
            let copies = Self.copies(on: disk)
            #expect(
                copies.contains(Self.copies(on: rehearsal)[0]) && copies.count <= 2,
                "before operation \(crashPoint - start): \(copies)")
            #expect(!disk.fileNames.contains { $0.hasSuffix(".new") })
        }
    }

    /// Each start leaves another copy, and the newest four stay.
    @Test func fewCopiesAreKept() throws {
        let disk = SimulatedDisk()
        var all: [String] = []
        for round in 0..<7 {
            var entries: [Entry] = []
            var journal = try openJournal(on: disk, entries: &entries)
            if let copy = journal.recovery.tornTail?.copy { all.append(copy) }
            for text in ["kept \(round)", "cut off \(round)"] {
                try journal.append(entry: Entry(text).journalRecords)
                try journal.write()
                try journal.sync()
            }
            let end = try #require(disk.contents[firstSegment]).count
            disk.flipBit(of: firstSegment, at: (end - 16) * 8)
            disk.killProcess()
        }
        #expect(all.count == 6 && Self.copies(on: disk).count == 4)
        #expect(Set(Self.copies(on: disk)) == Set(all.suffix(4)))
    }

    /// A full disk, or one without descriptors, is no reason not to start.
    @Test(arguments: [24, 28] as [Int32])
    func shortageKeepsNothingAndIsReported(errorNumber: Int32) throws {
        let disk = try Self.damagedDisk()
        // Only the copy is written before the journal is.
        var isRefused = false
        disk.onOperation = { operation in
            guard operation == .write, !isRefused else { return .succeed }
            isRefused = true
            return .fail(errorNumber)
        }
        let (entries, summary) = try recover(disk)
        #expect(entries == Array(Self.entries.dropLast()) && isRefused)
        #expect(summary.tornTail?.copy == nil && summary.tornTail?.shortage?.errorNumber == errorNumber)
        #expect(disk.fileNames == [firstSegment])
    }

    /// A directory that only a server has left so is no other program's.
    @Test func copyIsNoForeignFile() throws {
        let disk = try Self.damagedDisk()
        _ = try recover(disk)
        disk.killProcess()
        try disk.remove(firstSegment)
        #expect(try DirectoryContents(of: disk).otherFiles == Self.copies(on: disk))
        #expect(try recover(disk).summary.isNew)
    }

    @Test(arguments: [
        ("journal-00000001-0000000000000001.log.torn-48-0000002a", true),
        ("journal-00000001-0000000000000001.log.torn-48-2a", false),
        ("journal-00000001-0000000000000001.log.torn-048-0000002a", false),
        ("journal-00000001-0000000000000001.log.torn-48", false),
        ("journal-00000001-0000000000000001.log", false),
        ("journal-1-1.log.torn-48-0000002a", false),
        ("torn-48-0000002a", false),
    ])
    func namesAreReadAsTheyAreWritten(name: String, isValid: Bool) {
        #expect(TornTailName(name)?.text == (isValid ? name : nil))
    }
}
