import PandoBytes
import PandoCompression
import PandoHTTP
import PandoTree

/// One response, head and body, as bytes to be sent (rest §3).
///
/// A value of up to ``RESTLimits/pieceByteCount`` bytes of text is printed when the response is made. A
/// longer one is printed from its snapshot by ``next()``, a piece at a time: up to
/// ``RESTLimits/contentLengthByteLimit(for:)`` before the first byte is sent, because the head says how many
/// there are, and a still longer one while it is sent.
///
/// A response that is compressed while it is sent holds a ``Deflater``, so it must not be copied.
package struct RESTResponse {
    package let status: HTTPStatus
    /// Whether the connection must be closed after the response: the head says so, or the end of the
    /// connection is the end of the body. Final when ``next()`` has returned the head.
    package private(set) var closesConnection: Bool
    private var head: [UInt8]
    private var body: ResponseBody
    /// Bytes that were printed so far, when it was made and by ``next()``, once more those that were
    /// compressed, and keys that were looked at (``ValuePrinter/workCount``): what the response has cost.
    package private(set) var printedByteCount = 0

    /// Everything was returned.
    package var isFinished: Bool {
        head.isEmpty && body.isNothing
    }

    /// Whether the length of the body is not known yet, so that ``next()`` returns no bytes.
    package var isFramingUnknown: Bool { body.isFramingUnknown }

    /// Bytes of memory that it holds of what is not returned, beside the tree's. O(1).
    package var heldByteCount: Int { body.heldByteCount }

    /// Whether it holds a ``Deflater``.
    package var isCompressing: Bool { body.isCompressing }

    /// Returns the whole response, which is finished then. Nil where it comes in pieces, or is finished.
    package mutating func removeWhole() -> [UInt8]? {
        guard body.isNothing, !head.isEmpty else { return nil }
        return exchange(&head, with: [])
    }

    /// The next bytes to be sent; nil at the end. First the head with the body or its beginning, then about
    /// ``RESTLimits/pieceByteCount`` at a time. Empty where this call has printed, or compressed, and there
    /// is nothing to be sent yet.
    package mutating func next() -> [UInt8]? {
        guard !isFinished else { return nil }
        if case .framingUnknown(var printer, let context) = body {
            // Gives up its reference first: otherwise the printer's buffer would be copied.
            body = .nothing
            chooseFraming(printingWith: &printer, context)
            if isFramingUnknown { return [] }
        }
        var output = head
        head = []
        printedByteCount += body.removePiece(into: &output)
        return output
    }
}

// MARK: - Data

extension RESTResponse {
    /// The response to a read, and to a PUT or DELETE that was done: 200, or 204 with `print=silent` (§2).
    /// - Parameters:
    ///   - node: The data that was read, or written with its server values resolved.
    ///   - etag: The tag of the data, when the request wants it (``RESTRequest/returnsETag``).
    ///   - cursor: Behind a page of a query (§5.5).
    ///   - ownedByteCount: About the bytes of memory of the data that are not the tree's.
    /// - Complexity: O(the first ``RESTLimits/pieceByteCount`` of the text).
    package static func value(
        _ node: Node, etag: String? = nil, cursor: String? = nil, ownedByteCount: Int = 0,
        to request: RESTRequest, _ context: ResponseContext
    ) -> RESTResponse {
        let form = request.form
        let json = request.method.isRead ? JSONForm(reading: form) : JSONForm(writing: form)
        if form.isPlain, etag == nil, cursor == nil, let text = json.text(ofSmall: node) {
            return whole(text, .ok, startOfHead(.ok, jsonType), context)
        }
        return response(
            .node(node), json, etag: etag, cursor: cursor, ownedByteCount: ownedByteCount, form: form, context
        )
    }

