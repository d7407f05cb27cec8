import PandoHTTP
import PandoTime

/// A request and its response, for the access log (`--access-log`).
///
/// Without the query: it may hold a token.
package final class LoggedRequest {
    package let method: String
    package let path: String
    /// ``RequestHead/requestID``.
    package let requestID: String?
    /// The client uses TLS, with this server or with a trusted proxy.
    package let isSecure: Bool
    package let began: MonotonicTime
    package internal(set) var status: UInt16 = 0
    /// When the response began.
    package internal(set) var ended: MonotonicTime

    /// Bytes of a path that are logged.
    private static let pathByteLimit = 1024

    /// Bytes that are not the head of a request: too many, too slow, or malformed.
    init(unreadableSince began: MonotonicTime, isSecure: Bool) {
        (method, path, requestID) = ("-", "-", nil)
        (self.isSecure, self.began, ended) = (isSecure, began, began)
    }

    init(_ head: RequestHead, isSecure: Bool, at time: MonotonicTime) {
        self.isSecure = isSecure
        method = head.methodText
        path = head.path.prefix(byteCount: Self.pathByteLimit).string
        requestID = head.requestID.map { String(decoding: $0, as: UTF8.self) }
        began = time
        ended = time
    }
}
