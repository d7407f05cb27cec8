import Foundation
import Testing

@testable import PandoCommandLine

@Suite struct TopScreenTests {
    static func reading(_ metrics: String, at seconds: Double = 1_000_000, start: Int = 990_000) throws
        -> TopReading
    {
        let json = #"{"version":"0.1.0","phase":"ready","start_time":\#(start),"metrics":{\#(metrics)}}"#
        return try TopReading(Array(json.utf8), at: Date(timeIntervalSince1970: seconds))
    }

    static let usage = TopUsage(
        database: "default", path: "/rooms/*", reads_per_second: 12, writes_per_second: 0.5,
        listens_per_second: 0,
        unindexed_queries_per_second: 0.001, listeners: 3, received_bytes_per_second: 1234,
        sent_bytes_per_second: 5e6,
        busy_share: 0.123)

    @Test func ratesAreOfTheTimeBetween() throws {
        func metrics(_ gets: Int, _ denials: Int) -> String {
            """
            "pando_requests_total":[{"labels":{"kind":"get","protocol":"realtime"},"value":\(gets)},\
            {"labels":{"kind":"put","protocol":"realtime"},"value":100},\
            {"labels":{"kind":"read","protocol":"rest"},"value":\(gets)}],\
            "pando_rule_denials_total":[{"labels":{},"value":\(denials)}],\
            "pando_connections":[{"labels":{},"value":7}],"pando_connection_limit":[{"labels":{},"value":100}]
            """
        }
        let screen = TopScreen(
            url: "http://127.0.0.1:9001", previous: try Self.reading(metrics(10, 0)),
            current: try Self.reading(metrics(30, 1), at: 1_000_002), usage: [])
        let lines = screen.lines(pathCount: 20, width: nil)
        #expect(lines.count == TopScreen.headerLineCount)
        #expect(lines[0].hasPrefix("pando 0.1.0  ready  up 2 h  http://127.0.0.1:9001  1970-01-12"))
        #expect(lines[1].hasPrefix("connections  7 of 100"))
        #expect(lines[2].hasPrefix("requests     20/s  reads 20/s  writes 0/s"))
        #expect(lines[2].hasSuffix("denied 0.50/s"))
    }

    @Test func aServerThatWasStartedAgainCountsFromZero() throws {
        let metrics =
            #""pando_commits_total":[],"pando_requests_total":[{"labels":{"kind":"put"},"value":10}]"#
        let screen = TopScreen(
            url: "", previous: try Self.reading(metrics, start: 1),
            current: try Self.reading(metrics, at: 1_000_002, start: 2), usage: [])
        #expect(screen.lines(pathCount: 0, width: nil)[2].hasPrefix("requests     5/s"))
    }

    @Test func latenciesAreOfTheTimeBetween() throws {
        func metrics(_ fast: Int, _ slow: Int) -> String {
            """
            "pando_fsync_seconds":[{"labels":{},"value":{"count":\(fast + slow),"sum":1,\
            "buckets":{"0.0005":\(fast),"0.1":\(fast + slow)}}}]
            """
        }
        func latency(_ before: (Int, Int), _ after: (Int, Int)) throws -> String {
            let screen = TopScreen(
                url: "", previous: try Self.reading(metrics(before.0, before.1)),
                current: try Self.reading(metrics(after.0, after.1), at: 1_000_001), usage: [])
            return screen.lines(pathCount: 0, width: nil)[4]
        }
        #expect(try latency((0, 500), (1000, 500)).contains("fsync 0.50 ms"))
        #expect(try latency((0, 0), (900, 100)).contains("fsync 100 ms"))
        #expect(try latency((5, 5), (5, 5)).contains("fsync -"))
    }

    @Test func pathsAreColumnsAndKeysCannotControlTheTerminal() throws {
        var hostile = Self.usage
        hostile.path = "/a\u{1B}[2J\u{202E}b\n"
        let screen = TopScreen(
            url: "", previous: try Self.reading(""), current: try Self.reading("", at: 1_000_001),
            usage: [Self.usage, hostile])
        let rows = screen.lines(pathCount: 20, width: nil).suffix(3)
        #expect(Set(rows.map { $0.unicodeScalars.count - ($0.hasSuffix("PATH") ? 4 : 0) }).count == 3)
        let cells = rows[rows.startIndex + 1].split(separator: " ").map(String.init)
        #expect(
            cells == ["12", "0.50", "0", "<0.01", "3", "1.2", "kB", "5.0", "MB", "12", "default:/rooms/*"])
        #expect(rows.last?.hasSuffix("default:/a\u{FFFD}[2J\u{FFFD}b\u{FFFD}") == true)
        #expect(screen.lines(pathCount: 1, width: 30).allSatisfy { $0.count <= 30 })
        #expect(screen.lines(pathCount: 1, width: nil).count == TopScreen.headerLineCount + 1)
    }

    @Test(
        arguments: [
            (0, "0"), (0.001, "<0.01"), (0.25, "0.25"), (1, "1"), (9.999, "10"), (12.4, "12"),
            (123_456, "123456"),
        ] as [(Double, String)])
    func numbers(value: Double, text: String) { #expect(TopScreen.number(value) == text) }

    @Test(
        arguments: [
            (0, "0 B"), (999, "999 B"), (999.6, "1.0 kB"), (12_345, "12 kB"), (5e6, "5.0 MB"),
            (3e13, "30 TB"),
        ] as [(Double, String)])
    func bytes(value: Double, text: String) { #expect(TopScreen.bytes(value) == text) }

    @Test(
        arguments: [
            (-5, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d"),
            (1e300, "1000000000 d"),
        ]
            as [(Double, String)])
    func ages(value: Double, text: String) { #expect(TopScreen.age(value) == text) }

    @Test(
        arguments: [
            (0, 0), (2.5, 3), (-2, -2), (.nan, 0), (1e300, 1_000_000_000_000_000_000),
            (.infinity, 1_000_000_000_000_000_000),
        ] as [(Double, Int)])
    func integers(value: Double, integer: Int) { #expect(TopScreen.integer(value) == integer) }

    /// Another program at the address says what it likes.
    @Test func hostileReadingIsShown() throws {
        let names = ["connections", "disk_size_bytes", "disk_free_bytes", "requests_total"]
        let metrics = names.map { #""pando_\#($0)":[{"labels":{},"value":1e300}]"# }.joined(separator: ",")
        let start = #""version":"1\u001b[2J","phase":"\u001b]0;x\u0007","start_time":-1e300"#
        let json = "{\(start),\"metrics\":{\(metrics)}}"
        let reading = try TopReading(Array(json.utf8), at: Date(timeIntervalSince1970: 1_000_000))
        let screen = TopScreen(url: "", previous: reading, current: reading, usage: [])
        let lines = screen.lines(pathCount: 20, width: nil)
        #expect(lines.count == TopScreen.headerLineCount)
        #expect(lines[0].hasPrefix("pando 1\u{FFFD}[2J  \u{FFFD}]0;x\u{FFFD}  up 1000000000 d"))
        #expect(!lines.joined().unicodeScalars.contains("\u{1B}"))
    }
}
