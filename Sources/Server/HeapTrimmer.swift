import Logging
import PandoReactor
import PandoTime

/// Gives memory back to the system that was freed and that the allocator keeps, as after the deletion of
/// much data or the disconnection of many clients. It checks now and then, on a thread of its own
/// (``TrimSchedule``).
///
/// A trim, and the count of what is free before it, hold the lock of each heap: for 40 ms where 150 MB are
/// free, and threads that allocate there wait. So a trim comes as soon as clients hold 32 MiB less than
/// before. The thread has the same priority as the threads that wait for those locks: with a lower one they
/// would wait until the processors have nothing else to do.
final class HeapTrimmer: Sendable {
    /// Bytes that must be free for a trim, and their share of everything that the process has.
    private static let minimumFreeByteCount = 32 << 20
    private static let minimumFreeShare = 4

    private let thread: WorkerThread<Never>

    /// - Parameter heldByteCount: Called on the trim thread; returns the bytes that clients hold, which are
    ///   freed when they are disconnected.
    /// - Throws: ``SocketError`` where the process has no free descriptor or thread.
    init(_ logger: Logger, heldByteCount: @escaping @Sendable () -> Int) throws(SocketError) {
        thread = try WorkerThread("pando-trim")
        try thread.start { queue in
            var schedule = TrimSchedule(now: .now)
            while true {
                queue.pause(for: schedule.pause)
                if queue.isStopping { return }
                let began = MonotonicTime.now
                let trims: Bool
                switch schedule.next(heldByteCount: heldByteCount(), now: began) {
                case .nothing: continue
                case .check: trims = Self.hasMuchFree
                case .trim: trims = true
                }
                let released = trims ? Self.trim(logger) : nil
                let ended = MonotonicTime.now
                schedule.ended(now: ended, after: ended - began, releasedByteCount: released)
            }
        }
    }

    func stop() { thread.stop() }

    private static var hasMuchFree: Bool {
        let resident = FreedMemory.residentByteCount
        guard resident > minimumFreeByteCount * minimumFreeShare else { return false }
        let free = FreedMemory.byteCount
        return free > minimumFreeByteCount && free > resident / minimumFreeShare
    }

    /// - Returns: Bytes that went back to the system.
    private static func trim(_ logger: Logger) -> Int {
        let (began, resident) = (MonotonicTime.now, FreedMemory.residentByteCount)
        FreedMemory.release()
        let released = resident - FreedMemory.residentByteCount
        logger.debug(
            "gave \(released >> 20) MiB of freed memory back to the system in \(MonotonicTime.now - began)")
        return released
    }
}
