import CZlib
import PandoBytes

/// Inflates a stream, piece by piece, with a bound on its output. Takes at most
/// ``CompressionMemory/inflaterByteCount(windowBits:)`` of memory: 40 KiB with the largest window, which zlib
/// allocates with the first output.
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
    /// Bytes of input beyond the output they have given and its share of overhead, since the output last
    /// caught up; in units of 1 / ``overheadShare`` byte.
    private var excess = 0
    private var excessByteLimit: Int
    /// Whether it was given up because too much input gave no output.
    package var hasExcess: Bool { excess > excessByteLimit * Self.overheadShare }
    /// Whether the input so far ends exactly where a block ends that is not the last: there a message of
    /// permessage-deflate must end (RFC 7692 §7.2.1).
    package private(set) var isAtBlockEnd = false

    /// - Throws: ``CompressionError/noMemory``.
    package init(_ coding: CompressionCoding) throws(CompressionError) {
        guard let stream = unsafe pando_inflate_new(coding.windowBits) else { throw .noMemory }
        unsafe self.stream = stream
        excessByteLimit = coding == .gzip ? Self.gzipExcessByteLimit : Self.excessByteLimit
    }

    deinit {
        unsafe pando_inflate_free(stream)
    }

    /// Bytes that zlib has allocated for this stream.
    package var memoryByteCount: Int { unsafe pando_zlib_byte_count(stream) }

    /// Inflates `input` from `offset` on and appends the result to `output`.
    /// - Parameters:
    ///   - offset: Moved behind the bytes that were consumed.
    ///   - byteLimit: Most bytes that are appended.
    /// - Throws: ``CompressionError/corrupt``, also for much input that gives no output;
    ///   ``CompressionError/noMemory``. Then only ``reset()`` may be called.
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
                        stream, rest.baseAddress, min(rest.count, Self.inputStepByteCount),
                        target.baseAddress, target.count)
                }
            }
            offset += step.consumed
            left -= step.written
            isAtBlockEnd = step.is_at_block_end != 0
            let paid = step.written * (Self.overheadShare + 1)
            excess = max(0, excess + step.consumed * Self.overheadShare - paid)
            guard !hasExcess else { throw .corrupt }
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

    /// Input that gave no output before counts no more: the next message begins, of a stream that goes on.
    /// - Parameter isBrief: It is given up after a millisecond of such input; otherwise after fifty.
    package func beginMessage(isBrief: Bool) {
        excess = 0
        excessByteLimit = isBrief ? Self.briefExcessByteLimit : Self.excessByteLimit
    }

    /// Starts a new stream, in the same memory. What the streams before it have taken without output goes on
    /// counting until ``beginMessage(isBrief:)``.
    package func reset() {
        unsafe pando_inflate_reset(stream)
        isAtBlockEnd = false
    }

    /// After ``Outcome/end``, of raw deflate only: goes on with the next byte, in the same window. A message
    /// of permessage-deflate may have blocks behind a last one (RFC 7692 §7.2.3.5).
    package func continueAfterLastBlock() {
        unsafe pando_inflate_continue(stream)
        isAtBlockEnd = false
    }

    /// Most output of one step.
    private static let stepByteCount = 256 << 10
    /// Most input of one step. Empty blocks with codes of their own take zlib 0.8 µs for each byte, where
    /// real data takes a hundredth, and give no output that the limits would bound.
    private static let inputStepByteCount = 1 << 10
    /// For each so many bytes of output, one byte of input more than they are is overhead: five bytes begin a
    /// stored block, and five or six end a flush. Bytes that do not become fewer have that all the way.
    private static let overheadShare = 4
    /// Bytes of input that may give no output besides: descriptions of codes, and the ends of flushes, of
    /// which some clients send one behind each fragment of a message.
    private static let excessByteLimit = 64 << 10
    private static let briefExcessByteLimit = 1 << 10
    /// The same with the head of a gzip file, which may hold a name and a comment.
    private static let gzipExcessByteLimit = 8 << 10
}
