import PandoBytes

/// Inflates a body with `Content-Encoding: gzip` piece by piece: one member or several (RFC 1952 §2.2), and
/// nothing behind the last.
///
/// The output is bounded while it is made, so a decompression bomb takes no more memory than the limit.
package struct GzipBody: ~Copyable {
    /// Why a body is refused.
    package enum Problem: Error, Equatable, Sendable {
        /// Its output is larger than the limit.
        case tooLarge
        /// It is no gzip data, or zlib got no memory.
        case invalid(CompressionError)
    }

    private let inflater: Inflater
    private let byteLimit: Int
    private var byteCount = 0
    /// Whether a member has begun and not ended.
    private var isInside = false
    private var hasBegun = false

    /// - Parameter byteLimit: Most bytes of output, of all members together.
    /// - Throws: ``CompressionError/noMemory``.
    package init(byteLimit: Int) throws(CompressionError) {
        inflater = try Inflater(.gzip)
        self.byteLimit = byteLimit
    }

    /// Inflates the next piece of the body and appends the result to `output`.
    /// - Throws: ``Problem``; then no further call is allowed.
    package mutating func inflate(_ piece: RawSpan, into output: inout [UInt8]) throws(Problem) {
        var offset = 0
        while offset < piece.byteCount {
            if !isInside {
                // Another member. Anything else has no gzip header and is refused.
                if hasBegun { inflater.reset() }
                isInside = true
                hasBegun = true
            }
            let before = output.count
            let outcome: Inflater.Outcome
            do throws(CompressionError) {
                // One byte above the limit shows that there is more.
                outcome = try inflater.inflate(
                    piece, from: &offset, atMost: byteLimit - byteCount + 1, into: &output)
            } catch {
                throw .invalid(error)
            }
            byteCount += output.count - before
            guard byteCount <= byteLimit else { throw .tooLarge }
            if outcome == .end { isInside = false }
        }
    }

    /// Checks, at the end of the body, that it is complete.
    /// - Throws: ``Problem/invalid(_:)`` with ``CompressionError/truncated``.
    package func finish() throws(Problem) {
        guard hasBegun, !isInside else { throw .invalid(.truncated) }
    }
}
