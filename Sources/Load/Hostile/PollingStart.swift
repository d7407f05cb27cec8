import PandoBytes
import PandoHTTP
import PandoTraffic

/// Reads the response that starts a session by long polling (realtime §1.5.1), from pieces of a stream.
struct PollingStart {
    struct Credentials: Equatable {
        let id: String
        let password: String
    }

    /// The response has none.
    struct NoCredentials: Error {}

    /// Of the request.
    static let parameters = "start=t&cb=1&v=5&ser=1"

    /// The response has some hundred bytes.
    private static let bodyByteLimit: UInt64 = 64 << 10

    private var head = ResponseHeadReader()
    private var reader: BodyReader?
    private var body: [UInt8] = []

    /// - Returns: What the session's polls must name, or nil when the piece ended first. What follows in the
    ///   piece is dropped: the server has not been asked for it.
    /// - Throws: ``NoCredentials`` and errors of HTTP; then the reader must not be used.
    mutating func read(_ piece: RawSpan) throws -> Credentials? {
        var offset = 0
        if reader == nil {
            guard let head = try head.read(piece, from: &offset) else { return nil }
            reader = try BodyReader(head.framing, byteLimit: Self.bodyByteLimit)
        }
        while let event = try reader?.next(piece, from: &offset) {
            switch event {
            case .data(let range): body.append(piece.extracting(range))
            case .end: return try credentials()
            }
        }
        return nil
    }

    private func credentials() throws -> Credentials {
        for case .start(let id, let password) in try PollScript.calls(body.rawSpan) {
            return Credentials(id: id, password: password)
        }
        throw NoCredentials()
    }
}

extension [UInt8] {
    /// Appends a request of long polling.
    mutating func append(polling parameters: String, at site: HostileSite) {
        append(requestLine: "GET", target: "/.lp?\(parameters)&ns=\(site.namespace)")
        append(field: "Host", text: site.target.host)
        appendEndOfHead()
    }
}
