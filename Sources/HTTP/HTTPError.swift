/// How the peer's bytes violate HTTP. The stream cannot be read any further: send an error response and
/// close.
package enum HTTPError: Error, Hashable, Sendable {
    // Lines (RFC 9112 §2.2, §5)
    case bareLineFeed
    case bareCarriageReturn
    /// A control character, such as NUL: parsers that cut the line there could be made to read another
    /// header.
    case controlCharacter
    case headTooLarge
    case tooManyHeaderFields

    // Start line (RFC 9112 §3, §4)
    case malformedRequestLine
    case malformedStatusLine
    case malformedTarget
    case methodTooLong
    case targetTooLong
    case tooManyQueryPairs
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

    /// The status of the error response.
    package var status: HTTPStatus {
        switch self {  // No `default`: each new error needs a status here.
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
        case .targetTooLong, .tooManyQueryPairs: .targetTooLong
        case .unsupportedVersion: .versionNotSupported
        case .contentTooLarge: .contentTooLarge
        }
    }
}

/// Limits of a head. Each is enforced while the bytes are received.
package struct HeadLimits: Sendable {
    /// Bytes. A longer target is refused with status 414. RFC 9112 §3 recommends at least 8000; the query of
    /// a REST target may have a token of up to 8 KiB in addition to the path, hence twice that.
    package static let targetByteLimit = 16 << 10

    /// Pairs of a target's query. More are refused with status 414, before anything is made of them: each is
    /// two strings. A poll of long polling has 400 at most, three for each of its segments.
    package static let queryPairLimit = 400

    /// Bytes. A longer head is refused with status 431. Enough for the longest target, a token in a field,
    /// and the fields that proxies add.
    package static let headByteLimit = 48 << 10

    /// More field lines are refused with status 431. The default of Apache httpd (`LimitRequestFields`).
    package static let fieldCountLimit = 100

    /// Bytes. A longer method is refused with status 501 (RFC 9112 §3). The longest registered one,
    /// UPDATEREDIRECTREF, has 17 bytes.
    package static let methodByteLimit = 24

    /// Bytes of a request line beside its target: a method, two spaces, `HTTP/1.1`, CR LF.
    static let requestLineOverhead = methodByteLimit + 12

    package var targetByteLimit = Self.targetByteLimit
    package var headByteLimit = Self.headByteLimit
    package var fieldCountLimit = Self.fieldCountLimit

    package init() {}
}
