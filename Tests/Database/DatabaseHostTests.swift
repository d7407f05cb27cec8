import Logging
import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoRules
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

@Suite struct DatabaseHostTests {
    /// Answers to one session that lie one behind the other are handed to its loop as one item, in their
    /// order; another session's end the row.
    @Test func responsesToOneSessionAreOneItem() throws {
        var encoder = OutputEncoder(queueCount: 1)
        for (slot, number) in [(1, 1), (1, 2), (2, 3), (1, 4), (1, 5), (1, 6)] as [(UInt32, Int64)] {
            encoder.encode(number == 5 ? .permissionDenied : .ok, number, to: Bench.session(slot))
        }
        let batch = encoder.takeBatches(refillingFrom: BufferPool(atMost: 0))[0]
        var posted: [String] = []
        for case .frames(let session, let range) in batch.items {
            let texts = OutputBatch.messages(in: batch.arena[range]).map {
                String(decoding: $0, as: UTF8.self)
            }
            let numbers = texts.map { text in
                (1...6).first {
                    text.contains("\"r\":\($0),\"b\":{\"s\":\"\($0 == 5 ? "permission_denied" : "ok")\"")
                } ?? 0
            }
            posted.append("\(session.slot) \(numbers)")
        }
        #expect(posted == ["1 [1, 2]", "2 [3]", "1 [4, 5, 6]"])
        #expect(batch.items.count == 3)
    }

