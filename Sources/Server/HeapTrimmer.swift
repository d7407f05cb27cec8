import Logging
import PandoReactor
import PandoTime

/// Gives memory back to the system that was freed and that the allocator keeps, as after the deletion of much
/// data. It checks now and then, on a thread of its own, and trims only where that is worth it.
///
/// A trim, and the count of what is free before it, take the locks of the heaps for some milliseconds, so
/// they take at most a hundredth of the time: after a long one, the next comes late. The thread has the same
/// priority as the threads that wait for those locks: with a lower one they would wait until the processors
/// have nothing else to do.
final class HeapTrimmer: Sendable {
    /// The time between two checks, at least.
    private static let interval: Duration = .seconds(1)
    /// Bytes that must be free for a trim, and their share of everything that the process has.
    private static let minimumFreeByteCount = 32 << 20
    private static let minimumFreeShare = 4
    /// The pause after a check, as a multiple of its duration.
    private static let pauseFactor = 100.0

    private let thread: WorkerThread<Never>

    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(_ logger: Logger) throws(SocketError) {
        thread = try WorkerThread("pando-trim")
        try thread.start { queue in
            var pause = Self.interval
            while true {
                queue.pause(for: pause)
                if queue.isStopping { return }
                pause = max(Self.interval, Self.trim(logger))
            }
        }
    }

    func stop() { thread.stop() }

    /// - Returns: How long to wait before the next check.
    private static func trim(_ logger: Logger) -> Duration {
        let resident = FreedMemory.residentByteCount
        guard resident > minimumFreeByteCount * minimumFreeShare else { return .zero }
        let began = MonotonicTime.now
        let free = FreedMemory.byteCount
        if free > minimumFreeByteCount, free > resident / minimumFreeShare {
            FreedMemory.release()
            let released = resident - FreedMemory.residentByteCount
            logger.debug(
                "gave \(released >> 20) MiB of freed memory back to the system in \(MonotonicTime.now - began)"
            )
        }
        return (MonotonicTime.now - began) * pauseFactor
    }
}
