import PandoBytes
import PandoHTTP

// The fields that the heads of all responses have (rest §3): at their beginning, and at their end.

extension RESTResponse {
    package static let jsonType: StaticString = "application/json; charset=utf-8"

    /// The status line, and the fields that all responses have.
    /// - Parameter contentType: Nil for a response without a body.
    static func startOfHead(_ status: HTTPStatus, _ contentType: StaticString?) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(512)
        if status == .ok, let contentType, unsafe contentType.utf8Start == jsonType.utf8Start {
            // Nearly all responses: the fields below, in one piece.
            head.append(startOfJSONHead)
            return head
        }
        head.append(statusLine: status)
        if let contentType { head.append(field: "Content-Type", contentType) }
        head.append(field: "Cache-Control", "no-cache")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head.append(field: "Access-Control-Expose-Headers", "ETag, X-Request-ID")
        return head
    }

    private static let startOfJSONHead: StaticString =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-cache\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: ETag, X-Request-ID\r\n"
}

extension [UInt8] {
    /// Appends the field with the cursor of the next page (§5.5), and lets pages of other origins read it.
    mutating func append(cursor: String?) {
        guard let cursor else { return }
        append(field: "Pando-Cursor", text: cursor)
        append(field: "Access-Control-Expose-Headers", "Pando-Cursor")
    }

    /// Appends the fields that end every head.
    mutating func endHead(contentLength: Int?, _ context: ResponseContext) {
        self += context.dateLine
        if let contentLength {
            append("Content-Length: ")
            append(decimal: UInt64(contentLength))
            append("\r\n")
        }
        append(
            context.keepsAlive
                ? "Connection: keep-alive\r\n\r\n" as StaticString : "Connection: close\r\n\r\n")
    }
}
