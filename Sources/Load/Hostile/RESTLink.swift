import PandoBytes
import PandoHTTP
import PandoReactor
import PandoTraffic

/// REST requests over one persistent connection, each with a closure for its response. Connects with the
/// first request. Confined to its loop.
final class RESTLink: ChannelDelegate {
    /// Called once: with the status and the body, or with nil when the connection ended before or could not
    /// be made.
    typealias ReplyHandler = (_ statusCode: Int?, _ body: [UInt8]) -> Void

    /// The connection ended while replies were missing.
    var onCut: (String) -> Void = { _ in }

    private let site: HostileSite
    private let loop: EventLoop
    private var channel: Channel?
    private var isConnecting = false
    private var unsent: [[UInt8]] = []
    private var responses = ResponseReader()
    /// By number; replies come in the order of the requests.
    private var handlers: [Int: ReplyHandler] = [:]
    private var nextNumber = 0
    private var answeredCount = 0

    init(_ site: HostileSite, on loop: EventLoop) {
        self.site = site
        self.loop = loop
    }

    /// - Parameters:
    ///   - path: Without the leading slash.
    ///   - parameters: Further ones of the query, each behind a `&`.
    ///   - isAnonymous: Without the token.
    func request(
        _ method: StaticString, _ path: String, parameters: String = "", isAnonymous: Bool = false,
        _ value: [UInt8]? = nil, then handler: @escaping ReplyHandler
    ) {
        handlers[nextNumber] = handler
        nextNumber += 1
        var text: [UInt8] = []
        text.append(
            restRequest: method, site, path: path, parameters: parameters, isAnonymous: isAnonymous,
            contentByteCount: value?.count)
        if let value { text.append(contentsOf: value) }
        if let channel { return channel.write(text.rawSpan) }
        unsent.append(text)
        connect()
    }

    /// Ends the connection; replies that are missing come as nil.
    func close() { channel?.close() }

    private func connect() {
        guard !isConnecting else { return }
        isConnecting = true
        do {
            try site.target.connect(on: loop) { [self] channel in
                (isConnecting, self.channel) = (false, channel)
                responses = ResponseReader()
                for text in unsent { channel.write(text.rawSpan) }
                unsent = []
                return self
            } onFailure: { [self] error in
                ended("\(error)")
            }
        } catch {
            loop.schedule(after: .zero) { [self] in ended("\(error)") }
        }
    }

    private func ended(_ problem: String) {
        (isConnecting, channel, unsent) = (false, nil, [])
        let lost = handlers
        (handlers, answeredCount) = ([:], nextNumber)
        if !lost.isEmpty { onCut("REST: \(problem)") }
        for reply in lost.values { reply(nil, []) }
    }

    // MARK: What comes

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        var offset = 0
        do {
            while let (head, body) = try responses.next(bytes.bytes, from: &offset) {
                let handler = handlers.removeValue(forKey: answeredCount)
                answeredCount += 1
                handler?(head.statusCode, body)
            }
        } catch {
            channel.reset()
        }
    }

    func channelDidEnd(_ channel: Channel) { channel.close() }

    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        guard reason != .loopStopped else { return }
        ended(reason == .requested ? "ended by the server" : "\(reason)")
    }
}

extension [UInt8] {
    /// Appends the head of a REST request.
    /// - Parameters:
    ///   - parameters: Further ones of the query, each behind a `&`.
    ///   - isStream: For an event stream.
    ///   - contentByteCount: Length of the body, which the caller appends; nil for none.
    mutating func append(
        restRequest method: StaticString, _ site: HostileSite, path: String, parameters: String = "",
        isAnonymous: Bool = false, isStream: Bool = false, contentByteCount: Int? = nil
    ) {
        append(requestLine: method, target: site.restTarget(path) + parameters)
        append(field: "Host", text: site.target.host)
        if !isAnonymous, let token = site.token { append(field: "Authorization", text: "Bearer \(token)") }
        if isStream { append(field: "Accept", "text/event-stream") }
        if let contentByteCount { append(field: "Content-Length", decimal: UInt64(contentByteCount)) }
        appendEndOfHead()
    }
}
