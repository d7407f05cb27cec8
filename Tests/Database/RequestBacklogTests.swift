import PandoEngine
import Testing

@testable import PandoDatabase

@Suite struct RequestBacklogTests {
    /// The server stops while a flood is processed in turn. What clients send then is dropped, also when
    /// everything before the drain was processed.
    @Test func nothingOvertakesADrainThatWaits() throws {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(1) }
        var batch = [try Bench.put(1, 1, "/a", "1"), .drain {}]
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        #expect(backlog.next()?.requestNumber == 1)
        backlog.finish(work: 1)

        batch = [try Bench.put(2, 1, "/b", "1")]
        backlog.add(&batch, databaseOf: databaseOf)
        var burst: [DatabaseMessage] = []
        backlog.takeBurst(&burst)
        #expect(burst.isEmpty)
        backlog.returnBurst(&burst, from: 0)
        #expect(backlog.takeDroppedByteCount() > 0)

        #expect(backlog.hasNext)
        #expect(backlog.next()?.isDrain == true)
        backlog.finish(work: 1)
        #expect(!backlog.hasNext && backlog.isIdle)
    }

    /// The end of a credential comes before what its session has sent; but not before the session.
    @Test(arguments: [true, false]) func endsOfCredentialsOvertake(isOpen: Bool) throws {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(isOpen ? 1 : 0) }
        var batch = [
            try Bench.put(1, 1, "/a", "1"), .credentialEnded(Bench.session(1), number: 1),
            .revoked(Bench.session(1), [1]),
        ]
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        var order: [Int64?] = []
        while backlog.hasNext {
            order.append(backlog.next()?.requestNumber)
            backlog.finish(work: 1)
        }
        #expect(order == (isOpen ? [nil, nil, 1] : [1, nil, nil]))
    }

    /// What a client has missed is sent in its turn, behind what it has requested before; that it lags again
    /// takes the report back.
    @Test(arguments: [false, true]) func clientsThatCatchUpTakeTheirTurns(lagsAgain: Bool) throws {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(1) }
        var batch = [
            try Bench.put(1, 1, "/a", "1"), .caughtUp(Bench.session(1)), .caughtUp(Bench.session(2)),
            .rules([:]),
        ]
        if lagsAgain { batch.append(.lagging(Bench.session(1))) }
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        var order: [String] = []
        while let message = backlog.next() {
            switch message {
            case .request(let request): order.append("put \(request.session.slot)")
            case .caughtUp(let session): order.append("caught up \(session.slot)")
            case .lagging(let session): order.append("lagging \(session.slot)")
            default: order.append("rules")
            }
            backlog.finish(work: RequestBacklog.quantum + 1)
        }
        #expect(
            order
                == (lagsAgain
                    ? ["rules", "lagging 1", "put 1", "caught up 2"]
                    : ["rules", "put 1", "caught up 2", "caught up 1"]))
        #expect(backlog.isIdle)
    }

    /// What a revoked sign-in has queued is removed before the end of its session runs it.
    @Test func nothingOvertakesARevocation() {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(1) }
        let count = 100 as UInt32
        var batch = (1...count).map { DatabaseMessage.revoked(Bench.session($0), [1]) }
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        batch = [.closed(Bench.session(count))]
        backlog.add(&batch, databaseOf: databaseOf)
        var burst: [DatabaseMessage] = []
        backlog.takeBurst(&burst)
        #expect(burst.isEmpty)
        backlog.returnBurst(&burst, from: 0)

        var revoked: [UInt32] = []
        while let message = backlog.next() {
            if case .revoked(let session, _, _) = message { revoked.append(session.slot) }
            if case .closed = message { #expect(revoked == Array(1...count)) }
            backlog.finish(work: 1)
        }
        #expect(revoked.count == count && backlog.isIdle && !backlog.isFair)
    }

    /// What other threads find out for windows and indexes takes its turn among the sessions: however much
    /// that is, it delays itself.
    @Test func resultsForIndexesTakeTurnsWithSessions() throws {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(1) }
        let count = 100
        var batch = (0..<count).map { _ in DatabaseMessage.indexed("demo", .found([])) }
        batch += try (0..<count).map { try Bench.put(1, $0, "/a", "1") }
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        var requestCount = 0
        for _ in 0..<count {
            if backlog.next()?.requestNumber != nil { requestCount += 1 }
            backlog.finish(work: RequestBacklog.quantum)
        }
        #expect(requestCount >= count / 4, "\(requestCount)")
    }

    /// A step that ends listens of many sessions takes longer than a turn: a request of another session waits
    /// for one of them at most, also where results for indexes wait, too.
    @Test func endingListensTakeTheTurnsOfOneFlow() throws {
        let backlog = RequestBacklog()
        let databaseOf = { (_: DatabaseMessage) in RequestBacklog.DatabaseID(1) }
        var batch = (0..<20).map { _ in DatabaseMessage.indexed("demo", .found([])) }
        batch += (0..<20).map { _ in DatabaseMessage.continueEnding(database: 1) }
        backlog.add(&batch, databaseOf: databaseOf)
        backlog.beginFairness(databaseOf: databaseOf)
        for number in 0..<20 {
            batch = [try Bench.put(1, number, "/a", "1")]
            backlog.add(&batch, databaseOf: databaseOf)
            var stepsBefore = 0
            while let message = backlog.next(), message.requestNumber == nil {
                stepsBefore += 1
                backlog.finish(work: RequestBacklog.quantum * 3 / 2)
            }
            backlog.finish(work: 3000)
            #expect(stepsBefore <= 1, "\(stepsBefore) before request \(number)")
        }
    }
}

extension DatabaseMessage {
    fileprivate var requestNumber: Int64? {
        if case .request(let request) = self { request.number } else { nil }
    }

    fileprivate var isDrain: Bool {
        if case .drain = self { true } else { false }
    }
}
