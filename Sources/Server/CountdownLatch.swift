import Synchronization

/// Calls back when each of several threads, as a rule the I/O loops, has reported once.
final class CountdownLatch: Sendable {
    private let remaining: Atomic<Int>
    private let whenDone: @Sendable () -> Void

    /// - Parameter whenDone: Called on the thread of the last report.
    init(count: Int, whenDone: @escaping @Sendable () -> Void) {
        remaining = Atomic(count)
        self.whenDone = whenDone
    }

    /// One of them reports.
    func countDown() {
        if remaining.subtract(1, ordering: .sequentiallyConsistent).newValue == 0 { whenDone() }
    }
}
