import CSystem

/// A descriptor that a loop watches.
///
/// The kernel holds the object's address, so the object must outlive every event that the kernel may still
/// report: the loop keeps one reference from `watch()` until the end of the tick in which `unwatch()` was
/// called. An event of the same batch that arrives after `unwatch()` finds the object alive and is ignored.
///
/// Confined to its loop.
package class Pollable {
    package let loop: EventLoop
    /// -1 once closed or given away.
    final private(set) var descriptor: Int32
    /// Where the loop's list of watched objects has this one; -1 when it is not watched.
    final var slot: Int32 = -1
    /// What the kernel was last told.
    final private(set) var interest: UInt32 = 0
    /// Its last read brought as much as one may: the others of a tick come before it.
    final var isBulk = false

    init(descriptor: Int32, loop: EventLoop) {
        self.descriptor = descriptor
        self.loop = loop
    }

    deinit {
        if descriptor >= 0 { _ = pando_close(descriptor) }
    }

    /// Something happened. Never called after `unwatch()`.
    func ready(_ events: UInt32) {}

    /// The loop has run its last tick: let go of everything.
    func loopDidStop() {}

    final var isWatched: Bool { slot >= 0 }

    /// - Throws: ENOMEM, or ENOSPC at the system's limit of watched descriptors.
    final func watch(_ interest: UInt32) throws(SocketError) {
        assert(loop.isCurrent && !isWatched)
        // The address stays valid: `retain(watched:)` keeps a reference until after `unwatch()`.
        let owner = unsafe Unmanaged.passUnretained(self).toOpaque()
        try checked(unsafe pando_poll_add(loop.poll, descriptor, interest, owner), "watch a descriptor")
        self.interest = interest
        loop.retain(watched: self)
    }

    final func setInterest(_ interest: UInt32) {
        guard isWatched, interest != self.interest else { return }
        self.interest = interest
        // As in `watch`. Cannot fail: the descriptor is in the set, and changing it allocates nothing.
        let owner = unsafe Unmanaged.passUnretained(self).toOpaque()
        let result = unsafe pando_poll_change(loop.poll, descriptor, interest, owner)
        precondition(result == 0, "epoll lost a descriptor: \(errorText(-result))")
    }

    final func unwatch() {
        guard isWatched else { return }
        // Closing would remove it too, but only if no other process holds the descriptor: a child between
        // fork and exec does, and the kernel would go on reporting an address that is no longer ours.
        _ = pando_poll_remove(loop.poll, descriptor)
        interest = 0
        loop.release(watched: self)
    }

    /// Closes the descriptor now; the object lives until the tick ends.
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
