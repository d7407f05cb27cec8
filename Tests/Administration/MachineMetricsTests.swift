import Foundation
import PandoTime
import Testing

@testable import PandoAdministration

@Suite struct MachineMetricsTests {
    /// Sizes, counts and times of the files of a data directory, which are recognised by their names.
    @Test func filesOfADataDirectory() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("pando-\(UUID())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        #expect(MachineMetrics.files(in: directory.path) == MachineMetrics.Files())
        for (name, byteCount, time) in [
            ("journal-00000001-0000000000000001.log", 10, 1000),
            ("journal-00000001-0000000000000009.log", 20, 900),
            ("journal-00000002-0000000000000001.log", 30, 3000),
            ("checkpoint-00000001-0000000000000009.chk", 5, 2000),
            ("checkpoint-00000001-0000000000000003.chk", 7, 2500), ("checkpoint-new", 1000, 1),
            ("LOCK", 1000, 1),
        ] {
            let url = directory.appendingPathComponent(name)
            try Data(count: byteCount).write(to: url)
            let date = Date(timeIntervalSince1970: TimeInterval(time))
            try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: url.path)
        }
        let found = MachineMetrics.files(in: directory.path)
        #expect((found.journalByteCount, found.journalFileCount, found.oldestJournalTime) == (60, 3, 1000))
        #expect((found.checkpointByteCount, found.newestCheckpointByteCount) == (12, 5))
        #expect(found.newestCheckpointTime == 2000)
    }

    /// What costs much is looked at once in a while, however often it is asked for.
    @Test func costlyGaugesAreRefreshedNowAndThen() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("pando-\(UUID())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        var fileCount = 0
        func addFile() throws {
            fileCount += 1
            try Data(count: 10).write(to: directory.appendingPathComponent("journal-1-\(fileCount).log"))
        }
        let metrics = MachineMetrics(dataDirectory: directory.path)
        let start = MonotonicTime(nanoseconds: 1)
        let interval = MachineMetrics.lookInterval
        for (time, expected) in [
            (start, 1), (start, 1), (start + (interval - .nanoseconds(1)), 1), (start + interval, 4),
            (start + interval, 4), (start + interval * 2, 6),
        ] as [(MonotonicTime, Int64)] {
            try addFile()
            metrics.residentBytes.set(0)
            metrics.refresh(at: time)
            #expect(metrics.journalFileCount.value == expected)
            #expect(metrics.residentBytes.value > 0 && metrics.openDescriptors.value > 0)
        }
    }
}
