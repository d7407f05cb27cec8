/// The description of an alert (RFC 8446 §6, RFC 5246 §7.2).
package enum Alert: UInt8, Sendable {
    case closeNotify = 0
    case unexpectedMessage = 10
    case badRecordMAC = 20
    case recordOverflow = 22
    case illegalParameter = 47
    case decodeError = 50
    case internalError = 80
    case userCanceled = 90
    case noRenegotiation = 100
}

/// Why a connection cannot go on. The peer has been sent an alert, as far as there is one to send.
package enum TLSError: Error, Equatable, Sendable {
    /// The first bytes are those of an HTTP request without TLS, perhaps a HEAD request, whose response has
    /// no body.
    case plainHTTP(isHEAD: Bool)
    /// The handshake failed, in libssl's words.
    case handshake(String)
    /// The handshake has more bytes or records than any that is honest. A ClientHello that announces more is
    /// a ``violation(_:)``.
    case handshakeTooLong
    /// The peer broke the protocol; it was sent this alert.
    case violation(Alert)
    /// The peer sends records without data, more than any that is honest.
    case tooManyControlRecords
    /// The peer sent this fatal alert.
    case alerted(UInt8)
    /// No memory or no randomness.
    case machine
}

/// The text up to the zero that ends it.
func text(_ characters: [CChar]) -> String {
    String(decoding: characters.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
