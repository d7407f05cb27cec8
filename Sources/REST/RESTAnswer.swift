import PandoBytes
import PandoHTTP
import PandoTree

/// What an answer must know of the request's head, and still can when the request is refused.
package struct AnswerContext: Equatable, Sendable {
    package var version: HTTPVersion
    /// Whether the connection stays open behind the answer. Turn it off when the request's body was not read
    /// to its end.
    package var keepsAlive: Bool
    /// HEAD: the answer is the head that GET would get (RFC 9110 §9.3.2).
    package var isHead: Bool

    package init(_ head: RequestHead) {
        version = head.version
        keepsAlive = head.keepsAlive
        isHead = head.method == .head
    }
}

/// One answer, head and body, as bytes to be sent (rest-api §3). A small one is one piece; a large value is
/// printed
/// from its snapshot while it is sent, in chunks.
package struct RESTAnswer: Sendable {
    private enum Rest: Sendable {
        case nothing
        case bytes([UInt8])
        case printer(ValuePrinter)
        case chunks(ValuePrinter)
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

    /// The next bytes to be sent, or nil at the end: the head with the whole body or its beginning; then about
    /// ``RESTLimits/pieceByteCount`` at a time.
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
        }
        return output
    }
}

// MARK: - Data

extension RESTAnswer {
    /// The answer to a read, and to a PUT or DELETE that was done: 200, or 204 when the request is silent (§2).
    /// - Parameters:
    ///   - node: The data read, or what was written with its server values filled in.
    ///   - etag: That of the data, when the request wants it (``RESTRequest/returnsETag``).
    /// - Complexity: O(the first ``RESTLimits/wholeAnswerByteCount`` of the text).
    package static func value(
        _ node: Node, etag: String? = nil, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        let form = request.form
        let json = request.method.isRead ? JSONForm(reading: form) : JSONForm(writing: form)
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
            isNull ? .node(.empty) : .members(members), JSONForm(writing: request.form), etag: nil, form: request.form,
            context)
    }

    /// The answer to a POST: the name of the new child (§2.2).
    /// - Parameter etag: That of the data posted.
    package static func name(
        _ key: Key, etag: String? = nil, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        let member = ValuePrinter.Member(name: "name", node: .string(key.text))
        return answer(.members([member]), JSONForm(writing: request.form), etag: etag, form: request.form, context)
    }

    /// The tag is not that of the data (§7): the current value, and its tag.
    package static func preconditionFailed(
        current node: Node, etag: String, to request: RESTRequest, _ context: AnswerContext
    ) -> RESTAnswer {
        var form = request.form
        if form.print == .silent { form.print = .compact }
        return answer(.node(node), JSONForm(reading: form), status: .preconditionFailed, etag: etag, form: form, context)
    }

    /// The data still has the tag of `if-none-match` (§7).
    package static func notModified(etag: String, _ context: AnswerContext) -> RESTAnswer {
        bare(.notModified, etag: etag, context)
    }

    private static func answer(
        _ root: ValuePrinter.Root, _ json: JSONForm, status: HTTPStatus = .ok, etag: String?, form: AnswerForm,
        _ context: AnswerContext
    ) -> RESTAnswer {
        if form.print == .silent { return bare(.noContent, etag: etag, context) }
        var printer: ValuePrinter
        let contentType: StaticString
        if let callback = form.callback {
            printer = ValuePrinter(root, json, prefix: Array(callback.utf8) + [0x28], suffix: Array(");".utf8))
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
        if let bytes = printer.whole(atMost: RESTLimits.wholeAnswerByteCount) {
            return RESTAnswer(status, head, .bytes(bytes), contentLength: bytes.count, context)
        }
        guard context.version == .http11 else {
            // Nothing but its end can tell an old client where the body ends.
            var context = context
            context.keepsAlive = false
            return RESTAnswer(status, head, .printer(printer), contentLength: nil, context)
        }
        head.append(field: "Transfer-Encoding", "chunked")
        return RESTAnswer(status, head, .chunks(printer), contentLength: nil, context)
    }

    /// An answer without a body, whose status says so.
    private static func bare(_ status: HTTPStatus, etag: String?, _ context: AnswerContext) -> RESTAnswer {
        var head = startOfHead(status, nil)
        if let etag { head.append(field: "ETag", text: etag) }
        return RESTAnswer(status, head, .nothing, contentLength: nil, context)
    }
}

