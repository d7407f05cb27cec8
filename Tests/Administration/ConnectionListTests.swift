import Foundation
import PandoEngine
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
        let bytes = AdminReports.json(entries, known, entries.count, ConnectionListRequest())
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
