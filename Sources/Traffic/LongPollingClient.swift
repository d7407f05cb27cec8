import PandoBytes
import PandoReactor

/// What a ``LongPollingClient`` tells its owner, on its loop.
package protocol LongPollingClientDelegate: AnyObject {
    /// An answer has come: any number of messages follows.
    func longPollingWillRead(_ session: LongPollingClient)
    /// A message; its bytes are valid during the call.
    func longPolling(_ session: LongPollingClient, received message: RawSpan)
    /// An HTTP request leaves.
    func longPollingDidRequest(_ session: LongPollingClient)
    /// The last call. `problem` is nil when we had asked for the end.
    func longPollingDidEnd(_ session: LongPollingClient, problem: String?)
}

/// The client's end of a session of long polling, with the requests that the JavaScript SDK makes in a page
/// (realtime §1.5): one poll at rest, a second one when there is something to send. For measuring.
/// Confined to its loop.
package final class LongPollingClient {
    private enum Stage { case starting, polling, leaving, over }

    /// A poll without an answer for so long is not counted any more, and another is made (§1.5.2).
    private static let pollPatience: Duration = .seconds(25)
    /// Messages of one batch are sent by two requests at the most.
    private static let mostOutstanding = 2

    let loop: EventLoop
    let address: SocketAddress
    private let host: String
    private let namespace: String
    private var delegate: (any LongPollingClientDelegate)?
    private var stage = Stage.starting
    private var lines: [PollLine] = []
    private var segments = PollSegments()
    private var credentials: (id: String, password: String)?
    private var serial = Int.random(in: 0..<100_000_000)
    /// Polls that the client waits for.
    private var outstandingCount = 0
    private var nextResponse = 0
    /// Messages of responses that came before their turn.
    private var early: [Int: [[UInt8]]] = [:]
    private var lastResponse: Int?
    /// Carries `disconn`.
    private var lastLine: PollLine?
    /// The delegate of the channel that it was made on.
    package let firstLine: any ChannelDelegate

    /// Opens a session at once.
    /// - Parameters:
    ///   - channel: A new connection to `address`, the first of the two that it uses; ``firstLine`` is its
    ///     delegate.
    ///   - host: For the field `Host`.
    package init(
        on channel: Channel, loop: EventLoop, address: SocketAddress, host: String, namespace: String,
        delegate: any LongPollingClientDelegate
    ) {
        (self.loop, self.address, self.host, self.namespace, self.delegate) = (
            loop, address, host, namespace, delegate
        )
        let line = PollLine(on: channel)
        firstLine = line
        line.session = self
        lines = [line, PollLine(of: self)]
        var target: [UInt8] = []
        target.append("start=t&cb=1&v=5&ser=")
        target.append(decimal: UInt64(serial))
        target.append("&ns=")
        target.append(utf8: namespace)
        request(target, on: line)
    }

    /// Sends a message.
    package func send(_ message: RawSpan) {
        guard stage != .over else { return }
        segments.append(message)
        poll()
    }

    /// Ends the session as a page does that is left (§1.5.3). What has not been sent yet is dropped.
    package func close() {
        leave(resetsPolls: false)
    }

    /// The same, its polls cut off.
    package func cut() {
        leave(resetsPolls: true)
    }

    private func leave(resetsPolls: Bool) {
        guard stage == .starting || stage == .polling else { return }
        stage = .leaving
        guard let credentials else { return over(nil) }
        if resetsPolls { endLines(resets: true) }
        let line = lines.first { !$0.isBusy } ?? PollLine(of: self)
        if !lines.contains(where: { $0 === line }) { lines.append(line) }
        lastLine = line
        var target: [UInt8] = []
        target.append("disconn=t")
        append(credentials, to: &target)
        request(target, on: line)
    }

    private func append(_ credentials: (id: String, password: String), to target: inout [UInt8]) {
        target.append("&id=")
        target.append(utf8: credentials.id)
        target.append("&pw=")
        target.append(utf8: credentials.password)
    }

    /// - Parameter parameters: The target's query.
    private func request(_ parameters: [UInt8], on line: PollLine) {
        delegate?.longPollingDidRequest(self)
        var output: [UInt8] = []
        output.append("GET /.lp?")
        output.append(contentsOf: parameters)
        output.append(" HTTP/1.1\r\nHost: ")
        output.append(utf8: host)
        output.append("\r\n\r\n")
        line.send(output)
    }

    private func poll() {
        while stage == .polling, lastResponse == nil, let credentials,
            outstandingCount < (segments.isEmpty ? 1 : Self.mostOutstanding),
            let line = lines.first(where: { !$0.isBusy })
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
            line.lateTimer = loop.schedule(after: Self.pollPatience) { [self, unowned line] in
                line.lateTimer = nil
                line.isLate = true
                outstandingCount -= 1
                poll()
            }
            request(target, on: line)
        }
    }

    // MARK: What comes

    func read(_ script: RawSpan, statusCode: Int, from line: PollLine) {
        if let timer = line.lateTimer { loop.cancel(timer) }
        line.lateTimer = nil
        guard stage != .leaving else {
            line.becomeFree()
            // What polls still bring is of no interest.
            return line === lastLine ? over(nil) : ()
        }
        guard statusCode == 200 else { return over("status \(statusCode)") }
        delegate?.longPollingWillRead(self)
        do {
            for call in try PollScript.calls(script) {
                guard stage == .starting || stage == .polling else { break }
                take(call, script)
            }
        } catch {
            return over("no script at byte \(error.offset)")
        }
        line.becomeFree()
        guard stage == .starting || stage == .polling else { return }
        if stage == .starting {
            guard credentials != nil else { return over("no id and password") }
            stage = .polling
        } else if !line.isLate {
            outstandingCount -= 1
        }
        poll()
    }

    private func take(_ call: PollCall, _ script: RawSpan) {
        switch call {
        case .start(let id, let password): credentials = (id, password)
        case .close(nil): over("closed by the server")
        case .close(let number?):
            lastResponse = number
            endIfThrough()
        case .messages(let number, let ranges):
            // One that comes again is ignored: the server cannot know whether its first answer arrived.
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

    /// A request has no answer and will have none.
    func failed(_ line: PollLine, _ problem: String) {
        guard stage == .leaving else { return over(problem) }
        if line === lastLine { over(nil) }
    }

    private func endLines(resets: Bool) {
        for line in lines {
            if let timer = line.lateTimer { loop.cancel(timer) }
            line.lateTimer = nil
            line.end(resets: resets)
        }
        lines = []
    }

    private func over(_ problem: String?) {
        guard stage != .over else { return }
        stage = .over
        endLines(resets: false)
        lastLine = nil
        let last = delegate
        delegate = nil
        // Not from inside a call of the delegate's.
        loop.schedule(after: .zero) { [self] in last?.longPollingDidEnd(self, problem: problem) }
    }
}