    /// The clock is read once for each burst, however many messages it has, and its time is
    /// never earlier than that of the burst before.
    @Test func eachBurstIsStampedWithTheTimeOfItsProcessing() throws {
        let start: Int64 = 1_700_000_000_000
        let clock = ScriptedEnvironment(startingAt: start, seed: 1)
        let bench = try Bench(directory: nil, environment: .scripted(clock))
        bench.process([Bench.open(1)])
        _ = bench.takeMessages()
        var number = 0
        for (passed, count, expected) in [(0, 1, 0), (7, 1, 7), (1, 200, 8), (-5, 3, 8), (10, 64, 13)]
            as [(Int64, Int, Int64)]
        {
            clock.setWall(clock.wallMilliseconds + passed)
            bench.process(
                try (0..<count).map { _ in
                    number += 1
                    return try Bench.put(1, number, "/a/\(number % 100)", #"{".sv":"timestamp"}"#)
                })
            bench.process([
                try Bench.request(1, #"{"t":"d","d":{"r":999,"a":"g","b":{"p":"/a/\#(number % 100)"}}}"#)
            ])
            let last = try #require(bench.takeMessages().last)
            #expect(last == #"1 {"t":"d","d":{"r":999,"b":{"s":"ok","d":\#(start + expected)}}}"#)
        }
    }

    /// What a loop has dealt out holds what comes later, and nothing of what it held.
    @Test func emptiedBatchesAreReused() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        _ = bench.takeMessages()
        var places: [UInt] = []
        var decoys: [[UInt8]] = []
        for number in 1...9 {
            bench.process([try Bench.put(1, number, "/a", "\(number)")])
            var batches: [OutputBatch] = []
            bench.outputs.drain(into: &batches)
            let batch = exchange(&batches[0], with: OutputBatch())
            let texts = batch.items.flatMap { item in
                guard case .frames(_, let range) = item else { return [String]() }
                return OutputBatch.messages(in: batch.arena[range]).map {
                    String(decoding: $0, as: UTF8.self)
                }
            }
            #expect(texts == [#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":""}}}"#])
            places.append(unsafe batch.arena.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) })
            let capacity = batch.arena.capacity
            OutputBatch.recycle(consume batch, into: bench.spareOutputs)
            // Were it freed, this would have its place, and the next batch another.
            for _ in 0..<8 { decoys.append([UInt8](repeating: 0, count: capacity)) }
        }
        // One is filled while the other is dealt out.
        #expect(Set(places.dropFirst(3)).count == 2 && places[8] == places[6])
    }

    /// The durable barrier: the push, the acknowledgement, and even a
    /// read of what was there before wait for the disk.
    @Test func outputsWaitUntilTheJournalIsDurable() throws {
        try withDirectory { directory in
            let bench = try Bench(directory: directory)
            bench.process([Bench.open(1), Bench.open(2)])
            #expect(bench.takeMessages().isEmpty, "the namespace was just made: even the handshake waits")
            try bench.waitForDisk()
            #expect(bench.takeMessages().count == 2)

            bench.process([try Bench.listen(2, 1, "/a")])
            #expect(
                bench.takeMessages() == [#"2 {"t":"d","d":{"r":1,"b":{"s":"ok","d":{}}}}"#],
                "all is durable already"
            )

            bench.process([try Bench.put(1, 1, "/a", "7")])
            bench.process([try Bench.request(2, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/b","q":{}}}}"#)])
            #expect(bench.takeMessages().isEmpty, "neither the push, nor the reply, nor a later read")
            try bench.waitForDisk()
            #expect(
                bench.takeMessages() == [
                    #"2 {"t":"d","d":{"a":"d","b":{"p":"a","d":7}}}"#,
                    #"1 {"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#,
                    #"2 {"t":"d","d":{"r":2,"b":{"s":"ok","d":null}}}"#,
                ], "in the order of their decision")
            bench.journal?.stop()
        }
    }

    /// The databases pause when the loops have deliveries for some milliseconds to do, however few bytes
    /// these have, and go on when they are done.
    @Test func databasesWaitForDeliveries() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), Bench.open(2), try Bench.listen(2, 1, "/a")])
        _ = bench.takeMessages()
        let count = 15_000
        // A push and a reply each: two items, so that 8192 writes reach the limit of 8 MiB.
        bench.process(try (0..<count).map { try Bench.put(1, $0, "/a", "\($0)") })
        #expect(!bench.host.hasWork, "they wait")
        var longest = 0
        var total = 0
        while case let messages = bench.takeMessages(), !messages.isEmpty {
            longest = max(longest, messages.count)
            total += messages.count
        }
        #expect(longest < 2 * count)
        #expect(total == 2 * count)
    }

    /// A put of what is there is answered and leaves no trace in the journal: it waits only for what came
    /// before it.
    @Test func redundantPutIsNotWritten() throws {
        try withDirectory { directory in
            let bench = try Bench(directory: directory)
            bench.process([Bench.open(1), try Bench.put(1, 1, "/a", #"{"x":"text"}"#)])
            try bench.waitForDisk()
            #expect(bench.takeMessages().count == 2, "the handshake and the reply are durable")
            let (recordCount, byteCount) = (
                bench.host.processor.journal.lastSequence.rawValue, bench.host.processor.journal.byteCount
            )

            for value in [#"{"x":"text"}"#, #"{"x":"text"}"#] {
                bench.process([try Bench.put(1, 2, "/a", value)])
            }
            bench.process([try Bench.put(1, 3, "/a/x", #""text""#), try Bench.put(1, 4, "/b/c", "null")])
            #expect(bench.takeMessages().count == 4, "there is nothing to wait for")
            #expect(bench.host.processor.journal.lastSequence.rawValue == recordCount)
            #expect(bench.host.processor.journal.byteCount == byteCount)

            // In one database or another, with listens or without, and first in a batch.
            bench.process([
                Bench.open(2, "other"), try Bench.put(2, 1, "/o", "1"), try Bench.listen(1, 8, "/a"),
            ])
            try bench.waitForDisk()
            _ = bench.takeMessages()
            bench.process([
                try Bench.put(1, 9, "/a/x", #""text""#), try Bench.put(2, 2, "/o", "1"),
                try Bench.put(2, 3, "/p", "2"),
                try Bench.put(1, 10, "/a", #"{"x":"text"}"#),
            ])
            #expect(bench.takeMessages().isEmpty)
            try bench.waitForDisk()
            #expect(bench.takeMessages().count == 4, "four replies, and no push")
            let before = bench.host.processor.journal.lastSequence.rawValue

            // Between others, which are written down as if it were not there.
            bench.process([
                try Bench.put(1, 5, "/a/x", "1"), try Bench.put(1, 6, "/a/x", "1"),
                try Bench.put(1, 7, "/a/y", "2"),
            ])
            #expect(bench.takeMessages().isEmpty)
            try bench.waitForDisk()
            #expect(bench.takeMessages().count == 5, "and two pushes")
            #expect(bench.host.processor.journal.lastSequence.rawValue == before + 2)
            bench.journal?.stop()

            var state = RecoveredState(access: .open)
            try DataDirectory.read(directory, into: &state)
            #expect(state.database(named: "demo")?.root.description == #"{"a":{"x":1,"y":2}}"#)
        }
    }

    @Test func acknowledgedWritesAreRecovered() throws {
        try withDirectory { directory in
            let first = try Bench(directory: directory)
            first.process([Bench.open(1), try Bench.put(1, 1, "/a", #"{"x":1}"#)])
            first.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":2,"a":"o","b":{"p":"/gone","d":{".sv":{"increment":2}}}}}"#)
            ])
            first.journal?.stop()

            // The session never ended: recovery ends it.
            var state = RecoveredState(access: .open)
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            _ = try DataDirectory.open(directory, into: &state, endsSessions: true, logger: logger)
            #expect(state.namespaceNames == ["default", "demo"])
            #expect(state.database(named: "demo")?.root.description == #"{"a":{"x":1},"gone":2}"#)
            // Once is enough.
            var again = RecoveredState(access: .open)
            try DataDirectory.read(directory, into: &again)
            #expect(again.database(named: "demo")?.root.description == #"{"a":{"x":1},"gone":2}"#)
        }
    }

    /// What a revoked sign-in has queued neither runs at the end of its session nor after a crash.
    @Test(arguments: [true, false])
    func queuedWritesOfARevokedSignInDoNotRun(isCrash: Bool) throws {
        try withDirectory { directory in
            let bench = try Bench(directory: directory)
            bench.process([Bench.open(1)])
            bench.process(
                try [("/gone/a", 1), ("/gone/b", 2), ("/gone/c", 0)].map { path, signIn in
                    try Bench.request(
                        1, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"\#(path)","d":1}}}"#,
                        signIn: UInt32(signIn))
                })
            bench.process([.revoked(Bench.session(1), [1]), .revoked(Bench.session(7), [1])])
            if !isCrash { bench.process([.closed(Bench.session(1))]) }
            bench.journal?.stop()

            var state = RecoveredState(access: .open)
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            _ = try DataDirectory.open(directory, into: &state, endsSessions: true, logger: logger)
            #expect(state.database(named: "demo")?.root.description == #"{"gone":{"b":1,"c":1}}"#)
        }
    }

    /// A listen by an order that the rules do not declare is warned of it, also one that replaces another
    /// (realtime §4.2).
    @Test(
        arguments: [
            // rules                                                        order           is warned  because
            (nil, "n", false, "without rules there is nothing to declare"),
            (#"{"rules":{".read":true}}"#, "n", true, "not declared"),
            (#"{"rules":{".read":true,"q":{".indexOn":"n"}}}"#, "n", false, "declared"),
            (#"{"rules":{".read":true,"$any":{".indexOn":"n"}}}"#, "n", false, "declared for any child"),
            (#"{"rules":{".read":true,".indexOn":"n"}}"#, "n", true, "declared elsewhere"),
            (#"{"rules":{".read":true,"q":{".indexOn":"n"}}}"#, "n/m", true, "another child"),
            (#"{"rules":{".read":true}}"#, ".value", true, "an order by value is declared, too"),
            (#"{"rules":{".read":true}}"#, ".key", false, "keys are always in order"),
        ] as [(String?, String, Bool, String)])
    func listensWithoutAnIndexAreWarned(rules: String?, order: String, isWarned: Bool, because: String) throws
    {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        if let rules { bench.process([.rules(["demo": try Ruleset(loading: Array(rules.utf8))])]) }
        _ = bench.takeMessages()
        for number in 1...2 {
            bench.process([
                try Bench.request(
                    1,
                    #"{"t":"d","d":{"r":\#(number),"a":"q","b":{"p":"/q","q":{"i":"\#(order)","l":2},"t":1,"h":""}}}"#
                )
            ])
        }
        let data = isWarned ? #"{"w":["no_index"]}"# : "{}"
        let replies = (1...2).map { #"1 {"t":"d","d":{"r":\#($0),"b":{"s":"ok","d":\#(data)}}}"# }
        #expect(bench.takeMessages() == replies, "\(because)")
    }

    @Test func reconnectingClientEndsItsOldSession() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        let handshake = try #require(bench.takeMessages().first)
        let id = try #require(handshake.components(around: #""s":""#)?.prefix { $0 != "\"" })
        bench.process([
            try Bench.request(1, #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/on","d":false}}}"#),
            Bench.open(2, previous: String(id)),
            try Bench.request(2, #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/on","q":{}}}}"#),
        ])
        let messages = bench.takeMessages()
        #expect(messages.contains("1 close replaced"))
        #expect(messages.last == #"2 {"t":"d","d":{"r":1,"b":{"s":"ok","d":false}}}"#)
        // The id of a session of another namespace proves nothing.
        bench.process([Bench.open(3, "other", previous: String(id))])
        #expect(!bench.takeMessages().contains("2 close replaced"))
    }

    @Test func unknownNamespacesAreRefusedWithoutDev() throws {
        let bench = try Bench(directory: nil, isDevelopment: false)
        bench.process([Bench.open(1, "nobody"), Bench.open(2, "default")])
        let messages = bench.takeMessages()
        #expect(messages.count == 3)
        #expect(messages[0].hasPrefix(#"1 {"t":"c","d":{"t":"s","d":"Firebase error."#))
        #expect(messages[1] == "1 close finished")
        #expect(messages[2].hasPrefix(#"2 {"t":"c","d":{"t":"h""#))
        bench.process([try Bench.put(2, 5, "/a", "1")])
        #expect(
            bench.takeMessages() == [
                #"2 {"t":"d","d":{"r":5,"b":{"s":"permission_denied","d":"Permission denied"}}}"#
            ])
    }

    @Test func largeReadsAreEncodedByWorkers() throws {
        let bench = try Bench(directory: nil)
        let many = "{" + (0..<5000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
        bench.process([Bench.open(1), try Bench.put(1, 1, "/big", many)])
        _ = bench.takeMessages()
        bench.process([
            try Bench.request(1, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/big","q":{}}}}"#),
            try Bench.request(1, #"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/big/k7","q":{}}}}"#),
        ])
        #expect(bench.takeMessages() == ["1 large", #"1 {"t":"d","d":{"r":3,"b":{"s":"ok","d":7}}}"#])
    }

    @Test func dataWithLongPrioritiesIsALargeMessage() throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1), try Bench.listen(1, 1, "/y")])
        let long = String(repeating: "x", count: 100_000)
        bench.process([try Bench.put(1, 2, "/y/a", #"{".value":1,".priority":"\#(long)"}"#)])
        bench.process([try Bench.request(1, #"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/y","q":{}}}}"#)])
        #expect(bench.takeMessages().filter { $0 == "1 large" }.count == 2, "the push, and the reply")
    }

    /// The clock is read after a request whose rules have taken long, though it is a light one.
    @Test func rulesThatTakeLongAreNoted() throws {
        let bench = try Bench(directory: nil)
        let rules =
            #"{"rules":{".write":true,"$user":{".read":"data.child('bio').val().contains('z')"}}}"#
        bench.process([
            Bench.open(1), .rules(["demo": try Ruleset(loading: Array(rules.utf8))]),
            try Bench.put(1, 1, "/short/bio", #""xxx""#),
            try Bench.put(1, 2, "/long/bio", "\"" + String(repeating: "x", count: 20_000) + "\""),
        ])
        let messages = bench.takeMessages()
        _ = bench.host.processor.encoder.takeMayHaveTakenLong()
        bench.process([try Bench.request(1, #"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/short","q":{}}}}"#)])
        let hasTakenLong = bench.host.processor.encoder.takeMayHaveTakenLong()
        #expect(!hasTakenLong)
        let database = try #require(bench.host.processor.databases["demo"])
        #expect(database.engine.takeRuleStepCount() == 0, "they were taken when the request was executed")
        let isAllowed = database.engine.mayRead(Path(["long"]), nil, as: .anonymous, at: 0)
        let stepCount = database.engine.takeRuleStepCount()
        #expect(!isAllowed && stepCount > 1 << 16, "\(stepCount) \(messages.map { $0.prefix(90) })")
    }

    /// The text of a priority counts as that of a value does.
    @Test(arguments: [("\"", "\""), (#"{".value":1,".priority":""#, #""}"#)])
    func pendingOnDisconnectWritesAreBounded(start: String, end: String) throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        _ = bench.takeMessages()
        let value = start + String(repeating: "x", count: 6 << 20) + end
        for number in 1...3 {
            bench.process([
                try Bench.request(
                    1, #"{"t":"d","d":{"r":\#(number),"a":"o","b":{"p":"/gone/\#(number)","d":\#(value)}}}"#)
            ])
        }
        let messages = bench.takeMessages()
        #expect(messages[0] == #"1 {"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#)
        #expect(messages[2].hasPrefix(#"1 {"t":"d","d":{"r":3,"b":{"s":"too_big""#))
    }

    /// The server has ended the session; what its client had sent before it learned of that is dropped.
    @Test(
        arguments: [
            #""a":"p","b":{"p":"/a","d":1}"#, #""a":"p","b":{"p":"/a","d":1,"h":""}"#,
            #""a":"m","b":{"p":"/a","d":{"b":1}}"#, #""a":"g","b":{"p":"/a","q":{}}"#,
            #""a":"q","b":{"p":"/a","h":""}"#, #""a":"n","b":{"p":"/a"}"#,
            #""a":"o","b":{"p":"/a","d":1}"#, #""a":"om","b":{"p":"/a","d":{"b":1}}"#,
            #""a":"oc","b":{"p":"/a","d":null}"#,
        ])
    func nothingIsSentToASessionThatHasEnded(request: String) throws {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        _ = bench.takeMessages()
        bench.process([.drain({})])
        #expect(bench.takeMessages() == ["1 close goingAway"])
        let session = Bench.session(1)
        bench.process([
            .credentialChanged(session, .anonymous),
            try Bench.request(1, #"{"t":"d","d":{"r":1,\#(request)}}"#),
            .reply(session, .ok(2), byteCount: 1),
        ])
        #expect(bench.takeMessages() == [])
    }
}

extension String {
    /// What stands behind the first `mark`.
    fileprivate func components(around mark: String) -> Substring? {
        var rest = self[...]
        while !rest.isEmpty {
            if rest.hasPrefix(mark) { return rest.dropFirst(mark.count) }
            rest = rest.dropFirst()
        }
        return nil
    }

    /// What becomes durable while a burst is processed is released before the end of the burst: the journal
    /// thread reports it where the host looks, not only in a message behind the burst.
    @Test func outputsAreReleasedWhileABurstIsProcessed() throws {
        try withDirectory { directory in
            let bench = try Bench(directory: directory)
            let durable = DurableTicket()
            bench.host.durableTicket = durable
            bench.process([Bench.open(1), try Bench.put(1, 1, "/a", "1")])
            #expect(bench.takeMessages().isEmpty, "nothing is durable yet")
            let ticket = bench.host.processor.journal.lastTicket
            var last: UInt64 = 0
            while last < ticket {
                try #require(bench.wakeup.wait(timeout: .seconds(20)), "no event of the journal")
                // The host does not get them.
                var events: [DatabaseMessage] = []
                bench.mailbox.drain(into: &events)
                for case .storage(.durable(let ticket)) in events { last = ticket }
            }
            durable.report(ticket)
            // More than are processed between two readings of the clock.
            bench.process(try (2..<200).map { try Bench.put(1, $0, "/a", "\($0)") })
            let released = bench.takeMessages().filter { $0.contains(#""r":"#) }
            #expect(released.count == 1 && released[0].contains(#""r":1,"#), "\(released)")
        }
    }

    /// The database thread frees a request that a loop has allocated: malloc takes no lock for blocks of so
    /// many bytes (``raiseFastbinLimit()``).
    @Test func requestIsSmallEnoughToBeFreedWithoutALock() throws {
        guard case .request(let request) = try Bench.put(1, 1, "/a", "1") else {
            Issue.record("a put is no request")
            return
        }
        #expect(heapByteCount(of: request) <= unlockedFreeByteLimit)
    }
}
