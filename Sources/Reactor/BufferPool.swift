import Synchronization

/// Buffers that one thread has emptied, on their way back to the thread that fills them.
///
///     filler ──▶ mailbox ──▶ emptier
///        ▲                      │
///        └────── spares ◀───────┘
///
/// What goes round is not allocated for each burst, nor grown from nothing. That is more than its own price:
/// a block of a kilobyte or more makes glibc's `malloc` merge all small blocks that were freed before, and
/// part them again afterwards.
package final class BufferPool<Buffer: Sendable>: Sendable {
    private let kept = Mutex<[Buffer]>([])
    private let limit: Int

    /// - Parameter limit: How many are kept; what they hold is the caller's to bound.
    package init(atMost limit: Int) {
        self.limit = limit
    }

    /// Any thread: one that was given back; nil when there is none.
    package func take() -> Buffer? {
        kept.withLock { $0.popLast() }
    }

    /// Any thread: an emptied buffer that nobody else holds. Dropped when there are enough.
    package func give(_ buffer: consuming Buffer) {
        // Moved in: whoever takes it must be alone with it.
        var moved = Optional(consume buffer)
        kept.withLock { kept in
            if kept.count < limit, let buffer = moved.take() { kept.append(buffer) }
        }
    }
}
