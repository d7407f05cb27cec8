import Synchronization

/// Empty buffers on their way from the thread that empties them back to the thread that fills them.
///
///     filling thread ──▶ mailbox ──▶ emptying thread
///           ▲                               │
///           └────────── BufferPool ◀────────┘
///
/// A buffer that is reused is not allocated for each burst, nor grown from nothing. That saves more than the
/// allocation: a block of a kilobyte or more makes glibc's `malloc` merge all small blocks that were freed
/// before, and split them again afterwards.
///
/// Public and inlinable, so that other modules compile it for their buffers.
public final class BufferPool<Buffer: Sendable>: Sendable {
    @usableFromInline let buffers: Mutex<[Buffer]>
    @usableFromInline let limit: Int

    /// - Parameter limit: How many buffers are kept. The caller bounds the capacity of each.
    @inlinable public init(atMost limit: Int) {
        buffers = Mutex([])
        self.limit = limit
    }

    /// Any thread: the buffer that was released last; nil when there is none. One lock.
    @inlinable public func acquire() -> Buffer? {
        buffers.withLock { $0.popLast() }
    }

    /// Any thread: keeps an emptied buffer to which there is no other reference, or drops it when there are
    /// enough. One lock.
    @inlinable public func release(_ buffer: consuming Buffer) {
        // Moved in: the thread that acquires it must hold the only reference.
        var moved = Optional(consume buffer)
        buffers.withLock { buffers in
            if buffers.count < limit, let buffer = moved.take() { buffers.append(buffer) }
        }
    }
}