    /// The response to a PATCH: its members as they were sent, with their server values resolved (§2.3).
    /// - Parameter nodes: What was written, one for each of its writes; nil where that is what was sent.
    package static func update(
        _ update: RESTUpdate, resolved nodes: [Node]?, to request: RESTRequest, _ context: ResponseContext
    ) -> RESTResponse {
        assert(
            update.writes.count == update.names.count
                && nodes?.count ?? update.names.count == update.names.count)
        if request.form.print == .silent { return bare(.noContent, etag: nil, context) }
        // `null` deleted the node, and is the response too.
        let isNull = update.names.count == 1 && update.names[0].utf8Count == 0
        let members = update.names.indices.map {
            ValuePrinter.Member(name: update.names[$0], node: nodes?[$0] ?? update.writes[$0].draft.node)
        }
        return response(
            isNull ? .node(.empty) : .members(members), JSONForm(writing: request.form), etag: nil,
            form: request.form,
            context)
    }

    /// The response to a POST: the name of the new child (§2.2).
    /// - Parameter etag: The tag of the posted data.
    package static func name(
        _ key: Key, etag: String? = nil, to request: RESTRequest, _ context: ResponseContext
    ) -> RESTResponse {
        let member = ValuePrinter.Member(name: "name", node: .string(key.text))
        return response(
            .members([member]), JSONForm(writing: request.form), etag: etag, form: request.form, context)
    }

    /// The response to a conditional request whose tag does not match (§7): the current value and its tag.
    package static func preconditionFailed(
        current node: Node, etag: String, to request: RESTRequest, _ context: ResponseContext
    ) -> RESTResponse {
        var form = request.form
        if form.print == .silent { form.print = .compact }
        return response(
            .node(node), JSONForm(reading: form), status: .preconditionFailed, etag: etag, form: form, context
        )
    }

    /// The response when the data still has the tag of `if-none-match` (§7).
    package static func notModified(etag: String, _ context: ResponseContext) -> RESTResponse {
        bare(.notModified, etag: etag, context)
    }

    private static func response(
        _ root: ValuePrinter.Root, _ json: JSONForm, status: HTTPStatus = .ok, etag: String?,
        cursor: String? = nil, ownedByteCount: Int = 0, form: ResponseForm, _ context: ResponseContext
    ) -> RESTResponse {
        if form.print == .silent { return bare(.noContent, etag: etag, cursor: cursor, context) }
        var printer: ValuePrinter
        let contentType: StaticString
        if let callback = form.callback {
            printer = ValuePrinter(
                root, json, prefix: Array(callback.utf8) + [0x28], suffix: Array(");".utf8),
                ownedByteCount: ownedByteCount)
            contentType = "application/javascript; charset=utf-8"
        } else {
            printer = ValuePrinter(root, json, ownedByteCount: ownedByteCount)
            contentType = jsonType
        }
        var head = startOfHead(status, contentType)
        if form.callback != nil { head.append(field: "X-Content-Type-Options", "nosniff") }
        if let etag { head.append(field: "ETag", text: etag) }
        head.append(cursor: cursor)
        if let name = form.downloadName { head.append(attachment: name) }
        return response(of: printer, status, head, context)
    }

    /// A response of what a printer prints.
    private static func response(
        of printer: consuming ValuePrinter, _ status: HTTPStatus, _ head: consuming [UInt8],
        _ context: ResponseContext
    ) -> RESTResponse {
        if let bytes = printer.whole(atMost: RESTLimits.pieceByteCount) {
            return whole(bytes, status, head, context)
        }
        let work = printer.workCount
        var response =
            if printer.bufferedByteCount <= RESTLimits.contentLengthByteLimit(for: context) {
                RESTResponse(framingUnknown: printer, status, head, context)
            } else {
                withoutContentLength(printer, status, head, context)
            }
        response.printedByteCount = work
        return response
    }

    /// Prints a piece. If the text is complete then, or longer than a response with a Content-Length may be,
    /// the framing is chosen and the head completed.
    private mutating func chooseFraming(
        printingWith printer: inout ValuePrinter, _ context: ResponseContext
    ) {
        let before = printer.workCount
        printer.printToBuffer(RESTLimits.pieceByteCount)
        let cost = printedByteCount + printer.workCount - before
        let limit = RESTLimits.contentLengthByteLimit(for: context)
        if printer.bufferedByteCount > limit {
            self = Self.withoutContentLength(printer, status, head, context)
        } else if printer.isComplete, let bytes = printer.whole(atMost: limit) {
            self = Self.whole(bytes, status, head, context)
        } else {
            body = .framingUnknown(printer, context)
        }
        printedByteCount = cost
    }

