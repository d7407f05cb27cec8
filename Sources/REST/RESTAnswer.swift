import PandoBytes
import PandoCompression
import PandoHTTP
import PandoTree

/// What makes a body of any size, piece by piece, while it is sent.
package protocol AnswerSource: Sendable {
    /// The next bytes, some tens of KiB, never none; nil at the end.
    mutating func next() -> [UInt8]?
}

/// One answer, head and body, as bytes to be sent (rest §3). A small one is one piece; a large value is
/// printed
/// from its snapshot while it is sent, in chunks.
///
/// One that is compressed while it is sent holds a ``Deflater``: there must be one copy of it.
package struct RESTAnswer {
    private enum Rest {
        case nothing
        case bytes([UInt8])
        case printer(ValuePrinter)
        case chunks(ValuePrinter)
        case gzip(ValuePrinter, Deflater, isChunked: Bool)
        case source(any AnswerSource, isChunked: Bool)
    }

    package let status: HTTPStatus
    /// True when the connection must be closed behind the answer: the head says so, or the end of the body is
    /// the end of
    /// the connection.
    package private(set) var closesConnection: Bool
    private var head: [UInt8]
    private var rest: Rest

    /// Nothing is left to be sent.
    package var isFinished: Bool {
        if head.isEmpty, case .nothing = rest { true } else { false }
    }

    /// True while it holds what compresses it.
    package var isCompressing: Bool {
        if case .gzip = rest { true } else { false }
    }

    /// All of it, where nothing is left to be made: then it is finished. Nil where it comes in pieces, or is
    /// finished.
    package mutating func takeWhole() -> [UInt8]? {
        guard case .nothing = rest, !head.isEmpty else { return nil }
        var whole: [UInt8] = []
        swap(&whole, &head)
        return whole
    }

    /// The next bytes to be sent, or nil at the end: the head with the whole body or its beginning; then
    /// about ``RESTLimits/pieceByteCount`` at a time. None at all where compression has not let go of
    /// anything yet.
    package mutating func next() -> [UInt8]? {
        guard !isFinished else { return nil }
        var output = head
        head = []
        switch rest {
        case .nothing: break
        case .bytes(let bytes):
            output += bytes
            rest = .nothing
        case .printer(var printer):
            rest = .nothing
            if let piece = printer.next() { output += piece }
            if !printer.isFinished { rest = .printer(printer) }
        case .chunks(var printer):
            rest = .nothing
            if let piece = printer.next() { output.append(chunk: piece.rawSpan) }
            if printer.isFinished { output.appendLastChunk() } else { rest = .chunks(printer) }
        case .gzip(var printer, let deflater, let isChunked):
            rest = .nothing
            var packed: [UInt8] = []
            let piece = printer.next() ?? []
            deflater.deflate(piece.rawSpan, flush: printer.isFinished ? .finish : .none, into: &packed)
            if isChunked { output.append(chunk: packed.rawSpan) } else { output += packed }
            if printer.isFinished {
                if isChunked { output.appendLastChunk() }
            } else {
                rest = .gzip(printer, deflater, isChunked: isChunked)
            }
        case .source(var source, let isChunked):
            rest = .nothing
            if let piece = source.next() {
                if isChunked { output.append(chunk: piece.rawSpan) } else { output += piece }
                rest = .source(source, isChunked: isChunked)
            } else if isChunked {
                output.appendLastChunk()
            }
        }
        return output
    }
}

// MARK: - Data

extension RESTAnswer {
    /// The answer to a read, and to a PUT or DELETE that was done: 200, or 204 when the request is silent
    /// (§2).
    /// - Parameters:
    ///   - node: The data read, or what was written with its server values filled in.
    ///   - etag: That of the data, when the request wants it (``RESTRequest/returnsETag``).
    /// - Complexity: O(the first ``RESTLimits/wholeAnswerByteCount`` of the text).
    package static func value(
        _ node: Node, etag: String? = nil, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        let form = request.form
        let json = request.method.isRead ? JSONForm(reading: form) : JSONForm(writing: form)
        if form.isPlain, etag == nil, let text = json.text(ofSmall: node) {
            return whole(text, .ok, startOfHead(.ok, jsonType), context)
        }
        return answer(.node(node), json, etag: etag, form: form, context)
    }

    /// The answer to a PATCH: its members as they were sent, with their server values filled in (§2.3).
    /// - Parameter nodes: What was written, one for each of `updates`.
    package static func update(
        _ updates: [RESTUpdate], resolved nodes: [Node], to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        precondition(updates.count == nodes.count)
        // `null` deleted the node, and is repeated.
        let isNull = updates.count == 1 && updates[0].name.utf8Count == 0
        let members = zip(updates, nodes).map { ValuePrinter.Member(name: $0.name, node: $1) }
        return answer(
            isNull ? .node(.empty) : .members(members), JSONForm(writing: request.form), etag: nil,
            form: request.form,
            context)
    }

    /// The answer to a POST: the name of the new child (§2.2).
    /// - Parameter etag: That of the data posted.
    package static func name(
        _ key: Key, etag: String? = nil, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        let member = ValuePrinter.Member(name: "name", node: .string(key.text))
        return answer(
            .members([member]), JSONForm(writing: request.form), etag: etag, form: request.form, context)
    }

