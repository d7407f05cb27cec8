import PandoJournal
import PandoSimulatedDisk
import Testing

/// Syncs of files that are there and can be read, and which the file system refuses: which of these refusals
/// say nothing about the file.
@Suite struct DeniedSyncTests {
    /// How a file system syncs files.
    struct Behavior: Sendable, CustomStringConvertible {
        let description: String
        /// The error of a sync of a file that was opened for reading.
        var syncOfReader: Int32
        /// The error of a sync of a file that was opened for writing; nil where it succeeds.
        var syncOfWriter: Int32?
        /// The error of opening another file than one's own for writing; nil where it succeeds.
        var openForWriting: Int32?
        /// Whether a start goes on, and whether what was read may be kept elsewhere.
        let (starts, isCopied): (Bool, Bool)
        /// Whether the file can be made durable.
        var syncsAsWriter: Bool { isCopied && syncOfReader != 22 }
    }

    private static let (eperm, eio, eacces, einval, enospc, erofs, edquot) =
        (1, 5, 13, 22, 28, 30, 122)
        as (
            Int32, Int32, Int32, Int32, Int32, Int32, Int32
        )

    private static func row(
        _ description: String, _ syncOfReader: Int32, writer syncOfWriter: Int32? = nil,
        open openForWriting: Int32? = nil, starts: Bool, isCopied: Bool
    ) -> Behavior {
        Behavior(
            description: description, syncOfReader: syncOfReader, syncOfWriter: syncOfWriter,
            openForWriting: openForWriting, starts: starts, isCopied: isCopied)
    }

    static let behaviors = [
        row("SMB: only a writer may flush", eacces, starts: true, isCopied: true),
        row("the same with the other error", eperm, starts: true, isCopied: true),
        row("nor may this process write it", eacces, open: eacces, starts: true, isCopied: false),
        row("exported for reading only", eacces, open: erofs, starts: true, isCopied: false),
        row("a writer's sync is refused, too", eacces, writer: eacces, starts: false, isCopied: false),
        row("a writer's sync fails", eacces, writer: eio, starts: false, isCopied: false),
        row("no syncs, such as squashfs", einval, starts: true, isCopied: true),
        row("read-only after errors of the disk", erofs, starts: false, isCopied: false),
        row("an error of the disk", eio, starts: false, isCopied: false),
        row("full when it is written back", enospc, starts: false, isCopied: false),
        row("above the quota when it is written back", edquot, starts: false, isCopied: false),
    ]

    /// `@unchecked Sendable`: used by one thread.
    private final class DenyingDisk: ForwardingDisk, @unchecked Sendable {
        let base: SimulatedDisk
        private let behavior: Behavior
        /// A file that this process may write in any case; nil for none.
        private let own: String?
        /// By how they were opened. Kept: a file is known by its identity.
        private var (readers, writers) = ([SimulatedDisk.File](), [SimulatedDisk.File]())

        init(_ base: SimulatedDisk, _ behavior: Behavior, own: String? = nil) {
            self.base = base
            self.behavior = behavior
            self.own = own
        }

        func open(_ name: String, _ mode: OpenMode) throws(DiskFailure) -> SimulatedDisk.File {
            let isOther = mode == .readWrite && name != own
            if isOther, let number = behavior.openForWriting { throw failure(.open, number) }
            let file = try base.open(name, mode)
            if mode == .read { readers.append(file) }
            if isOther { writers.append(file) }
            return file
        }

        func sync(_ file: SimulatedDisk.File) throws(DiskFailure) {
            if readers.contains(where: { $0 === file }) { throw failure(.sync, behavior.syncOfReader) }
            if let number = behavior.syncOfWriter, writers.contains(where: { $0 === file }) {
                throw failure(.sync, number)
            }
            try base.sync(file)
        }

        private func failure(_ operation: DiskOperation, _ number: Int32) -> DiskFailure {
            DiskFailure(operation: operation, path: "a", errorNumber: number, errorText: "refused")
        }
    }

    /// A server writes its last segment.
    @Test(arguments: behaviors)
    func start(behavior: Behavior) throws {
        let (base, entries) = try DirectorySyncTests.manySegments()
        let last = base.fileNames.filter { $0.hasSuffix(".log") }.max()
        let disk = DenyingDisk(base, behavior, own: last)
        guard behavior.starts else {
            #expect(throws: JournalError.self) { _ = try recover(disk) }
            return
        }
        #expect(try recover(disk).entries == entries)
    }

    /// What cannot be made durable beside a server must not be kept elsewhere.
    @Test(arguments: behaviors)
    func copy(behavior: Behavior) throws {
        let (base, entries) = try DirectorySyncTests.manySegments()
        let disk = DenyingDisk(base, behavior)
        var history = History()
        let summary = try readDirectory(disk, into: &history)
        #expect(history.entries == entries)
        guard behavior.isCopied else {
            #expect(throws: DiskFailure.self) { try syncJournal(of: disk, readAs: summary) }
            return
        }
        let syncs = base.syncCount
        try syncJournal(of: disk, readAs: summary)
        #expect(base.syncCount == syncs + (behavior.syncsAsWriter ? 1 : 0), "by a writer, if at all")
    }
}
