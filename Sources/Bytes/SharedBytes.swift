import Synchronization

/// Bytes that were written once and are read by many: one fan-out encodes a message once and queues the same
/// `SharedBytes` on every socket.
///
/// The bytes never move, so a pointer to them may wait in
/// an `iovec` for as long as somebody holds the object. That is what `[UInt8]` does not promise.
///
/// `@unchecked Sendable`: nobody can change the bytes after `init` returns.
@safe
package final class SharedBytes: @unchecked Sendable {
    /// How many bytes; O(1).
    package let count: Int

    /// The first byte. Valid as long as this object is.
    @unsafe package let baseAddress: UnsafeMutableRawPointer

    private static let live = Atomic<Int>(0)

    /// Bytes of all objects that there are, in the whole process.
    package static var liveByteCount: Int { live.load(ordering: .relaxed) }

    /// Copies `bytes`. One allocation for the object, one for the bytes.
    package init(_ bytes: RawSpan) {
        count = bytes.byteCount
        unsafe baseAddress = .allocate(byteCount: max(1, bytes.byteCount), alignment: 8)
        Self.live.add(count, ordering: .relaxed)
        unsafe bytes.withUnsafeBytes { source in
            if let start = source.baseAddress {
                unsafe baseAddress.copyMemory(from: start, byteCount: source.count)
            }
        }
    }

    package convenience init(_ bytes: [UInt8]) {
        self.init(bytes.rawSpan)
    }

    deinit {
        Self.live.subtract(count, ordering: .relaxed)
        unsafe baseAddress.deallocate()
    }

    /// The bytes, borrowed.
    package var rawSpan: RawSpan {
        @_lifetime(borrow self)
        get {
            // As long as the object is borrowed it is there, and the bytes with it.
            let span = unsafe RawSpan(_unsafeStart: baseAddress, byteCount: count)
            return unsafe _overrideLifetime(span, borrowing: self)
        }
    }

    /// A copy, for tests and slow paths.
    package var array: [UInt8] {
        unsafe Array(UnsafeRawBufferPointer(start: baseAddress, count: count))
    }
}
