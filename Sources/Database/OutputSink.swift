/// Where the databases post their outputs: one queue for each thread that owns connections. The number of a
/// session's queue is part of its id (`SessionID.loop`).
///
/// It is called once for each batch and queue, not for each output. One thread at a time, but not always the same.
package protocol OutputSink: AnyObject {
    /// How many queues there are; at least 1.
    var queueCount: Int { get }

    /// Posts a batch to one queue, behind those that were posted before.
    /// - Parameter wakes: Whether the thread of the queue must be woken: false where it is the thread that
    ///   runs the databases just now, and looks into its queue next.
    func post(_ batch: consuming OutputBatch, to queue: Int, wakes: Bool)
}
