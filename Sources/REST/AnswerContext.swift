import PandoBytes
import PandoCompression
import PandoHTTP
import Synchronization

/// What an answer must know of the request's head, and still can when the request is refused.
package struct AnswerContext: Equatable, Sendable {
    package var version: HTTPVersion
    /// Whether the connection stays open behind the answer. Turn it off when the request's body was not read
    /// to its end.
    package var keepsAlive: Bool
    /// HEAD: the answer is the head that GET would get (RFC 9110 §9.3.2).
    package var isHead: Bool
    /// The client would rather have a long answer compressed. Turn it off to spare memory and time.
    package var acceptsGzip: Bool
    /// `Date` (RFC 9110 §6.6.1) as a line of the head, with its end; empty for an answer without.
    package var dateLine: [UInt8]
    /// Compresses what is answered as a whole; without it each such answer makes its own.
    package var compressor: AnswerCompressor?

    package init(_ head: RequestHead, dateLine: [UInt8] = [], compressor: AnswerCompressor? = nil) {
        self.dateLine = dateLine
        self.compressor = compressor
        acceptsGzip = head.prefersGzip
        version = head.version
        keepsAlive = head.keepsAlive
        isHead = head.method == .head
    }

    init(refusing isHead: Bool, dateLine: [UInt8]) {
        self.dateLine = dateLine
        acceptsGzip = false
        version = .http11
        keepsAlive = false
        self.isHead = isHead
    }
}

/// Compresses whole answers, one after the other. Holds about 256 KiB from the first one on: one for each
/// loop.
package final class AnswerCompressor: Equatable, Sendable {
    private let deflater = Mutex<Deflater?>(nil)

    package init() {}

    /// A gzip file with these bytes, or nil when there is no memory for it.
    /// - Complexity: O(bytes), some 10 ns each.
    func gzip(_ bytes: [UInt8]) -> [UInt8]? {
        deflater.withLock { deflater in
            if deflater == nil { deflater = try? Deflater(.gzip) } else { deflater?.reset() }
            guard let deflater else { return nil }
            var packed: [UInt8] = []
            deflater.deflate(bytes.rawSpan, flush: .finish, into: &packed)
            return packed
        }
    }

    package static func == (left: AnswerCompressor, right: AnswerCompressor) -> Bool { left === right }
}
