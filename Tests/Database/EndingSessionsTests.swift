import PandoEngine
import PandoTree
import PandoWire
import Testing

@testable import PandoDatabase
@testable import PandoStorage

/// Many sessions end together: their listens take the turns of one flow.
@Suite("listens of sessions that have ended") struct EndingSessionsTests {
    /// Sessions 2, 3 … with so many listens each at `/l/0`, `/l/1` …, and session 1 without.
    private static func bench(sessions: Int, listens: Int) throws -> Bench {
        let bench = try Bench(directory: nil)
        bench.process([Bench.open(1)])
        for slot in slots(sessions) {
            bench.process([Bench.open(slot)])
            bench.process(try (0..<listens).map { try Bench.listen(slot, $0, "/l/\($0)") })
        }
        _ = bench.takeMessages()
        return bench
    }

    private static func slots(_ count: Int) -> ClosedRange<UInt32> { 2...UInt32(count) + 1 }

    private static func closed(_ count: Int) -> [DatabaseMessage] {
        slots(count).map { .closed(Bench.session($0)) }
    }

    /// Listens that have not ended, of all sessions that have.
    private static func waiting(_ bench: Bench) -> Int {
        bench.host.sessions.ending.values.reduce(0) { $0 + $1.listenCount }
    }

    /// The steps that are posted.
    private static func steps(_ bench: Bench) -> [DatabaseMessage] {
        var messages: [DatabaseMessage] = []
        bench.mailbox.drain(into: &messages)
        return messages.filter { if case .continueEnding = $0 { true } else { false } }
    }

    /// Work to end one listen: its two keys, and the root.
    private static let work = 3
    /// Listens that end in one step.
    private static let atOnce = SessionManager.endingWorkAtOnce / work + 1

    @Test("sessions that end in one batch end few listens at once, and one step is posted for all of them")
    func oneStepForAll() throws {
        let (sessions, listens) = (40, 60)
        let bench = try Self.bench(sessions: sessions, listens: listens)
        var batch = Self.closed(sessions)
        bench.host.receive(&batch)
        // A slow machine processes the rest in further batches, each of which ends some at once.
        var batchCount = 1
        while bench.host.hasWork {
            batchCount += 1
            bench.host.receive(&batch)
        }
        #expect(bench.host.processor.sessions.count == 1, "the sessions themselves have ended")
        #expect(Self.waiting(bench) >= sessions * listens - batchCount * Self.atOnce)
        var steps = Self.steps(bench)
        var stepCount = 0
        while !steps.isEmpty {
            #expect(steps.count == 1)
            let before = Self.waiting(bench)
            bench.process(steps)
            #expect(before - Self.waiting(bench) <= Self.atOnce)
            stepCount += 1
            steps = Self.steps(bench)
        }
        #expect(stepCount >= (sessions * listens) / Self.atOnce - batchCount)
        #expect(bench.host.sessions.ending.isEmpty)
        #expect(bench.host.processor.databases["demo"]!.engine.checkInvariants() == (1, 0))
    }

    @Test("a session with few listens that ends alone ends them at once")
    func fewAtOnce() throws {
        let bench = try Self.bench(sessions: 1, listens: 100)
        bench.process(Self.closed(1))
        #expect(bench.host.sessions.ending.isEmpty && Self.steps(bench).isEmpty)
        #expect(bench.host.processor.databases["demo"]!.engine.checkInvariants() == (1, 0))
    }

    @Test("requests of others are answered between two steps")
    func othersGoOn() throws {
        let bench = try Self.bench(sessions: 10, listens: 200)
        bench.process([try Bench.listen(1, 1, "/l/0")] + Self.closed(10))
        _ = bench.takeMessages()
        var number = 1
        var steps = Self.steps(bench)
        while !steps.isEmpty {
            number += 1
            bench.process(steps + [try Bench.put(1, number, "/l/0", "\(number)")])
            let isAnswered = bench.takeMessages().contains {
                $0.hasPrefix("1 ") && $0.contains(#""r":\#(number),"#)
            }
            #expect(isAnswered)
            steps = Self.steps(bench)
        }
        #expect(number > 4)
        bench.process([try Bench.put(1, number + 1, "/l/0", "true")])
        #expect(bench.takeMessages().allSatisfy { $0.hasPrefix("1 ") }, "the ended ones have no listens")
    }

    @Test(
        "what the sessions have queued is written once, in the order of their ends, before their listens end")
    func queuedWritesComeFirst() throws {
        let count = 10
        let bench = try Self.bench(sessions: count, listens: 200)
        bench.process([try Bench.listen(1, 1, "/last")])
        for slot in Self.slots(count) {
            bench.process([
                try Bench.request(
                    slot, #"{"t":"d","d":{"r":999,"a":"o","b":{"p":"/last","d":\#(slot)}}}"#)
            ])
        }
        _ = bench.takeMessages()
        bench.process(Self.closed(count))
        #expect(!bench.host.sessions.ending.isEmpty)
        let pushes = bench.takeMessages().filter { $0.hasPrefix("1 ") }
        #expect(
            pushes
                == Self.slots(count).map { #"1 {"t":"d","d":{"a":"d","b":{"p":"last","d":\#($0)}}}"# })
        var steps = Self.steps(bench)
        while !steps.isEmpty {
            bench.process(steps)
            steps = Self.steps(bench)
        }
        #expect(bench.takeMessages().isEmpty && bench.host.sessions.ending.isEmpty)
    }

    @Test("a server that stops ends all sessions, and what is left of their listens goes on")
    func drain() throws {
        let bench = try Self.bench(sessions: 20, listens: 200)
        let isDrained = Flag()
        bench.process(Self.closed(10) + [.drain { isDrained.isSet = true }])
        #expect(isDrained.isSet && bench.host.processor.sessions.count == 0)
        var steps = Self.steps(bench)
        while !steps.isEmpty {
            bench.process(steps)
            steps = Self.steps(bench)
        }
        #expect(bench.host.sessions.ending.isEmpty)
        #expect(bench.host.processor.databases["demo"]!.engine.checkInvariants() == (1, 0))
    }

    private final class Flag: @unchecked Sendable { var isSet = false }
}
