import PandoReactor

/// The outputs of the databases on their way to the threads that own connections: one queue for each, which
/// the session's id names (`SessionID.loop`).
package struct OutputQueues: Sendable {
    /// One for each I/O thread, at least one. Batches of one queue are posted in the order in which they must
    /// be delivered.
    private let mailboxes: [Mailbox<OutputBatch>]
    /// Emptied batches, to be filled again. The thread that has delivered a batch returns it
    /// (``OutputBatch/recycle(_:into:)``).
    let pool: BufferPool<OutputBatch>
    /// Bytes that were not delivered yet. The databases add them. The thread that delivers a batch removes
    /// them, and posts ``DatabaseMessage/outputsDelivered`` where that is required.
    let backpressure: Backpressure

    package init(
        _ mailboxes: [Mailbox<OutputBatch>], pool: BufferPool<OutputBatch>, backpressure: Backpressure
    ) {
        precondition(!mailboxes.isEmpty, "outputs have nowhere to go")
        self.mailboxes = mailboxes
        self.pool = pool
        self.backpressure = backpressure
    }

    var count: Int { mailboxes.count }

    /// Posts a batch behind those of the same queue. One thread at a time.
    /// - Parameter signals: Whether the thread of the queue must be woken: false where it calls this, and
    ///   looks into its queue next.
    func post(_ batch: consuming OutputBatch, to queue: Int, signals: Bool) {
        mailboxes[queue].post(consume batch, signals: signals)
    }
}
