import COperatingSystem

/// A descriptor that a loop's ``Poller`` watches, and what the loop calls for it. Confined to its loop.
package class Pollable {
    /// -1 once it is closed or was surrendered. Set by the poller.
    final var descriptor: Int32
    /// The index in the poller's list of watched objects; -1 when it is not watched. Set by the poller.
    final var slot: Int32 = -1
    /// The events that the kernel was last asked to report. Set by the poller.
    final var interest: UInt32 = 0
    /// Its events take long, or one of its last reads filled the receive buffer, so the peer sends as fast as
    /// it can; or it is new, and not one of a few, or with TLS and not answered: in a tick, others are
    /// handled first.
    final var isBulk = false
    /// Its last event took long, perhaps, though the next one does not: after it, the poller looks at the
    /// clock.
    final var wasLong = false
    /// Which of the poller's sets it is in; follows ``isBulk``. Set by the poller.
    final var isInBulkSet = false
    /// The round of the poller in which its last event was handled: where a tick cannot handle all events, no
    /// object has a second turn before all have had their first.
    final var round: UInt16 = 0

    /// In which queues of the ``FlushList`` it is.
    final var flushQueues: FlushQueues = []

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        if descriptor >= 0 { _ = pando_close(descriptor) }
    }

    final var isWatched: Bool { slot >= 0 }

    /// Handles events. Never called once it is not watched any more.
    func ready(_ events: UInt32) {}

    /// The loop has run its last tick: close the descriptor. Afterwards it must not be watched.
    func loopDidStop() {}

    /// Whether ``flushAtEndOfTick()`` may take long: others are flushed first.
    var hasBulkOutput: Bool { false }

    /// Whether ``flushAtEndOfTick()`` has something to do.
    var isFlushDue: Bool { false }

    /// Whether its peer has sent something lately, and probably waits for what was written.
    package var isPrompt: Bool { false }

    /// Gives the kernel what was written in this tick (``FlushList``).
    func flushAtEndOfTick() {}

    /// Reports that it was closed (``CloseList``).
    func notifyClosed() {}
}
