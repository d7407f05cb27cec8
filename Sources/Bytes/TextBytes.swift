/// The bytes of a long text on the heap: one object of 16 bytes and those, never changed once they are there.
/// How many there are is for its owner to know.
@usableFromInline
struct TextBytes: @unchecked Sendable {
    // `ManagedBuffer` is not Sendable because it could be changed. This one is filled before anybody else
    // sees it, and only read afterwards.
    @usableFromInline let buffer: ManagedBuffer<Void, UInt8>

    init(_ bytes: Span<UInt8>) {
        let byteCount = bytes.count
        buffer = .create(minimumCapacity: byteCount) { _ in }
        unsafe bytes.withUnsafeBufferPointer { source in
            // The buffer has room for so many. A span of none may have no address.
            if let first = source.baseAddress { unsafe start.initialize(from: first, count: byteCount) }
        }
    }

    /// Where they stand, as long as somebody refers to the object.
    @inlinable
    @inline(__always)
    var start: UnsafeMutablePointer<UInt8> {
        unsafe buffer.withUnsafeMutablePointerToElements { unsafe $0 }
    }
}
