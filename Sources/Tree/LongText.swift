import PandoBytes

/// Bytes on the heap, one object, never changed once they are there.
struct LongText: @unchecked Sendable {
    // `ManagedBuffer` is not Sendable because it could be changed. This one is filled before anybody else
    // sees it, and only read afterwards.
    private let buffer: ManagedBuffer<Int, UInt8>

    init(_ bytes: Span<UInt8>) {
        let byteCount = bytes.count
        buffer = .create(minimumCapacity: byteCount) { _ in byteCount }
        unsafe buffer.withUnsafeMutablePointerToElements { start in
            unsafe bytes.withUnsafeBufferPointer { source in
                // The buffer has room for so many. A span of none may have no address.
                if let first = source.baseAddress { unsafe start.initialize(from: first, count: byteCount) }
            }
        }
    }

    /// - Parameter fill: Gets zeros.
    init(byteCount: Int, _ fill: (inout MutableSpan<UInt8>) -> Void) {
        buffer = .create(minimumCapacity: byteCount) { _ in byteCount }
        unsafe buffer.withUnsafeMutablePointerToElements { start in
            // The buffer has room for so many.
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
            // So many were initialised; the span does not outlive the call, which keeps the buffer.
            try unsafe body(UnsafeBufferPointer(start: start, count: count.pointee).span)
        }
    }
}
