import Logging
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// Changes of a whole directory while no server runs on it.
@Suite struct CommitTests {
    /// How many checkpoints are kept is the server's choice: an import adds one, and removes nothing.
    @Test func nothingIsRemoved() throws {
        let disk = SimulatedDisk()
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        for round in 0..<6 as Range<Int64> {
            var state = RecoveredState(access: .open)
            let journal = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
            #expect(state.namespaceNames.count == Int(round) + 1)
            _ = state.makeNamespace("n\(round)")
            let before = Set(disk.fileNames)
            let header = try OfflineCommit.commit(
                state, to: disk, behind: journal, at: round, progress: { _ in })
            #expect(header.sequence == journal.lastAppended.successor)
            #expect(before.isSubset(of: disk.fileNames))
            disk.killProcess()
        }
        #expect(disk.fileNames.filter { $0.hasSuffix(".chk") }.count == 6)
        var state = RecoveredState(access: .open)
        _ = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
        #expect(state.namespaceNames.count == 7)
    }
}
