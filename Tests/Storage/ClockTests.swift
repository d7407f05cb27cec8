import Foundation
import PandoJournal
import PandoSimulatedDisk
import Testing

@testable import PandoStorage

/// A machine's clock that is wrong, and is put right again.
@Suite struct ClockTests {
    @Test func theTimeNeverGoesBackAndTheLagIsKnown() {
        let clock = WallClock(notBefore: 0)
        let now = clock.now()
        #expect(clock.machineLag == 0)
        let late = WallClock(notBefore: now + 3_600_000)
        #expect(late.machineLag == 0, "it has not been read")
        #expect(late.now() == now + 3_600_000)
        #expect(3_500_000...3_600_000 ~= late.machineLag)
        let wrong = WallClock(notBefore: .max)
        #expect(wrong.now() == .max && wrong.machineLag > 0)
    }

    /// A backup that is named after a time to come, on a timeline that a restore has left, is not the newest
    /// one.
    @Test func backupsAreChosenByTimelineFirst() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "clock-\(UUID())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let names = [(9_000_000, 1, 50), (1_000_000, 2, 40), (2_000_000, 2, 60)].map {
            BackupName(milliseconds: $0, timeline: $1, sequence: SequenceNumber($2)).text
        }
        for name in names { try Data().write(to: directory.appending(path: name)) }
        func newest(timeline: UInt32? = nil) throws -> String? {
            try ScheduledBackups.newest(in: directory.path, timeline: timeline, until: nil)
        }
        #expect(try newest() == names[2])
        #expect(try newest(timeline: 1) == names[0])
        #expect(throws: StorageError.self) { try newest(timeline: 3) }
    }

    /// A directory whose newest record is from the future opens, and the log says what follows.
    @Test(arguments: [(0, false), (30_000, false), (86_400_000, true)] as [(Int64, Bool)])
    func aRecordFromTheFutureIsReported(lead: Int64, isReported: Bool) throws {
        let disk = SimulatedDisk()
        let time = Environment.machine.wallMilliseconds + lead
        var state = RecoveredState(access: .open)
        var journal = try DataDirectory.open(
            disk, into: &state, endsSessions: false, logger: LogLines().logger)
        _ = try journal.append(
            entry: [
                JournalRecord(.namespaceMade, namespace: 7, timestamp: time, payload: Array("later".utf8))
            ])
        try journal.write()
        try journal.sync()
        disk.killProcess()
        let lines = LogLines()
        var recovered = RecoveredState(access: .open)
        _ = try DataDirectory.open(disk, into: &recovered, endsSessions: false, logger: lines.logger)
        #expect(recovered.lastTime == time)
        #expect(lines.lines { $0.hasPrefix("error") && $0.contains("clock") }.count == (isReported ? 1 : 0))
    }
}
