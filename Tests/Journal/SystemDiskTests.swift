import Glibc
import PandoBytes
import PandoJournal
import Testing

/// A directory under /tmp, removed with everything in it.
final class TemporaryDirectory {
    let path: String

    init() throws {
        var template = Array("/tmp/pando-journal-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: \(errno)") }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { Self.remove(path) }

    private static func remove(_ path: String) {
        if let disk = try? SystemDisk(directory: path, create: false), let names = try? disk.list() {
            for name in names { remove(path + "/" + name) }
            unsafe rmdir(path)
        } else {
            unsafe unlink(path)
        }
    }
}

struct TestFailure: Error {
    let text: String
    init(_ text: String) { self.text = text }
}

@Suite struct SystemDiskTests {
    /// Whatever has the name: nothing is changed.
    @Test func newDirectoryIsMadeOnlyWhereNothingIs() throws {
        let temporary = try TemporaryDirectory()
        let path = temporary.path + "/new"
        #expect(try SystemDisk(new: path).list().isEmpty)
        let (file, link) = (temporary.path + "/file", temporary.path + "/link")
        _ = try SystemDisk(directory: temporary.path, create: false).open("file", .create)
        // To nothing.
        #expect(unsafe symlink("nowhere", link) == 0)
        for taken in [path, file, link, temporary.path] {
            do throws(DiskFailure) {
                _ = try SystemDisk(new: taken)
                Issue.record("\(taken) was taken")
            } catch {
                #expect(error.isTaken, "\(error)")
            }
        }
    }

