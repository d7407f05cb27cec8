import PandoEngine
import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

/// What is known of responses to polls on one connection.
@Suite struct PollDeliveriesTests {
    private enum Event {
        case written([Int], of: UInt64, end: Int)
        /// The client's system has acknowledged so many bytes; then the machine looks.
        case look(Int)
        /// Another request comes on the connection.
        case asks(Int)
        case lose(of: UInt64)
        case ends(inOrder: Bool, Int)
        case moves
    }

    @Test(
        arguments: [
            ([.written([0], of: 1, end: 100), .look(99)], [], "not all of it is acknowledged"),
            (
                [.written([0], of: 1, end: 100), .look(100)], ["acknowledged [0] of 1, more in doubt"],
                "all of it is"
            ),
            (
                [.written([0], of: 1, end: 100), .look(100), .look(100)],
                ["acknowledged [0] of 1, more in doubt"], "it is said once"
            ),
            (
                [.written([0], of: 1, end: 100), .written([1], of: 1, end: 200), .look(150)], [],
                "the last is not: nothing is said yet"
            ),
            (
                [.written([0], of: 1, end: 100), .asks(100)], ["received [0] of 1"],
                "it asks again: it has read what its system has acknowledged"
            ),
            ([.written([0], of: 1, end: 100), .asks(99)], [], "it has asked ahead of the response"),
            (
                [.written([0], of: 1, end: 100), .written([1], of: 2, end: 200), .asks(150)],
                ["received [0] of 1"],
                "only the first"
            ),
            (
                [.written([0], of: 1, end: 100), .written([1, 2], of: 1, end: 200), .asks(150)],
                ["received [0] of 1, more in doubt"], "others of the session are in doubt"
            ),
            (
                [.written([0], of: 1, end: 100), .ends(inOrder: true, 100)], ["received [0] of 1"],
                "closed in order, all acknowledged: to close while input is pending is a reset"
            ),
            (
                [.written([0], of: 1, end: 100), .ends(inOrder: true, 99)], ["lost [0] of 1"],
                "closed in order, not all acknowledged"
            ),
            ([.written([0], of: 1, end: 100), .ends(inOrder: false, 100)], ["lost [0] of 1"], "it broke"),
            (
                [
                    .written([0], of: 1, end: 100), .written([1], of: 2, end: 200), .lose(of: 1),
                    .ends(inOrder: false, 0),
                ],
                ["lost [0] of 1", "lost [1] of 2"], "one session waits no longer"
            ),
            (
                [.written([0], of: 1, end: 100), .moves, .ends(inOrder: true, 100)], ["lost [0] of 1"],
                "the connection goes to another loop: to send it twice does no harm (realtime §1.5.2)"
            ),
            ([.ends(inOrder: true, 0)], [], "nothing was written"),
        ] as [([Event], [String], String)])
    private func conversations(events: [Event], expected: [String], because: String) {
        var deliveries = PollDeliveries()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        for event in events {
            switch event {
            case .written(let numbers, let session, let end):
                deliveries.append(SentResponses(numbers: numbers, copy: 1), of: SessionID(session), end: end)
            case .look(let count):
                context.socket.acknowledgedByteCount = count
                deliveries.noteAcknowledged(&context)
            case .asks(let count):
                context.socket.acknowledgedByteCount = count
                deliveries.settleAcknowledged(&context)
            case .lose(let session): deliveries.drop(of: SessionID(session), &context)
            case .ends(let inOrder, let count):
                context.socket.acknowledgedByteCount = count
                deliveries.end(inOrder: inOrder, &context)
            case .moves: deliveries.settle(.lost, &context)
            }
        }
        #expect(context.actions.map(\.summary) == expected, "\(because)")
    }

    /// Each response is settled once, whatever happens, and the last report of a session says so.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func everyResponseIsSettledOnce(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var deliveries = PollDeliveries()
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        var (written, count) = (0, 0)
        for _ in 0..<100 {
            context.socket.acknowledgedByteCount = Int.random(
                in: context.socket.acknowledgedByteCount...written, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0...3:
                written += Int.random(in: 1...100, using: &random)
                let sent = SentResponses(numbers: [count], copy: count + 1)
                deliveries.append(sent, of: SessionID(random.next() % 3), end: written)
                count += 1
            case 4, 5: deliveries.noteAcknowledged(&context)
            case 6: deliveries.settleAcknowledged(&context)
            default: deliveries.drop(of: SessionID(random.next() % 3), &context)
            }
        }
        deliveries.end(inOrder: Bool.random(using: &random), &context)
        #expect(deliveries.isEmpty && !deliveries.awaitsAcknowledgement)
        var settled: [Int] = []
        var open: [SessionID: Int] = [:]
        for case .http(.delivery(let session, let sent, let delivery, let isLast)) in context.actions
        where delivery != .acknowledged {
            settled += sent.numbers
            open[session] = isLast ? 0 : 1
        }
        #expect(settled.sorted() == Array(0..<count), "seed \(seed)")
        #expect(
            open.values.allSatisfy { $0 == 0 }, "the last report of each session says that it is the last")
    }
}

@Suite struct InputAheadTests {
    @Test func bytesThatAreNotReadStayInTheBuffer() {
        var ahead = InputAhead()
        #expect(ahead.begin() == nil && ahead.byteCount == 0)
        ahead.append([1, 2, 3, 4].rawSpan)
        ahead.append([5].rawSpan)
        #expect(ahead.byteCount == 5)
        let first = ahead.begin()
        #expect(first?.bytes == [1, 2, 3, 4, 5] && first?.offset == 0 && ahead.isReading)
        ahead.end(first?.bytes ?? [], from: 2)
        #expect(!ahead.isReading && ahead.byteCount == 5, "memory is held for all of it")
        let second = ahead.begin()
        #expect(second?.bytes == [1, 2, 3, 4, 5] && second?.offset == 2)
        ahead.end(second?.bytes ?? [], from: 5)
        #expect(ahead.byteCount == 0 && ahead.begin() == nil)
    }

    @Test func bytesThatComeBehindARestWaitBehindIt() {
        var ahead = InputAhead()
        ahead.append([1, 2, 3].rawSpan)
        let first = ahead.begin()
        ahead.end(first?.bytes ?? [], from: 1)
        ahead.append([4].rawSpan)
        let second = ahead.begin()
        #expect(second?.bytes == [1, 2, 3, 4] && second?.offset == 1)
    }
}
