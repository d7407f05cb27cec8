import PandoBytes

/// Encodes records as the blocks of a checkpoint, in the memory of one block. The header and the blocks, one
/// after the other, are the bytes of the file: on a disk (``CheckpointWriter``), or in a backup that is sent
/// over a socket.
///
///     var encoder = CheckpointEncoder(header)
///     encoder.header.bytes                                             // first
///     encoder.append(…); if encoder.isFull { encoder.endBlock() }     // many
///     encoder.finish()                                                 // the rest, and the end mark
package struct CheckpointEncoder: Sendable {
    package let header: CheckpointHeader
    private let seed: UInt32
    /// The current block, with its header at the front.
    private var block: [UInt8] = []
    package private(set) var recordCount: UInt64 = 0

    package init(_ header: CheckpointHeader) {
        self.header = header
        seed = header.seed
        beginBlock()
    }

    /// Bytes of the current block.
    package var pendingByteCount: Int { block.count }

    /// The block is full and has to be ended.
    package var isFull: Bool { block.count >= CheckpointFormat.blockByteCount }

    /// Appends a record to the current block.
    /// - Parameter payload: At most ``JournalFormat/payloadByteLimit`` bytes.
    /// - Precondition: Not ``isFull``.
    /// - Complexity: One copy of `payload`.
    package mutating func append(_ kind: RecordKind, namespace: UInt32, payload: RawSpan) {
        precondition(
            payload.byteCount <= JournalFormat.payloadByteLimit, "no record of the journal is as large")
        precondition(!isFull, "a full block was not ended")
        block.append(littleEndian: UInt32(payload.byteCount))
        block.append(littleEndian: kind.rawValue)
        block.append(littleEndian: UInt16(0))
        block.append(littleEndian: namespace)
        block.append(payload)
        recordCount += 1
    }

    /// Ends the current block and begins the next one. An empty block is the end mark.
    /// - Returns: The bytes of the block, ready to be written.
    package mutating func endBlock() -> [UInt8] {
        block.replace(littleEndian: UInt32(block.count - CheckpointFormat.blockHeaderByteCount), at: 4)
        block.replace(
            littleEndian: crc32c(block.rawSpan.extracting(4..<block.count), continuing: seed), at: 0)
        let ended = block
        beginBlock()
        return ended
    }

    /// Ends the last block, and appends the end mark.
    package mutating func finish() -> [UInt8] {
        let rest = block.count > CheckpointFormat.blockHeaderByteCount ? endBlock() : []
        return rest + endBlock()
    }

    private mutating func beginBlock() {
        block = []
        // A block that is nearly full may get one more record of about a block's size.
        block.reserveCapacity(2 * CheckpointFormat.blockByteCount + CheckpointFormat.blockByteCount / 4)
        block.append(littleEndian: UInt64(0))
        block.append(littleEndian: recordCount)
    }
}
