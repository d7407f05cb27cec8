import Testing

@testable import PandoSimulation

/// What a scheduler owes the sessions, in small.
@Suite struct FairnessTests {
    // MARK: The bound

    @Test(
        arguments: [
            // requests  sessions  databases  ms     because
            (
                1, 1, 1, 5.6,
                "a burst in the order of arrival, one of its requests, and the rounds of one session"
            ),
            (1, 10, 1, 18.2, "each of ten sessions has its turn in each round"),
            (1, 10, 2, 47.6, "each database has its turn, too"),
            (100, 10, 1, 228.1, "what a session asks for itself takes its time"),
        ] as [(Int, Int, UInt64, Double, String)])
    func boundOfAWait(
        requestCount: Int, sessionCount: Int, databaseCount: UInt64, milliseconds: Double, reason: String
    ) {
        let bound = FairnessBound(
            quantum: 200_000, burst: 4_000_000, heaviest: 100_000, databaseCount: databaseCount)
        let work = bound.work(requestCount: requestCount, sessionCount: sessionCount)
        #expect((work + 50_000) / 100_000 == UInt64(milliseconds * 10), "\(reason): \(work)")
    }

    // MARK: What waits

    private static func entry(_ session: UInt64, _ number: Int, _ action: ClientAction) -> PostedAction {
        PostedAction(session: session, number: number, person: .user, namespace: "default", action: action)
    }

    private static func close(_ session: UInt64) -> PostedAction {
        PostedAction(session: session, number: nil, person: .user, namespace: "default", action: .close)
    }

    private static func take(_ waiting: inout WaitingRequests, turn: Int) {
        waiting.take(inTurn: turn, at: 0, time: 0, acknowledgedIndex: 0, openSessions: [:])
    }

    @Test func answersOfASessionComeInItsOrder() throws {
        var waiting = WaitingRequests()
        for number in 1...3 { waiting.append(Self.entry(1, number, .get([]))) }
        waiting.append(Self.entry(2, 1, .get([])))
        Self.take(&waiting, turn: 1)
        _ = try waiting.answer(2, 1)
        _ = try waiting.answer(1, 1)
        #expect(waiting.overtakenCount == 1)
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 3) }
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 1) }
        #expect(throws: BrokenPromise.self) { try waiting.answer(2, 2) }
        _ = try waiting.answer(1, 2)
        #expect(waiting.owedCount == 1)
    }

    @Test func readsOfAClosedSessionMayBeDroppedAndWritesMayNot() throws {
        var waiting = WaitingRequests()
        waiting.append(Self.entry(1, 1, .get([])))
        waiting.append(Self.entry(1, 2, .put(["a"], .plain(.boolean(true)))))
        waiting.append(Self.entry(1, 3, .get([])))
        Self.take(&waiting, turn: 1)
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 2) }
        waiting.append(Self.close(1))
        Self.take(&waiting, turn: 2)
        #expect(waiting.owedCount == 1)
        #expect(waiting.ends().isEmpty)
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 3) }
        _ = try waiting.answer(1, 2)
        #expect(waiting.droppedReadCount == 1)
        let end = try #require(waiting.ends().first)
        waiting.finish(end)
        #expect(waiting.count == 0)
        #expect(waiting.droppedReadCount == 2)
    }

    @Test func readOfAClosedSessionIsNotDoneAfterWhatCameLater() throws {
        var waiting = WaitingRequests()
        waiting.append(Self.entry(1, 1, .get([])))
        waiting.append(Self.close(1))
        Self.take(&waiting, turn: 1)
        waiting.append(Self.entry(2, 1, .get([])))
        Self.take(&waiting, turn: 2)
        _ = try waiting.answer(2, 1)
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 1) }
    }
}
