import PandoJournal
import PandoSimulatedDisk
import Testing

/// A directory that holds something and no journal is not made a data directory.
@Suite struct ForeignDirectoryTests {
    @Test(arguments: ["file.txt", "folder", "journal.log", "checkpoint-notes", ".hidden"])
    func directoryWithOtherFilesIsRefusedUntouched(name: String) throws {
        let disk = SimulatedDisk(files: [name: [1]])
        #expect(throws: JournalError.notEmpty(directory: disk.directory, file: name)) { try recover(disk) }
        #expect(try disk.list() == [name])
    }

    @Test(
        arguments: [
            ([], "an empty one"), (["LOCK"], "one that was locked before"),
            (["lost+found"], "a disk of its own"),
            (["journal-prepared.log.new"], "a start that was cut short"),
            (["checkpoint-00000001-0000000000000005.chk.damaged"], "what a start has put aside"),
            (["archive.place", "backup.place"], "where the backups were"),
        ] as [([String], String)])
    func directoryWithoutOtherFilesIsUsed(names: [String], reason: String) throws {
        let disk = SimulatedDisk(files: Dictionary(uniqueKeysWithValues: names.map { ($0, [UInt8]()) }))
        #expect(try recover(disk).summary.isNew, "\(reason)")
    }

    @Test func otherFilesBesideAJournalAreNoReason() throws {
        var files = SegmentTests.files(SegmentTests.segment(1, through: 3))
        files["notes.txt"] = [1]
        #expect(try recover(SimulatedDisk(files: files)).entries.count == 3)
    }
}
