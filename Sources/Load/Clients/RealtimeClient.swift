import PandoBytes
import PandoReactor
import PandoTraffic

/// The realtime protocol, version 5, over WebSocket.
final class RealtimeClient: Client, WebSocketClientDelegate {
    private enum Stage { case greeting, authenticating, talking }

    /// One frame carries so many characters at the most; a longer message is cut (wire-protocol §2.1).
    private static let chunkByteLimit = 16_384
    /// Longest message taken from a server.
    private static let messageByteLimit = 256 << 20

    private var socket: WebSocketClient?
    private var stage = Stage.greeting
    private var nextNumber = 1
    private var request: [UInt8] = []
    /// Chunks that the message at hand still owes, and what has come of it (§2.1).
    private var chunksLeft = 0
    private var chunks: [UInt8] = []

    override func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        (stage, chunksLeft, chunks) = (.greeting, 0, [])
        let made = WebSocketClient(
            on: channel, target: "/.ws?v=5&ns=\(worker.plan.namespace)", host: worker.plan.target.host,
            messageByteLimit: 1 << 20, maskingKeys: worker.maskingKeys, delegate: self)
        socket = made
        return made
    }

    // MARK: Requests

    override func set(_ path: String, _ request: Pending) {
        send("p", path, request) { output in
            output.append(#","d":""#)
            appendStamp(request, to: &output)
            output.append(#"""#)
        }
    }

    func appendStamp(_ request: Pending, to output: inout [UInt8]) {
        Stamp.append(request.detail, time: request.intended, byteCount: worker.plan.size, to: &output)
    }

    override func listen(_ path: String, _ request: Pending) {
        send("q", path, request) { $0.append(#","h":"""#) }
    }

    override func fetch(_ path: String, _ request: Pending) {
        send("g", path, request) { $0.append(#","q":{}"#) }
    }

    override func remove(_ path: String, _ request: Pending) {
        send("p", path, request) { $0.append(#","d":null"#) }
    }

    /// Sends a request (§3.3) whose body has the path, and what `members` appends behind it.
    func send(
        _ action: StaticString, _ path: String, _ pendingRequest: Pending, _ members: (inout [UInt8]) -> Void
    ) {
        let number = nextNumber
        nextNumber += 1
        pending.append((number, pendingRequest))
        request.removeAll(keepingCapacity: true)
        request.append(#"{"t":"d","d":{"r":"#)
        request.append(decimal: Int64(number))
        request.append(#","a":""#)
        request.append(action)
        request.append(#"","b":{"p":"/"#)
        request.append(utf8: path)
        request.append(#"""#)
        members(&request)
        request.append(#"}}}"#)
        transmit()
    }

    private func transmit() {
        guard request.count > Self.chunkByteLimit else {
            socket?.send(request)
            return
        }
        let count = (request.count + Self.chunkByteLimit - 1) / Self.chunkByteLimit
        var part: [UInt8] = []
        part.append(decimal: UInt64(count))
        socket?.send(part)
        for index in 0..<count {
            let start = index * Self.chunkByteLimit
            socket?.send(Array(request[start..<min(request.count, start + Self.chunkByteLimit)]))
        }
    }

    override func close() {
        leave()
        socket?.close()
    }

    private func authenticate(_ token: String) {
        stage = .authenticating
        let number = nextNumber
        nextNumber += 1
        pending.append((number, Pending(purpose: .setUp, detail: 0, intended: 0)))
        request.removeAll(keepingCapacity: true)
        // Tokens of every kind are accepted under either verb (§4.7); `Plan` has checked its characters.
        request.append(#"{"t":"d","d":{"r":"#)
        request.append(decimal: Int64(number))
        request.append(#","a":"auth","b":{"cred":""#)
        request.append(utf8: token)
        request.append(#""}}}"#)
        transmit()
    }

    // MARK: What comes

    func webSocketDidOpen(_ socket: WebSocketClient) {}

    func webSocketDidPong(_ socket: WebSocketClient) {}

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) {
        ended(problem)
    }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        if chunksLeft > 0 { return take(chunk: text) }
        if text.byteCount <= 6, let count = Self.chunkCount(text) {
            chunksLeft = count
            return
        }
        handle(text)
    }

    private static func chunkCount(_ text: RawSpan) -> Int? {
        withCursor(over: text) { cursor in
            var count = 0
            while !cursor.isAtEnd {
                guard cursor.current >= 0x30, cursor.current <= 0x39 else { return nil }
                count = count * 10 + Int(cursor.current - 0x30)
                cursor.advance()
            }
            return count > 0 ? count : nil
        }
    }

    private func take(chunk: RawSpan) {
        guard chunks.count + chunk.byteCount <= Self.messageByteLimit else { return fail("too long a message") }
        chunks.append(chunk)
        chunksLeft -= 1
        guard chunksLeft == 0 else { return }
        // Taken out: the message may lead to anything.
        var whole: [UInt8] = []
        swap(&whole, &chunks)
        handle(whole.rawSpan)
    }

    private func handle(_ text: RawSpan) {
        if stage == .talking {
            if let number = Envelope.plainAnswer(text) { return take(answer: number, .ok, text) }
            if !worker.scenario.wantsWholePushes, Envelope.isPlainPush(text) {
                return worker.scenario.pushed(self, text)
            }
        }
        do {
            switch try Envelope.read(text) {
            case .greeting: greeted()
            case .answer(let number, let status, _): take(answer: number, Self.answer(status), text)
            case .push(let action, let body):
                if stage == .talking { worker.scenario.pushed(self, action: action, body: body, text) }
            case .otherControl(let verb): if verb != "o" { fail("control message \(verb)") }
            }
        } catch {
            fail("a message that is none: \(error)")
        }
    }

    private static func answer(_ status: String?) -> Answer {
        switch status {
        case nil: .ok
        case "datastale": .stale
        case .some(let text): .refused(text)
        }
    }

    private func greeted() {
        guard stage == .greeting else { return fail("a second greeting") }
        if let token = worker.plan.token { return authenticate(token) }
        stage = .talking
        up()
    }

    private func take(answer number: Int, _ answer: Answer, _ text: RawSpan) {
        guard let oldest = pending.first, oldest.number <= number else {
            return worker.findings.add(\.duplicates, "connection \(index): request \(number) was answered twice")
        }
        // One that was passed over will not be answered any more (§6.1).
        while let skipped = pending.first, skipped.number < number {
            _ = pending.popFirst()
            worker.gaveUp(self, skipped.request)
        }
        guard pending.first?.number == number else {
            return worker.findings.add(\.duplicates, "connection \(index): an answer to no request: \(number)")
        }
        guard stage == .authenticating else { return answered(answer, text) }
        _ = pending.popFirst()
        guard case .ok = answer else { return fail("the token was refused") }
        stage = .talking
        up()
    }

    private func fail(_ problem: String) {
        worker.findings.add(\.wrong, "connection \(index): \(problem)")
        cut()
    }
}
