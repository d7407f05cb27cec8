import PandoBytes
import PandoHTTP
import PandoReactor

/// A port without TLS that redirects every request to the port with TLS (`--http-redirect-port`). Confined to its
/// loop.
///
/// `@unchecked Sendable`: everything mutable is used on the loop's thread only.
final class RedirectPort: @unchecked Sendable {
    /// Connections at a time: each is over after one response. More are closed at once.
    static let connectionLimit = 64
    /// A request must be there, and its response taken, by then.
    static let requestTimeout: Duration = .seconds(5)

    private let acceptor: Acceptor
    private let counter = ConnectionCounter()

    /// - Parameters:
    ///   - securePort: The port with TLS.
    /// - Throws: As ``Acceptor``.
    init(at address: SocketAddress, on loop: EventLoop, securePort: UInt16) throws(SocketError) {
        acceptor = try Acceptor(
            at: address, on: loop, targets: [loop],
            adopt: { [counter] socket, loop in
                guard counter.count < Self.connectionLimit else { return }
                _ = try? Channel.adopt(socket, on: loop) { channel in
                    counter.count += 1
                    loop.schedule(after: Self.requestTimeout) { [weak channel] in channel?.close() }
                    return RedirectConnection(securePort, counter)
                }
            })
    }

    /// Where it listens.
    var address: SocketAddress { acceptor.address }

    func close() { acceptor.close() }
}

/// `@unchecked Sendable`: used on one loop's thread only.
private final class ConnectionCounter: @unchecked Sendable {
    var count = 0
}

/// One connection: a request's head, and the response to it.
private final class RedirectConnection: ChannelDelegate {
    private let securePort: UInt16
    private let counter: ConnectionCounter
    private var reader = RequestHeadReader()
    private var isAnswered = false

    init(_ securePort: UInt16, _ counter: ConnectionCounter) {
        self.securePort = securePort
        self.counter = counter
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        guard !isAnswered, let response = answer(bytes.bytes) else { return }
        isAnswered = true
        channel.write(response.rawSpan)
        channel.closeAfterFlush()
    }

    /// - Returns: nil while the head is not complete.
    private func answer(_ bytes: RawSpan) -> [UInt8]? {
        var offset = 0
        do throws(HTTPError) {
            return try reader.read(bytes, from: &offset).map { redirection(of: $0) }
        } catch {
            return Self.response("400 Bad Request")
        }
    }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) { counter.count -= 1 }

    private func redirection(of head: RequestHead) -> [UInt8] {
        // The target stays as it was received, byte by byte: the head reader lets no control character through.
        var fields: [UInt8] = []
        fields.append(requestID: head.requestID)
        guard let host = Self.host(of: head.authority) else {
            return Self.response("400 Bad Request", fields)
        }
        fields += Array("Location: https://\(host):\(securePort)".utf8)
        fields += head.pathBytes.isEmpty ? ArraySlice("/".utf8) : head.pathBytes
        if let query = head.queryBytes { fields += Array("?".utf8) + query }
        return Self.response("308 Permanent Redirect", fields + Array("\r\n".utf8))
    }

    /// The host of `host:port`; nil for none. An IPv6 address stays in its brackets.
    static func host(of authority: String) -> Substring? {
        let end = authority.lastIndex(of: "]").map { authority.index(after: $0) } ?? authority.startIndex
        let host = authority[..<(authority[end...].firstIndex(of: ":") ?? authority.endIndex)]
        return host.isEmpty ? nil : host
    }

    private static func response(_ status: String, _ fields: [UInt8] = []) -> [UInt8] {
        Array("HTTP/1.1 \(status)\r\n".utf8) + fields
            + Array("Content-Length: 0\r\nConnection: close\r\n\r\n".utf8)
    }
}
