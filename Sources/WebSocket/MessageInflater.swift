import PandoBytes
import PandoCompression

/// Bounds the output of a compressed message in proportion to its input. The reader's `messageByteLimit` is the
/// absolute bound.
package struct InflationLimits: Sendable {
    /// Most bytes of output for each byte of input. Real JSON is compressed to a tenth, sometimes to a
    /// fiftieth; deflate reaches 1032.
    package var ratio: Int
    /// Up to this many bytes of output any ratio is allowed.
    package var freeByteCount: Int

    package init(ratio: Int = 250, freeByteCount: Int = 1 << 20) {
        self.ratio = max(1, ratio)
        self.freeByteCount = max(0, freeByteCount)
    }

    /// Most bytes of output for `count` bytes of input.
    func outputByteLimit(input count: Int) -> Int {
        let (product, overflows) = count.multipliedReportingOverflow(by: ratio)
        return max(freeByteCount, overflows ? .max : product)
    }
}

/// Inflates the messages of one direction (RFC 7692 §7.2.2), each as a whole.
///
/// Without context takeover nothing is left of a message: then one inflater serves all connections of a loop.
/// Confined to one thread.
package final class MessageInflater {
    private let inflater: Inflater
    private let takesOver: Bool
    private let limits: InflationLimits
    private let grant: CompressionBudget.Grant?
    /// Empty; its memory is used for the next message.
    private var spare: [UInt8] = []

    /// A sync flush ends with these bytes, which the sender removes (RFC 7692 §7.2.1).
    static let flushEnd: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]
    /// Most capacity that is kept for the next message.
    private static let spareByteLimit = 64 << 10
    /// Blocks of a message that are marked as the last (RFC 7692 §7.2.3.4): senders write one, at most. Each makes zlib
    /// begin anew, without any output that the limits would bound.
    private static let lastBlockLimit = 1024

    /// - Parameter grant: Of a budget; held as long as the inflater.
    /// - Throws: ``CompressionError/noMemory``.
    package init(
        _ direction: DeflateAgreement.Direction, limits: InflationLimits = InflationLimits(),
        grant: consuming CompressionBudget.Grant? = nil
    ) throws(CompressionError) {
        inflater = try Inflater(.raw(windowBits: direction.windowBits))
        takesOver = direction.takesOver
        self.limits = limits
        self.grant = grant
    }

    /// Most bytes that a message may have before it is inflated: data that cannot be compressed becomes a
    /// little longer, by at most an eighth with the smallest buffers (zlib's `deflateBound`).
    static func compressedByteLimit(messageByteLimit: Int) -> Int {
        let (sum, overflows) = messageByteLimit.addingReportingOverflow(messageByteLimit / 8 + 64)
        return overflows ? .max : sum
    }

    /// Inflates a message.
    /// - Parameters:
    ///   - compressed: The payloads of all its frames.
    ///   - byteLimit: Most bytes of the result.
    /// - Returns: For ``recycle(_:)``.
    /// - Throws: ``ProtocolViolation``; then no message may follow on the same connection.
    func inflate(_ compressed: RawSpan, byteLimit: Int) throws(ProtocolViolation) -> [UInt8] {
        defer { if !takesOver { inflater.reset() } }
        var output = exchange(&spare, with: [])
        let proportional = limits.outputByteLimit(input: compressed.byteCount)
        let limit = min(byteLimit, proportional)
        do {
            try inflate(compressed, outputByteLimit: limit, into: &output)
            if output.count <= limit {
                try inflate(Self.flushEnd.rawSpan, outputByteLimit: limit, into: &output)
            }
        } catch {
            throw error == .noMemory ? .noMemoryToInflate : .invalidDeflateData
        }
        guard output.count <= limit else {
            throw limit == byteLimit
                ? .messageTooBig(byteLimit: byteLimit) : .inflationRatioExceeded(limit: limits.ratio)
        }
        guard inflater.isAtBlockEnd else { throw .invalidDeflateData }
        return output
    }

    /// Stops one byte above the limit.
    private func inflate(
        _ input: RawSpan, outputByteLimit limit: Int, into output: inout [UInt8]
    ) throws(CompressionError) {
        var offset = 0
        var lastBlockCount = 0
        while offset < input.byteCount, output.count <= limit {
            let outcome = try inflater.inflate(
                input, from: &offset, atMost: limit - output.count + 1, into: &output)
            guard outcome == .end else { continue }
            lastBlockCount += 1
            guard lastBlockCount <= Self.lastBlockLimit else { throw .corrupt }
            inflater.continueAfterLastBlock()
        }
    }

    /// Takes back the memory of a message that was handled.
    func recycle(_ bytes: consuming [UInt8]) {
        guard bytes.capacity <= Self.spareByteLimit else { return }
        bytes.removeAll(keepingCapacity: true)
        spare = bytes
    }
}
