import Logging
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// Changes of a whole directory while no server runs on it.
@Suite struct CommitTests {
    /// When the checkpoint has its name the change is there: old files that cannot be removed make no failure
    /// of it.
    @Test func oldFilesThatCannotBeRemovedAreAWarning() throws {
        let disk = SimulatedDisk()
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        for round in 0..<6 as Range<Int64> {
            let isLast = round == 5
            var state = RecoveredState(access: .open)
            let journal = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
            #expect(state.namespaceNames.count == Int(round) + 1)
            _ = state.makeNamespace("n\(round)")
            if isLast { disk.onOperation = { $0 == .remove ? .fail(5) : .succeed } }
            var warnings: [String] = []
            let header = try OfflineCommit.commit(
                state, to: disk, behind: journal, at: round, progress: { _ in },
                warn: { warnings.append($0) })
            #expect(header.sequence == journal.lastAppended.successor)
            #expect(warnings.count == (isLast ? 1 : 0), "\(warnings)")
            disk.onOperation = nil
            disk.killProcess()
        }
        var state = RecoveredState(access: .open)
        _ = try DataDirectory.open(disk, into: &state, endsSessions: false, logger: logger)
        #expect(state.namespaceNames.count == 7)
    }
}
