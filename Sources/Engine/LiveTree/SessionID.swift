/// One connection, as the caller numbers it. The caller does not reuse a number while the engine has state
/// for it.
package struct SessionID: Hashable, Sendable {
    package let rawValue: UInt64

    package init(_ rawValue: UInt64) {
        self.rawValue = rawValue
    }
}

//  ┌────────────┬──────┬──────┐
//  │ generation │ loop │ slot │
//  │     32     │   8  │  24  │   a slot is used again, a generation is not (within 2^32 connections)
//  └────────────┴──────┴──────┘

extension SessionID {
    /// - Parameters:
    ///   - loop: The number of the thread that owns the connection, and of its queue of outputs.
    ///   - slot: The connection's place on that thread; below 2^24.
    ///   - generation: Tells sessions apart that had the same place one after the other.
    package init(loop: UInt8, slot: UInt32, generation: UInt32) {
        // More connections than descriptors a process can have.
        precondition(slot < 1 << 24)
        self.init(UInt64(generation) << 32 | UInt64(loop) << 24 | UInt64(slot))
    }

    /// The number of the thread that owns the connection.
    @inlinable
    package var loop: UInt8 { UInt8(truncatingIfNeeded: rawValue >> 24) }

    /// Tells sessions apart that had the same place one after the other.
    package var generation: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }

    /// The connection's place on its thread.
    @inlinable
    package var slot: UInt32 { UInt32(truncatingIfNeeded: rawValue) & 0xFF_FFFF }
}
