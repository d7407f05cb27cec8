import CZlib
import PandoBytes

/// Inflates a stream, piece by piece, into no more than it is allowed to. Holds about 40 KiB while it lives.
@safe
package final class Inflater {
    package enum Outcome: Equatable {
        /// All input was taken.
        case needsInput
        /// As much came out as was allowed; more waits, inside or in the input.
        case full
        /// The compressed data is complete. What is left of the input does not belong to it.
        case end
    }

    private let stream: OpaquePointer

    /// - Throws: ``CompressionError/noMemory``.
    package init(_ coding: CompressionCoding) throws(CompressionError) {
        guard let stream = unsafe pando_inflate_new(coding.windowBits) else { throw .noMemory }
        unsafe self.stream = stream
    }

    deinit {
        unsafe pando_inflate_free(stream)
    }

    /// Takes bytes of `input` from `offset` on, moves `offset` behind them, and appends what comes out to
    /// `output`.
    /// - Parameter byteLimit: Most bytes that are appended.
    /// - Throws: ``CompressionError/corrupt``, ``CompressionError/noMemory``; then only ``reset()`` is left.
    package func inflate(
        _ input: RawSpan, from offset: inout Int, atMost byteLimit: Int, into output: inout [UInt8]
    ) throws(CompressionError) -> Outcome {
        var left = byteLimit
        while left > 0 {
            let start = offset
            let room = min(left, max(4096, min(Self.stepByteCount, (input.byteCount - start) * 4)))
            let step = unsafe output.appendingStep(room) { target in
                unsafe input.withUnsafeBytes { source in
                    // In bounds: the offset is what was taken so far.
                    let rest = unsafe UnsafeRawBufferPointer(rebasing: source[start...])
                    return unsafe pando_inflate_step(
                        stream, rest.baseAddress, min(rest.count, Self.inputByteLimit), target.baseAddress,
                        target.count)
                }
            }
            offset += step.taken
            left -= step.made
            switch step.status {
            case PANDO_ZLIB_END: return .end
            case PANDO_ZLIB_BAD_DATA: throw .corrupt
            case PANDO_ZLIB_NO_MEMORY: throw .noMemory
            default: break
            }
            // Room to spare says that nothing waits inside.
            if offset == input.byteCount, step.made < room { return .needsInput }
            if step.taken == 0, step.made == 0 { throw .corrupt }
        }
        return .full
    }

    /// Forgets everything, and begins anew.
    package func reset() {
        unsafe pando_inflate_reset(stream)
    }

    /// Bytes that come out at once: what one step may leave unused.
    private static let stepByteCount = 256 << 10
    /// zlib counts in 32 bits.
    private static let inputByteLimit = 1 << 30
}
