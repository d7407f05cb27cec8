import PandoBytes
import PandoHTTP
import PandoTree

// The responses to requests that fail.

extension RESTResponse {
    /// The response to a malformed request, or to one that came too slowly. The connection ends after it.
    /// - Parameter isHead: The request is known to be HEAD, whose response has no body.
    package static func refusal(_ status: HTTPStatus, isHead: Bool, dateLine: [UInt8] = []) -> RESTResponse {
        let body = refusalBody(status)
        let context = ResponseContext(refusing: isHead, dateLine: dateLine)
        return RESTResponse(status, startOfHead(status, jsonType), whole: body, context)
    }

    /// The same to a request whose head is known: what is malformed, or too slow, is its body.
    package static func refusal(_ status: HTTPStatus, _ context: ResponseContext) -> RESTResponse {
        refusal(status, isHead: context.isHead, dateLine: context.dateLine)
    }

    /// The body of a response that refuses what is no request.
    package static func refusalBody(_ status: HTTPStatus) -> [UInt8] { errorBody("\(status.reasonPhrase)") }

    /// The response to a failed request: `error` and its text, always pretty (§3).
    package static func error(_ error: RESTError, _ context: ResponseContext) -> RESTResponse {
        var head = startOfHead(error.status, jsonType)
        switch error {
        case .methodNotAllowed(let allowed): head.append(field: "Allow", allowed.list)
        case .unsupportedCoding: head.append(field: "Accept-Encoding", "gzip")
        case .unavailable, .tooManyConnections: head.append(field: "Retry-After", decimal: retrySeconds)
        case .limitExceeded(_, let seconds):
            head.append(field: "Retry-After", decimal: UInt64(max(1, seconds)))
        default: break
        }
        let body = errorBody(error.text)
        return RESTResponse(error.status, head, whole: body, context)
    }

    /// `Retry-After` in seconds, where memory or connections are short (RFC 9110 §10.2.3). A client that
    /// holds a connection without sending a byte is disconnected by then.
    private static let retrySeconds: UInt64 = 30

    /// The response to a failed request that no case of ``RESTError`` describes: invalid rules with their
    /// position, or an HTTP error.
    /// - Parameter methods: For 405: the methods that are allowed.
    package static func error(
        _ status: HTTPStatus, text: String, allowing methods: StaticString? = nil, _ context: ResponseContext
    ) -> RESTResponse {
        var head = startOfHead(status, jsonType)
        if let methods { head.append(field: "Allow", methods) }
        return RESTResponse(status, head, whole: errorBody(text), context)
    }

    private static func errorBody(_ text: String) -> [UInt8] {
        var body: [UInt8] = []
        body.append("{\n  \"error\" : ")
        body.append(json: Text(text))
        body.append("\n}\n")
        return body
    }
}
