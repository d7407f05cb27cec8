import COperatingSystem
import PandoTime

/// A timer of a loop that is exact to some tens of microseconds (timerfd), as a load generator needs it.
/// Timeouts use the loop's timers (`schedule`), which need no system call and are as coarse as `timerTick`.
/// Confined to its loop.
package final class PreciseTimer: Pollable {
    private let loop: EventLoop
    private let handler: () -> Void

    /// - Parameter handler: Called on the loop, once for each ``set(at:)`` that was not replaced by another
    ///   before its deadline.
    /// - Throws: EMFILE, ENFILE, ENOMEM.
    package init(on loop: EventLoop, handler: @escaping () -> Void) throws(SocketError) {
        self.handler = handler
        self.loop = loop
        super.init(descriptor: try checked(pando_timerfd_create(), "create a timer"))
        try loop.poller.watch(self, PANDO_READABLE)
    }

    /// Fires at `deadline`, at once when that is past. Replaces an earlier deadline. One system call.
    package func set(at deadline: MonotonicTime) {
        guard isWatched else { return }
        // 0 would disarm it.
        let result = pando_timerfd_set(descriptor, max(1, deadline.nanoseconds))
        precondition(result == 0, "a timer could not be set: \(errorText(-result))")
    }

    /// Ends the timer; it cannot be set again.
    package func close() {
        loop.poller.close(self)
    }

    override func ready(_ events: UInt32) {
        // Disarmed: a timer stays readable until it is set or read.
        _ = pando_timerfd_set(descriptor, 0)
        handler()
    }

    override func loopDidStop() {
        loop.poller.close(self)
    }
}
