import PandoBytes
import PandoHTTP
import PandoREST
import PandoTree
import PandoWebSocket

//  input    size of the pieces (1) │ bytes of a connection

/// A request's head, its body, and what REST and the handshake of a WebSocket make of it: the same in pieces
/// and as a whole; and each refusal is a response that can be read.
@Sendable func checkHTTP(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let size = reader.byte()
    let bytes = reader.remainder()
    let whole = try read(bytes, inPiecesOf: .max)
    let cut = try read(bytes, inPiecesOf: size)
    try require(whole.outcome == cut.outcome, "whole \(whole.outcome), in pieces of \(size) \(cut.outcome)")
    if let head = whole.head { try checkREST(head, body: whole.body) }
}

private struct Reading {
    /// What can be compared.
    var outcome: [String] = []
    var head: RequestHead?
    var body: [UInt8] = []
}

private let bodyByteLimit: UInt64 = 1 << 16

private func read(_ bytes: [UInt8], inPiecesOf size: Int) throws -> Reading {
    var reading = Reading()
    var headReader = RequestHeadReader()
    var bodyReader: BodyReader?
    var position = 0
    for piece in pieces(bytes, of: size) {
        var offset = 0
        do throws(HTTPError) {
            if reading.head == nil {
                guard let head = try headReader.read(piece.rawSpan, from: &offset) else {
                    position += offset
                    guard offset == piece.count else {
                        reading.outcome.append("a reader that wants more left bytes")
                        return reading
                    }
                    continue
                }
                reading.head = head
                reading.outcome.append(describe(head))
                bodyReader = try BodyReader(head.framing, byteLimit: bodyByteLimit)
            }
            while let event = try bodyReader?.next(piece.rawSpan, from: &offset) {
                switch event {
                case .data(let range): reading.body += piece[range]
                case .end:
                    reading.outcome.append("body of \(reading.body.count) bytes ends at \(position + offset)")
                    return reading
                }
            }
        } catch {
            reading.outcome.append("\(error)")
            return reading
        }
        position += offset
    }
    reading.outcome.append("\(reading.body.count) bytes of a body that goes on")
    return reading
}

private func describe(_ head: RequestHead) -> String {
    let fields = ["host", "origin", "authorization", "x-forwarded-for", "accept", "cookie"]
        .map { head.header($0)?.string ?? "-" }
    return """
        \(head.methodText) \(head.path) \(head.queryBytes.map { Array($0) } ?? []) \(head.authority) \(head.version) \
        \(head.keepsAlive) \(head.framing) \(fields) \(RequestHead(forwarded: head).authority) \
        \(RequestHead(forwarded: head).hostBytes.map { Array($0) } ?? [])
        """
}

private func checkREST(_ head: RequestHead, body: [UInt8]) throws {
    let context = ResponseContext(head)
    var response: RESTResponse
    do throws(RESTError) {
        let request = try RESTRequest(head)
        try request.checkConditions()
        if request.method.isWrite, case .data(let target) = request.location {
            let content = try request.readBody(body.rawSpan, byteLimit: 1 << 16)
            if case .value(let draft) = content, target.path.count + draft.depth > Limits.pathDepth {
                throw .internalError
            }
        }
        response = .value(.string("x"), etag: "t", to: request, context)
    } catch {
        try require(error != .internalError, "data that is too deep was accepted")
        response = .error(error, context)
    }
    let status = response.status.code
    var bytes: [UInt8] = []
    while let piece = response.next() { bytes += piece }
    try require(responseHead(bytes)?.statusCode == Int(status), "the response cannot be read")
    try checkHandshake(head)
}

/// No refusal and no handshake may trap; what is agreed on is what RFC 7692 allows and the response says.
private func checkHandshake(_ head: RequestHead) throws {
    for takesOver in [false, true] {
        var options = DeflateOptions()
        options.server = .init(takesOver: takesOver, windowBits: takesOver ? 12 : 15)
        options.client = options.server
        var bytes: [UInt8] = []
        let handshake: ServerHandshake
        do throws(UpgradeRefusal) {
            handshake = try ServerHandshake(head, deflate: options)
            handshake.appendResponse(to: &bytes)
        } catch {
            ServerHandshake.appendRefusal(error, to: &bytes)
            try require(responseHead(bytes)?.statusCode == Int(error.status.code), "an unreadable refusal")
            continue
        }
        let response = responseHead(bytes)
        try require(response?.statusCode == 101, "the handshake cannot be read")
        let said = response?.fields["sec-websocket-extensions"]?.string
        try require((said != nil) == (handshake.deflate != nil), "extension \(said ?? "none")")
        guard let agreement = handshake.deflate, let said else { continue }
        for (side, wanted) in [(agreement.server, options.server), (agreement.client, options.client)] {
            try require((8...15).contains(side.windowBits), "a window of \(side.windowBits) bits")
            try require(wanted.takesOver || !side.takesOver, "more takeover than the server grants")
        }
        try require(agreement.server.windowBits <= options.server.windowBits, "a larger window than granted")
        try require(
            agreement.server.takesOver != said.contains("server_no_context_takeover")
                && agreement.client.takesOver != said.contains("client_no_context_takeover"),
            "\(said) is not what was agreed on")
    }
}

private func responseHead(_ bytes: [UInt8]) -> ResponseHead? {
    var reader = ResponseHeadReader()
    var offset = 0
    return try? reader.read(bytes.rawSpan, from: &offset)
}
