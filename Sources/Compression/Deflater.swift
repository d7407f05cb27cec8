import CZlib
import PandoBytes

/// Compresses a stream, piece by piece. Takes about 256 KiB of memory (zlib.h, with the largest window).
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

    private let stream: OpaquePointer

    /// - Parameter level: zlib's: 1 (fast) … 9 (small).
    /// - Throws: ``CompressionError/noMemory``.
    package init(_ coding: CompressionCoding, level: Int = Deflater.fastLevel) throws(CompressionError) {
        // 8 is zlib's own default.
        guard let stream = unsafe pando_deflate_new(Int32(min(9, max(1, level))), coding.windowBits, 8) else {
            throw .noMemory
        }
        unsafe self.stream = stream
    }

    deinit {
        unsafe pando_deflate_free(stream)
    }

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
    /// Appends what one step of zlib writes: at most `capacity` bytes.
    mutating func appendingStep(
        _ capacity: Int, _ body: (UnsafeMutableBufferPointer<UInt8>) -> pando_zlib_step
    ) -> pando_zlib_step {
        var step = pando_zlib_step()
        let piece = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            let target = unsafe UnsafeMutableBufferPointer(rebasing: buffer[..<capacity])
            step = unsafe body(target)
            count = step.written
        }
        append(contentsOf: piece)
        return step
    }
}
