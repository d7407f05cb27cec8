import COperatingSystem

/// A descriptor that a loop watches.
///
/// The kernel holds the object's address, so the object must live as long as the kernel may report an event
/// of it: the loop keeps one reference from `watch()` until the end of the tick in which `unwatch()` was
/// called. An event of the same batch that is handled after `unwatch()` finds the object alive and is
/// ignored.
///
/// Confined to its loop.
package class Pollable {
    package let loop: EventLoop
    /// -1 once it is closed or was surrendered.
    final private(set) var descriptor: Int32
    /// The index in the loop's list of watched objects; -1 when it is not watched.
    final var slot: Int32 = -1
    /// The events that the kernel was last asked to report.
    final private(set) var interest: UInt32 = 0
    /// Its events take long, or its last read filled the receive buffer, so the peer sends as fast as it can:
    /// in a tick, others are handled first.
    final var isBulk = false
    /// The round of the loop in which its last event was handled: where a tick cannot handle all events, no
    /// one has a second turn before all have had their first.
    final var round: UInt16 = 0

    init(descriptor: Int32, loop: EventLoop) {
        self.descriptor = descriptor
        self.loop = loop
    }

    deinit {
        if descriptor >= 0 { _ = pando_close(descriptor) }
    }

    /// Handles events. Never called after `unwatch()`.
    func ready(_ events: UInt32) {}

    /// The loop has run its last tick: close the descriptor. Afterwards it must not be watched.
    func loopDidStop() {}

    final var isWatched: Bool { slot >= 0 }

    /// Has the kernel report events of the descriptor.
    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors.
    final func watch(_ interest: UInt32) throws(SocketError) {
        assert(loop.isCurrent && !isWatched)
        // The address stays valid: `retain(watched:)` keeps a reference until after `unwatch()`.
        let owner = unsafe Unmanaged.passUnretained(self).toOpaque()
        try checked(unsafe pando_poll_add(loop.poll, descriptor, interest, owner), "watch a descriptor")
        self.interest = interest
        loop.retain(watched: self)
    }

    /// Changes which events are reported. A system call if that is a change.
    final func setInterest(_ interest: UInt32) {
        guard isWatched, interest != self.interest else { return }
        self.interest = interest
        // As in `watch`. Cannot fail: the descriptor is in the set, and changing it allocates nothing.
        let owner = unsafe Unmanaged.passUnretained(self).toOpaque()
        let result = unsafe pando_poll_change(loop.poll, descriptor, interest, owner)
        precondition(result == 0, "epoll does not know a watched descriptor: \(errorText(-result))")
    }

    /// Ends the reports. The loop releases the object at the end of the tick.
    final func unwatch() {
        guard isWatched else { return }
        // Closing would remove it too, but only if no other process has the descriptor: a child between fork
        // and exec has it, and the kernel would go on reporting the address of a freed object.
        _ = pando_poll_remove(loop.poll, descriptor)
        interest = 0
        loop.release(watched: self)
    }

    /// Closes the descriptor now; the object lives until the end of the tick.
    final func closeDescriptor() {
        guard descriptor >= 0 else { return }
        unwatch()
        _ = pando_close(descriptor)
        descriptor = -1
    }

    /// Stops watching and gives the open descriptor to the caller.
    final func surrenderDescriptor() -> Int32 {
        unwatch()
        defer { descriptor = -1 }
        return descriptor
    }
}
