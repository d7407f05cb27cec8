import PandoBytes

/// Puts records into the blocks of a checkpoint, in the memory of one block. What it gives, one after the
/// other, is the file: on a disk (``CheckpointWriter``), in a backup, or on its way to one over a socket.
///
///     var encoder = CheckpointEncoder(header)
///     encoder.header.bytes                                             // first
///     encoder.append(…); if encoder.isFull { encoder.takeBlock() }     // many
///     encoder.finish()                                                 // what is left, and the end mark
package struct CheckpointEncoder: Sendable {
    package let header: CheckpointHeader
    private let seed: UInt32
    /// The block being filled, its own header in front.
    private var block: [UInt8] = []
    package private(set) var recordCount: UInt64 = 0

    package init(_ header: CheckpointHeader) {
        self.header = header
        seed = header.seed
        beginBlock()
    }

    /// Bytes of the block being filled.
    package var pendingByteCount: Int { block.count }

    /// The block holds so much that it should be taken.
    package var isFull: Bool { block.count >= CheckpointFormat.blockByteCount }

    /// - Parameter payload: At most ``JournalFormat/payloadByteLimit``.
    /// - Precondition: Not ``isFull``.
    /// - Complexity: One copy of `payload`.
    package mutating func append(_ kind: RecordKind, namespace: UInt32, payload: RawSpan) {
        precondition(payload.byteCount <= JournalFormat.payloadByteLimit, "no record of the log is as large")
        precondition(!isFull, "a block was not taken")
        block.append(littleEndian: UInt32(payload.byteCount))
        block.append(littleEndian: kind.rawValue)
        block.append(littleEndian: UInt16(0))
        block.append(littleEndian: namespace)
        block.append(payload)
        recordCount += 1
    }

    /// The block so far, ready to be written. An empty one is the end mark.
    package mutating func takeBlock() -> [UInt8] {
        block.replace(littleEndian: UInt32(block.count - CheckpointFormat.blockHeaderByteCount), at: 4)
        block.replace(
            littleEndian: crc32c(block.rawSpan.extracting(4..<block.count), continuing: seed), at: 0)
        let taken = block
        beginBlock()
        return taken
    }

    /// What is left, and the end mark.
    package mutating func finish() -> [UInt8] {
        let rest = block.count > CheckpointFormat.blockHeaderByteCount ? takeBlock() : []
        return rest + takeBlock()
    }

    private mutating func beginBlock() {
        block = []
        // A record of about a block's bytes may be the second one in it.
        block.reserveCapacity(2 * CheckpointFormat.blockByteCount + CheckpointFormat.blockByteCount / 4)
        block.append(littleEndian: UInt64(0))
        block.append(littleEndian: recordCount)
    }
}
