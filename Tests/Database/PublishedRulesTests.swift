import PandoBytes
import PandoEngine
import PandoHTTP
import PandoREST
import PandoRules
import PandoStorage
import PandoTree
import Testing

@testable import PandoDatabase

/// Rules that a request publishes are compiled by another thread; the databases put them in force.
@Suite struct PublishedRulesTests {
    private struct UnfinishedHead: Error {}

    private static let closed = #"{"rules":{".write":true,"open":{".read":true}}}"#
    private static let user = Credential(authVariable: #"{"uid":"u"}"#)

    /// A request by its own session.
    private static func publish(
        _ rules: String, _ parameters: String = "", in namespace: String = "demo",
        by credential: Credential = .admin
    ) throws -> DatabaseMessage {
        let lines = [
            "PUT /.settings/rules.json\(parameters) HTTP/1.1", "Host: h",
            "Content-Length: \(rules.utf8.count)",
        ]
        var reader = RequestHeadReader()
        var offset = 0
        let bytes = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        guard let head = try reader.read(bytes.rawSpan, from: &offset) else { throw UnfinishedHead() }
        let publication = RulesPublication(uid: "", keyID: "", source: Array(rules.utf8))
        let action = RESTCall.Action.rules(try RESTRequest(head), publication, credential)
        return .rest(
            Bench.session(9), RESTCall(namespace: namespace, action: action), byteCount: rules.utf8.count)
    }

    private static func bench() throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2)])
        _ = bench.takeMessages()
        return bench
    }

    private static func isOpen(_ bench: Bench) -> Bool {
        if case .open? = bench.host.processor.databases["demo"]?.engine.access { true } else { false }
    }

    private static func reply(_ slot: Int, _ number: Int, _ status: String) -> String {
        let text = status == "ok" ? "" : "Permission denied"
        return #"\#(slot) {"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","d":"\#(text)"}}}"#
    }

    private static func isSuccess(_ message: String) -> Bool { message.hasPrefix("9 rest verbatim") }

    @Test func othersGoOnMeanwhile() throws {
        let bench = try Self.bench()
        bench.process([
            try Self.publish(#"{"rules":{"a":{".write":true}}}"#), try Bench.put(2, 1, "/b", "1"),
        ])
        #expect(bench.takeMessages() == [Self.reply(2, 1, "ok")])
        #expect(Self.isOpen(bench))
        bench.work()
        let messages = bench.takeMessages()
        #expect(messages.count == 1 && messages.allSatisfy(Self.isSuccess))
        bench.process([try Bench.put(2, 2, "/b", "1"), try Bench.put(2, 3, "/a", "1")])
        #expect(bench.takeMessages() == [Self.reply(2, 2, "permission_denied"), Self.reply(2, 3, "ok")])
        #expect(bench.host.backlog.isIdle)
    }

    @Test func errorsAreTheSame() throws {
        let bench = try Self.bench()
        let source = #"{"rules":{".read":"auth.uid ==",".write":1}}"#
        let error = #expect(throws: InvalidRules.self) { try Ruleset(loading: Array(source.utf8)) }
        for parameters in ["", "?dryRun=true"] {
            bench.process([try Self.publish(source, parameters)])
            #expect(bench.takeMessages().isEmpty)
            bench.work()
            let expected = RESTCallResult.failed(try #require(error).description)
            #expect(bench.takeMessages() == ["9 rest \(expected)"])
        }
        #expect(Self.isOpen(bench))
    }

    @Test func aDryRunChangesNothing() throws {
        let bench = try Self.bench()
        bench.process([try Self.publish(Self.closed, "?dryRun=true")])
        #expect(bench.takeMessages().isEmpty)
        bench.work()
        #expect(bench.takeMessages().allSatisfy(Self.isSuccess) && Self.isOpen(bench))
    }

    /// Who may not publish causes no work; rules of `--rules` are not replaced.
    @Test func refusals() throws {
        let bench = try Self.bench()
        bench.process([try Self.publish(Self.closed, by: Self.user)])
        #expect(bench.takeMessages() == ["9 rest \(RESTCallResult.refused(.unauthorized))"])
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        #expect(jobs.isEmpty && Self.isOpen(bench))
        bench.process([.rules(["demo": try Ruleset(loading: Array(Self.closed.utf8))])])
        bench.process([try Self.publish(#"{"rules":{}}"#)])
        bench.work()
        let messages = bench.takeMessages()
        #expect(messages.count == 1 && messages.allSatisfy { $0.hasPrefix("9 rest failed") })
        bench.process([try Bench.put(2, 1, "/a", "1")])
        #expect(bench.takeMessages() == [Self.reply(2, 1, "ok")])
    }

    /// The database is created where that is done on first use, however its name is spelled.
    @Test func newDatabase() throws {
        let bench = try Self.bench()
        bench.process([try Self.publish(Self.closed, in: "Other")])
        bench.work()
        let messages = bench.takeMessages()
        #expect(messages.count == 1 && messages.allSatisfy(Self.isSuccess))
        let access = try #require(bench.host.processor.databases["other"]).engine.access
        if case .loaded = access {} else { Issue.record("the rules are not in force") }
    }

    /// A client that hangs up meanwhile has published them all the same.
    @Test func clientThatHangsUp() throws {
        let bench = try Self.bench()
        bench.process([try Self.publish(Self.closed), .closed(Bench.session(9))])
        bench.work()
        #expect(!Self.isOpen(bench))
        #expect(bench.host.backlog.isIdle)
    }

    /// Many listens are checked a part at a time, and no push leaves on one that is not checked.
    @Test func listensAreChecked() throws {
        let bench = try Self.bench()
        bench.process([
            try Self.publish(#"{"rules":{".write":true,"open":{".read":true},"own":{".read":true}}}"#)
        ])
        bench.work()
        let count = 700
        for number in 0..<count {
            bench.process([try Bench.listen(1, number, "/own/k\(number)")])
        }
        _ = bench.takeMessages()
        bench.process([try Self.publish(Self.closed)])
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        var hashes = HashMemo()
        for job in jobs { job.perform(&hashes) }
        var results: [DatabaseMessage] = []
        bench.mailbox.drain(into: &results)
        bench.process(results)
        #expect(bench.host.backlog.isSuspended(Bench.session(1)))
        bench.process([try Bench.put(2, 1, "/own/k699", "1")])
        bench.work()
        let messages = bench.takeMessages().filter { $0.hasPrefix("1 ") }
        #expect(messages.count == count && messages.allSatisfy { $0.contains(#""a":"c""#) })
        #expect(bench.host.backlog.isIdle)
    }

    @Test func largeSourcesAreCompiledByOtherThreads() {
        func job(_ byteCount: Int) -> SnapshotJob {
            .prepare(
                PreparationJob(
                    session: SessionID(1), work: .rules(Array(repeating: 0x20, count: byteCount))
                ) { _ in })
        }
        #expect(!job(1000).isHeavier(than: 1 << 20, 20_000))
        #expect(job(10_000).isHeavier(than: 1 << 20, 20_000))
        #expect(job(200_000).isHeavier(than: 8 << 20, 60_000))
    }
}
