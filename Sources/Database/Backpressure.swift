import Synchronization

/// Counts bytes on their way from one side to another, and decides when the first side must pause and when it
/// may go on.
///
/// One counts requests, from the socket to the disk: over the limit loops stop reading, so a slow disk slows
/// writers down instead of filling memory. One counts outputs, from the database thread to the sockets, where
/// a delivery counts as bytes, too (``OutputBatch/deliveryWeight``): over the limit that thread stops
/// processing requests. Both sides may use it at the same time.
package final class Backpressure: Sendable {
    private let byteLimit: Int
    private let byteCount = Atomic<Int>(0)
    private let isPaused = Atomic<Bool>(false)

    /// - Parameter byteLimit: Over it the first side pauses; it goes on below half of it.
    package init(byteLimit: Int) {
        self.byteLimit = byteLimit
    }

    package enum Advice {
        case proceed
        /// Pause until ``Backpressure/remove(_:)`` gives true.
        case pause
        /// There is no need to pause, but other threads of the first side may have paused: resume them all.
        case resumeAll
    }

    /// The first side: `bytes` are on their way.
    package func add(_ bytes: Int) -> Advice {
        let total = byteCount.add(bytes, ordering: .sequentiallyConsistent).newValue
        guard total > byteLimit else { return .proceed }
        isPaused.store(true, ordering: .sequentiallyConsistent)
        // The last byte may have been removed between the two lines above; then no `remove` would give true.
        guard byteCount.load(ordering: .sequentiallyConsistent) < byteLimit / 2 else { return .pause }
        return isPaused.exchange(false, ordering: .sequentiallyConsistent) ? .resumeAll : .pause
    }

    /// The other side: `bytes` have arrived.
    /// - Returns: Whether the first side must be resumed.
    package func remove(_ bytes: Int) -> Bool {
        let total = byteCount.subtract(bytes, ordering: .sequentiallyConsistent).newValue
        guard total < byteLimit / 2, isPaused.load(ordering: .sequentiallyConsistent) else { return false }
        return isPaused.exchange(false, ordering: .sequentiallyConsistent)
    }
}
