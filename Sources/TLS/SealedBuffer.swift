/// Bytes to send, in memory that grows and is used again. Confined to one thread.
@safe
package final class SealedBuffer {
    /// How many bytes there are; O(1).
    package private(set) var count = 0
    private var capacity: Int
    /// Valid until bytes are appended.
    @unsafe package private(set) var baseAddress: UnsafeMutableRawPointer

    /// More capacity than this is freed by ``removeAll()``.
    private static let keptByteCount = 256 << 10

    package init(capacity: Int = 4 << 10) {
        self.capacity = max(1, capacity)
        unsafe baseAddress = .allocate(byteCount: self.capacity, alignment: 8)
    }

    deinit {
        unsafe baseAddress.deallocate()
    }

    /// Removes all bytes.
    package func removeAll() {
        count = 0
        guard capacity > Self.keptByteCount else { return }
        unsafe baseAddress.deallocate()
        capacity = Self.keptByteCount
        unsafe baseAddress = .allocate(byteCount: capacity, alignment: 8)
    }

    /// Appends what `write` writes to the memory that it gets, which has space for `byteCount` bytes.
    /// - Parameter write: Returns how many bytes it has written; at most `byteCount`.
    func append(atMost byteCount: Int, _ write: (UnsafeMutableRawPointer) -> Int) {
        if byteCount > capacity - count {
            capacity = max(capacity * 2, count + byteCount)
            let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
            // In bounds: capacity >= count. No one else has the old memory.
            unsafe grown.copyMemory(from: baseAddress, byteCount: count)
            unsafe baseAddress.deallocate()
            unsafe baseAddress = unsafe grown
        }
        // In bounds: count + byteCount <= capacity.
        let written = unsafe write(baseAddress + count)
        precondition((0...byteCount).contains(written), "more was written than there is space for")
        count += written
    }

    /// The bytes from `start` on, as a copy. O(bytes).
    package func array(from start: Int = 0) -> [UInt8] {
        precondition((0...count).contains(start))
        return unsafe Array(UnsafeRawBufferPointer(start: baseAddress + start, count: count - start))
    }
}
