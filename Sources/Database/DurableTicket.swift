import Synchronization

/// How far the journal is durable, as the journal thread has reported it while another thread had the lock of
/// the ``DatabaseExecutor``: that thread looks here every few messages, and releases what has become durable,
/// instead of after all of a burst. So clients send their next requests while the burst is processed.
/// (Without it, 20 clients with 32 sets each under way came to send them all at once, and each thread waited
/// for the others.)
package final class DurableTicket: Sendable {
    private let ticket = Atomic<UInt64>(0)

    package init() {}

    /// The journal thread: everything up to `ticket` is durable. Tickets ascend.
    func report(_ ticket: UInt64) { self.ticket.store(ticket, ordering: .releasing) }

    /// The last ticket that was reported; 0 for none.
    var reported: UInt64 { ticket.load(ordering: .acquiring) }
}
