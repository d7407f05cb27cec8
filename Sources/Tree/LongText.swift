import PandoBytes

/// Bytes on the heap, in one object with their count. They never change.
struct LongText: @unchecked Sendable {
    // `ManagedBuffer` is not Sendable because it could be changed. This one is filled in `init`, and only
    // read afterwards.
    private let buffer: ManagedBuffer<Int, UInt8>

    init(_ bytes: Span<UInt8>) {
        let byteCount = bytes.count
        buffer = .create(minimumCapacity: byteCount) { _ in byteCount }
        unsafe buffer.withUnsafeMutablePointerToElements { start in
            unsafe bytes.withUnsafeBufferPointer { source in
                // In bounds: the buffer's capacity is at least the count. An empty span may have no address.
                if let first = source.baseAddress { unsafe start.initialize(from: first, count: byteCount) }
            }
        }
    }

    /// - Parameter fill: Gets `byteCount` zeros, and writes the bytes.
    init(byteCount: Int, _ fill: (inout MutableSpan<UInt8>) -> Void) {
        buffer = .create(minimumCapacity: byteCount) { _ in byteCount }
        unsafe buffer.withUnsafeMutablePointerToElements { start in
            // In bounds: the buffer's capacity is at least the count.
            unsafe start.initialize(repeating: 0, count: byteCount)
            var place = unsafe UnsafeMutableBufferPointer(start: start, count: byteCount).mutableSpan
            fill(&place)
        }
    }

    var count: Int { buffer.header }

    @inline(__always)
    func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe buffer.withUnsafeMutablePointers { (count, start) throws(Failure) -> Result in
            // All of them are initialised; the span is used only during the call, in which the buffer is
            // retained.
            try unsafe body(UnsafeBufferPointer(start: start, count: count.pointee).span)
        }
    }
}
