import Foundation
import PandoJournal
import Testing

@testable import PandoStorage

/// Directories on disks that come and go.
@Suite struct BackupDirectoryTests {
    /// A folder of its own, removed at the end.
    final class Folder {
        let path: String

        init() throws {
            path = NSTemporaryDirectory() + "pando-places-" + UUID().uuidString
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        var place: String { path + "/place" }
        var aside: String { path + "/aside" }
        var data: String { path + "/data" }

        func make(_ path: String) throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        func move(_ from: String, to: String) throws {
            try FileManager.default.moveItem(atPath: from, toPath: to)
        }
        func names(_ path: String) -> [String] {
            ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? ["no directory"]).sorted()
        }

        func open(_ use: BackupUse = .archive) throws -> BackupDirectory {
            let directory = try BackupDirectory(place, use: use, rememberedIn: data)
            try directory.remember(in: data)
            return directory
        }
    }

    @Test func isMadeAndRememberedAtItsFirstUse() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        _ = try folder.open().open()
        #expect(folder.names(folder.place) == ["LOCK", "pando-place"])
        #expect(folder.names(folder.data) == ["archive.place"])
        let place = try #require(try BackupPlace.read(.archive, in: folder.data))
        #expect(place.path == folder.place)
        // A second process finds the same one.
        _ = try folder.open().open()
        #expect(try BackupPlace.read(.archive, in: folder.data) == place)
    }

    @Test func onlyAWrongConfigurationIsRefused() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let held = try folder.open()
        #expect {
            try folder.open()
        } throws: { error in
            if case StorageError.locked(let text) = error {
                text.contains("in use by process")
            } else {
                false
            }
        }
        _ = try held.open()
        for path in [folder.path + "/file", folder.path + "/file/below"] {
            try Data([1]).write(to: URL(fileURLWithPath: folder.path + "/file"))
            #expect {
                try BackupDirectory(path, use: .backups, rememberedIn: nil)
            } throws: { error in
                if case StorageError.locked(let text) = error { text.contains("--backup-to") } else { false }
            }
        }
    }

    /// One directory for two options, by two paths.
    @Test func ownDirectoryByAnotherPathIsNamedAsSuch() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let held = try folder.open()
        let link = folder.path + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.place)
        #expect {
            try BackupDirectory(link, use: .backups, rememberedIn: nil)
        } throws: { error in
            guard case StorageError.locked(let text) = error else { return false }
            return text.contains("which is this one: another option names the same directory")
        }
        _ = try held.open()
    }

    /// The server that uses the directory can go on after its lock file was removed, and no other server can
    /// use the directory.
    @Test func lockFileThatWasRemovedIsMadeAgain() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let directory = try folder.open()
        try FileManager.default.removeItem(atPath: folder.place + "/LOCK")
        #expect(throws: StorageError.self) { try folder.open() }
        #expect(!directory.isUnchanged)
        _ = try directory.open()
        #expect(directory.isUnchanged && folder.names(folder.place).contains("LOCK"))
        #expect(throws: StorageError.self) { try folder.open() }
    }

    @Test func missingOneIsUsedWhenItIsThere() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let path = folder.path + "/disk/place"
        let directory = try BackupDirectory(path, use: .backups, rememberedIn: nil)
        try directory.remember(in: folder.data)
        #expect(throws: BackupDirectory.Failure.self) { try directory.open() }
        #expect(folder.names(folder.data) == [])
        try folder.make(folder.path + "/disk")
        _ = try directory.open()
        #expect(try BackupPlace.read(.backups, in: folder.data)?.path == path)
    }

    /// As at a start whose disk answers only after the data directory was opened.
    @Test func oneThatAnswersLateIsRememberedWhenItDoes() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let directory = BackupDirectory(at: folder.place, use: .archive, rememberedIn: nil)
        try directory.remember(in: folder.data)
        #expect(folder.names(folder.data) == [] && folder.names(folder.place) == ["no directory"])
        try directory.claim()
        #expect(try BackupPlace.read(.archive, in: folder.data)?.path == folder.place)
    }

    /// A disk that is unmounted while the server runs leaves an empty directory, or none.
    @Test(arguments: [true, false])
    func nothingIsWrittenWhereAnotherOneIs(leavesEmptyDirectory: Bool) throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let directory = try folder.open()
        #expect(directory.isUnchanged)
        try folder.move(folder.place, to: folder.aside)
        if leavesEmptyDirectory { try folder.make(folder.place) }
        for _ in 0..<2 {
            #expect(throws: BackupDirectory.Failure.self) { try directory.open() }
            #expect(!directory.isUnchanged)
        }
        #expect(folder.names(folder.place) == (leavesEmptyDirectory ? [] : ["no directory"]))
        if leavesEmptyDirectory { try FileManager.default.removeItem(atPath: folder.place) }
        try folder.move(folder.aside, to: folder.place)
        _ = try directory.open()
        #expect(directory.isUnchanged)
    }

    /// A disk that is mounted anew has another device number: its id says that it is the same.
    @Test func oneThatComesBackElsewhereIsKnownByItsID() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        let directory = try folder.open()
        try FileManager.default.copyItem(atPath: folder.place, toPath: folder.aside)
        try FileManager.default.removeItem(atPath: folder.place)
        try folder.move(folder.aside, to: folder.place)
        #expect(!directory.isUnchanged)
        _ = try directory.open()
        #expect(directory.isUnchanged)
        #expect(throws: StorageError.self) { try folder.open() }
    }

    /// A start without the disk: no directory is made and none is locked where one is expected.
    @Test(arguments: [true, false])
    func startWithoutTheDiskBeginsNothingAnew(leavesEmptyDirectory: Bool) throws {
        let folder = try Folder()
        try folder.make(folder.data)
        do { _ = try folder.open().open() }
        try folder.move(folder.place, to: folder.aside)
        if leavesEmptyDirectory { try folder.make(folder.place) }
        let directory = try folder.open()
        #expect {
            try directory.open()
        } throws: { error in
            let text = (error as? BackupDirectory.Failure)?.description ?? ""
            return text.contains(leavesEmptyDirectory ? "is the disk mounted?" : "No such file")
        }
        #expect(folder.names(folder.place) == (leavesEmptyDirectory ? [] : ["no directory"]))
        if leavesEmptyDirectory { try FileManager.default.removeItem(atPath: folder.place) }
        try folder.move(folder.aside, to: folder.place)
        _ = try directory.open()
    }

    /// A record that cannot be read says that there was a directory, and not which one: none is made, and
    /// none is used, until the record is whole or removed.
    @Test(
        arguments: [
            [], [UInt8](repeating: 0, count: 60), Array("text".utf8), [UInt8](repeating: 65, count: 9000),
        ] as [[UInt8]])
    func recordThatCannotBeRead(bytes: [UInt8]) throws {
        let folder = try Folder()
        try folder.make(folder.data)
        do { _ = try folder.open().open() }
        let record = URL(fileURLWithPath: folder.data + "/archive.place")
        let whole = try Data(contentsOf: record)
        try Data(bytes).write(to: record)
        #expect(throws: BackupPlace.Unreadable.self) { try BackupPlace.read(.archive, in: folder.data) }
        try folder.move(folder.place, to: folder.aside)
        let directory = try folder.open()
        for isThere in [false, true] {
            if isThere { try folder.move(folder.aside, to: folder.place) }
            #expect {
                try directory.open()
            } throws: { error in
                guard case BackupDirectory.Failure.damaged(let text) = error else { return false }
                return text.contains(folder.data + "/archive.place")
            }
            if !isThere { #expect(folder.names(folder.place) == ["no directory"]) }
        }
        #expect(try Data(contentsOf: record) == Data(bytes))
        try whole.write(to: record)
        _ = try directory.open()
        #expect(directory.isUnchanged)
    }

    @Test func anotherPathAndAForgottenOneBeginAnew() throws {
        let folder = try Folder()
        try folder.make(folder.data)
        do { _ = try folder.open().open() }
        let other = try BackupDirectory(folder.path + "/other", use: .archive, rememberedIn: folder.data)
        _ = try other.open()
        #expect(folder.names(folder.path + "/other") == ["LOCK", "pando-place"])
        try FileManager.default.removeItem(atPath: folder.place)
        try FileManager.default.removeItem(atPath: folder.data + "/archive.place")
        _ = try folder.open().open()
        #expect(folder.names(folder.place) == ["LOCK", "pando-place"])
    }

    /// The disk of another server, or what a start without the disk has left below the mount point: its
    /// backups would be taken for those of this server, and removed.
    @Test func anotherDirectoryWithBackupsIsRefused() throws {
        let (folder, other) = (try Folder(), try Folder())
        for one in [folder, other] {
            try one.make(one.data)
            do { _ = try one.open(.backups).open() }
        }
        let backup = other.place + "/pando-20251123T184500.123Z-1-42.backup"
        try Data([1]).write(to: URL(fileURLWithPath: backup))
        try FileManager.default.removeItem(atPath: folder.place)
        try other.move(other.place, to: folder.place)
        let directory = try folder.open(.backups)
        #expect(throws: BackupDirectory.Failure.self) { try directory.open() }
    }

    /// What was copied to another disk without the file of the id is taken: the archive checks whose it is.
    @Test(arguments: [
        (BackupUse.archive, "journal-00000001-0000000000000001.log", true), (.archive, "notes.txt", false),
        (.backups, "pando-20251123T184500.123Z-1-42.backup", true), (.backups, "notes.txt", false),
    ])
    func contentWithoutAnID(use: BackupUse, name: String, isTaken: Bool) throws {
        let folder = try Folder()
        try folder.make(folder.data)
        do { _ = try folder.open(use).open() }
        try FileManager.default.removeItem(atPath: folder.place)
        try folder.make(folder.place)
        try Data([1]).write(to: URL(fileURLWithPath: folder.place + "/" + name))
        let directory = try folder.open(use)
        #expect(((try? directory.open()) != nil) == isTaken)
        #expect(folder.names(folder.place).contains("LOCK") == isTaken)
    }
}

extension BackupDirectory {
    /// As a start does.
    fileprivate convenience init(
        _ path: String, use: BackupUse, rememberedIn dataDirectory: String?
    ) throws(StorageError) {
        self.init(at: path, use: use, rememberedIn: dataDirectory)
        try claim()
    }
}
