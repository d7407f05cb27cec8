import PandoEngine
import PandoTime
import Testing

@testable import PandoConnections

@Suite struct HeldPollsTests {
    private func poll(_ serial: UInt64?, on connection: UInt64, came: Double = 0) -> HeldPolls.Poll {
        HeldPolls.Poll(
            serial: serial, connection: SessionID(connection), came: second(came), deadline: second(came + 20)
        )
    }

    @Test func oldestFirst() {
        var polls = HeldPolls()
        #expect(polls.isEmpty && polls.first == nil && polls.deadline == nil)
        for (serial, connection) in [(nil, 1), (1, 2), (2, 3)] as [(UInt64?, UInt64)] {
            #expect(polls.append(poll(serial, on: connection, came: Double(connection))) == nil)
        }
        #expect(polls.count == 3 && polls.first?.serial == nil && polls.deadline == second(21))
        #expect(polls.overdue(at: second(20.9)) == nil)
        #expect(polls.overdue(at: second(22))?.connection == SessionID(1), "the oldest")
    }

    @Test func pollIsRemovedOnAllItsConnections() {
        var polls = HeldPolls()
        for connection in 1...3 as ClosedRange<UInt64> { _ = polls.append(poll(9, on: connection)) }
        _ = polls.append(poll(10, on: 4))
        guard let first = polls.first else {
            Issue.record("no poll")
            return
        }
        #expect(polls.remove(first) == [SessionID(1), SessionID(2), SessionID(3)])
        #expect(polls.count == 1 && polls.first?.serial == 10)
    }

    @Test func connectionThatBreaks() {
        var polls = HeldPolls()
        _ = polls.append(poll(1, on: 1))
        _ = polls.append(poll(1, on: 2))
        let (isHeld, isUnknown) = (polls.remove(on: SessionID(1)), polls.remove(on: SessionID(9)))
        #expect(isHeld && !isUnknown && polls.count == 1)
        #expect(polls.removeAll() == [SessionID(2)] && polls.isEmpty)
    }

    @Test func copiesOfOnePollAreBounded() {
        var polls = HeldPolls()
        for connection in 1...16 as ClosedRange<UInt64> {
            #expect(polls.append(poll(1, on: connection)) == nil)
        }
        #expect(polls.append(poll(2, on: 99)) == nil, "another poll")
        #expect(polls.append(poll(1, on: 17)) == SessionID(1), "the oldest copy")
        #expect(polls.count == 17)
    }
}
