import PandoBytes
import PandoEngine
import PandoJournal
import PandoReactor
import PandoStorage
import PandoTree
import Testing

@testable import PandoDatabase

/// Entries, tickets, space and rollback, without a journal thread: the test publishes the space.
@Suite struct LogAppenderTests {
    private let database = StoredDatabase(id: 1, name: "a", access: .open)
    private let queue: JournalQueue

    init() throws {
        let origin = JournalOrigin(inMemory: .machine)
        queue = JournalQueue(
            Mailbox(signalling: try WakeupEvent()), space: try LogSpace(), origin: origin, waitForSpace: {})
    }

    private func log(granted: Int, reserve: Int = 0) -> LogAppender {
        queue.space.update(granted: granted, isFull: true)
        return LogAppender(queue, sessionEndReserveByteCount: reserve, environment: .machine)
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
        var log = log(granted: .max)
        #expect(log.lastTicket == 0 && posted.isEmpty)
        for ticket: UInt64 in 1...3 {
            var delta = put("value \(ticket)")
            _ = try log.append(&delta, by: .anonymous, of: database, at: 1)
            #expect(log.lastTicket == ticket)
        }
        log.append(JournalRecord(.rules, namespace: 1, timestamp: 1, payload: [1]))
        #expect(log.lastTicket == 4 && log.lastSequence.rawValue == 4)
        let byteCount = log.pendingByteCount
        log.flush()
        #expect(posted.map(\.ticket) == [4] && log.pendingByteCount == 0 && log.byteCount == byteCount)
        log.flush()
        #expect(posted.isEmpty, "nothing to hand over")
    }

    @Test func rollbackRemovesTheLastEntry() throws {
        var log = log(granted: .max)
        var first = put("one")
        _ = try log.append(&first, by: .anonymous, of: database, at: 1)
        let (ticket, byteCount, sequence) = (log.lastTicket, log.byteCount, log.lastSequence)
        var second = put("two")
        let savepoint = try #require(try log.append(&second, by: .anonymous, of: database, at: 1))
        log.rollback(to: savepoint)
        #expect(log.lastTicket == ticket && log.byteCount == byteCount && log.lastSequence == sequence)
        log.flush()
        #expect(posted.map(\.ticket) == [1])
    }

    /// Writes of clients leave the reserve; the end of a session may use it.
    @Test func theReserveIsLeftToEndsOfSessions() throws {
        var log = log(granted: 10_000, reserve: 5000)
        var delta = put(String(repeating: "x", count: 6000))
        #expect(throws: WriteRefusal.diskFull) { try log.append(&delta, by: .anonymous, of: database, at: 1) }
        #expect(log.refusedByteCount > 6000 && log.lastTicket == 0 && log.pendingByteCount == 0)
        #expect(throws: WriteRefusal.diskFull) { try log.checkSpace(forPayloadOf: 6000) }
        #expect(!log.hasReservedSpace(forWriteOf: 6000) && log.hasReservedSpace(forWriteOf: 4000))
        #expect(log.hasSpace(for: 10_000) && !log.hasSpace(for: 10_001))

        let queued = database.engine.decide(
            Command(
                session: SessionID(1), credential: .admin, time: 1,
                operation: .onDisconnect(
                    [Write(Target("x"), Draft(.string(Text(String(repeating: "y", count: 6000)))))])))
        _ = database.engine.commit(queued)
        var end = database.engine.decide(
            Command(session: SessionID(1), credential: .anonymous, time: 1, operation: .endSession))
        _ = try log.append(&end, by: .anonymous, of: database, at: 1)
        #expect(log.lastTicket == 1)
    }

    /// A client that repeats a durable write gets its acknowledgement also from a full disk.
    @Test func aRedundantWriteNeedsNoSpace() throws {
        _ = database.engine.commit(put("same"))
        var log = log(granted: 0)
        var delta = put("same")
        #expect(try log.append(&delta, by: .anonymous, of: database, at: 1) == nil)
        #expect(log.lastTicket == 0)
    }

    @Test func inMemoryNothingIsLogged() throws {
        var log = LogAppender(nil, sessionEndReserveByteCount: 1 << 20, environment: .machine)
        var delta = put("one")
        #expect(try log.append(&delta, by: .anonymous, of: database, at: 1) == nil)
        log.append(JournalRecord(.rules, namespace: 1, timestamp: 1, payload: [1]))
        log.flush()
        #expect(log.lastTicket == 0 && !log.isEnabled && log.hasSpace(for: .max / 2))
    }
}