    /// A response whose length is not known: compressed where that is accepted and zlib has memory; in
    /// chunks, or with HTTP/1.0 until the end of the connection.
    private static func withoutContentLength(
        _ printer: consuming ValuePrinter, _ status: HTTPStatus, _ head: consuming [UInt8],
        _ context: ResponseContext
    ) -> RESTResponse {
        let deflater = context.acceptsGzip ? try? Deflater(.gzip) : nil
        head.append(field: "Vary", "Accept-Encoding")
        if deflater != nil { head.append(field: "Content-Encoding", "gzip") }
        var context = context
        let isChunked = context.version == .http11
        if isChunked {
            head.append(field: "Transfer-Encoding", "chunked")
        } else {
            // For an HTTP/1.0 client only the end of the connection marks the end of the body.
            context.keepsAlive = false
        }
        let body: ResponseBody =
            if let deflater { .gzip(printer, deflater, isChunked: isChunked) } else {
                isChunked ? .chunks(printer) : .printer(printer)
            }
        return RESTResponse(status, head, body, contentLength: nil, context)
    }

    /// A response of known bytes, compressed where that is accepted and useful.
    private static func whole(
        _ bytes: [UInt8], _ status: HTTPStatus, _ head: [UInt8], _ context: ResponseContext
    ) -> RESTResponse {
        guard bytes.count > RESTLimits.compressedByteCount else {
            return RESTResponse(status, head, whole: bytes, printedByteCount: bytes.count, context)
        }
        let startOfHead = head
        var head = head
        head.append(field: "Vary", "Accept-Encoding")
        guard context.acceptsGzip else {
            return RESTResponse(status, head, whole: bytes, printedByteCount: bytes.count, context)
        }
        // More takes too long to compress at once.
        guard bytes.count <= RESTLimits.pieceByteCount else {
            return withoutContentLength(
                ValuePrinter(.nothing, JSONForm(), prefix: bytes), status, startOfHead, context)
        }
        let compressor = context.compressor ?? ResponseCompressor()
        let packed = compressor.gzip(bytes).flatMap { $0.count < bytes.count ? $0 : nil }
        if packed != nil { head.append(field: "Content-Encoding", "gzip") }
        return RESTResponse(status, head, whole: packed ?? bytes, printedByteCount: 2 * bytes.count, context)
    }

    /// A response without a body.
    private static func bare(
        _ status: HTTPStatus, etag: String?, cursor: String? = nil, _ context: ResponseContext
    ) -> RESTResponse {
        var head = startOfHead(status, nil)
        head.append(cursor: cursor)
        if let etag { head.append(field: "ETag", text: etag) }
        // As the response 200 would have (RFC 9110 §15.4.5).
        if status == .notModified { head.append(field: "Vary", "Accept-Encoding") }
        return RESTResponse(status, head, .nothing, contentLength: nil, context)
    }
}

// MARK: - Everything else

extension RESTResponse {
    /// A response of bytes as they are: the text of the rules, or a page.
    package static func verbatim(
        _ bytes: [UInt8], contentType: StaticString = jsonType, _ context: ResponseContext
    ) -> RESTResponse {
        whole(bytes, .ok, startOfHead(.ok, contentType), context)
    }

    /// The response to a request for a file, whose fields the caller has written.
    /// - Parameters:
    ///   - head: The status line and all fields but `Date`, `Content-Length` and `Connection`.
    ///   - body: Empty with 304, which has no `Content-Length` either (RFC 9110 §8.6).
    package static func file(
        _ status: HTTPStatus, head: consuming [UInt8], body: [UInt8], _ context: ResponseContext
    ) -> RESTResponse {
        guard status == .notModified else { return RESTResponse(status, head, whole: body, context) }
        return RESTResponse(status, head, .nothing, contentLength: nil, context)
    }

    /// A report for an administrator (§10): its value in export form with `format=export`.
    package static func report(
        _ report: RESTReport, to request: RESTRequest, _ context: ResponseContext
    ) -> RESTResponse {
        var head = startOfHead(report.httpStatus, jsonType)
        if report.status == .unavailable { head.append(field: "Retry-After", decimal: busySeconds) }
        guard let node = report.node else { return whole(report.prefix, report.httpStatus, head, context) }
        var json = JSONForm()
        json.hasPriorities = request.form.isExport
        json.hasArrays = !request.form.isExport
        let printer = ValuePrinter(
            .node(node), json, prefix: report.prefix, suffix: report.suffix,
            ownedByteCount: report.nodeByteCount)
        return response(of: printer, report.httpStatus, head, context)
    }