    /// The bytes are the same, wherever they come from.
    @Test func droppedCacheIsReadAgain() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: false)
        let bytes = [UInt8](repeating: 7, count: 1 << 20)
        let file = try disk.open("file", .create)
        try disk.write(bytes.rawSpan, to: file, at: 0)
        try disk.sync(file)
        disk.dropCache(of: file)
        var found = [UInt8](repeating: 0, count: bytes.count)
        let count = try unsafe found.withUnsafeMutableBytes { buffer throws(DiskFailure) in
            // The function fills no more than the buffer.
            unsafe try disk.read(file, at: 0, into: buffer)
        }
        #expect(count == bytes.count && found == bytes)
    }

    /// Random entries are read back as they were written, through the real file system, over several runs.
    @Test(arguments: 0..<4 as Range<UInt64>)
    func roundTrip(seed: UInt64) throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.path + "/data"
        var written: [Entry] = []
        for run in 0..<4 as Range<UInt64> {
            let script = Script.random(seed: seed * 100 + run, batchCount: 20, syncEvery: 2)
            let disk = try SystemDisk(directory: directory, create: true)
            var entries: [Entry] = []
            var journal = try openJournal(on: disk, entries: &entries)
            #expect(entries == written)
            for batch in script.batches {
                for entry in batch.entries { try journal.append(entry: entry.journalRecords) }
                try journal.write()
                if batch.syncs { try journal.sync() }
            }
            written += script.entries
        }
        let disk = try SystemDisk(directory: directory, create: false)
        let (entries, summary) = try recover(disk)
        #expect(entries == written)
        #expect(summary.tornByteCount == 0)
        #expect(try disk.list().sorted() == ["LOCK", firstSegment])
        let report = try inspect(disk) { _, _ in }
        #expect(report.problems.isEmpty)
        #expect(report.entryCount == written.count)
    }

    @Test func filesAreReadableByOwnerOnly() throws {
        let temporary = try TemporaryDirectory()
        let directory = temporary.path + "/data"
        _ = try recover(try SystemDisk(directory: directory, create: true))
        var status = stat()
        for (path, mode) in [(directory, 0o700), (directory + "/" + firstSegment, 0o600)]
            as [(String, mode_t)]
        {
            #expect(unsafe stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 & ~mode == 0, "\(path)")
        }
    }

    @Test func oneProcessPerDirectory() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: true)
        do {
            var none: [Entry] = []
            var journal = try openJournal(on: disk, entries: &none)
            let other = try SystemDisk(directory: temporary.path, create: true)
            let refusal = JournalError.lockedByAnotherProcess(
                directory: temporary.path, processID: Int64(getpid()))
            #expect(throws: refusal) { try recover(other) }
            #expect("\(refusal)".contains("\(temporary.path): in use by process \(getpid())"))
            #expect(try inspect(other) { _, _ in }.problems.isEmpty, "an inspection needs no lock")
            try journal.append(entry: Entry("still working").journalRecords)
            try journal.write()
            try journal.sync()
        }
        #expect(try recover(disk).entries == [Entry("still working")], "the lock ends with the journal")
    }

    /// The lock file may be removed: the directory itself is locked, too.
    @Test func lockHoldsWithoutItsFile() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: true)
        do {
            var none: [Entry] = []
            let journal = try openJournal(on: disk, entries: &none)
            try disk.remove("LOCK")
            for _ in 0..<2 {
                #expect(
                    throws: JournalError.lockedByAnotherProcess(directory: temporary.path, processID: nil)
                ) {
                    try recover(try SystemDisk(directory: temporary.path, create: false))
                }
                #expect(try !disk.list().contains("LOCK"), "a refused start makes none")
            }
            #expect(journal.lastAppended == .zero)
        }
        _ = try recover(disk)
        #expect(try disk.list().contains("LOCK"))
    }

    /// A file that is made under one name and finished under another is named as it is now.
    @Test func failuresNameTheFileAsItIsNow() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: true)
        _ = try disk.open("a.new", .create)
        let file = try disk.open("a.new", .read)
        func path() -> String? {
            do throws(DiskFailure) {
                try disk.write([1].rawSpan, to: file, at: 0)
                return nil
            } catch {
                return error.path
            }
        }
        #expect(path() == temporary.path + "/a.new")
        try disk.rename("a.new", to: "a")
        #expect(path() == temporary.path + "/a")
        try disk.remove("a")
        #expect(path() == temporary.path + "/a.new", "without a name, that under which it was opened")
    }

    /// A FIFO, such as one in place of a checkpoint: an open that waits for its other end would never return.
    @Test(arguments: [OpenMode.read, .readWrite, .create])
    func whatIsNoRegularFileIsRefused(mode: OpenMode) throws {
        let temporary = try TemporaryDirectory()
        let path = temporary.path + "/fifo"
        try #require(unsafe mkfifo(path, 0o600) == 0)
        // With another end an open that waits returns at once: the test then fails, and does not hang.
        let otherEnd = unsafe open(path, O_RDWR | O_NONBLOCK)
        try #require(otherEnd >= 0)
        defer { close(otherEnd) }
        let disk = try SystemDisk(directory: temporary.path, create: false)
        #expect(
            throws: DiskFailure(
                operation: .open, path: path, errorNumber: ENXIO, errorText: "not a regular file")
        ) {
            _ = try disk.open("fifo", mode)
        }
        _ = try SystemDisk(directory: temporary.path + "/below", create: true)
        #expect(
            throws: DiskFailure(
                operation: .open, path: temporary.path + "/below", errorNumber: EISDIR,
                errorText: "Is a directory")
        ) {
            _ = try disk.open("below", mode)
        }
    }

    /// A parent that can be searched and written and not read: the first start is as good as the second.
    @Test(.enabled(if: getuid() != 0, "root reads everything"))
    func parentThatCannotBeRead() throws {
        let temporary = try TemporaryDirectory()
        #expect(unsafe chmod(temporary.path, 0o300) == 0)
        defer { _ = unsafe chmod(temporary.path, 0o700) }
        for _ in 0..<2 { _ = try SystemDisk(directory: temporary.path + "/data", create: true) }
    }

    /// Another process holds the lock until it is killed: the kernel opens it.
    @Test func lockIsReleasedWhenItsProcessEnds() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: true)
        _ = try recover(disk)
        var pipeEnds: [Int32] = [0, 0]
        #expect(unsafe pipe(&pipeEnds) == 0)
        defer { close(pipeEnds[0]) }
        // `echo` reports that the lock is held; then `sleep`, the same process, holds it.
        let script = "echo locked; exec sleep 600"
        let arguments = ["flock", "-n", "-F", temporary.path + "/LOCK", "sh", "-c", script]
        var child: pid_t = 0
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawn_file_actions_adddup2(&actions, pipeEnds[1], 1)
        var pointers: [UnsafeMutablePointer<CChar>?] = unsafe arguments.map { unsafe strdup($0) } + [nil]
        let result = unsafe posix_spawnp(&child, "flock", &actions, nil, &pointers, environ)
        for index in unsafe pointers.indices { unsafe free(pointers[index]) }
        unsafe posix_spawn_file_actions_destroy(&actions)
        close(pipeEnds[1])
        try #require(result == 0, "flock(1) of util-linux")
        var line = [UInt8](repeating: 0, count: 16)
        let count = unsafe read(pipeEnds[0], &line, line.count)
        #expect(String(decoding: line[..<max(0, count)], as: UTF8.self) == "locked\n")

        var refused = false
        do throws(JournalError) { _ = try recover(disk) } catch {
            if case .lockedByAnotherProcess = error { refused = true }
        }
        #expect(refused)
        kill(child, SIGKILL)
        var status: Int32 = 0
        unsafe waitpid(child, &status, 0)
        #expect(throws: Never.self) { try recover(disk) }
    }

    @Test func failuresNameOperationAndPath() throws {
        let temporary = try TemporaryDirectory()
        let missing = temporary.path + "/no/where"
        #expect(
            throws: DiskFailure(
                operation: .makeDirectory, path: missing, errorNumber: ENOENT,
                errorText: "No such file or directory"
            )
        ) {
            _ = try SystemDisk(directory: missing, create: true)
        }
        #expect(
            throws: DiskFailure(
                operation: .open, path: missing, errorNumber: ENOENT, errorText: "No such file or directory")
        ) {
            _ = try SystemDisk(directory: missing, create: false)
        }
        let disk = try SystemDisk(directory: temporary.path, create: true)
        #expect(
            throws: DiskFailure(
                operation: .open, path: temporary.path + "/x", errorNumber: ENOENT,
                errorText: "No such file or directory")
        ) {
            _ = try disk.open("x", .read)
        }
    }

    /// One write of many records, small and large mixed.
    @Test func thousandsOfRecordsInOneWrite() throws {
        let temporary = try TemporaryDirectory()
        let disk = try SystemDisk(directory: temporary.path, create: true)
        do {
            var none: [Entry] = []
            var journal = try openJournal(on: disk, entries: &none)
            for index in 0..<2500 {
                try journal.append(
                    .delta, namespace: 1, timestamp: 1,
                    payload: [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: 1 + index % 50))
            }
            try journal.write()
            try journal.sync()
        }
        let entries = try recover(disk).entries
        #expect(entries.count == 2500)
        for (index, entry) in entries.enumerated() {
            #expect(
                entry.records[0].payload
                    == [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: 1 + index % 50))
        }
    }
}
