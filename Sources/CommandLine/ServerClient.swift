import ArgumentParser
import Foundation
import PandoBytes
import PandoHTTP

/// Speaks HTTP/1.1 to a running server, one request a connection, waiting for each answer on this thread.
struct ServerClient {
    struct Failure: Error {
        var text: String
        var exitCode: ExitCode
    }

    private let url: String
    private let host: String
    private let port: Int
    private let token: String?

    /// A server that says nothing for so long is given up: the longest that a write may take to become
    /// durable.
    private static let silenceSeconds = 120
    private static let pieceByteCount = 256 << 10
    /// An answer that is kept is an error's text, or what a small write repeats.
    private static let keptByteLimit = 64 << 10

    /// - Parameter token: Goes with every request.
    /// - Throws: `ValidationError`.
    init(_ url: String, token: String?) throws {
        guard let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty,
            parts.path.isEmpty || parts.path == "/", parts.query == nil
        else {
            throw ValidationError("--url: \"\(url)\" is no address of a server; write http://127.0.0.1:9000")
        }
        guard parts.scheme == "http" else {
            throw ValidationError(
                "--url: only http is spoken; reach a server behind TLS from its own machine")
        }
        self.url = url
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        port = parts.port ?? 80
        self.token = token
    }

    /// Gets a resource of any size.
    /// - Parameter body: Is given the content, piece by piece, of an answer 200.
    /// - Throws: ``Failure`` for any other answer, and for one that is cut off; whatever `body` throws.
    func get(_ target: String, _ body: ([UInt8]) throws -> Void) throws {
        var refusal: [UInt8] = []
        let status = try exchange("GET", target, []) { status, piece in
            if status == 200 {
                try body(piece)
            } else {
                refusal += piece.prefix(Self.keptByteLimit - refusal.count)
            }
        }
        try accept(status, refusal)
    }

    /// Sends a request with a body, and takes no interest in what a good answer says.
    func send(_ method: String, _ target: String, _ content: [UInt8]) throws {
        var answer: [UInt8] = []
        let status = try exchange(method, target, content) { _, piece in
            answer += piece.prefix(Self.keptByteLimit - answer.count)
        }
        try accept(status, answer)
    }

    /// The first bytes of what a GET answers.
    func look(at target: String) throws -> [UInt8] {
        var answer: [UInt8] = []
        try get(target) { piece in answer += piece.prefix(Self.keptByteLimit - answer.count) }
        return answer
    }

    private func accept(_ status: Int, _ text: [UInt8]) throws {
        guard !(200...299).contains(status) else { return }
        let text = String(decoding: text, as: UTF8.self).split(whereSeparator: \.isNewline).joined(
            separator: " ")
        let code =
            status == 401 || status == 404
            ? Exit.badConfiguration : status >= 500 ? Exit.ourFault : Exit.badData
        let advice = status == 401 ? "; --token-file names a file with an administrator's token" : ""
        throw Failure(text: "\(url): \(status) \(text)\(advice)", exitCode: code)
    }

    private func exchange(
        _ method: String, _ target: String, _ content: [UInt8], _ body: (Int, [UInt8]) throws -> Void
    ) throws -> Int {
        let socket = try connect()
        defer { close(socket) }
        var request: [UInt8] = []
        request.append(
            utf8:
                "\(method) \(target) HTTP/1.1\r\nHost: \(host.contains(":") ? "[\(host)]" : host):\(port)\r\n"
        )
        if let token { request.append(utf8: "Authorization: Bearer \(token)\r\n") }
        if method != "GET" { request.append(utf8: "Content-Length: \(content.count)\r\n") }
        request.append(utf8: "Connection: close\r\n\r\n")
        try write(request + content, to: socket)
        var head: ResponseHead?
        var headReader = ResponseHeadReader()
        var reader: BodyReader?
        var piece = [UInt8](repeating: 0, count: Self.pieceByteCount)
        while true {
            let count = try read(into: &piece, from: socket)
            do {
                if count == 0 { try reader?.finish() }
                guard count > 0 else {
                    if let head, reader != nil { return head.statusCode }
                    throw HTTPError.truncated
                }
                var offset = 0
                while head == nil, offset < count {
                    guard let found = try headReader.read(piece.rawSpan.extracting(0..<count), from: &offset)
                    else { break }
                    // Interim answers (RFC 9110 §15.2) are none.
                    if found.statusCode < 200 { headReader = ResponseHeadReader() } else { head = found }
                }
                guard let head else { continue }
                if reader == nil { reader = try BodyReader(head.framing, byteLimit: .max / 2) }
                while let event = try reader?.next(piece.rawSpan.extracting(0..<count), from: &offset) {
                    switch event {
                    case .data(let range): try body(head.statusCode, Array(piece[range]))
                    case .end: return head.statusCode
                    }
                }
            } catch let error as HTTPError {
                throw Failure(
                    text: "\(url): the answer was cut off, or is none: \(error)", exitCode: Exit.badData)
            }
        }
    }

