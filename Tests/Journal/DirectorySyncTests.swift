import PandoJournal
import PandoSimulatedDisk
import Testing

/// What is read beside a server may not be on disk yet: it is made durable before it is kept elsewhere.
@Suite struct DirectorySyncTests {
    static let entries = [Entry("synced"), Entry("written")]

    static func disk() throws -> SimulatedDisk {
        try makeDisk(entries.map { [$0] }, syncsLast: false)
    }

    @Test(arguments: 0..<16 as Range<UInt64>)
    func whatWasCopiedSurvivesAPowerCutOfTheSource(seed: UInt64) throws {
        let (disk, copy) = (try Self.disk(), SimulatedDisk())
        _ = try copyJournal(of: disk, to: copy) { _ in }
        disk.losePower(seed: seed)
        #expect(try recover(copy).entries == Self.entries)
        #expect(try recover(disk).entries == Self.entries)
    }

    @Test(arguments: [DiskOperation.sync, .syncDirectory])
    func copyOfASourceThatCannotBeSyncedIsRefused(operation: DiskOperation) throws {
        let (disk, copy) = (try Self.disk(), SimulatedDisk())
        // EIO; and EROFS, which a sync gives after the kernel has remounted the file system because of
        // errors.
        for error in [5, 30] as [Int32] {
            disk.onOperation = { $0 == operation ? .fail(error) : .succeed }
            #expect(throws: JournalError.self) { try copyJournal(of: disk, to: copy) { _ in } }
        }
        // EINVAL: a file system that has no syncs, and is never written.
        disk.onOperation = { $0 == operation ? .fail(22) : .succeed }
        #expect(throws: Never.self) { try copyJournal(of: disk, to: copy) { _ in } }
    }

    /// Several segments, and a checkpoint that needs only some of them.
    static func manySegments() throws -> (disk: SimulatedDisk, entries: [Entry]) {
        let disk = SimulatedDisk()
        let entries = (0..<20).map { Entry("entry \($0)") }
        var none: [Entry] = []
        var journal = try openJournal(on: disk, options: smallOptions(300), entries: &none)
        for (index, entry) in entries.enumerated() {
            try journal.append(entry: entry.journalRecords)
            try journal.write()
            try journal.sync()
            if index == 9 {
                try writeCheckpoint(
                    checkpointHeader(journal.lastDurable), of: Array(entries[...index]), on: disk)
            }
        }
        #expect(journal.segmentCount >= 4)
        return (disk, entries)
    }

    /// A segment that is followed by another one is on disk.
    @Test func onlyTheLastSegmentIsSynced() throws {
        let (disk, entries) = try Self.manySegments()
        var history = History()
        let summary = try readDirectory(disk, into: &history)
        #expect(history.entries == entries)
        let start = disk.operations.count
        try syncJournal(of: disk, readAs: summary)
        #expect(disk.operations[start...] == [.open, .sync, .syncDirectory])
        let syncs = disk.syncCount
        _ = try copyJournal(of: disk, to: SimulatedDisk()) { _ in }
        #expect(disk.syncCount == syncs + 1)
    }

    /// The checkpoints that made it superfluous are durable.
    @Test func segmentThatWasRemovedMeanwhileIsLeftOut() throws {
        let (disk, entries) = try Self.manySegments()
        var history = History()
        let summary = try readDirectory(disk, into: &history)
        #expect(history.entries == entries)
        try disk.remove(try #require(disk.fileNames.last { $0.hasSuffix(".log") }))
        #expect(throws: Never.self) { try syncJournal(of: disk, readAs: summary) }
    }

    /// Another program has copied a directory here, without a sync: what a start has read from it, and what
    /// is acknowledged behind it, survives a power cut.
    @Test(arguments: 0..<16 as Range<UInt64>)
    func whatWasCopiedHereIsOnDiskBehindAStart(seed: UInt64) throws {
        let (original, entries) = try Self.manySegments()
        let disk = SimulatedDisk()
        for (name, bytes) in original.contents {
            let file = try disk.open(name, .create)
            try disk.write(bytes.rawSpan, to: file, at: 0)
        }
        var found: [Entry] = []
        var journal = try openJournal(on: disk, entries: &found)
        #expect(found == entries)
        try journal.append(entry: Entry("acknowledged").journalRecords)
        try journal.write()
        try journal.sync()
        disk.losePower(seed: seed)
        #expect(try recover(disk).entries == entries + [Entry("acknowledged")])
        #expect(try inspect(disk) { _, _ in }.problems.isEmpty, "also what only earlier moments need")
    }
}
