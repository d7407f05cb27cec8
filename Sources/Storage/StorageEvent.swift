/// What storage reports to the databases. It is handed to a sink that is given to ``JournalThread`` or
/// ``JournalWriter``, and called on the journal thread.
package enum StorageEvent: Sendable {
    /// All journal entries up to this ticket are as durable as ``StorageOptions/durability`` asks. Tickets
    /// are those of ``JournalQueue/post(_:upTo:)``; they ascend.
    case durable(upTo: UInt64)
    /// The journal has grown enough for a checkpoint: one ``JournalQueue/post(_:)-(Snapshot)`` is expected.
    case checkpointDue
    /// The disk has space again after it had none.
    case spaceAvailable
}