    /// The tag is not that of the data (§7): the current value, and its tag.
    package static func preconditionFailed(
        current node: Node, etag: String, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        var form = request.form
        if form.print == .silent { form.print = .compact }
        return answer(
            .node(node), JSONForm(reading: form), status: .preconditionFailed, etag: etag, form: form, context
        )
    }

    /// The data still has the tag of `if-none-match` (§7).
    package static func notModified(etag: String, _ context: AnswerContext) -> RESTAnswer {
        bare(.notModified, etag: etag, context)
    }

    private static func answer(
        _ root: ValuePrinter.Root, _ json: JSONForm, status: HTTPStatus = .ok, etag: String?,
        form: AnswerForm,
        _ context: AnswerContext
    ) -> RESTAnswer {
        if form.print == .silent { return bare(.noContent, etag: etag, context) }
        var printer: ValuePrinter
        let contentType: StaticString
        if let callback = form.callback {
            printer = ValuePrinter(
                root, json, prefix: Array(callback.utf8) + [0x28], suffix: Array(");".utf8))
            contentType = "application/javascript; charset=utf-8"
        } else {
            printer = ValuePrinter(root, json)
            contentType = jsonType
        }
        var head = startOfHead(status, contentType)
        if form.callback != nil { head.append(field: "X-Content-Type-Options", "nosniff") }
        if let etag { head.append(field: "ETag", text: etag) }
        if let name = form.downloadName {
            head.append(field: "Content-Disposition", text: "attachment; filename=\"\(name)\"")
        }
        let limit =
            context.acceptsGzip ? RESTLimits.wholeCompressedByteCount : RESTLimits.wholeAnswerByteCount
        if let bytes = printer.whole(atMost: limit) {
            return whole(bytes, status, head, context)
        }
        let deflater = context.acceptsGzip ? try? Deflater(.gzip) : nil
        head.append(field: "Vary", "Accept-Encoding")
        if deflater != nil { head.append(field: "Content-Encoding", "gzip") }
        var context = context
        let isChunked = context.version == .http11
        if isChunked {
            head.append(field: "Transfer-Encoding", "chunked")
        } else {
            // Nothing but its end can tell an old client where the body ends.
            context.keepsAlive = false
        }
        let rest: Rest =
            if let deflater { .gzip(printer, deflater, isChunked: isChunked) } else {
                isChunked ? .chunks(printer) : .printer(printer)
            }
        return RESTAnswer(status, head, rest, contentLength: nil, context)
    }

    /// An answer that is there as a whole; compressed where that is wanted and worth it.
    private static func whole(
        _ bytes: [UInt8], _ status: HTTPStatus, _ head: [UInt8], _ context: AnswerContext
    ) -> RESTAnswer {
        guard bytes.count > RESTLimits.compressedByteCount else {
            return RESTAnswer(status, head, whole: bytes, context)
        }
        var head = head
        head.append(field: "Vary", "Accept-Encoding")
        let compressor = context.compressor ?? AnswerCompressor()
        guard context.acceptsGzip, let packed = compressor.gzip(bytes), packed.count < bytes.count else {
            return RESTAnswer(status, head, whole: bytes, context)
        }
        head.append(field: "Content-Encoding", "gzip")
        return RESTAnswer(status, head, whole: packed, context)
    }

    /// An answer without a body, whose status says so.
    private static func bare(_ status: HTTPStatus, etag: String?, _ context: AnswerContext) -> RESTAnswer {
        var head = startOfHead(status, nil)
        if let etag { head.append(field: "ETag", text: etag) }
        // What the 200 would have (RFC 9110 §15.4.5).
        if status == .notModified { head.append(field: "Vary", "Accept-Encoding") }
        return RESTAnswer(status, head, .nothing, contentLength: nil, context)
    }
}

// MARK: - Everything else

extension RESTAnswer {
    /// The answer to what is no request, or to one that came too slowly: behind it the connection ends.
    /// - Parameter isHead: The request is known to be HEAD, which gets no body.
    package static func refusal(_ status: HTTPStatus, isHead: Bool, dateLine: [UInt8] = []) -> RESTAnswer {
        let body = errorBody("\(status.reasonPhrase)")
        let context = AnswerContext(refusing: isHead, dateLine: dateLine)
        return RESTAnswer(status, startOfHead(status, jsonType), whole: body, context)
    }

    /// A refusal: `error` and the text, always pretty (§3).
    package static func error(_ error: RESTError, _ context: AnswerContext) -> RESTAnswer {
        var head = startOfHead(error.status, jsonType)
        switch error {
        case .methodNotAllowed(let allowed): head.append(field: "Allow", allowed.list)
        case .unsupportedCoding: head.append(field: "Accept-Encoding", "gzip")
        case .unavailable, .tooManyConnections: head.append(field: "Retry-After", decimal: retrySeconds)
        default: break
        }
        let body = errorBody(error.text)
        return RESTAnswer(error.status, head, whole: body, context)
    }