    /// `Retry-After` in seconds where a worker of administrators has enough to do.
    private static let busySeconds: UInt64 = 1

    /// A download of any size.
    package static func download(_ source: any ResponseBodySource, name: String, _ context: ResponseContext)
        -> RESTResponse
    {
        var head = startOfHead(.ok, "application/octet-stream")
        head.append(attachment: name)
        var context = context
        let isChunked = context.version == .http11
        if isChunked {
            head.append(field: "Transfer-Encoding", "chunked")
        } else {
            context.keepsAlive = false
        }
        return RESTResponse(.ok, head, .source(source, isChunked: isChunked), contentLength: nil, context)
    }

    /// The response to OPTIONS: a page of any origin may send any request (§3.2). Browsers do not add
    /// credentials by themselves, so there is nothing to protect.
    ///
    /// A body has no meaning here (RFC 9110 §9.3.7). It is not read, so the connection is closed after it.
    package static func preflight(_ head: RequestHead, dateLine: [UInt8] = []) -> RESTResponse {
        var output: [UInt8] = []
        output.append(statusLine: .ok)
        output.append(field: "Access-Control-Allow-Origin", "*")
        output.append(field: "Access-Control-Allow-Methods", "GET, PUT, PATCH, POST, DELETE, OPTIONS")
        // Of the server itself: the methods that it has at all (RFC 9110 §9.3.7).
        if head.isForServer { output.append(field: "Allow", "GET, HEAD, PUT, POST, PATCH, DELETE, OPTIONS") }
        if let names = head.header("access-control-request-headers") {
            output.append(field: "Access-Control-Allow-Headers", text: names.string)
        }
        output.append(field: "Access-Control-Max-Age", "3600")
        var context = ResponseContext(head, dateLine: dateLine)
        if head.hasContent { context.keepsAlive = false }
        return RESTResponse(.ok, output, .nothing, contentLength: 0, context)
    }

    /// The head of the response to an event stream (§8). Events follow until the connection ends.
    package static func stream(dateLine: [UInt8] = []) -> RESTResponse {
        var head = startOfHead(.ok, "text/event-stream; charset=utf-8")
        head += dateLine
        head.append(field: "Connection", "close")
        head.appendEndOfHead()
        return RESTResponse(status: .ok, closesConnection: true, head: head, body: .nothing)
    }

    /// - Parameter contentLength: Nil where the head has no such field.
    private init(
        _ status: HTTPStatus, _ head: consuming [UInt8], _ body: ResponseBody, contentLength: Int?,
        _ context: ResponseContext
    ) {
        head.endHead(contentLength: contentLength, context)
        self.status = status
        self.head = head
        self.body = context.isHead ? .nothing : body
        closesConnection = !context.keepsAlive
    }

    private init(
        framingUnknown printer: consuming ValuePrinter, _ status: HTTPStatus, _ head: consuming [UInt8],
        _ context: ResponseContext
    ) {
        self.status = status
        self.head = head
        body = .framingUnknown(printer, context)
        closesConnection = !context.keepsAlive
    }

    /// A response with this body. Traps for 204 and 304, which have none.
    init(
        _ status: HTTPStatus, _ head: consuming [UInt8], whole bytes: [UInt8], printedByteCount: Int = 0,
        _ context: ResponseContext
    ) {
        precondition(
            status != .noContent && status != .notModified,
            "the client would take this body for the next response (RFC 9112 §6.3)")
        self.printedByteCount = printedByteCount
        head.endHead(contentLength: bytes.count, context)
        let isOnePiece = bytes.count <= RESTLimits.pieceByteCount
        // The head has capacity for a small body.
        if isOnePiece, !context.isHead { head += bytes }
        self.status = status
        self.head = head
        body = isOnePiece || context.isHead ? .nothing : .bytes(bytes)
        closesConnection = !context.keepsAlive
    }
}
