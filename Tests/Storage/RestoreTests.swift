import Logging
import PandoEngine
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// Imports and restores on a disk that fails or changes what is written: each says whether it has taken
/// effect.
@Suite struct RestoreTests {
    static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    static let source = BackupSummary(
        sequence: SequenceNumber(9), timestamp: 2000, directory: DirectoryID(5, 6), timeline: 1)

    static func state(_ name: String) -> RecoveredState {
        var state = RecoveredState(access: .open)
        _ = state.makeNamespace(name)
        return state
    }

    /// The databases that a start finds, apart from the standard one.
    static func names<Storage: Disk>(on disk: Storage) throws(StorageError) -> [String] {
        var state = RecoveredState(access: .open)
        _ = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
        return state.namespaceNames.filter { $0 != NamespaceName.standard }
    }

    /// A directory with the database "old".
    static func files() throws(StorageError) -> [String: [UInt8]] {
        let disk = SimulatedDisk()
        try change(disk, restores: false, to: "old")
        disk.killProcess()
        return disk.contents
    }

    /// Imports or restores the database `name`.
    static func change<Storage: Disk>(
        _ disk: Storage, restores: Bool, to name: String, whenOpen: () -> Void = {}
    ) throws(StorageError) {
        if restores {
            whenOpen()
            _ = try DirectoryRestore.restore(
                state(name), from: source, on: disk, mayReplace: true, directoryID: DirectoryID(3, 4),
                progress: { _ in })
        } else {
            var before = RecoveredState(access: .open)
            let journal = try DataDirectory.open(disk, into: &before, endsSessions: false, logger: logger)
            whenOpen()
            _ = try OfflineCommit.commit(
                state(name), to: disk, behind: journal, at: 1000, progress: { _ in })
        }
    }

    /// Any call of the disk fails: after an error that says that the change has taken effect, the new data is
    /// there; after any other one, the data from before.
    @Test(arguments: [5, 24, 28] as [Int32], [false, true])
    func everyFailureSaysWhetherItHasTakenEffect(errorNumber: Int32, restores: Bool) throws {
        let files = try Self.files()
        let rehearsal = SimulatedDisk(files: files)
        var first = 0
        try Self.change(rehearsal, restores: restores, to: "new") { first = rehearsal.operationCount }
        let count = rehearsal.operationCount - first
        #expect(count >= 8)
        var seen: [Bool: Int] = [:]
        for failing in 0..<count {
            let disk = SimulatedDisk(files: files)
            disk.failureNumber = errorNumber
            var (isDone, text) = (true, "done")
            do throws(StorageError) {
                try Self.change(disk, restores: restores, to: "new") {
                    disk.failingOperation = disk.operationCount + failing
                }
            } catch {
                text = error.description
                isDone = text.contains("taken effect")
            }
            disk.killProcess()
            #expect(
                try Self.names(on: disk) == [isDone ? "new" : "old"],
                "call \(failing), \(rehearsal.operations[first + failing]): \(text)")
            seen[isDone, default: 0] += 1
        }
        #expect(seen.count == 2, "some before the name, some behind it: \(seen)")
    }

    /// What the disk returns is not what was written, and that is found.
    private static func expectReadBackOtherwise(_ disk: some Disk, restores: Bool) {
        do throws(StorageError) {
            try change(disk, restores: restores, to: "new")
            Issue.record("it was not found")
        } catch {
            #expect(error.exitCode == 74 && error.description.contains("is read back otherwise"), "\(error)")
        }
    }

    /// One bit of the new checkpoint is another one on the disk: it is found before anything is replaced.
    @Test(arguments: [10, 40, 60, 80], [false, true])
    func changedBitIsFoundBeforeAnythingIsReplaced(byteOffset: Int, restores: Bool) throws {
        let base = SimulatedDisk(files: try Self.files())
        let disk = FlippingDisk(base, byteOffset)
        Self.expectReadBackOtherwise(disk, restores: restores)
        base.killProcess()
        #expect(!base.fileNames.contains { $0.hasSuffix(".new") || $0.hasSuffix(".damaged") })
        #expect(try Self.names(on: base) == ["old"])
    }

    /// The same where the bytes in memory are good: they are read from the disk.
    @Test(arguments: [false, true])
    func bitThatIsAnotherOnTheDiskThanInMemoryIsFound(restores: Bool) throws {
        let base = SimulatedDisk(files: try Self.files())
        let disk = RottenDisk(base)
        Self.expectReadBackOtherwise(disk, restores: restores)
        base.killProcess()
        #expect(try Self.names(on: base) == ["old"])
    }

    /// A file that a disk cannot read, and that nothing replaces, is a failure of the disk and no bad data.
    @Test func readFailuresAreOfTheDisk() {
        let failure = DiskFailure(
            operation: .read, path: "x", errorNumber: 5, errorText: "Input/output error")
        let gap = JournalProblem(file: "y", byteOffset: 32, flaw: .noSegments)
        for (flaw, code) in [(.unreadable(failure), 74), (.checkpointUnfinished, 65)]
            as [(JournalFlaw, Int32)]
        {
            let problem = JournalProblem(
                file: "x", byteOffset: 0, flaw: .irreplaceable(flaw, because: gap))
            #expect(StorageError(JournalError.corrupt(problem)).exitCode == code)
        }
    }
}

/// A disk on which one bit of each checkpoint changes when it is written.
///
/// `@unchecked Sendable`: used by one thread at a time.
private final class FlippingDisk: ForwardingDisk, @unchecked Sendable {
    let base: SimulatedDisk
    private let byteOffset: Int
    /// The checkpoint that is being written.
    private var checkpoint: (name: String, file: SimulatedDisk.File)?

    init(_ disk: SimulatedDisk, _ byteOffset: Int) {
        base = disk
        self.byteOffset = byteOffset
    }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
        let file = try base.open(name, mode)
        if mode == .create, name.hasPrefix("checkpoint-") { checkpoint = (name, file) }
        return file
    }

    func write(_ bytes: RawSpan, to file: SimulatedDisk.File, at offset: Int) throws(DiskFailure) {
        try base.write(bytes, to: file, at: offset)
        guard let checkpoint, checkpoint.file === file,
            (offset..<offset + bytes.byteCount).contains(byteOffset)
        else { return }
        base.flipBit(of: checkpoint.name, at: byteOffset * 8 + 3)
    }
}

/// A disk that has another bit in a new checkpoint than the system has in memory.
///
/// `@unchecked Sendable`: used by one thread at a time.
private final class RottenDisk: ForwardingDisk, @unchecked Sendable {
    let base: SimulatedDisk
    /// The checkpoint that was opened last, while it has not its name.
    private var opened: (name: String, file: SimulatedDisk.File)?

    init(_ disk: SimulatedDisk) { base = disk }

    func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
        let file = try base.open(name, mode)
        if name.hasSuffix(".chk.new") { opened = (name, file) }
        return file
    }

    func dropCache(of file: SimulatedDisk.File) {
        guard let opened, opened.file === file else { return }
        base.flipBit(of: opened.name, at: 80 * 8 + 3)
    }
}
