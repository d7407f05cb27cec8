import PandoBytes
import PandoEngine
import Testing

@testable import PandoConnections

@Suite struct SessionPollsTests {
    private func polls(_ context: inout ConnectionContext, waiting: Int) -> SessionPolls {
        var polls = SessionPolls(startScript: [], at: context.now)
        for serial in 0..<waiting {
            polls.receive(UInt64(serial), bringsData: false, on: SessionID(UInt64(serial)), &context)
        }
        return polls
    }

    /// How many of the polls that wait are answered by the actions of the last event.
    private func answers(_ context: inout ConnectionContext) -> [UInt64] {
        var taken = ContiguousArray<ConnectionAction>()
        context.takeActions(into: &taken)
        return taken.compactMap { action in
            if case .polling(.answer(_, let connection)) = action { connection.rawValue } else { nil }
        }
    }

    @Test(
        arguments: [
            // waiting  message  holding  ends   answered
            (1, false, false, false, []),
            // With another poll the client can send.
            (2, false, false, false, [0]),
            // It is not to send while what it has sent waits.
            (2, false, true, false, []),
            (4, false, true, false, []),
            (5, false, true, false, [0]),
            (1, true, false, false, [0]),
            // One response takes all that there is; the last poll waits for the next.
            (2, true, true, false, [0]),
            (2, false, true, true, [0, 1]),
            (0, true, true, true, []),
        ] as [(Int, Bool, Bool, Bool, [UInt64])])
    func pollsAreAnsweredOldestFirst(
        waiting: Int, hasMessage: Bool, isHolding: Bool, ends: Bool, expected: [UInt64]
    ) {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var polls = polls(&context, waiting: waiting)
        if hasMessage {
            polls.responses.append(Array("{}".utf8).rawSpan)
            polls.responses.endMessage()
        }
        _ = answers(&context)
        polls.respond(isHolding: isHolding, ends: ends, &context)
        let answered = answers(&context)
        #expect(answered == expected)
        #expect(polls.isEmpty == (expected.count == waiting))
        #expect(polls.unconfirmedConnections.map(\.rawValue) == expected)
    }

    @Test func pollThatHasWaitedLongIsAnswered() {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var polls = polls(&context, waiting: 1)
        #expect(polls.deadline == second(20))
        _ = answers(&context)
        context.now = second(19.999)
        polls.answerOverdue(ends: false, &context)
        var answered = answers(&context)
        #expect(answered == [] && !polls.isEmpty)
        context.now = second(20)
        polls.answerOverdue(ends: false, &context)
        answered = answers(&context)
        #expect(answered == [0] && polls.isEmpty && polls.lastEnd == second(20))
    }

    /// Deliveries are looked at only where a client may still say that it has received something.
    @Test(
        arguments: [
            // answered  waiting  looks
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (true, true, true),
        ])
    func deliveriesAreLookedAtLater(isAnswered: Bool, isWaiting: Bool, looks: Bool) {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var polls = polls(&context, waiting: isAnswered ? 1 : 0)
        if isAnswered { polls.respond(isHolding: false, ends: true, &context) }
        if isWaiting { polls.receive(9, bringsData: false, on: SessionID(9), &context) }
        polls.scheduleDeliveryCheck(at: testStart)
        let isDue = [0.049, 0.05, 1].map { polls.isDeliveryCheckDue(at: second($0)) }
        #expect(isDue == [false, looks, false])
    }
}