    /// When memory or a connection that is short now may be there again (RFC 9110 §10.2.3): a client that
    /// holds it without sending a byte is disconnected by then.
    private static let retrySeconds: UInt64 = 30

    /// A refusal of ours that no case of ``RESTError`` foresees: a parser's position in rules, an HTTP error.
    /// - Parameter methods: What the place allows, where the status says that the request's method is not.
    package static func error(
        _ status: HTTPStatus, text: String, allowing methods: StaticString? = nil, _ context: AnswerContext
    ) -> RESTAnswer {
        var head = startOfHead(status, jsonType)
        if let methods { head.append(field: "Allow", methods) }
        return RESTAnswer(status, head, whole: errorBody(text), context)
    }

    /// Bytes as they are: the rules' own text, a page.
    package static func verbatim(
        _ bytes: [UInt8], contentType: StaticString = jsonType, _ context: AnswerContext
    ) -> RESTAnswer {
        whole(bytes, .ok, startOfHead(.ok, contentType), context)
    }

    /// Bytes of another type and of any size, to be kept as a file.
    package static func download(_ source: any AnswerSource, name: String, _ context: AnswerContext)
        -> RESTAnswer
    {
        var head = startOfHead(.ok, "application/octet-stream")
        head.append(field: "Content-Disposition", text: "attachment; filename=\"\(name)\"")
        var context = context
        let isChunked = context.version == .http11
        if isChunked {
            head.append(field: "Transfer-Encoding", "chunked")
        } else {
            context.keepsAlive = false
        }
        return RESTAnswer(.ok, head, .source(source, isChunked: isChunked), contentLength: nil, context)
    }

    /// The answer to OPTIONS: whatever a page asks for, it may ask (§3.2). Credentials never come by
    /// themselves, so there
    /// is nothing to guard.
    ///
    /// A body means nothing here (RFC 9110 §9.3.7): it is not read, so nothing behind it can be.
    package static func preflight(_ head: RequestHead, dateLine: [UInt8] = []) -> RESTAnswer {
        var output: [UInt8] = []
        output.append(statusLine: .ok)
        output.append(field: "Access-Control-Allow-Origin", "*")
        output.append(field: "Access-Control-Allow-Methods", "GET, PUT, PATCH, POST, DELETE, OPTIONS")
        if let names = head.header("access-control-request-headers") {
            output.append(field: "Access-Control-Allow-Headers", text: names)
        }
        output.append(field: "Access-Control-Max-Age", "3600")
        var context = AnswerContext(head, dateLine: dateLine)
        if head.framing != .none, head.framing != .length(0) { context.keepsAlive = false }
        return RESTAnswer(.ok, output, .nothing, contentLength: 0, context)
    }

    /// The head of an event stream (§8): events follow until the connection ends.
    package static func stream(dateLine: [UInt8] = []) -> RESTAnswer {
        var head = startOfHead(.ok, "text/event-stream; charset=utf-8")
        head += dateLine
        head.append(field: "Connection", "close")
        head.appendEndOfHead()
        return RESTAnswer(status: .ok, closesConnection: true, head: head, rest: .nothing)
    }

    package static let jsonType: StaticString = "application/json; charset=utf-8"

    /// - Parameter contentLength: Nil where the head has no such field.
    private init(
        _ status: HTTPStatus, _ head: consuming [UInt8], _ rest: Rest, contentLength: Int?,
        _ context: AnswerContext
    ) {
        head.endHead(contentLength: contentLength, context)
        self.status = status
        self.head = head
        self.rest = context.isHead ? .nothing : rest
        closesConnection = !context.keepsAlive
    }

    private init(
        _ status: HTTPStatus, _ head: consuming [UInt8], whole body: [UInt8], _ context: AnswerContext
    ) {
        head.endHead(contentLength: body.count, context)
        let isOnePiece = body.count <= RESTLimits.pieceByteCount
        // The head has been given room for a small one.
        if isOnePiece, !context.isHead { head += body }
        self.status = status
        self.head = head
        rest = isOnePiece || context.isHead ? .nothing : .bytes(body)
        closesConnection = !context.keepsAlive
    }

    private static func startOfHead(_ status: HTTPStatus, _ contentType: StaticString?) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(512)
        if status == .ok, let contentType, unsafe contentType.utf8Start == jsonType.utf8Start {
            // Nearly all answers: what follows below, in one piece.
            head.append(startOfJSONHead)
            return head
        }
        head.append(statusLine: status)
        if let contentType { head.append(field: "Content-Type", contentType) }
        head.append(field: "Cache-Control", "no-cache")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head.append(field: "Access-Control-Expose-Headers", "ETag")
        return head
    }

    private static let startOfJSONHead: StaticString =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-cache\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: ETag\r\n"

    private static func errorBody(_ text: String) -> [UInt8] {
        var body: [UInt8] = []
        body.append("{\n  \"error\" : ")
        body.append(json: Text(text))
        body.append("\n}\n")
        return body
    }
}

extension [UInt8] {
    /// The fields that every head ends with.
    fileprivate mutating func endHead(contentLength: Int?, _ context: AnswerContext) {
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
