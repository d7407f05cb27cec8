import Testing

@testable import PandoSimulate

/// Seeds in which sessions flood, and servers that do with them what they must not.
@Suite struct FloodTests {
    private static func failure(seed: UInt64, _ fault: Fault?) -> String? {
        do {
            try Simulation(seed: seed, log: .forget, floods: true, fault: fault).run()
            return nil
        } catch { return "\(error)" }
    }

    @Test(arguments: 0..<4 as Range<UInt64>) func promisesAreKeptWhileSessionsFlood(seed: UInt64) {
        #expect(Self.failure(seed: seed, nil) == nil)
    }

    @Test(
        arguments: [
            // what the server does     what is said of it
            (.swapsRequests, "out of its order"),
            (.starves, "starves"),
            (.losesWrite, "out of its order"),
            (.servesTheGone, "is done after a request of turn"),
        ] as [(Fault, String)])
    func faultIsNoticed(fault: Fault, text: String) {
        // A seed may have no flood in which the fault shows.
        let found = (0..<30 as Range<UInt64>).lazy.compactMap { Self.failure(seed: $0, fault) }.first
        #expect(found?.contains(text) == true, "\(found ?? "nothing")")
    }

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

    private static func entry(_ session: UInt64, _ number: Int, _ action: Action) -> Checker.Posted {
        Checker.Posted(session: session, number: number, person: .user, namespace: "default", action: action)
    }

    private static func close(_ session: UInt64) -> Checker.Posted {
        Checker.Posted(session: session, number: nil, person: .user, namespace: "default", action: .close)
    }

    private static func take(_ waiting: inout Waiting, turn: Int) {
        waiting.take(inTurn: turn, at: 0, time: 0, acknowledgedIndex: 0, openSessions: [:])
    }

    @Test func answersOfASessionComeInItsOrder() throws {
        var waiting = Waiting()
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
        var waiting = Waiting()
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
        var waiting = Waiting()
        waiting.append(Self.entry(1, 1, .get([])))
        waiting.append(Self.close(1))
        Self.take(&waiting, turn: 1)
        waiting.append(Self.entry(2, 1, .get([])))
        Self.take(&waiting, turn: 2)
        _ = try waiting.answer(2, 1)
        #expect(throws: BrokenPromise.self) { try waiting.answer(1, 1) }
    }
}