// MARK: - Everything else

extension RESTAnswer {
    /// A refusal: `error` and the text, always pretty (§3).
    package static func error(_ error: RESTError, _ context: AnswerContext) -> RESTAnswer {
        var head = startOfHead(error.status, jsonType)
        if case .methodNotAllowed(let allowed) = error { head.append(field: "Allow", allowed.list) }
        let body = errorBody(error.text)
        return RESTAnswer(error.status, head, .bytes(body), contentLength: body.count, context)
    }

    /// A refusal of ours that no case of ``RESTError`` foresees: a parser's position in rules, an HTTP error.
    package static func error(_ status: HTTPStatus, text: String, _ context: AnswerContext) -> RESTAnswer {
        let body = errorBody(text)
        return RESTAnswer(status, startOfHead(status, jsonType), .bytes(body), contentLength: body.count, context)
    }

    /// Bytes as they are: the rules' own text, a page.
    package static func verbatim(
        _ bytes: [UInt8], contentType: StaticString = jsonType, _ context: AnswerContext
    ) -> RESTAnswer {
        RESTAnswer(.ok, startOfHead(.ok, contentType), .bytes(bytes), contentLength: bytes.count, context)
    }

    /// The answer to OPTIONS: whatever a page asks for, it may ask (§3.2). Credentials never come by
    /// themselves, so there
    /// is nothing to guard.
    package static func preflight(_ head: RequestHead) -> RESTAnswer {
        var output: [UInt8] = []
        output.append(statusLine: .ok)
        output.append(field: "Access-Control-Allow-Origin", "*")
        output.append(field: "Access-Control-Allow-Methods", "GET, PUT, PATCH, POST, DELETE, OPTIONS")
        if let names = head.header("access-control-request-headers") {
            output.append(field: "Access-Control-Allow-Headers", text: names)
        }
        output.append(field: "Access-Control-Max-Age", "3600")
        return RESTAnswer(.ok, output, .nothing, contentLength: 0, AnswerContext(head))
    }

    /// The head of an event stream (§8): events follow until the connection ends.
    package static func stream() -> RESTAnswer {
        var head = startOfHead(.ok, "text/event-stream; charset=utf-8")
        head.append(field: "Connection", "close")
        head.appendEndOfHead()
        return RESTAnswer(status: .ok, closesConnection: true, head: head, rest: .nothing)
    }

    package static let jsonType: StaticString = "application/json; charset=utf-8"

    private init(
        _ status: HTTPStatus, _ head: [UInt8], _ rest: Rest, contentLength: Int?, _ context: AnswerContext
    ) {
        self.status = status
        self.head = head
        if let contentLength { self.head.append(field: "Content-Length", decimal: UInt64(contentLength)) }
        self.head.append(field: "Connection", context.keepsAlive ? "keep-alive" : "close")
        self.head.appendEndOfHead()
        self.rest = context.isHead ? .nothing : rest
        closesConnection = !context.keepsAlive
    }

    private static func startOfHead(_ status: HTTPStatus, _ contentType: StaticString?) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(512)
        head.append(statusLine: status)
        if let contentType { head.append(field: "Content-Type", contentType) }
        head.append(field: "Cache-Control", "no-cache")
        head.append(field: "Access-Control-Allow-Origin", "*")
        head.append(field: "Access-Control-Expose-Headers", "ETag")
        return head
    }

    private static func errorBody(_ text: String) -> [UInt8] {
        var body: [UInt8] = []
        body.append("{\n  \"error\" : ")
        body.append(json: Text(text))
        body.append("\n}\n")
        return body
    }
}
