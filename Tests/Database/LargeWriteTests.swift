import PandoTree
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// Large data is printed for the journal elsewhere, while other sessions go on, and is written in its
/// session's order.
@Suite struct LargeWriteTests {
    private static let large = "{" + (0..<5000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",") + "}"

    /// Does the work that waits elsewhere, and posts its results.
    /// - Returns: How many jobs there were.
    private static func work(_ bench: Bench) -> Int {
        var jobs: [PreparationJob] = []
        bench.preparationJobs.drain(into: &jobs)
        var hashes = HashMemo()
        for job in jobs { job.perform(&hashes) }
        return jobs.count
    }

    /// Works and waits for the disk until so many replies have come.
    private static func answers(_ count: Int, _ bench: Bench) throws -> [String] {
        var lines: [String] = []
        while lines.count < count {
            try bench.waitForDisk()
            lines += bench.takeMessages().filter { $0.contains(#""r":"#) && !$0.contains(#""t":"c""#) }
        }
        return lines
    }

    private static func ok(_ slot: Int, _ number: Int) -> String {
        #"\#(slot) {"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":""}}}"#
    }

    private static func withBench(_ body: (Bench) throws -> Void) throws {
        try withDirectory { directory in
            let bench = try Bench(directory: directory)
            bench.process([Bench.open(1), Bench.open(2)])
            try bench.waitForDisk()
            _ = bench.takeMessages()
            try body(bench)
            bench.journal?.stop()
        }
    }

    private static func child(_ bench: Bench, _ path: Path) -> Node? {
        bench.host.processor.databases["demo"]?.engine.root[path]
    }

    @Test func otherSessionsGoOnWhileDataIsPrinted() throws {
        try Self.withBench { bench in
            bench.process([
                try Bench.put(1, 1, "/large", Self.large), try Bench.put(1, 2, "/a", "1"),
                try Bench.put(2, 3, "/b", "1"),
            ])
            #expect(try Self.answers(1, bench) == [Self.ok(2, 3)])
            #expect(Self.work(bench) == 1)
            #expect(try Self.answers(2, bench) == [Self.ok(1, 1), Self.ok(1, 2)])
            #expect(Self.child(bench, "large")?.children.count == 5000)
            #expect(bench.host.backlog.isIdle && bench.host.processor.journal.printed == nil)
        }
    }

    @Test(arguments: ["large", "large/below"])
    func mergesToo(name: String) throws {
        try Self.withBench { bench in
            bench.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/m","d":{"a":1,"\#(name)":\#(Self.large)}}}}"#)
            ])
            #expect(Self.work(bench) == 1)
            #expect(try Self.answers(1, bench) == [Self.ok(1, 1)])
            #expect(Self.child(bench, "m")?.children.count == 2)
        }
    }

