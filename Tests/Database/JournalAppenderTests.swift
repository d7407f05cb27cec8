import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTree
import Testing

@testable import PandoDatabase

/// Entries, tickets, space and rollback, without a journal thread: the test publishes the space.
@Suite struct JournalAppenderTests {
    private let database = StoredDatabase(id: 1, name: "a", access: .open)
    private let queue: JournalQueue

    init() throws {
        let origin = JournalOrigin(inMemory: .machine)
        queue = JournalQueue(
            Mailbox(signalling: try WakeupEvent()), space: try JournalSpace(), origin: origin,
            waitForSpace: {})
    }

    private func appender(granted: Int, reserve: Int = 0) -> JournalAppender {
        queue.space.update(granted: granted, isFull: true)
        return JournalAppender(queue, sessionEndReserveByteCount: reserve, environment: .machine)
    }

    private func put(_ value: String) -> Delta {
        database.engine.decide(
            Command(
                session: SessionID(1), credential: .admin, time: 1,
                operation: .put(Write(Target("x"), Draft(.string(Text(value)))))))
    }

    private var posted: [(count: Int, ticket: UInt64)] {
        var requests: [JournalRequest] = []
        queue.requests.drain(into: &requests)
        return requests.compactMap { request in
            if case .entries(let entries, let ticket) = request { (entries.byteCount, ticket) } else { nil }
        }
    }

    @Test func ticketsCountEntries() throws {
        var journal = appender(granted: .max)
        #expect(journal.lastTicket == 0 && posted.isEmpty)
        for ticket: UInt64 in 1...3 {
            var delta = put("value \(ticket)")
            _ = try journal.append(&delta, by: .anonymous, of: database, at: 1)
            #expect(journal.lastTicket == ticket)
        }
        journal.append(JournalRecord(.rules, namespace: 1, timestamp: 1, payload: [1]))
        #expect(journal.lastTicket == 4 && journal.lastSequence.rawValue == 4)
        let byteCount = journal.pendingByteCount
        journal.flush()
        #expect(
            posted.map(\.ticket) == [4] && journal.pendingByteCount == 0 && journal.byteCount == byteCount)
        journal.flush()
        #expect(posted.isEmpty, "nothing to hand over")
    }

    @Test func rollbackRemovesTheLastEntry() throws {
        var journal = appender(granted: .max)
        var first = put("one")
        _ = try journal.append(&first, by: .anonymous, of: database, at: 1)
        let (ticket, byteCount, sequence) = (journal.lastTicket, journal.byteCount, journal.lastSequence)
        var second = put("two")
        let savepoint = try #require(try journal.append(&second, by: .anonymous, of: database, at: 1))
        journal.rollback(to: savepoint)
        #expect(
            journal.lastTicket == ticket && journal.byteCount == byteCount && journal.lastSequence == sequence
        )
        journal.flush()
        #expect(posted.map(\.ticket) == [1])
    }

    /// Writes of clients leave the reserve; the end of a session may use it.
    @Test func theReserveIsLeftToEndsOfSessions() throws {
        var journal = appender(granted: 10_000, reserve: 5000)
        var delta = put(String(repeating: "x", count: 6000))
        #expect(throws: JournalRefusal.diskFull) {
            try journal.append(&delta, by: .anonymous, of: database, at: 1)
        }
        #expect(journal.refusedByteCount > 6000 && journal.lastTicket == 0 && journal.pendingByteCount == 0)
        #expect(throws: JournalRefusal.diskFull) { try journal.checkSpace(forPayloadOf: 6000) }
        #expect(!journal.hasReservedSpace(forWriteOf: 6000) && journal.hasReservedSpace(forWriteOf: 4000))
        #expect(journal.hasSpace(for: 10_000) && !journal.hasSpace(for: 10_001))

        let queued = database.engine.decide(
            Command(
                session: SessionID(1), credential: .admin, time: 1,
                operation: .onDisconnect(
                    [Write(Target("x"), Draft(.string(Text(String(repeating: "y", count: 6000)))))])))
        _ = database.engine.commit(queued)
        var end = database.engine.decide(
            Command(session: SessionID(1), credential: .anonymous, time: 1, operation: .endSession))
        _ = try journal.append(&end, by: .anonymous, of: database, at: 1)
        #expect(journal.lastTicket == 1)
    }

    /// A client that repeats a durable write gets its acknowledgement also from a full disk.
    @Test func aRedundantWriteNeedsNoSpace() throws {
        _ = database.engine.commit(put("same"))
        var journal = appender(granted: 0)
        var delta = put("same")
        #expect(try journal.append(&delta, by: .anonymous, of: database, at: 1) == nil)
        #expect(journal.lastTicket == 0)
    }

    @Test func inMemoryNothingIsWritten() throws {
        var journal = JournalAppender(nil, sessionEndReserveByteCount: 1 << 20, environment: .machine)
        var delta = put("one")
        #expect(try journal.append(&delta, by: .anonymous, of: database, at: 1) == nil)
        journal.append(JournalRecord(.rules, namespace: 1, timestamp: 1, payload: [1]))
        journal.flush()
        #expect(journal.lastTicket == 0 && !journal.isEnabled && journal.hasSpace(for: .max / 2))
    }
}
