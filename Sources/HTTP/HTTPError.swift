/// What the peer's bytes did wrong. After any of these the stream has no meaning left: answer and close.
package enum HTTPError: Error, Hashable, Sendable {
    // Lines (RFC 9112 §2.2, §5)
    case bareLineFeed
    case bareCarriageReturn
    /// A control character, or NUL: the classic disguise of a second header.
    case controlCharacter
    case headTooLarge
    case tooManyHeaderFields

    // Start line (RFC 9112 §3, §4)
    case malformedRequestLine
    case malformedStatusLine
    case malformedTarget
    case methodTooLong
    case targetTooLong
    case unsupportedVersion

    // Header fields (RFC 9112 §5)
    case foldedLine
    case malformedHeaderName
    case missingHost
    case repeatedHost
    case malformedHost

    // Framing (RFC 9112 §6, §7)
    case malformedContentLength
    case repeatedContentLength
    case contentLengthWithTransferEncoding
    case transferEncodingInOldVersion
    case unsupportedTransferEncoding
    case malformedTransferEncoding
    case malformedChunk
    case trailersTooLarge
    case contentTooLarge
    /// The connection ended inside a head or a body.
    case truncated

    /// The status owed to the peer.
    package var status: HTTPStatus {
        switch self {  // No `default`: a new error must choose its status here.
        case .bareLineFeed, .bareCarriageReturn, .controlCharacter, .malformedRequestLine,
            .malformedStatusLine,
            .malformedTarget, .foldedLine, .malformedHeaderName, .missingHost,
            .repeatedHost,
            .malformedHost, .malformedContentLength, .repeatedContentLength,
            .contentLengthWithTransferEncoding,
            .transferEncodingInOldVersion, .malformedTransferEncoding, .malformedChunk, .truncated:
            .badRequest
        case .headTooLarge, .tooManyHeaderFields, .trailersTooLarge: .headerFieldsTooLarge
        case .methodTooLong, .unsupportedTransferEncoding: .notImplemented
        case .targetTooLong: .targetTooLong
        case .unsupportedVersion: .versionNotSupported
        case .contentTooLarge: .contentTooLarge
        }
    }
}

/// How much of a head we are willing to hold. Every limit is enforced while the bytes come in.
package struct HeadLimits: Sendable {
    /// A longer target is answered 414. RFC 9112 §3 asks for at least 8000; a REST target may carry a token
    /// of up to 8 KiB in its query beside the path, so twice that.
    package static let targetByteLimit = 16 << 10

    /// A longer head is answered 431. A full target, a token in a header, and room for what proxies add.
    package static let headByteLimit = 48 << 10

    /// More header fields are answered 431. The default of Apache httpd (`LimitRequestFields`).
    package static let fieldCountLimit = 100

    /// A longer method is answered 501 (RFC 9112 §3). The longest registered one, UPDATEREDIRECTREF, has 17
    /// bytes.
    package static let methodByteLimit = 24

    /// What a request line may hold beside its target: a method, two spaces, `HTTP/1.1`, CR LF.
    static let requestLineOverhead = methodByteLimit + 12

    package var targetByteLimit = Self.targetByteLimit
    package var headByteLimit = Self.headByteLimit
    package var fieldCountLimit = Self.fieldCountLimit

    package init() {}
}
