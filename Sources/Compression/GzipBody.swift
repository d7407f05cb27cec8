import PandoBytes

/// Inflates a body with `Content-Encoding: gzip`, as its pieces come in: one member or several (RFC 1952
/// §2.2), and nothing behind the last.
///
/// What is inflated is bounded while it is inflated, so a bomb costs no more than the limit.
package struct GzipBody: ~Copyable {
    package enum Problem: Error, Equatable, Sendable {
        /// More comes out than is allowed.
        case tooLarge
        case invalid(CompressionError)
    }

    private let inflater: Inflater
    private let byteLimit: Int
    private var byteCount = 0
    /// In the middle of a member. Between two of them, and behind the last, false.
    private var isInside = false
    private var hasBegun = false

    /// - Parameter byteLimit: Most bytes that may come out, of all members.
    package init(byteLimit: Int) throws(CompressionError) {
        inflater = try Inflater(.gzip)
        self.byteLimit = byteLimit
    }

    /// Appends what a piece of the body holds to `output`.
    /// - Throws: ``Problem``; the body is spent.
    package mutating func inflate(_ piece: RawSpan, into output: inout [UInt8]) throws(Problem) {
        var offset = 0
        while offset < piece.byteCount {
            if !isInside {
                // Another member, or garbage, which has no gzip header.
                if hasBegun { inflater.reset() }
                isInside = true
                hasBegun = true
            }
            let before = output.count
            let outcome: Inflater.Outcome
            do throws(CompressionError) {
                // One byte over the limit tells that there is more.
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

    /// The body has ended: is it whole?
    /// - Throws: ``Problem/invalid(_:)`` with ``CompressionError/truncated``.
    package func finish() throws(Problem) {
        guard hasBegun, !isInside else { throw .invalid(.truncated) }
    }
}