    /// Its own data is printed, then the location's hash is computed.
    @Test func compareAndSetIsPreparedTwice() throws {
        try Self.withBench { bench in
            let hash = try Node(json: Array(Self.large.utf8).rawSpan).hash
            let new = Self.large.replacing("4999", with: "5000")
            bench.process([try Bench.put(1, 1, "/large", Self.large)])
            #expect(Self.work(bench) == 1)
            #expect(try Self.answers(1, bench) == [Self.ok(1, 1)])
            bench.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":2,"a":"p","b":{"p":"/large","d":\#(new),"h":"\#(hash)"}}}"#)
            ])
            #expect(Self.work(bench) == 1)
            try bench.waitForDisk()
            #expect(bench.takeMessages() == [])
            #expect(Self.work(bench) == 1)
            #expect(try Self.answers(1, bench) == [Self.ok(1, 2)])
            #expect(Self.child(bench, "large/k5000") == .integer(5000))
        }
    }

    /// A write that was accepted is done, also where its session ends before its data is printed.
    @Test func writeOfASessionThatEndsIsDone() throws {
        try Self.withBench { bench in
            bench.process([try Bench.put(1, 1, "/large", Self.large), .closed(Bench.session(1))])
            #expect(bench.abandoned.sessions == [Bench.session(1)])
            #expect(Self.work(bench) == 1)
            try bench.waitForDisk()
            #expect(Self.child(bench, "large")?.children.count == 5000)
            #expect(bench.host.backlog.isIdle)
        }
    }

    /// What a session wants written at its end is printed when it is queued, and again at its end.
    @Test func onDisconnectWritesArePrintedTwice() throws {
        try Self.withBench { bench in
            bench.process([
                try Bench.request(1, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/large","d":\#(Self.large)}}}"#)
            ])
            #expect(Self.work(bench) == 1)
            #expect(try Self.answers(1, bench) == [Self.ok(1, 1)])
            bench.process([.closed(Bench.session(1)), try Bench.put(2, 2, "/b", "1")])
            #expect(try Self.answers(1, bench) == [Self.ok(2, 2)])
            #expect(Self.child(bench, "large")?.isEmpty == true)
            #expect(Self.work(bench) == 1)
            try bench.waitForDisk()
            #expect(Self.child(bench, "large")?.children.count == 5000)
        }
    }

    /// What a session queued runs at its end; its listens, which are many, end in parts, between which others
    /// go on.
    @Test(arguments: [#""h":"""#, #""h":"","q":{"l":1,"vf":"r"},"t":"#])
    func manyListensEndInParts(query: String) throws {
        try Self.withBench { bench in
            for number in 0..<2500 {
                let tag = query.hasSuffix(":") ? "\(number + 1)" : ""
                bench.process([
                    try Bench.request(
                        1,
                        #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"/l\#(number)",\#(query)\#(tag)}}}"#)
                ])
            }
            bench.process([try Bench.request(1, #"{"t":"d","d":{"r":9999,"a":"o","b":{"p":"/gone","d":1}}}"#)]
            )
            _ = try Self.answers(2501, bench)
            var messages = [DatabaseMessage.closed(Bench.session(1))]
            var partCount = 0
            while !messages.isEmpty {
                partCount += 1
                bench.process(messages)
                #expect(Self.child(bench, "gone") == .integer(1))
                messages = []
                bench.mailbox.drain(into: &messages)
                messages.removeAll { if case .continueEnding = $0 { false } else { true } }
            }
            // The end of the session itself, and then listens of 400 nodes each: 10 or 2 for one listen.
            #expect(partCount == 1 + (query.hasSuffix(":") ? 63 : 13))
            #expect(bench.host.sessions.ending.isEmpty)
            // No listener is left.
            bench.process([try Bench.put(2, 1, "/l7", "1")])
            while true {
                try bench.waitForDisk()
                let lines = bench.takeMessages()
                #expect(!lines.contains { $0.hasPrefix("1 ") })
                if lines.contains(Self.ok(2, 1)) { break }
            }
        }
    }

    /// Others write to the same place each time when a merge was prepared. One of few paths is done all the
    /// same, a larger one is refused in the end; what its session sends behind it is done.
    @Test(arguments: [(3000, true), (9000, false)])
    func contestedMerges(count: Int, isDone: Bool) throws {
        try Self.withBench { bench in
            let entries = (0..<count).map { #""k\#($0)/n":1"# }.joined(separator: ",")
            bench.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":1,"a":"m","b":{"p":"/m","d":{\#(entries)}}}}"#),
                try Bench.put(1, 2, "/behind", "1"),
            ])
            var attempts = 0
            while Self.child(bench, "behind")?.isEmpty == true, attempts < 100 {
                var jobs: [PreparationJob] = []
                bench.preparationJobs.drain(into: &jobs)
                var hashes = HashMemo()
                for job in jobs { job.perform(&hashes) }
                attempts += 1
                bench.process([try Bench.put(2, attempts, "/m/k0/other", "\(attempts)")])
                try bench.waitForDisk()
            }
            #expect(attempts == RequestPreparer.attemptLimit)
            #expect(Self.child(bench, "m")?.children.count == (isDone ? count : 1))
            var lines: [String] = []
            while !lines.contains(Self.ok(1, 2)) {
                lines += bench.takeMessages()
                if !lines.contains(Self.ok(1, 2)) { try bench.waitForDisk() }
            }
            let reply = try #require(lines.first { $0.hasPrefix("1 ") && $0.contains(#""r":1,"#) })
            #expect(reply.contains(#""s":"\#(isDone ? "ok" : "unavailable")""#), "\(reply)")
        }
    }

    @Test func drainWaitsForPrintedWrites() throws {
        try Self.withBench { bench in
            let isDrained = DrainFlag()
            bench.process([try Bench.put(1, 1, "/large", Self.large), .drain { isDrained.isSet = true }])
            #expect(!isDrained.isSet)
            #expect(Self.work(bench) == 1)
            while !isDrained.isSet { try bench.waitForDisk() }
            #expect(Self.child(bench, "large")?.children.count == 5000)
        }
    }

    private final class DrainFlag: @unchecked Sendable { var isSet = false }
}
