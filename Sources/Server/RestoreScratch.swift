import Foundation
import PandoJournal
import PandoStorage

//  A restore test restores into a directory of its own, which is locked while the test runs:
//
//      DIR/pando-restore-test-0123456789abcdef.scratch/LOCK    held by the test
//      DIR/pando-restore-test-0123456789abcdef.scratch/data    what is restored
//
//  A test that is killed leaves the directory with the file LOCK, which no process has locked then. Each
//  start of a server that makes backups in DIR, and each test of a backup there, remove such directories.

/// The directory of a restore test.
package final class RestoreScratch: Sendable {
    package let path: String
    /// Held and never read: no other process removes the directory meanwhile.
    private let lock: SystemDisk.File

    private static let (prefix, suffix) = ("pando-restore-test-", ".scratch")
    /// Names that versions before had for tests by hand: that of the backup, a process id, and this.
    private static let earlierSuffix = ".restore-test"
    /// Directories that are tried: one may be taken for a left one in the moment before it is locked.
    private static let attemptCount = 4

    /// Makes the directory: what ``remove()`` removes is never another one's.
    /// - Throws: ``StorageError``; `.locked` where something is there, and where another process has taken
    ///   the directory for a left one, in the moment before it was locked.
    package init(at path: String) throws(StorageError) {
        let disk: SystemDisk
        do throws(DiskFailure) { disk = try SystemDisk(new: path) } catch {
            guard error.isTaken else { throw StorageError(error, option: "--scratch") }
            throw .locked("--scratch: \(path) exists already")
        }
        do throws(JournalError) { lock = try Journal.acquireLock(on: disk) } catch {
            throw StorageError(error)
        }
        guard let now = try? SystemDisk(directory: path, create: false),
            (try? now.isSame(lock, as: Journal<SystemDisk>.lockFileName)) == true
        else { throw .locked("--scratch: \(path) was removed by another process") }
        self.path = path
    }

    /// Makes a directory with a random name in another one.
    /// - Throws: ``StorageError``.
    package static func make(in directory: String) throws(StorageError) -> RestoreScratch {
        var attempt = 1
        while true {
            let path = Self.path(in: directory)
            do throws(StorageError) { return try RestoreScratch(at: path) } catch {
                guard attempt < attemptCount else { throw error }
            }
            attempt += 1
        }
    }

    /// A random path in a directory.
    package static func path(in directory: String) -> String {
        let random = UInt64.random(in: .min ... .max)
        return directory + "/" + prefix + String(random, radix: 16) + suffix
    }

    /// Where the data directory is restored.
    package var dataPath: String { path + "/data" }

    /// Removes the directory with all that is in it.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }

    /// Removes what killed tests have left in a directory.
    package static func clean(_ directory: String) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        for name in names where isScratch(name) {
            let path = directory + "/" + name
            guard let disk = try? SystemDisk(directory: path, create: false),
                let lock = try? Journal.acquireLock(on: disk)
            else { continue }
            try? FileManager.default.removeItem(atPath: path)
            // Until then no other process takes it.
            withExtendedLifetime(lock) {}
        }
    }

    /// Only restore tests make directories of such names.
    private static func isScratch(_ name: String) -> Bool {
        if name.hasPrefix(prefix), name.hasSuffix(suffix) { return true }
        guard name.hasSuffix(earlierSuffix) else { return false }
        let file = name.dropLast(earlierSuffix.count)
        return file.lastIndex(of: ".").map { BackupName(String(file[..<$0])) != nil } ?? false
    }
}