    // MARK: Sockets

    private func connect() throws -> Int32 {
        // A list of nothing.
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        // The list is ours until it is freed below.
        let code = unsafe getaddrinfo(host, String(port), &hints, &list)
        guard code == 0 else { throw failure("no such host") }
        defer { unsafe freeaddrinfo(list) }
        var errorNumber: Int32 = ECONNREFUSED
        var next = unsafe list
        while let address = unsafe next {
            let descriptor = unsafe socket(
                address.pointee.ai_family, address.pointee.ai_socktype | Int32(SOCK_CLOEXEC.rawValue),
                address.pointee.ai_protocol)
            if descriptor >= 0 {
                var time = timeval(tv_sec: Self.silenceSeconds, tv_usec: 0)
                let size = socklen_t(MemoryLayout<timeval>.size)
                // Options that cannot be set leave a connection that waits longer.
                _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, size)
                _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, size)
                if unsafe Glibc.connect(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0
                {
                    return descriptor
                }
                errorNumber = errno
                close(descriptor)
            }
            unsafe next = unsafe address.pointee.ai_next
        }
        throw failure(unsafe String(cString: strerror(errorNumber)))
    }

    private func write(_ bytes: [UInt8], to socket: Int32) throws {
        var offset = 0
        while offset < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                // In bounds: what is left behind the offset.
                let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[offset...])
                return unsafe Glibc.send(
                    socket, rest.baseAddress, rest.count, Int32(truncatingIfNeeded: MSG_NOSIGNAL))
            }
            if count > 0 {
                offset += count
            } else if errno != EINTR {
                // A refusal may have been said before all was sent: it is there to be read.
                if errno == EPIPE || errno == ECONNRESET { return }
                throw failure(unsafe String(cString: strerror(errno)))
            }
        }
    }

    private func read(into piece: inout [UInt8], from socket: Int32) throws -> Int {
        while true {
            let count = unsafe piece.withUnsafeMutableBytes {
                unsafe Glibc.recv(socket, $0.baseAddress, $0.count, 0)
            }
            if count >= 0 { return count }
            // `SO_RCVTIMEO` (socket(7)): it is there, and says nothing.
            if errno == EAGAIN { throw failure("nothing came for \(Self.silenceSeconds) s") }
            if errno != EINTR { throw failure(unsafe String(cString: strerror(errno))) }
        }
    }

    private func failure(_ text: String) -> Failure {
        Failure(text: "\(url): can't be reached: \(text)", exitCode: Exit.badConfiguration)
    }
}

/// A data directory, or a server that runs: one of them.
struct SourceOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The server's data directory.", valueName: "dir"))
    var data: String?

    @Option(help: ArgumentHelp("A running server: http://127.0.0.1:9000.", valueName: "url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            "With --url: a file with a token of an administrator; or it is in PANDO_TOKEN.", valueName: "file"
        ))
    var tokenFile: String?

    func validate() throws {
        guard (data == nil) != (url == nil) else { throw ValidationError("--data or --url: one of them") }
        if tokenFile != nil, url == nil { throw ValidationError("--token-file: only with --url") }
    }

    enum Place {
        case directory(String)
        case server(ServerClient)
    }

    var place: Place {
        get throws {
            guard let url else { return .directory(data ?? "") }
            return .server(try ServerClient(url, token: try token))
        }
    }

    private var token: String? {
        get throws {
            var text = ProcessInfo.processInfo.environment["PANDO_TOKEN"]
            if let tokenFile {
                guard let data = FileManager.default.contents(atPath: tokenFile) else {
                    throw ValidationError("--token-file: \(tokenFile) can't be read")
                }
                text = String(decoding: data, as: UTF8.self)
            }
            guard let token = text?.trimmingCharacters(in: .whitespacesAndNewlines), !token.isEmpty else {
                return nil
            }
            // It goes into a line of the request's head.
            guard token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                throw ValidationError("--token-file: holds what is no token")
            }
            return token
        }
    }
}
