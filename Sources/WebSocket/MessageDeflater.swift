import PandoBytes
import PandoCompression

/// Compresses messages of one direction (RFC 7692 §7.2.1) and writes each as one frame.
///
/// Without context takeover a frame depends on its message alone: the same message gives the same bytes,
/// which all connections may be sent whose ``DeflateAgreement`` allows the window, and one deflater serves
/// all connections of a loop. On one connection, frames of such a deflater must not be mixed with frames of
/// one that takes over. Confined to one thread.
package final class MessageDeflater {
    /// Settings that do not depend on the peer.
    package struct Options: Sendable {
        /// Shorter messages are not compressed.
        package var thresholdByteCount = 1000
        /// zlib's: 1 (fast) … 9 (small).
        package var level = Deflater.fastLevel
        /// zlib's: 1 (least memory) … 9.
        package var memoryLevel = Deflater.defaultMemoryLevel

        package init() {}
    }

    private let deflater: Deflater
    private let takesOver: Bool
    private let thresholdByteCount: Int
    private let grant: CompressionBudget.Grant?
    /// The compressed message; its memory is used again.
    private var compressed: [UInt8] = []

    /// Most capacity that is kept for the next message.
    private static let keptByteLimit = 64 << 10

    /// - Parameter grant: Of a budget; held as long as the deflater.
    /// - Throws: ``CompressionError/noMemory``.
    package init(
        _ direction: DeflateAgreement.Direction, options: Options = Options(),
        grant: consuming CompressionBudget.Grant? = nil
    ) throws(CompressionError) {
        deflater = try Deflater(
            .raw(windowBits: direction.windowBits), level: options.level, memoryLevel: options.memoryLevel)
        takesOver = direction.takesOver
        thresholdByteCount = max(0, options.thresholdByteCount)
        self.grant = grant
    }

    /// Whether a message of that size is compressed.
    package func compresses(byteCount: Int) -> Bool { byteCount >= thresholdByteCount }

    /// Appends a message as one frame: compressed, or plain where it is below the threshold. Without
    /// takeover, a message that compression would not make shorter is plain, too.
    /// - Parameters:
    ///   - opcode: `text` or `binary`.
    ///   - maskingKey: Of a client (RFC 6455 §5.3).
    /// - Complexity: O(payload): about 10 ns a byte of JSON.
    package func append(
        message opcode: Opcode, payload: RawSpan, to output: inout [UInt8], maskingKey: UInt32? = nil
    ) {
        guard compresses(byteCount: payload.byteCount) else {
            return output.append(frame: opcode, payload: payload, maskingKey: maskingKey)
        }
        compress(payload)
        if !takesOver, compressed.count >= payload.byteCount {
            output.append(frame: opcode, payload: payload, maskingKey: maskingKey)
        } else {
            // In a local variable: a span must not outlive what it points into, and a property may be
            // changed.
            let compressed = compressed
            output.append(
                frame: opcode, payload: compressed.rawSpan, isCompressed: true, maskingKey: maskingKey)
        }
        if compressed.capacity > Self.keptByteLimit { compressed = [] }
    }

    private func compress(_ payload: RawSpan) {
        compressed.removeAll(keepingCapacity: true)
        guard payload.byteCount > 0 else {
            // RFC 7692 §7.2.3.6. zlib writes nothing for a second flush without input.
            compressed.append(0)
            return
        }
        deflater.deflate(payload, flush: .sync, into: &compressed)
        precondition(compressed.suffix(4).elementsEqual(MessageInflater.flushEnd))
        compressed.removeLast(4)
        if !takesOver { deflater.reset() }
    }
}
