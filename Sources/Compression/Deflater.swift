import CZlib
import PandoBytes

/// Compresses a stream, piece by piece. Takes
/// ``CompressionMemory/deflaterByteCount(windowBits:memoryLevel:)`` of memory: 268 KiB with the largest
/// window.
@safe
package final class Deflater {
    /// How much of the input a call must write to the output.
    package enum Flush {
        /// As much as zlib chooses; the rest stays inside.
        case none
        /// All input so far, up to a byte boundary: for the end of a message.
        case sync
        /// All input, and the end of the stream. Afterwards only ``reset()`` may be called.
        case finish
    }

    /// Takes a third of the time of zlib's default level; for JSON the output is about a tenth larger.
    package static let fastLevel = 1

    /// zlib's own.
    package static let defaultMemoryLevel = 8

    private let stream: OpaquePointer

    /// - Parameters:
    ///   - level: zlib's: 1 (fast) … 9 (small).
    ///   - memoryLevel: zlib's: 1 (least memory) … 9 (fastest).
    /// - Throws: ``CompressionError/noMemory``.
    package init(
        _ coding: CompressionCoding, level: Int = Deflater.fastLevel,
        memoryLevel: Int = Deflater.defaultMemoryLevel
    ) throws(CompressionError) {
        guard
            let stream = unsafe pando_deflate_new(
                Int32(min(9, max(1, level))), coding.windowBits, Int32(min(9, max(1, memoryLevel))))
        else { throw .noMemory }
        unsafe self.stream = stream
    }

    deinit {
        unsafe pando_deflate_free(stream)
    }

    /// Bytes that zlib has allocated for this stream.
    package var memoryByteCount: Int { unsafe pando_zlib_byte_count(stream) }

    /// Compresses `input` and appends the result to `output`.
    /// - Complexity: O(input): about 10 ns a byte of JSON at ``fastLevel``.
    package func deflate(_ input: RawSpan, flush: Flush, into output: inout [UInt8]) {
        var offset = 0
        var capacity = max(1024, input.byteCount / 4)
        while true {
            let step = unsafe output.appendingStep(capacity) { target in
                unsafe input.withUnsafeBytes { source in
                    // In bounds: zlib has consumed `offset` bytes.
                    let rest = unsafe UnsafeRawBufferPointer(rebasing: source[offset...])
                    return unsafe pando_deflate_step(
                        stream, rest.baseAddress, min(rest.count, Self.stepByteLimit), target.baseAddress,
                        target.count,
                        rest.count > Self.stepByteLimit ? PANDO_ZLIB_NO_FLUSH : flush.raw)
                }
            }
            offset += step.consumed
            // If the step did not fill its output, zlib has nothing more to write.
            if step.status == PANDO_ZLIB_END || (offset == input.byteCount && step.written < capacity) {
                return
            }
            // No input can make deflate fail.
            precondition(step.status == PANDO_ZLIB_OK)
            capacity = min(max(capacity, 16 << 10) * 2, 1 << 20)
        }
    }

    /// Starts a new stream, in the same memory.
    package func reset() {
        unsafe pando_deflate_reset(stream)
    }

    /// Most input of one step: zlib counts in 32 bits.
    private static let stepByteLimit = 1 << 30
}

extension Deflater.Flush {
    fileprivate var raw: pando_zlib_flush {
        switch self {
        case .none: PANDO_ZLIB_NO_FLUSH
        case .sync: PANDO_ZLIB_SYNC_FLUSH
        case .finish: PANDO_ZLIB_FINISH
        }
    }
}

extension [UInt8] {
    /// Appends what one step of zlib writes: at most `capacity` bytes, in place.
    mutating func appendingStep(
        _ capacity: Int, _ body: (UnsafeMutableBufferPointer<UInt8>) -> pando_zlib_step
    ) -> pando_zlib_step {
        var step = pando_zlib_step()
        append(addingCapacity: capacity) { output in
            unsafe output.withUnsafeMutableBufferPointer { free, writtenCount in
                // In bounds: there is space for at least `capacity` bytes, and zlib counts what it writes.
                step = unsafe body(UnsafeMutableBufferPointer(rebasing: free[..<capacity]))
                writtenCount = step.written
            }
        }
        return step
    }
}
