import PandoBytes
import PandoReactor

/// The events of a ``LongPollingClient``, on its loop.
package protocol LongPollingClientDelegate: AnyObject {
    /// A response was read: the messages in it follow, any number.
    func longPollingWillRead(_ session: LongPollingClient)
    /// A message; its bytes are valid during the call.
    func longPolling(_ session: LongPollingClient, received message: RawSpan)
    /// An HTTP request is sent.
    func longPollingDidRequest(_ session: LongPollingClient)
    /// The last call. `problem` is nil when we had asked for the end.
    func longPollingDidEnd(_ session: LongPollingClient, problem: String?)
}

/// The client's side of a long-polling session, with the requests that the JavaScript SDK makes in a page
/// (realtime §1.5): one poll while idle, a second one when there is something to send. For measurements
/// only. Confined to its loop.
package final class LongPollingClient: PollConnectionDelegate {
    private enum Stage { case starting, polling, leaving, over }

    /// After this time without a response a poll is not counted, and another is sent (§1.5.2).
    private static let pollPatience: Duration = .seconds(25)
    /// Polls at a time, at most.
    private static let mostOutstanding = 2

    let loop: EventLoop
    let address: SocketAddress
    private let host: String
    private let namespace: String
    private var delegate: (any LongPollingClientDelegate)?
    private var stage = Stage.starting
    private var connections: [PollConnection] = []
    private var segments = PollSegments()
    private var credentials: (id: String, password: String)?
    private var serial = Int.random(in: 0..<100_000_000)
    /// Polls that are counted as under way.
    private var outstandingCount = 0
    private var nextResponse = 0
    /// Messages of responses that overtook an earlier one.
    private var early: [Int: [[UInt8]]] = [:]
    private var lastResponse: Int?
    /// The connection that carries `disconn`.
    private var lastConnection: PollConnection?
    /// The delegate of the channel that it was made on.
    package let firstDelegate: any ChannelDelegate

    /// Opens a session at once.
    /// - Parameters:
    ///   - channel: A new connection to `address`, the first of the two that it uses; ``firstDelegate`` is
    ///     its delegate.
    ///   - host: For the field `Host`.
    package init(
        on channel: Channel, loop: EventLoop, address: SocketAddress, host: String, namespace: String,
        delegate: any LongPollingClientDelegate
    ) {
        (self.loop, self.address, self.host, self.namespace, self.delegate) = (
            loop, address, host, namespace, delegate
        )
        let connection = PollConnection(on: channel)
        firstDelegate = connection
        connection.session = self
        connections = [connection, PollConnection(of: self)]
        var target: [UInt8] = []
        target.append("start=t&cb=1&v=5&ser=")
        target.append(decimal: UInt64(serial))
        target.append("&ns=")
        target.append(utf8: namespace)
        request(target, on: connection)
    }

    /// Sends a message.
    package func send(_ message: RawSpan) {
        guard stage != .over else { return }
        segments.append(message)
        poll()
    }

    /// Ends the session as a page that is closed does (§1.5.3). Messages that were not sent are dropped.
    package func close() {
        leave(resetsPolls: false)
    }

    /// The same, and resets the connections of its polls.
    package func cut() {
        leave(resetsPolls: true)
    }

    private func leave(resetsPolls: Bool) {
        guard stage == .starting || stage == .polling else { return }
        stage = .leaving
        guard let credentials else { return over(nil) }
        if resetsPolls { endConnections(resets: true) }
        let connection = connections.first { !$0.isBusy } ?? PollConnection(of: self)
        if !connections.contains(where: { $0 === connection }) { connections.append(connection) }
        lastConnection = connection
        var target: [UInt8] = []
        target.append("disconn=t")
        append(credentials, to: &target)
        request(target, on: connection)
    }

    private func append(_ credentials: (id: String, password: String), to target: inout [UInt8]) {
        target.append("&id=")
        target.append(utf8: credentials.id)
        target.append("&pw=")
        target.append(utf8: credentials.password)
    }

    /// - Parameter parameters: The target's query.
    private func request(_ parameters: [UInt8], on connection: PollConnection) {
        delegate?.longPollingDidRequest(self)
        var output: [UInt8] = []
        output.append("GET /.lp?")
        output.append(contentsOf: parameters)
        output.append(" HTTP/1.1\r\nHost: ")
        output.append(utf8: host)
        output.append("\r\n\r\n")
        connection.send(output)
    }

    private func poll() {
        while stage == .polling, lastResponse == nil, let credentials,
            outstandingCount < (segments.isEmpty ? 1 : Self.mostOutstanding),
            let connection = connections.first(where: { !$0.isBusy })
        {
            serial += 1
            outstandingCount += 1
            var target: [UInt8] = []
            target.append("ser=")
            target.append(decimal: UInt64(serial))
            append(credentials, to: &target)
            target.append("&ns=")
            target.append(utf8: namespace)
            segments.appendURLData(to: &target)
            connection.lateTimer = loop.schedule(after: Self.pollPatience) { [self, unowned connection] in
                connection.lateTimer = nil
                connection.isLate = true
                outstandingCount -= 1
                poll()
            }
            request(target, on: connection)
        }
    }

    // MARK: What comes

    func read(_ script: RawSpan, statusCode: Int, from connection: PollConnection) {
        if let timer = connection.lateTimer { loop.cancel(timer) }
        connection.lateTimer = nil
        guard stage != .leaving else {
            connection.becomeFree()
            // The responses to polls are ignored.
            return connection === lastConnection ? over(nil) : ()
        }
        guard statusCode == 200 else { return over("status \(statusCode)") }
        delegate?.longPollingWillRead(self)
        do {
            for call in try PollScript.calls(script) {
                guard stage == .starting || stage == .polling else { break }
                handle(call, script)
            }
        } catch {
            return over("no script at byte \(error.offset)")
        }
        connection.becomeFree()
        guard stage == .starting || stage == .polling else { return }
        if stage == .starting {
            guard credentials != nil else { return over("no id and password") }
            stage = .polling
        } else if !connection.isLate {
            outstandingCount -= 1
        }
        poll()
    }

    private func handle(_ call: PollCall, _ script: RawSpan) {
        switch call {
        case .start(let id, let password): credentials = (id, password)
        case .close(nil): over("closed by the server")
        case .close(let number?):
            lastResponse = number
            endIfThrough()
        case .messages(let number, let ranges):
            // A repeated one is ignored: the server cannot know whether its first response arrived.
            guard number >= nextResponse, early[number] == nil else { return }
            guard number == nextResponse else {
                early[number] = ranges.map { range in
                    var message: [UInt8] = []
                    message.append(script.extracting(range))
                    return message
                }
                return
            }
            nextResponse += 1
            for range in ranges { delegate?.longPolling(self, received: script.extracting(range)) }
            while let messages = early.removeValue(forKey: nextResponse) {
                nextResponse += 1
                for message in messages { delegate?.longPolling(self, received: message.rawSpan) }
            }
            endIfThrough()
        }
    }

    private func endIfThrough() {
        if let lastResponse, nextResponse > lastResponse { over("closed by the server") }
    }

    func failed(_ connection: PollConnection, _ problem: String) {
        guard stage == .leaving else { return over(problem) }
        if connection === lastConnection { over(nil) }
    }

    private func endConnections(resets: Bool) {
        for connection in connections {
            if let timer = connection.lateTimer { loop.cancel(timer) }
            connection.lateTimer = nil
            connection.end(resets: resets)
        }
        connections = []
    }

    private func over(_ problem: String?) {
        guard stage != .over else { return }
        stage = .over
        endConnections(resets: false)
        lastConnection = nil
        let last = delegate
        delegate = nil
        // Not from inside a call of the delegate.
        loop.schedule(after: .zero) { [self] in last?.longPollingDidEnd(self, problem: problem) }
    }
}
