import Foundation
import PandoStorage
import Synchronization
import Testing

@testable import PandoServer

/// The directory of a restore test, which is removed with all that is in it: it must never be another one's.
@Suite struct RestoreScratchTests {
    /// A folder of its own, removed at the end.
    final class Folder: Sendable {
        let path = NSTemporaryDirectory() + "pando-scratch-" + UUID().uuidString

        init() throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        deinit { try? FileManager.default.removeItem(atPath: path) }
    }

    /// Whatever is there, also a link to nothing, which looks like a free name.
    @Test func whatIsThereIsRefusedAndLeftAsItIs() throws {
        let folder = try Folder()
        let (directory, link) = (folder.path + "/directory", folder.path + "/link")
        try FileManager.default.createDirectory(
            atPath: directory + "/inside", withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: link, withDestinationPath: folder.path + "/nowhere")
        for taken in [directory, link] {
            do throws(StorageError) {
                _ = try RestoreScratch(at: taken)
                Issue.record("\(taken) was taken")
            } catch {
                #expect(error.exitCode == 78 && error.description.contains("exists already"), "\(error)")
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["inside"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 2)
    }

    /// Tests that begin at the same moment: one has the directory, and the others change nothing.
    @Test func oneOfManyAtOnceHasTheDirectory() throws {
        for _ in 0..<20 {
            let folder = try Folder()
            let made = Mutex<[RestoreScratch]>([])
            DispatchQueue.concurrentPerform(iterations: 8) { _ in
                guard let scratch = try? RestoreScratch(at: folder.path + "/scratch") else { return }
                made.withLock { $0.append(scratch) }
            }
            let one = try #require(made.withLock { $0 }.first)
            #expect(made.withLock { $0.count } == 1)
            #expect(try FileManager.default.contentsOfDirectory(atPath: one.path) == ["LOCK"])
            one.remove()
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
        }
    }

    /// A test that was killed has left it.
    @Test func leftDirectoriesAreCleanedAndOthersAreNot() throws {
        let folder = try Folder()
        let left = folder.path + "/pando-restore-test-1.scratch"
        for path in [left, folder.path + "/mine"] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        let running = try RestoreScratch.make(in: folder.path)
        RestoreScratch.clean(folder.path)
        #expect(FileManager.default.fileExists(atPath: running.path))
        running.remove()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["mine"])
    }
}
