import Logging
import PandoReactor

/// Gives memory back to the system that was freed and that the allocator keeps, as after the deletion of much
/// data. Looks now and then, on a thread of its own, and trims only where it is worth it.
///
/// A trim takes the locks of the heaps for some milliseconds each time, so it takes at most a hundredth of
/// the time: after one that took long, the next comes late. It runs at the same priority as the threads that
/// wait for those locks: at a lower one they would wait until the processors have nothing better to do.
final class HeapTrimmer: Sendable {
    /// How often it is looked whether a trim is worth it: to count what is free takes the locks too, for a
    /// moment.
    private static let interval: Duration = .seconds(1)
    /// Bytes that must be free, and their part of all that the process has.
    private static let leastFreeByteCount = 32 << 20
    private static let leastFreeShare = 4
    /// A trim is followed by so many times its own time without one.
    private static let pauseFactor = 100.0

    private let stopped: WakeupEvent
    private let thread: NamedThread

    init(_ logger: Logger) throws(SocketError) {
        let stopped = try WakeupEvent()
        self.stopped = stopped
        thread = try NamedThread.start("pando-trim") {
            var pause = Self.interval
            while !stopped.wait(timeout: pause) { pause = max(Self.interval, Self.trim(logger)) }
        }
    }

    func stop() {
        stopped.signal()
        thread.join()
    }

    /// - Returns: How long to wait before the next look.
    private static func trim(_ logger: Logger) -> Duration {
        let resident = FreedMemory.residentByteCount
        guard resident > leastFreeByteCount * leastFreeShare else { return .zero }
        let free = FreedMemory.byteCount
        guard free > leastFreeByteCount, free > resident / leastFreeShare else { return .zero }
        let began = MonotonicTime.now
        FreedMemory.release()
        let took = MonotonicTime.now - began
        let given = resident - FreedMemory.residentByteCount
        logger.debug("gave \(given >> 20) MiB of freed memory back to the system in \(took)")
        return took * pauseFactor
    }
}
