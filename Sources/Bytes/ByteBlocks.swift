/// Bytes that come piece by piece and may become many. They fill blocks, and no block is ever copied into a
/// larger one: one array for all would be copied whenever it grows, up to 128 MiB in one piece.
///
///     filled   [64 KiB] [64 KiB] [128 KiB] [256 KiB] [512 KiB] [1 MiB] [1 MiB] …
///     last     [what came since]
///
/// A block has as much room as all before it have together, so that what is reserved is at most twice what
/// came; but no more than ``blockByteCount``.
package struct ByteBlocks: Sendable {
    /// Up to here the bytes are one array, which grows as all arrays do.
    package static let firstBlockByteCount = 64 << 10
    /// Most bytes of a block. To have its pages mapped or unmapped takes about 50 µs; 256 MiB are 260 blocks.
    package static let blockByteCount = 1 << 20

    /// Invariant: none is empty, and none will get more bytes.
    private var filled: [[UInt8]] = []
    /// Invariant: the sum of the counts of `filled`.
    private var filledByteCount = 0
    /// Invariant: not empty where `filled` is not.
    private var last: [UInt8] = []

    /// No bytes. No allocation.
    package init() {}

    /// All bytes. O(1).
    package var count: Int { filledByteCount + last.count }

    package var isEmpty: Bool { last.isEmpty }

    /// Whether another thread should free it: of each MiB that takes about 50 µs.
    package var takesLongToFree: Bool { count > Self.blockByteCount }

    /// Most bytes of `last`.
    private var lastByteLimit: Int {
        filled.isEmpty ? Self.firstBlockByteCount : min(filledByteCount, Self.blockByteCount)
    }

    /// Appends the bytes of a span.
    /// - Complexity: It copies `bytes`, and none that were there before, but for those of the first block
    ///   while that grows.
    package mutating func append(_ bytes: RawSpan) {
        var offset = 0
        while offset < bytes.byteCount {
            if last.count == lastByteLimit { beginBlock() }
            let end = min(bytes.byteCount, offset + lastByteLimit - last.count)
            last.append(bytes.extracting(offset..<end))
            offset = end
        }
    }

    private mutating func beginBlock() {
        filledByteCount += last.count
        filled.append(exchange(&last, with: []))
        last.reserveCapacity(lastByteLimit)
    }

    /// Calls `body` with the bytes of each block, the first one first; there may be none.
    /// - Throws: What `body` throws.
    package func forEachBlock<Failure>(_ body: (RawSpan) throws(Failure) -> Void) throws(Failure) {
        for block in filled { try body(block.rawSpan) }
        if !last.isEmpty { try body(last.rawSpan) }
    }

    /// All bytes in one array. Each block is freed when it was copied, so that only one is there twice;
    /// unless there is a copy of `self`.
    /// - Complexity: O(bytes); O(1) up to ``firstBlockByteCount``.
    package consuming func joined() -> [UInt8] {
        guard !filled.isEmpty else { return last }
        var joined: [UInt8] = []
        joined.reserveCapacity(count)
        for index in filled.indices {
            let block = exchange(&filled[index], with: [])
            joined.append(block.rawSpan)
        }
        joined.append(last.rawSpan)
        return joined
    }
}
