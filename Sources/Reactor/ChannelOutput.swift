import COperatingSystem
import PandoBytes

/// What was written to a channel and was not sent yet. Bytes leave in the order in which they were written:
///
///     corked bytes (in the loop's ``LoopBuffers``, during a read event) ─▶ the queue: copied and shared chunks
///
/// It sends nothing itself: ``PlainStage`` and ``SecureStage`` do.
struct ChannelOutput {
    private var queue = OutboundQueue()
    /// Bytes that were written and that the kernel has not accepted yet.
    private(set) var unsentByteCount = 0
    /// Bytes written so far, in all.
    private(set) var writtenByteCount = 0
    /// The kernel accepts no more bytes. Nothing is sent until EPOLLOUT is reported.
    var isBlocked = false
    private var isCorked = false
    private var isAboveLowWater = false

    // MARK: Writing

    /// Adds a copy of `bytes`.
    /// - Returns: Whether they are in the queue, which must be flushed at the end of the tick. Corked bytes
    ///   are sent at the end of the read event.
    /// - Complexity: O(bytes).
    mutating func append(_ bytes: RawSpan, lowWater: Int, in buffers: LoopBuffers) -> Bool {
        let isQueued = unsafe bytes.withUnsafeBytes { source in
            guard let start = source.baseAddress, source.count > 0 else { return false }
            if isCorked, queue.isEmpty,
                unsafe source.count <= buffers.cork.count - buffers.corkedByteCount,
                let cork = unsafe buffers.cork.baseAddress
            {
                // In bounds: just checked. No one else gets the cork buffer, so the two do not overlap.
                unsafe (cork + buffers.corkedByteCount).copyMemory(from: start, byteCount: source.count)
                buffers.corkedByteCount += source.count
                return false
            }
            queue = unsafe buffers.chunks.append(source, to: queue)
            return true
        }
        countWritten(bytes.byteCount, lowWater)
        return isQueued
    }

    /// Adds `bytes` without copying them. The queue must be flushed at the end of the tick. O(1).
    mutating func append(_ bytes: SharedBytes, lowWater: Int, in buffers: LoopBuffers) {
        // Corked bytes were written earlier and go first.
        queue = buffers.chunks.append(bytes, to: queue)
        countWritten(bytes.count, lowWater)
    }

    private mutating func countWritten(_ byteCount: Int, _ lowWater: Int) {
        unsentByteCount += byteCount
        writtenByteCount += byteCount
        if unsentByteCount > lowWater { isAboveLowWater = true }
    }

    // MARK: The cork

    /// A read event begins: what is written during it is gathered, to be sent with one system call.
    mutating func cork(in buffers: LoopBuffers) {
        isCorked = true
        buffers.corkedByteCount = 0
    }

    /// Whether anything was gathered.
    func hasCorkedBytes(in buffers: LoopBuffers) -> Bool { isCorked && buffers.corkedByteCount > 0 }

    /// The read event is over. What was gathered and not sent is the front of the queue from now on.
    mutating func uncork(in buffers: LoopBuffers) {
        if hasCorkedBytes(in: buffers) { remove(0, in: buffers) }
        isCorked = false
    }

    // MARK: Sending

    /// Lists unsent bytes, oldest first, in the loop's slices. They are valid until the output changes.
    /// - Returns: How many slices there are, and their bytes.
    func gather(in buffers: LoopBuffers) -> (sliceCount: Int, byteCount: Int) {
        guard hasCorkedBytes(in: buffers) else {
            return unsafe buffers.chunks.gather(queue, into: buffers.slices, from: 0)
        }
        let corked = buffers.corkedByteCount
        unsafe buffers.slices[0] = pando_slice(
            base: UnsafeRawPointer(buffers.cork.baseAddress), count: corked)
        let (sliceCount, byteCount) = unsafe buffers.chunks.gather(queue, into: buffers.slices, from: 1)
        return (1 + sliceCount, corked + byteCount)
    }

    /// Removes the oldest `byteCount` bytes; ``countSent(_:)`` counts them. What is left of the cork buffer
    /// moves to the front of the queue.
    mutating func remove(_ byteCount: Int, in buffers: LoopBuffers) {
        let corked = isCorked ? buffers.corkedByteCount : 0
        let fromCork = min(byteCount, corked)
        queue = buffers.chunks.removeFirst(byteCount - fromCork, from: queue)
        guard corked > 0 else { return }
        if fromCork < corked {
            // In bounds: fromCork < corked <= the buffer's size.
            let rest = unsafe UnsafeRawBufferPointer(rebasing: buffers.cork[fromCork..<corked])
            queue = unsafe buffers.chunks.prepend(rest, to: queue)
        }
        buffers.corkedByteCount = 0
    }

    /// The kernel has accepted so many bytes.
    mutating func countSent(_ byteCount: Int) { unsentByteCount -= byteCount }

    /// Whether the output has fallen to the low-water mark since it was above. Asked once each time.
    mutating func hasDrained(to lowWater: Int) -> Bool {
        guard isAboveLowWater, unsentByteCount <= lowWater else { return false }
        isAboveLowWater = false
        return true
    }

    // MARK: Dropping

    /// Drops what was not removed.
    /// - Parameter kept: Bytes that were removed and are not sent yet: they stay counted.
    /// - Returns: How many bytes.
    mutating func removeAll(except kept: Int = 0, in buffers: LoopBuffers) -> Int {
        queue = buffers.chunks.removeAll(of: queue)
        if isCorked { buffers.corkedByteCount = 0 }
        defer { unsentByteCount = kept }
        return unsentByteCount - kept
    }

    /// A copy of what is in the queue. O(bytes).
    func queuedBytes(in buffers: LoopBuffers) -> [UInt8] { buffers.chunks.bytes(of: queue) }

    /// Bytes of memory that the queue takes for itself; shared bytes are not counted. O(1).
    var ownedByteCount: Int { queue.copiedByteCount }
}
