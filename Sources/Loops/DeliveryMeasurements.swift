import PandoTime

/// The outputs that a tick has dealt out, until the time of the end of the tick is known.
///
/// A class, so that the loop's callback holds it and not the ``IOLoop``. Used by the loop's thread only.
final class DeliveryMeasurements {
    private struct Batch {
        var began: MonotonicTime
        var replyCount: Int
        var pushCount: Int
    }

    private let metrics: SessionMetrics
    /// In place: no tick allocates for it.
    private var waiting: InlineArray<8, Batch>
    private var waitingCount = 0

    init(_ metrics: SessionMetrics) {
        self.metrics = metrics
        waiting = InlineArray(
            repeating: Batch(began: MonotonicTime(nanoseconds: 0), replyCount: 0, pushCount: 0))
    }

    /// Notes outputs that were dealt out. More batches than have space are counted with the last of these,
    /// from the time of the older.
    /// - Parameter began: When the oldest request that they belong to was read; later than any time where
    ///   they belong to none.
    func add(began: MonotonicTime, replyCount: Int, pushCount: Int) {
        guard replyCount | pushCount != 0 else { return }
        guard waitingCount < waiting.count else {
            let last = waiting.count - 1
            waiting[last].began = min(waiting[last].began, began)
            waiting[last].replyCount += replyCount
            waiting[last].pushCount += pushCount
            return
        }
        waiting[waitingCount] = Batch(began: began, replyCount: replyCount, pushCount: pushCount)
        waitingCount += 1
    }

    /// The outputs so far were given to the kernel.
    func end(at time: MonotonicTime) {
        for index in 0..<waitingCount {
            let batch = waiting[index]
            metrics.replies.add(batch.replyCount)
            metrics.pushes.add(batch.pushCount)
            // The time of no request: of what the server does by itself.
            guard batch.began.nanoseconds <= time.nanoseconds else { continue }
            let nanoseconds = time.nanoseconds - batch.began.nanoseconds
            metrics.acknowledgements.observe(nanoseconds, count: UInt64(batch.replyCount))
            metrics.deliveries.observe(nanoseconds, count: UInt64(batch.pushCount))
        }
        waitingCount = 0
    }
}
