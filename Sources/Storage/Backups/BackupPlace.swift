import PandoJournal

//  Scheduled backups and the archive are directories on other disks. A disk may be missing: then there is an
//  empty directory where it is mounted, or none. What is written there would be on the wrong disk, and it
//  would hide that the right one is missing. So each such directory has a random id, in a file of its own,
//  and the data directory remembers which one it uses:
//
//      DIR/pando-place                      0123456789abcdef0123456789abcdef
//      DATA/archive.place, backup.place     0123456789abcdef0123456789abcdef /path/of/DIR

/// What is kept in a directory beside the data directory.
package enum BackupUse: String, CaseIterable, Sendable {
    case backups = "backup"
    case archive

    /// The option that names the directory, for messages.
    package var option: String { self == .backups ? "--backup-to" : "--archive-to" }

    /// The file of the data directory that remembers which directory it uses.
    package var recordName: String { (self == .backups ? PlaceFile.backups : .archive).rawValue }

    /// Whether a data directory remembers a directory for this use; also where it cannot be read which one.
    package func isRemembered(in dataDirectory: String) -> Bool {
        do throws(BackupPlace.Unreadable) {
            return try BackupPlace.read(self, in: dataDirectory) != nil
        } catch {
            return true
        }
    }

    /// Whether a directory holds anything of the kind.
    func isUsed(_ names: [String]) -> Bool {
        switch self {
        case .backups: names.contains { BackupName($0) != nil }
        case .archive: !ArchiveListing(names).isEmpty
        }
    }
}

/// A directory of backups or of the archive, as its data directory remembers it.
package struct BackupPlace: Equatable, Sendable {
    /// Of the directory, wherever it is mounted.
    package var id: DirectoryID
    /// Where it was; absolute.
    package var path: String

    package init(id: DirectoryID, path: String) {
        self.id = id
        self.path = path
    }

    /// The data directory remembers a directory, and it cannot be read which one.
    package struct Unreadable: Error, CustomStringConvertible {
        package let description: String
    }

    /// The file with the id, in the directory itself.
    static let idFileName = "pando-place"
    /// A path is at most 4096 bytes long.
    private static let fileByteLimit = 8192

    /// Reads what a data directory remembers.
    /// - Returns: Nil where it remembers nothing, or does not exist.
    /// - Throws: ``Unreadable``.
    package static func read(
        _ use: BackupUse, in dataDirectory: String
    ) throws(Unreadable) -> BackupPlace? {
        let bytes: [UInt8]?
        do throws(DiskFailure) {
            let disk = try SystemDisk(directory: dataDirectory, create: false)
            guard try disk.list().contains(use.recordName) else { return nil }
            bytes = try readSmallFile(use.recordName, limit: fileByteLimit, on: disk)
        } catch {
            guard error.isMissing else { throw unreadable(use, in: dataDirectory, "\(error)") }
            return nil
        }
        guard let bytes, let place = BackupPlace(bytes) else {
            throw unreadable(use, in: dataDirectory, "not what a server writes there")
        }
        return place
    }

    private init?(_ bytes: [UInt8]) {
        let parts = String(decoding: bytes, as: UTF8.self).split(
            separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let id = DirectoryID(String(parts[0])), parts[1].last == "\n" else {
            return nil
        }
        self.init(id: id, path: String(parts[1].dropLast()))
    }

    private static func unreadable(
        _ use: BackupUse, in dataDirectory: String, _ reason: String
    ) -> Unreadable {
        Unreadable(
            description:
                "\(dataDirectory)/\(use.recordName): \(reason). The file names the directory that the server has used for \(use.option), so now none is used. Check first that the right disk is mounted; then remove this file, and the directory that is there is used at the next attempt"
        )
    }

    /// Has a data directory remember it, durably.
    /// - Throws: ``DiskFailure``.
    func write(_ use: BackupUse, in dataDirectory: String) throws(DiskFailure) {
        let disk = try SystemDisk(directory: dataDirectory, create: false)
        try replaceSmallFile(use.recordName, with: Array("\(id) \(path)\n".utf8), on: disk)
    }

    /// The id of a directory; nil where it has none.
    static func readID(of disk: SystemDisk) throws(DiskFailure) -> DirectoryID? {
        guard let bytes = try readSmallFile(idFileName, limit: fileByteLimit, on: disk), bytes.last == 10
        else {
            return nil
        }
        return DirectoryID(String(decoding: bytes.dropLast(), as: UTF8.self))
    }

    /// Gives a directory an id, durably.
    static func writeID(_ id: DirectoryID, on disk: SystemDisk) throws(DiskFailure) {
        try replaceSmallFile(idFileName, with: Array("\(id)\n".utf8), on: disk)
    }
}
