import PandoBytes
import PandoHTTP

/// The response to a request for a file: 200 with its bytes, 304 or 412.
package struct StaticResponse: Sendable {
    package let status: HTTPStatus
    /// The status line and the fields of the file; `Date`, `Content-Length` and `Connection` are the
    /// caller's.
    package let head: [UInt8]
    /// Empty with 304 and 412.
    package let body: [UInt8]

    init(
        _ file: StaticFile, _ representation: StaticFile.Representation, _ verdict: PreconditionVerdict
    ) {
        status =
            switch verdict {
            case .deliver: .ok
            case .notModified: .notModified
            case .failed: .preconditionFailed
            }
        var head: [UInt8] = []
        head.reserveCapacity(1 << 10)
        head.append(statusLine: status)
        // RFC 9110 §15.4.5: what a cache needs to know is in both.
        head.append(field: "ETag", text: representation.etag)
        // Each use is checked, which takes one short request: files change with the server that delivers
        // them.
        head.append(field: "Cache-Control", "no-cache")
        if file.isCompressible { head.append(field: "Vary", "Accept-Encoding") }
        head.append(Self.security)
        if status == .ok {
            head.append(field: "Content-Type", file.contentType)
            if representation.isGzip { head.append(field: "Content-Encoding", "gzip") }
        }
        self.head = head
        body = status == .ok ? representation.bytes : []
    }

    /// Scripts and styles of this server only, none inside a page, none made from text; and no page of
    /// another site may show ours in a frame or read it.
    private static let security: StaticString =
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\nX-Frame-Options: DENY\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
}
