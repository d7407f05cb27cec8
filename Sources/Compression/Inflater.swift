import CZlib
import PandoBytes

/// Inflates a stream, piece by piece, with a bound on its output. Takes about 40 KiB of memory.
@safe
package final class Inflater {
    /// Why a call has returned.
    package enum Outcome: Equatable {
        /// All input was consumed.
        case needsInput
        /// The limit was reached; there may be more output.
        case full
        /// The compressed data is complete. The rest of the input does not belong to it.
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

    /// Inflates `input` from `offset` on and appends the result to `output`.
    /// - Parameters:
    ///   - offset: Moved behind the bytes that were consumed.
    ///   - byteLimit: Most bytes that are appended.
    /// - Throws: ``CompressionError/corrupt``, ``CompressionError/noMemory``; then only ``reset()`` may be
    ///   called.
    /// - Complexity: O(input + output).
    package func inflate(
        _ input: RawSpan, from offset: inout Int, atMost byteLimit: Int, into output: inout [UInt8]
    ) throws(CompressionError) -> Outcome {
        var left = byteLimit
        while left > 0 {
            let start = offset
            let capacity = min(left, max(4096, min(Self.stepByteCount, (input.byteCount - start) * 4)))
            let step = unsafe output.appendingStep(capacity) { target in
                unsafe input.withUnsafeBytes { source in
                    // In bounds: `offset` bytes were consumed so far.
                    let rest = unsafe UnsafeRawBufferPointer(rebasing: source[start...])
                    return unsafe pando_inflate_step(
                        stream, rest.baseAddress, min(rest.count, Self.inputByteLimit), target.baseAddress,
                        target.count)
                }
            }
            offset += step.consumed
            left -= step.written
            switch step.status {
            case PANDO_ZLIB_END: return .end
            case PANDO_ZLIB_BAD_DATA: throw .corrupt
            case PANDO_ZLIB_NO_MEMORY: throw .noMemory
            default: break
            }
            // If the step did not fill its output, zlib has nothing more to write.
            if offset == input.byteCount, step.written < capacity { return .needsInput }
            if step.consumed == 0, step.written == 0 { throw .corrupt }
        }
        return .full
    }

    /// Starts a new stream, in the same memory.
    package func reset() {
        unsafe pando_inflate_reset(stream)
    }

    /// Most output of one step.
    private static let stepByteCount = 256 << 10
    /// Most input of one step: zlib counts in 32 bits.
    private static let inputByteLimit = 1 << 30
}
