import Synchronization

/// Bytes that never change and are shared by reference: a fan-out encodes a message once and queues the same
/// `SharedBytes` on every socket.
///
/// The bytes never move, so an `iovec` may point to them as long as there is a reference to the object.
/// `[UInt8]` does not promise that.
///
/// `@unchecked Sendable`: the bytes cannot be changed after `init` returns.
@safe
package final class SharedBytes: @unchecked Sendable {
    /// How many bytes; O(1).
    package let count: Int

    /// The first byte. Valid as long as there is a reference to this object.
    @unsafe package let baseAddress: UnsafeMutableRawPointer

    private static let live = Atomic<Int>(0)

    /// Bytes of all objects in the process.
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

    /// As ``init(_:)-(RawSpan)``.
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
            // The object, and its bytes with it, lives as long as it is borrowed.
            let span = unsafe RawSpan(_unsafeStart: baseAddress, byteCount: count)
            return unsafe _overrideLifetime(span, borrowing: self)
        }
    }

    /// A copy. O(bytes).
    package var array: [UInt8] {
        unsafe Array(UnsafeRawBufferPointer(start: baseAddress, count: count))
    }
}
