import Logging
import PandoJournal
import Synchronization

/// A directory for backups or for the archive of the journal, which one server at a time uses, and whose disk
/// may come and go.
///
/// Each ``open()`` checks that the directory is the one that it was: by the device and the inode of the lock
/// that is held there, and after a disk was mounted anew by the id of the directory (``BackupPlace``).
package final class BackupDirectory: Sendable {
    /// Why the directory cannot be used now.
    package enum Failure: Error, CustomStringConvertible {
        /// A system call failed, such as one on a path that does not exist.
        case disk(DiskFailure)
        /// Another directory is there than before: most often, a disk is not mounted.
        case missing(String)
        /// Another process uses it.
        case inUse(String)
        /// A file of the data directory that says what belongs there cannot be read.
        case damaged(String)

        package var description: String {
            switch self {
            case .disk(let failure): failure.description
            case .missing(let text), .inUse(let text), .damaged(let text): text
            }
        }
    }

    private struct State {
        /// Held and never read: no other server writes there. Nil until the directory was there for the first
        /// time.
        var lock: SystemDisk.File?
    }

    private struct Known {
        /// Nil until the directory was there for the first time.
        var id: DirectoryID?
        /// Where its id is remembered; nil for nowhere.
        var dataDirectory: String?
    }

    /// Opens the directory at a path. Where there is none, it is made, if that is asked for.
    typealias OpenDisk = @Sendable (_ path: String, _ create: Bool) throws(DiskFailure) -> SystemDisk

    package let path: String
    package let use: BackupUse
    /// The data directory that remembers which one it has used; nil for none.
    private let dataDirectory: String?
    private let randomID: DirectoryID
    private let openDisk: OpenDisk
    /// Held while the directory is opened, which takes for ever where its disk does not answer.
    private let state = Mutex(State())
    /// Never held while the disk of the directory is waited for.
    private let known = Mutex(Known())

    /// Makes and opens nothing.
    /// - Parameters:
    ///   - path: Absolute.
    ///   - dataDirectory: It may remember which directory it has used (``BackupPlace``), and is only read.
    ///     Nil for none.
    package convenience init(at path: String, use: BackupUse, rememberedIn dataDirectory: String?) {
        self.init(at: path, use: use, rememberedIn: dataDirectory) { path, create throws(DiskFailure) in
            try SystemDisk(directory: path, create: create)
        }
    }

    /// The same on a disk that is opened in another way.
    init(
        at path: String, use: BackupUse, rememberedIn dataDirectory: String?, openDisk: @escaping OpenDisk
    ) {
        self.path = path
        self.use = use
        self.dataDirectory = dataDirectory
        self.openDisk = openDisk
        randomID = DirectoryID(Environment.machine.randomBits(), Environment.machine.randomBits())
    }

    /// Makes the directory where it does not exist and none is expected, and locks it.
    ///
    /// A directory that is not there now is no error: ``open()`` tries again, and says why.
    /// - Throws: ``StorageError/locked(_:)`` for what only another configuration mends: something that is no
    ///   directory, and a directory that another process uses.
    package func claim() throws(StorageError) {
        if let failure, let refusal = refusal(for: failure) { throw refusal }
    }

    /// Why the server must not use it, where only another configuration mends a failure; nil for all others.
    private func refusal(for failure: Failure) -> StorageError? {
        switch failure {
        case .inUse(let text): .locked("\(use.option): \(text)")
        case .disk(let failure) where failure.isNoDirectory: .locked("\(use.option): \(failure)")
        case .disk, .missing, .damaged: nil
        }
    }

    /// Has a data directory remember which directory it uses: now or, where it was not there yet, when it is
    /// opened for the first time. Does not wait for its disk.
    /// - Throws: ``DiskFailure`` of the data directory.
    package func remember(in dataDirectory: String) throws(DiskFailure) {
        let id = known.withLock { known in
            known.dataDirectory = dataDirectory
            return known.id
        }
        if let id { try remember(id, in: dataDirectory) }
    }

    private func remember(_ id: DirectoryID, in dataDirectory: String) throws(DiskFailure) {
        let place = BackupPlace(id: id, path: path)
        // A damaged one is replaced: the directory is known by now.
        guard (try? BackupPlace.read(use, in: dataDirectory)) != place else { return }
        try place.write(use, in: dataDirectory)
    }

    /// Opens the directory, if it is there. Takes for ever where its disk does not answer, and so do all
    /// other calls meanwhile but ``remember(in:)``: never on a thread that clients wait for.
    /// - Throws: ``Failure``. A later call may succeed.
    package func open() throws(Failure) -> SystemDisk {
        try state.withLock { state throws(Failure) in
            let knownID = known.withLock { $0.id }
            let remembered: BackupPlace? = if knownID == nil { try rememberedPlace() } else { nil }
            let isExpected = remembered != nil || knownID != nil
            let disk = try onPlace { () throws(DiskFailure) in
                try openDisk(path, !isExpected)
            }
            // The lock of a disk that was pulled out cannot be compared: then the id decides.
            if let lock = state.lock, (try? disk.isSame(lock, as: Self.lockFileName)) == true { return disk }
            let found = try onPlace { () throws(DiskFailure) in try BackupPlace.readID(of: disk) }
            try refuseOther(found, on: disk, knownID, remembered)
            // The lock file may have been removed: then this is the directory itself whose lock is still
            // held.
            state.lock = nil
            let lock = try Self.lock(disk)
            let id = found ?? randomID
            try onPlace { () throws(DiskFailure) in
                if found == nil { try BackupPlace.writeID(id, on: disk) }
                // In one step: another thread that calls `remember(in:)` finds the id, or this one finds the
                // data directory.
                let dataDirectory = known.withLock { known in
                    known.id = id
                    return known.dataDirectory
                }
                guard let dataDirectory else { return }
                do throws(DiskFailure) { try remember(id, in: dataDirectory) } catch {
                    // A full data directory is no reason not to make backups.
                    guard error.isShortage else {
                        known.withLock { $0.id = knownID }
                        throw error
                    }
                }
            }
            state.lock = lock
            return disk
        }
    }

    /// What the data directory remembers of this path. Of another path it says nothing: then another
    /// directory was chosen.
    private func rememberedPlace() throws(Failure) -> BackupPlace? {
        guard let dataDirectory else { return nil }
        do throws(BackupPlace.Unreadable) {
            let place = try BackupPlace.read(use, in: dataDirectory)
            return place?.path == path ? place : nil
        } catch {
            throw .damaged(error.description)
        }
    }

    /// The first look of the thread that uses the directory. Says in the log where it cannot be used now.
    /// - Returns: Why the server must not use it, as ``claim()`` throws it; nil where it may.
    func look(_ logger: Logger) -> StorageError? {
        guard let failure else { return nil }
        if let refusal = refusal(for: failure) { return refusal }
        logger.error(
            "\(use.option): cannot be used now; the server runs without it and will try again: \(failure)")
        return nil
    }

    /// Why it cannot be opened now; nil where it can.
    package var failure: Failure? {
        do throws(Failure) { _ = try open() } catch { return error }
        return nil
    }

    /// Whether the directory at the path is the one whose lock is held.
    package var isUnchanged: Bool {
        state.withLock { state in
            guard let lock = state.lock, let disk = try? openDisk(path, false) else {
                return false
            }
            return (try? disk.isSame(lock, as: Self.lockFileName)) == true
        }
    }

    /// Refuses a directory that is not the one that was there before.
    /// - Parameters:
    ///   - known: The id that it had since the start; nil where it was not there yet.
    ///   - remembered: What the data directory remembers; nil for nothing.
    private func refuseOther(
        _ found: DirectoryID?, on disk: SystemDisk, _ known: DirectoryID?, _ remembered: BackupPlace?
    ) throws(Failure) {
        if let known {
            guard found != known else { return }
            throw .missing(
                "\(path): another directory is there than at the start, without \(BackupPlace.idFileName) \(known): is the disk mounted?"
            )
        }
        guard let remembered, found != remembered.id else { return }
        if let found {
            throw .missing(
                "\(path): another directory is there (\(found)) than the one that the data directory has used at this path (\(remembered.id)): is the right disk mounted? To use it all the same, stop the server and remove \(use.recordName) from the data directory"
            )
        }
        let names = try onPlace { () throws(DiskFailure) in try disk.list() }
        // A copy of the directory on another disk may have lost the file. Whose it is, the archive checks.
        guard !use.isUsed(names) else { return }
        throw .missing(
            "\(path): nothing is there, but the data directory has used the directory \(remembered.id) at this path: is the disk mounted? To start with an empty directory there, stop the server and remove \(use.recordName) from the data directory"
        )
    }

    private static var lockFileName: String { Journal<SystemDisk>.lockFileName }

    private static func lock(_ disk: SystemDisk) throws(Failure) -> SystemDisk.File {
        do throws(JournalError) { return try Journal.acquireLock(on: disk) } catch {
            switch error {
            case .lockedByAnotherProcess(_, let processID):
                throw .inUse("\(disk.directory): in use by \(lockOwner(processID))")
            case .disk(let failure): throw .disk(failure)
            default: preconditionFailure("locking throws no other error: \(error)")
            }
        }
    }
}

private func onPlace<Result>(
    _ body: () throws(DiskFailure) -> Result
) throws(BackupDirectory.Failure) -> Result {
    do throws(DiskFailure) { return try body() } catch { throw .disk(error) }
}
