import PandoBytes

/// The supported methods. They are case-sensitive (RFC 9110 §9.1).
package enum HTTPMethod: Sendable {
    case get, head, post, put, patch, delete, options
    /// Any other well-formed method; ``RequestHead/methodText`` has its name.
    case other

    init(_ token: Span<UInt8>) {
        if token.equals("GET") {
            self = .get
        } else if token.equals("PUT") {
            self = .put
        } else if token.equals("POST") {
            self = .post
        } else if token.equals("PATCH") {
            self = .patch
        } else if token.equals("DELETE") {
            self = .delete
        } else if token.equals("HEAD") {
            self = .head
        } else if token.equals("OPTIONS") {
            self = .options
        } else {
            self = .other
        }
    }
}

/// A request's head. It was checked: every parser agrees on what follows it.
///
/// A class, because it is passed to many functions: one reference is counted instead of those of its parts.
package final class RequestHead: Sendable {
    package let method: HTTPMethod
    package var version: HTTPVersion { line.version }
    package let fields: HeaderFields
    /// What follows the head. Never ``BodyFraming/untilClose``.
    package let framing: BodyFraming
    /// Whether the client may send another request on this connection. The response may still contain
    /// `close`.
    package let keepsAlive: Bool

    private let line: RequestLine
    /// The host that a trusted proxy has stated; nil for none.
    private let statedAuthority: Range<Int>?

    /// - Parameters:
    ///   - line: Ranges of the bytes of `fields`.
    ///   - fields: Checked.
    init(_ line: RequestLine, _ fields: HeaderFields, framing: BodyFraming) {
        method = HTTPMethod(fields.bytes.span.extracting(line.method))
        self.line = line
        self.fields = fields
        self.framing = framing
        keepsAlive = fields.keepsAlive(line.version)
        statedAuthority = nil
    }

    /// The same request as its client has made it, by the word of a trusted proxy: with the host of
    /// `X-Forwarded-Host`, where that is valid. Of several the first counts: the client's.
    package init(forwarded head: RequestHead) {
        method = head.method
        line = head.line
        fields = head.fields
        framing = head.framing
        keepsAlive = head.keepsAlive
        let stated = head.fields.bytes(of: "x-forwarded-host").map { value in
            trimmed(value[..<(value.firstIndex(of: UInt8(ascii: ",")) ?? value.endIndex)])
        }
        if let stated, !stated.isEmpty, isValidAuthority(Array(stated).span) {
            statedAuthority = stated.startIndex..<stated.endIndex
        } else {
            statedAuthority = nil
        }
    }

    /// Bytes of `X-Forwarded-For` that are looked at: those of 32 addresses with their ports, and space.
    private static let forwardedForByteLimit = 2048

    /// The last elements of `X-Forwarded-For`, of all lines in order, with commas between them: at most 2048
    /// bytes. They count only where a trusted proxy sends them.
    package var forwardedFor: [UInt8] {
        fields.lastElements(of: "x-forwarded-for", byteLimit: Self.forwardedForByteLimit)
    }

    /// Whether the client uses TLS, by `X-Forwarded-Proto`, of several the first; nil where that says
    /// neither. It counts only where a trusted proxy sends it.
    package var forwardedIsSecure: Bool? {
        let value = fields.bytes(of: "x-forwarded-proto") ?? []
        let first = trimmed(value[..<(value.firstIndex(of: UInt8(ascii: ",")) ?? value.endIndex)])
        if first.span.equals(ignoringCase: "https") || first.span.equals(ignoringCase: "wss") { return true }
        if first.span.equals(ignoringCase: "http") || first.span.equals(ignoringCase: "ws") { return false }
        return nil
    }

    /// The method as it was received.
    package var methodText: String { text(line.method) }

    /// OPTIONS of the server itself, not of a location (`*`, RFC 9110 §9.3.7). Then ``path`` is `/`.
    package var isForServer: Bool { line.isAsterisk }

    /// The target's path, not decoded. Begins with `/`. Bytes that are not UTF-8 become U+FFFD.
    package var path: Text { line.path.isEmpty ? "/" : Text(decoding: fields.bytes[line.path].span) }

    /// ``path`` as bytes, which need not be UTF-8; empty for `/` in an absolute target without a path, and
    /// for `*`.
    package var pathBytes: ArraySlice<UInt8> { fields.bytes[line.path] }

    /// The target's query without `?`, not decoded; nil when there is no `?`. Read it with ``QueryString``.
    package var queryBytes: ArraySlice<UInt8>? { line.query.map { fields.bytes[$0] } }

    /// The host and port that the request is addressed to: those of an absolute target, else of Host
    /// (RFC 9112 §3.3). Checked to be `host[:port]` in ASCII; empty when the client sent none.
    package var authority: String { String(decoding: authorityBytes, as: UTF8.self) }

    /// ``authority`` as bytes.
    package var authorityBytes: ArraySlice<UInt8> {
        if let stated = statedAuthority { return fields.bytes[stated] }
        return receivedAuthorityBytes
    }

    /// ``authorityBytes`` without the word of a proxy: what the peer itself has addressed.
    package var receivedAuthorityBytes: ArraySlice<UInt8> {
        if let authority = line.authority { fields.bytes[authority] } else { fields.bytes(of: "host") ?? [] }
    }

    /// The host of ``authorityBytes``, without the port; nil for none. An IPv6 address stays in its brackets.
    package var hostBytes: ArraySlice<UInt8>? {
        let authority = authorityBytes
        let end = authority.lastIndex(of: UInt8(ascii: "]")).map { $0 + 1 } ?? authority.startIndex
        let host = authority[..<(authority[end...].firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex)]
        return host.isEmpty ? nil : host
    }

    /// The value of the first field of that (lower-case) name.
    package func header(_ name: StaticString) -> Text? { fields[name] }

    /// Whether content follows the head, or may.
    package var hasContent: Bool { framing != .none && framing != .length(0) }

    /// Whether the client waits for `100 Continue` before it sends the content (RFC 9110 §10.1.1).
    package var expectsContinue: Bool {
        // Without content there is nothing to wait for.
        version == .http11 && hasContent && fields.has(token: "100-continue", in: "expect")
    }

    private func text(_ range: Range<Int>) -> String {
        String(decoding: fields.bytes[range], as: UTF8.self)
    }
}

extension RequestHead {
    /// Bytes of a request id; ours.
    private static let requestIDByteLimit = 128

    /// The id that the client, or a proxy before us, has given the request (`X-Request-ID`); nil for none,
    /// and for one that is too long or has other characters than visible ASCII.
    package var requestID: ArraySlice<UInt8>? {
        guard let id = fields.bytes(of: "x-request-id"), !id.isEmpty, id.count <= Self.requestIDByteLimit,
            id.allSatisfy({ 0x21...0x7E ~= $0 })
        else { return nil }
        return id
    }
}
