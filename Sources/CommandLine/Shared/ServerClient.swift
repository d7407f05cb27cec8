import ArgumentParser
import Foundation
import FoundationNetworking
import PandoREST

/// Sends requests to a running server, over HTTP or HTTPS, one at a time; each method waits for the response.
///
/// A server's certificate must be signed by an authority in the machine's list (`/etc/ssl/certs`, which
/// `update-ca-certificates` makes).
struct ServerClient {
    /// Why a request failed, and the exit code that says so to scripts.
    struct Failure: Error {
        var text: String
        var exitCode: ExitCode
        /// Whether the server, or a proxy before it, refused the request because its body is too large: a
        /// smaller one may be accepted.
        var isTooLarge = false
    }

    private let url: String
    private let base: String
    /// Whether it is reached over TLS.
    private let isSecure: Bool
    private let token: String?
    private let silenceSeconds: Int
    private let totalSeconds: Int?

    /// The bytes that are kept of a response that is only shown.
    private static let keptByteLimit = 64 << 10

    /// - Parameters:
    ///   - url: `http://host:port` or `https://host:port`. `ws:` and `wss:`, as in the addresses of SDKs, are
    ///     the same server: it has one port for all.
    ///   - token: Sent with every request, as a bearer token.
    ///   - silenceSeconds: How long the server may send nothing. A write may take that long to become
    ///     durable.
    ///   - totalSeconds: How long a response may take until it is complete; nil for any time.
    ///   - name: How the command calls `url`, for messages.
    /// - Throws: `ValidationError` when `url` has another form.
    init(
        _ url: String, token: String?, silenceSeconds: Int = 120, totalSeconds: Int? = nil,
        name: String = "--url"
    ) throws {
        guard let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty,
            parts.path.isEmpty || parts.path == "/", parts.query == nil, parts.user == nil,
            let httpURL = Self.httpURL(url)
        else {
            throw ValidationError(
                "\(name): \"\(url)\" is not the address of a server; write http://127.0.0.1:9000 or https://HOST"
            )
        }
        self.url = url
        base = httpURL.hasSuffix("/") ? String(httpURL.dropLast()) : httpURL
        isSecure = httpURL.hasPrefix("https:")
        self.token = token
        self.silenceSeconds = silenceSeconds
        self.totalSeconds = totalSeconds
    }

    /// The URL with the scheme of HTTP; nil for another scheme.
    private static func httpURL(_ url: String) -> String? {
        let schemes = ["http": "http", "https": "https", "ws": "http", "wss": "https"]
        guard let end = url.firstIndex(of: ":"), let scheme = schemes[String(url[..<end])] else { return nil }
        return scheme + url[end...]
    }

    /// Gets a resource of any size, in bounded memory.
    /// - Parameters:
    ///   - target: Path and query, escaped.
    ///   - body: Called with each piece of the content of a response 200.
    /// - Throws: ``Failure`` for any other response, and for one that is cut off; whatever `body` throws.
    func get(_ target: String, _ body: ([UInt8]) throws -> Void) throws {
        var refusal: [UInt8] = []
        let status = try exchange("GET", target, nil) { status, piece in
            if status == 200 {
                try body(piece)
            } else {
                refusal += piece.prefix(Self.keptByteLimit - refusal.count)
            }
        }
        try check(status, refusal)
    }

    /// Sends a request with a body, and drops the content of a good response.
    /// - Throws: ``Failure``.
    func send(_ method: String, _ target: String, _ content: [UInt8]) throws {
        var answer: [UInt8] = []
        let status = try exchange(method, target, content) { _, piece in
            answer += piece.prefix(Self.keptByteLimit - answer.count)
        }
        try check(status, answer)
    }

    private func check(_ status: Int, _ content: [UInt8]) throws(Failure) {
        guard !(200...299).contains(status) else { return }
        let words = String(decoding: content, as: UTF8.self).split(whereSeparator: \.isNewline).joined(
            separator: " ")
        let code =
            status == 401 || status == 404
            ? Exit.badConfiguration : status >= 500 ? Exit.ourFault : Exit.badData
        let advice = status == 401 ? "; --token-file names a file with an administrator's token" : ""
        // A body that is not too long may have too many nodes.
        let isTooLarge = status == 413 || status == 400 && words.contains(RESTError.writeTooLarge.text)
        throw Failure(
            text: "\(url): \(status) \(words)\(advice)", exitCode: code, isTooLarge: isTooLarge)
    }

    /// - Returns: The response's status code, after all of the response has come.
    private func exchange(
        _ method: String, _ target: String, _ content: [UInt8]?, _ body: (Int, [UInt8]) throws -> Void
    ) throws -> Int {
        guard let address = URL(string: base + target) else {
            throw Failure(text: "\(url): no address for \(target)", exitCode: Exit.ourFault)
        }
        var request = URLRequest(url: address, cachePolicy: .reloadIgnoringLocalCacheData)
        request.httpMethod = method
        request.timeoutInterval = TimeInterval(silenceSeconds)
        // Compressing a large response on the same machine would only cost time.
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        if let token { request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization") }
        if let content { request.httpBody = Data(content) }
        let exchange = HTTPExchange(
            request, silence: TimeInterval(silenceSeconds),
            deadline: totalSeconds.map { Date(timeIntervalSinceNow: TimeInterval($0)) })
        var status: Int?
        do {
            while true {
                switch try exchange.next() {
                case .head(let code): status = code
                case .piece(let data): try body(status ?? 0, Array(data))
                case .end: return status ?? 0
                }
            }
        } catch let error as URLError {
            // At the deadline the response may still be coming.
            if totalSeconds != nil, error.code == .timedOut { exchange.cancel() }
            throw failure(error, hasHead: status != nil)
        } catch {
            exchange.cancel()
            throw error
        }
    }

    private func failure(_ error: URLError, hasHead: Bool) -> Failure {
        let words =
            switch error.code {
            case .timedOut:
                totalSeconds.map { "no complete response within \($0) s" }
                    ?? "it sent nothing for \(silenceSeconds) s"
            default: error.localizedDescription
            }
        let isUnreachable =
            switch error.code {
            case .cannotConnectToHost, .cannotFindHost, .dnsLookupFailed, .timedOut: true
            // URLSession has no code for most failures of TLS, which come before the head.
            default: isSecure && !hasHead
            }
        // URLSession has no code for a bad certificate either. Only libcurl's message mentions it; it is used
        // for this advice and for nothing else.
        let advice =
            isUnreachable && isSecure && words.lowercased().contains("certificate")
            ? "; if it is signed by an issuer of your own, put the issuer's certificate into /usr/local/share/ca-certificates/NAME.crt and run update-ca-certificates"
            : ""
        return isUnreachable
            ? Failure(text: "\(url): can't be reached: \(words)\(advice)", exitCode: Exit.badConfiguration)
            : Failure(text: "\(url): the response was cut off: \(words)", exitCode: Exit.badData)
    }
}
