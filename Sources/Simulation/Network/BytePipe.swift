/// The bytes of one direction of a simulated connection, from the sender's write to the receiver's read.
///
///     written ≥ accepted ≥ arrived ≥ read
///        │          │          └── at the receiver's system, not read
///        │          └───────────── the sender's kernel has them
///        └──────────────────────── wait in the sender
///
/// The counts are of bytes since the beginning. The sender's kernel accepts no more than the receive window:
/// bytes that were accepted and not read.
struct BytePipe {
    /// The bytes from offset `base` on.
    private var bytes: [UInt8] = []
    private var base = 0
    private(set) var acceptedCount = 0
    private(set) var arrivedCount = 0
    private(set) var readCount = 0
    /// Most bytes that may be accepted and not read.
    var windowByteCount = 1 << 20
    /// The sender has closed its side: nothing more is written.
    private(set) var isEnded = false
    /// The receiver's system knows that.
    private(set) var hasEndArrived = false

    var writtenCount: Int { base + bytes.count }
    var unsentCount: Int { writtenCount - acceptedCount }
    var acceptableCount: Int { max(0, min(unsentCount, readCount + windowByteCount - acceptedCount)) }
    var inFlightCount: Int { acceptedCount - arrivedCount }
    var readableCount: Int { arrivedCount - readCount }
    /// Nothing is on its way, nor the end.
    var isQuiet: Bool { readCount == writtenCount && isEnded == hasEndArrived }

    /// The sender writes. Ignored after ``end()``.
    mutating func write(_ new: some Sequence<UInt8>) {
        guard !isEnded else { return }
        bytes.append(contentsOf: new)
    }

    /// The sender writes nothing more.
    mutating func end() { isEnded = true }

    /// The sender's kernel accepts bytes.
    /// - Precondition: `count` is at most ``acceptableCount``.
    mutating func accept(_ count: Int) {
        precondition(count <= acceptableCount)
        acceptedCount += count
    }

    /// The network carries bytes.
    /// - Precondition: `count` is at most ``inFlightCount``.
    mutating func carry(_ count: Int) {
        precondition(count <= inFlightCount)
        arrivedCount += count
    }

    /// The network carries the end, behind all bytes.
    mutating func carryEnd() {
        if isEnded, arrivedCount == writtenCount { hasEndArrived = true }
    }

    /// The receiver reads at most so many bytes.
    mutating func read(atMost limit: Int) -> [UInt8] {
        let count = min(limit, readableCount)
        guard count > 0 else { return [] }
        let start = readCount - base
        let read = Array(bytes[start..<start + count])
        readCount += count
        // Bytes that were read go when they are half of all: each is moved once.
        if (readCount - base) * 2 >= bytes.count {
            bytes.removeFirst(readCount - base)
            base = readCount
        }
        return read
    }

    /// The sender has died: what its kernel has not accepted is lost.
    mutating func dropUnsent() {
        bytes.removeLast(unsentCount)
        isEnded = true
    }
}
