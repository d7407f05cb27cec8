import Logging
import PandoTree
import Testing

@testable import PandoAdministration

@Suite("log tail") struct LogTailTests {
    @Test("keeps the latest messages, each with its number")
    func latest() throws {
        let tail = LogTail()
        let limit = UInt64(LogTail.messageLimit)
        #expect(tail.messages(after: 0).isEmpty)
        for number in 1...limit + 3 { tail.note(.info, "message \(number)", at: Int64(number)) }
        let kept = tail.messages(after: 0)
        #expect(kept.map(\.number) == Array(4...limit + 3))
        #expect(kept.allSatisfy { $0.text == "message \($0.number)" && $0.time == Int64($0.number) })
        #expect(tail.messages(after: limit + 1).map(\.number) == [limit + 2, limit + 3])
        #expect(tail.messages(after: .max).isEmpty)
    }

    @Test(
        "cuts a long message",
        arguments: [
            // text                                              kept
            (
                String(repeating: "a", count: LogTail.byteLimit),
                String(repeating: "a", count: LogTail.byteLimit)
            ),
            (
                String(repeating: "a", count: LogTail.byteLimit + 1),
                String(repeating: "a", count: LogTail.byteLimit) + "…"
            ),
            (
                "a" + String(repeating: "é", count: LogTail.byteLimit / 2),
                "a" + String(repeating: "é", count: LogTail.byteLimit / 2 - 1) + "…"
            ),
            // One character.
            (
                "e" + String(repeating: "\u{301}", count: LogTail.byteLimit),
                "e" + String(repeating: "\u{301}", count: LogTail.byteLimit / 2 - 1) + "…"
            ),
        ])
    func long(_ text: String, _ kept: String) {
        let tail = LogTail()
        tail.note(.error, text, at: 1)
        #expect(tail.messages(after: 0).map(\.text) == [kept])
    }

    @Test("is JSON whatever a message has")
    func json() throws {
        let tail = LogTail()
        tail.note(.warning, "a \"quote\"\n\u{1b}[1m\u{202e}", at: 1_764_000_000_000)
        let node = try Node(json: tail.json(after: 0).rawSpan)
        #expect(
            node["messages/0" as Path]
                == (try Node(
                    json: Array(
                        #"{"number":1,"time":1764000000000,"level":"warning","text":"a \"quote\"\n\u001b[1m\u202e"}"#
                            .utf8
                    ).rawSpan)))
    }

    @Test("follows a logger, with its level and its metadata")
    func following() {
        let tail = LogTail()
        var logger = tail.following(Logger(label: "test") { _ in SilentHandler() })
        logger.logLevel = .notice
        logger.info("not logged")
        logger.notice("request", metadata: ["status": "200", "path": "/a"])
        #expect(tail.messages(after: 0).map(\.text) == ["request path=/a status=200"])
        #expect(logger.logLevel == .notice && tail.messages(after: 0).map(\.level) == [.notice])
    }
}

/// Logs to nowhere.
private struct SilentHandler: LogHandler {
    var logLevel = Logger.Level.trace
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {}
}
