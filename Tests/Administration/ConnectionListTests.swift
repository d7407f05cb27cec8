import Foundation
import PandoEngine
import PandoTime
import PandoTree
import Testing

@testable import PandoAdministration
@testable import PandoDatabase
@testable import PandoLoops

@Suite struct ConnectionListTests {
    private func entry(_ number: UInt64) -> ConnectionEntry {
        ConnectionEntry(
            id: SessionID(number), transport: "websocket", thread: 0, peer: "127.0.0.1:1", isSecure: false,
            ageSeconds: 1, idleSeconds: 1, receivedByteCount: 1, sentByteCount: 1, queuedByteCount: 0,
            heldByteCount: 0, key: 1)
    }

    private func list(_ entries: [ConnectionEntry], _ known: [SessionID: DatabaseStatistics.Session]) throws
        -> (json: [String: Any], byteCount: Int)
    {
        let bytes = AdminServer.json(entries, known, entries.count, ConnectionListRequest())
        let json = try JSONSerialization.jsonObject(with: Data(bytes))
        return (try #require(json as? [String: Any]), bytes.count)
    }

    @Test(
        arguments: [
            // path                                                    in the response
            ("", "/"),
            ("rooms/one", "/rooms/one"),
            (String(repeating: "k", count: 255), "/" + String(repeating: "k", count: 255)),
            (String(repeating: "k", count: 256), "/" + String(repeating: "k", count: 255) + "…"),
            ("a/" + String(repeating: "é", count: 127), "/a/" + String(repeating: "é", count: 126) + "…"),
            (
                String(repeating: "k/", count: 32).dropLast() + String(repeating: "k", count: 700),
                "/" + String(repeating: "k/", count: 31) + String(repeating: "k", count: 193) + "…"
            ),
        ] as [(String, String)])
    func longPathsAreCut(path: String, shown: String) throws {
        let known = DatabaseStatistics.Session(
            database: "demo", uid: String(repeating: "u", count: 300), isAdministrator: false, listenCount: 1,
            paths: [Path(trusted: path)])
        let (json, _) = try list([entry(1)], [SessionID(1): known])
        let connection = try #require((json["connections"] as? [[String: Any]])?.first)
        #expect(connection["listens"] as? [String] == [shown])
        #expect(connection["uid"] as? String == String(repeating: "u", count: 256) + "…")
        #expect(json["left_out"] as? Int == 0)
    }

    @Test func responseIsBoundedAndCountsWhatItLeavesOut() throws {
        let path = Path(trusted: String(repeating: "\"", count: 700))
        let known = DatabaseStatistics.Session(
            database: "demo", uid: nil, isAdministrator: false, listenCount: 16,
            paths: Array(repeating: path, count: DatabaseStatistics.pathLimit))
        let entries = (1...1000).map { entry($0) }
        let (json, byteCount) = try list(
            entries, Dictionary(uniqueKeysWithValues: entries.map { ($0.id, known) }))
        let listed = try #require(json["connections"] as? [[String: Any]])
        let leftOut = try #require(json["left_out"] as? Int)
        #expect(listed.count + leftOut == 1000 && leftOut > 0 && listed.count > 400)
        #expect(json["count"] as? Int == 1000)
        #expect(byteCount < ConnectionListRequest.responseByteLimit + 100)
    }
}

@Suite struct MachineMetricsTests {
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
