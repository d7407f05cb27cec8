/// The bytes of a long text on the heap, in one object with a header of 16 bytes. They never change. ``Text``
/// has their count.
@usableFromInline
struct TextBytes: @unchecked Sendable {
    // `ManagedBuffer` is not Sendable because it could be changed. This one is filled in `init`, and only
    // read afterwards.
    @usableFromInline let buffer: ManagedBuffer<Void, UInt8>

    init(_ bytes: Span<UInt8>) {
        let byteCount = bytes.count
        buffer = .create(minimumCapacity: byteCount) { _ in }
        unsafe bytes.withUnsafeBufferPointer { source in
            // In bounds: the buffer's capacity is at least the count. An empty span may have no address.
            if let first = source.baseAddress { unsafe start.initialize(from: first, count: byteCount) }
        }
    }

    /// The first byte; valid as long as there is a reference to the object.
    @inlinable
    @inline(__always)
    var start: UnsafeMutablePointer<UInt8> {
        unsafe buffer.withUnsafeMutablePointerToElements { unsafe $0 }
    }
}
