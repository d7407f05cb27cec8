import PandoBytes
import PandoCompression
import PandoHTTP
import Synchronization

/// What a response needs of the request's head. It is known even when the request is refused.
package struct ResponseContext: Equatable, Sendable {
    package var version: HTTPVersion
    /// Whether the connection stays open after the response. Must be false when the request's body was not
    /// read to its end.
    package var keepsAlive: Bool
    /// HEAD: the response is the head of a GET's response (RFC 9110 §9.3.2).
    package var isHead: Bool
    /// The client prefers a compressed response. May be set to false, to save memory and time.
    package var acceptsGzip: Bool
    /// Whether up to ``RESTLimits/wholeResponseByteCount`` may be printed before the first byte is sent, so
    /// that the response has a Content-Length. May be set to false, to save memory: what is longer than a
    /// piece then has none. Without effect on compressed responses.
    package var mayBufferWhole = true
    /// `Date` (RFC 9110 §6.6.1) as a line of the head with its CR LF, and behind it the request's
    /// `X-Request-ID`, if it has one; empty for neither.
    package var dateLine: [UInt8]
    /// Compresses whole responses; without it each of them makes its own compressor.
    package var compressor: ResponseCompressor?

    package init(_ head: RequestHead, dateLine: [UInt8] = [], compressor: ResponseCompressor? = nil) {
        self.dateLine = dateLine
        self.dateLine.append(requestID: head.requestID)
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

/// Compresses whole responses, one after the other. It holds about 256 KiB from the first one on, so each
/// loop has one.
package final class ResponseCompressor: Equatable, Sendable {
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

    package static func == (left: ResponseCompressor, right: ResponseCompressor) -> Bool { left === right }
}
