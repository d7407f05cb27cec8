import Synchronization

/// Bytes of requests between the socket they came from and the disk they go to, over all connections.
///
/// I/O loops add what they read; the database thread takes away what has become durable and was answered. Over the
/// limit, loops stop reading, so a slow disk slows writers down instead of filling memory (design: step 4).
final class Congestion: Sendable {
    private let byteLimit: Int
    private let byteCount = Atomic<Int>(0)
    private let isPaused = Atomic<Bool>(false)

    init(byteLimit: Int) {
        self.byteLimit = byteLimit
    }

    /// Any loop. True: stop reading until told to go on.
    func add(_ bytes: Int) -> Bool {
        let total = byteCount.add(bytes, ordering: .sequentiallyConsistent).newValue
        guard total > byteLimit else { return false }
        isPaused.store(true, ordering: .sequentiallyConsistent)
        // The last byte may have left between the two lines above, and then nobody would say so.
        guard byteCount.load(ordering: .sequentiallyConsistent) < byteLimit / 2 else { return true }
        return !isPaused.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// The database thread. True: the way is free again, and the loops must be told.
    func remove(_ bytes: Int) -> Bool {
        let total = byteCount.subtract(bytes, ordering: .sequentiallyConsistent).newValue
        guard total < byteLimit / 2, isPaused.load(ordering: .sequentiallyConsistent) else { return false }
        return isPaused.exchange(false, ordering: .sequentiallyConsistent)
    }
}
