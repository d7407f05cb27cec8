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

    /// The checkpoints that made it superfluous are durable.
    @Test func segmentThatWasRemovedMeanwhileIsLeftOut() throws {
        let disk = StaleDisk(base: try Self.disk())
        try syncJournal(of: disk)
        #expect(try disk.list().count == disk.base.fileNames.count + 1)
    }
}

/// A disk that lists a segment which is not there any more.
private final class StaleDisk: ForwardingDisk, @unchecked Sendable {
    // Used by one thread.
    let base: SimulatedDisk

    init(base: SimulatedDisk) { self.base = base }

    func list() throws(DiskFailure) -> [String] {
        let removed = SegmentName(timeline: 1, firstSequence: SequenceNumber(1000)).text
        return try base.list() + [removed]
    }
}
