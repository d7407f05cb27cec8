import CSystem

/// One moment that a loop is woken at, exact to some tens of microseconds: for whoever must do something at
/// its time, as a load generator sends. Timeouts belong to the loop's timers (`schedule`), which cost no
/// system call but are as coarse as their tick. Confined to its loop.
package final class PreciseTimer: Pollable {
    private let handler: () -> Void

    /// - Parameter handler: Called on the loop once for each time the alarm was set, unless it was set anew
    ///   before.
    /// - Throws: EMFILE, ENFILE, ENOMEM.
    package init(on loop: EventLoop, handler: @escaping () -> Void) throws(SocketError) {
        self.handler = handler
        super.init(descriptor: try checked(pando_timerfd_create(), "create a timer"), loop: loop)
        try watch(PANDO_READABLE)
    }

    /// Rings at `deadline`, at once when that is past; an earlier setting is forgotten. One system call.
    package func set(at deadline: MonotonicTime) {
        guard isWatched else { return }
        // 0 would disarm it.
        let result = pando_timerfd_set(descriptor, max(1, deadline.nanoseconds))
        precondition(result == 0, "a timer could not be set: \(errorText(-result))")
    }

    /// Stops ringing for good.
    package func close() {
        closeDescriptor()
    }

    override func ready(_ events: UInt32) {
        // Disarmed: a timer stays readable until it is set or read.
        _ = pando_timerfd_set(descriptor, 0)
        handler()
    }

    override func loopDidStop() {
        closeDescriptor()
    }
}
