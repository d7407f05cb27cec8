import CZlib
import PandoBytes

/// Compresses a stream, piece by piece. Holds about 256 KiB while it lives (zlib.h, at full window).
@safe
package final class Deflater {
    /// What comes out of a step beside what had to.
    package enum Flush {
        /// Only what zlib wants to let go.
        case none
        /// Everything given so far, up to the end of a byte: a message, say.
        case sync
        /// Everything, and the end. Then only ``reset()`` is left.
        case finish
    }

    /// A third of the time of zlib's default level, for JSON about a tenth larger.
    package static let fastLevel = 1

    private let stream: OpaquePointer

    /// - Parameter level: 1 (fast) … 9 (small), as zlib has it.
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

    /// Appends what comes out to `output`.
    /// - Complexity: O(input): some 10 ns a byte of JSON at ``fastLevel``.
    package func deflate(_ input: RawSpan, flush: Flush, into output: inout [UInt8]) {
        var offset = 0
        var room = max(1024, input.byteCount / 4)
        while true {
            let step = unsafe output.appendingStep(room) { target in
                unsafe input.withUnsafeBytes { source in
                    // In bounds: the offset is what zlib took so far.
                    let rest = unsafe UnsafeRawBufferPointer(rebasing: source[offset...])
                    return unsafe pando_deflate_step(
                        stream, rest.baseAddress, min(rest.count, Self.stepByteLimit), target.baseAddress,
                        target.count,
                        rest.count > Self.stepByteLimit ? PANDO_ZLIB_NO_FLUSH : flush.raw)
                }
            }
            offset += step.taken
            // Room to spare says that nothing waits inside.
            if step.status == PANDO_ZLIB_END || (offset == input.byteCount && step.made < room) { return }
            // Anything but progress would be zlib used wrongly: never input's fault.
            precondition(step.status == PANDO_ZLIB_OK)
            room = min(max(room, 16 << 10) * 2, 1 << 20)
        }
    }

    /// Forgets everything, and begins anew.
    package func reset() {
        unsafe pando_deflate_reset(stream)
    }

    /// zlib counts in 32 bits.
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
    /// Grows by at most `room` bytes that `body` fills, and says how many.
    mutating func appendingStep(
        _ room: Int, _ body: (UnsafeMutableBufferPointer<UInt8>) -> pando_zlib_step
    ) -> pando_zlib_step {
        var step = pando_zlib_step()
        let piece = unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            let target = unsafe UnsafeMutableBufferPointer(rebasing: buffer[..<room])
            step = unsafe body(target)
            count = step.made
        }
        append(contentsOf: piece)
        return step
    }
}
