import Synchronization

/// The last ticket that the journal thread found durable while the ``DatabaseExecutor`` was locked.
///
/// The thread that has the lock reads it whenever it reads the clock, at most 64 light requests apart, and
/// releases outputs then, not after the whole burst. So clients send their next requests while the burst is
/// processed. (Without it, 20 clients with 32 sets each under way ended up sending them all at once, and each
/// thread waited for the others.)
package final class DurableTicket: Sendable {
    private let ticket = Atomic<UInt64>(0)

    package init() {}

    /// The journal thread: everything up to `ticket` is durable. Tickets ascend.
    func report(_ ticket: UInt64) { self.ticket.store(ticket, ordering: .releasing) }

    /// The last ticket that was reported; 0 for none.
    var reported: UInt64 { ticket.load(ordering: .acquiring) }
}
