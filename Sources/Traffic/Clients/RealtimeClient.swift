import PandoBytes
import PandoReactor

/// The realtime protocol, version 5, over a WebSocket or by long polling.
final class RealtimeClient: Client, WebSocketClientDelegate, LongPollingClientDelegate {
    private enum Stage { case greeting, authenticating, talking }

    /// The most characters of one frame; longer messages are sent in chunks (realtime §2.1).
    private static let chunkByteLimit = 16_384

    /// One of the two, depending on the target's transport.
    private var socket: WebSocketClient?
    private var polls: LongPollingClient?
    private var stage = Stage.greeting
    private var nextNumber = 1
    private var request: [UInt8] = []
    private let stamped = StampedRequest()
    private var chunks = ChunkedMessage()
    private let wantsWholePushes: Bool

    override init(
        _ index: Int, _ context: WorkerContext, _ delegate: any ClientDelegate, _ pushes: any PushReceiver
    ) {
        wantsWholePushes = pushes.wantsWholePushes
        super.init(index, context, delegate, pushes)
    }

    override func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        (stage, chunks) = (.greeting, ChunkedMessage())
        let target = context.plan.target
        if target.transport == .longPolling {
            let made = LongPollingClient(
                on: channel, loop: context.loop, address: target.address, host: target.host,
                namespace: context.plan.namespace, delegate: self)
            polls = made
            return made.firstDelegate
        }
        let made = WebSocketClient(
            on: channel, target: "/.ws?v=5&ns=\(context.plan.namespace)", host: context.plan.target.host,
            messageByteLimit: 1 << 20, maskingKeys: context.maskingKeys, compression: context.compression,
            delegate: self)
        socket = made
        return made
    }

    // MARK: Requests

    override func set(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        let number = takeNumber(request)
        if !stamped.fits(place: place, number: number) { makeStamped(path(), place: place, number) }
        stamped.with(request, number: number) { transmit($0) }
    }

    private func makeStamped(_ path: String, place: Int, _ number: Int) {
        var (output, stampOffset): ([UInt8], Int) = ([], 0)
        let digits = Self.append("p", path, number, to: &output) { output in
            output.append(#","d":""#)
            stampOffset = output.count
            Stamp.append(0, time: 0, byteCount: context.plan.size, to: &output)
            output.append(#"""#)
        }
        stamped.become(output, place: place, stampOffset: stampOffset, number: digits)
    }

    func appendStamp(_ request: Pending, to output: inout [UInt8]) {
        Stamp.append(request.detail, time: request.intended, byteCount: context.plan.size, to: &output)
    }

    override func listen(_ path: String, _ request: Pending) {
        listen(path, hash: "", request)
    }

    override func listen(_ path: String, hash: String, _ request: Pending) {
        send("q", path, request) { output in
            output.append(#","h":""#)
            output.append(utf8: hash)
            output.append(#"""#)
        }
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
        let number = takeNumber(pendingRequest)
        var output = exchange(&request, with: [])
        output.removeAll(keepingCapacity: true)
        _ = Self.append(action, path, number, to: &output, members)
        transmit(output.rawSpan)
        request = output
    }

    /// Adds a pending request.
    /// - Returns: Its number.
    private func takeNumber(_ request: Pending) -> Int {
        let number = nextNumber
        nextNumber += 1
        pending.append((number, request))
        return number
    }

    /// - Returns: Where the number's digits are.
    private static func append(
        _ action: StaticString, _ path: String, _ number: Int, to output: inout [UInt8],
        _ members: (inout [UInt8]) -> Void
    ) -> Range<Int> {
        output.append(#"{"t":"d","d":{"r":"#)
        let start = output.count
        output.append(decimal: Int64(number))
        let digits = start..<output.count
        output.append(#","a":""#)
        output.append(action)
        output.append(#"","b":{"p":"/"#)
        output.append(utf8: path)
        output.append(#"""#)
        members(&output)
        output.append(#"}}}"#)
        return digits
    }

    private func transmit(_ text: RawSpan) {
        if let polls { return polls.send(text) }
        guard text.byteCount > Self.chunkByteLimit else {
            socket?.send(text)
            return
        }
        let count = (text.byteCount + Self.chunkByteLimit - 1) / Self.chunkByteLimit
        var part: [UInt8] = []
        part.append(decimal: UInt64(count))
        socket?.send(part)
        for index in 0..<count {
            let start = index * Self.chunkByteLimit
            socket?.send(text.extracting(start..<min(text.byteCount, start + Self.chunkByteLimit)))
        }
    }

    override func close() {
        leave()
        socket?.close()
        polls?.close()
    }

    override func cut() {
        guard let polls else { return super.cut() }
        leave()
        polls.cut()
    }

    private func authenticate(_ token: String) {
        stage = .authenticating
        let number = takeNumber(Pending(purpose: .setUp, detail: 0, intended: 0))
        var request: [UInt8] = []
        // `TargetOptions` has checked the token's characters.
        request.append(authentication: token, number: number)
        transmit(request.rawSpan)
    }

    // MARK: What comes

    func webSocketDidOpen(_ socket: WebSocketClient) {}

    func webSocketWillRead(_ socket: WebSocketClient) { context.readClock() }

    func webSocketDidPong(_ socket: WebSocketClient) {}

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) {
        ended(problem)
    }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        switch chunks.append(text) {
        case .whole: handle(text)
        case .partial: break
        case .complete(let message): handle(message.rawSpan)
        case .tooLong: fail("too long a message")
        }
    }

    func longPollingWillRead(_ session: LongPollingClient) { context.readClock() }

    func longPolling(_ session: LongPollingClient, received message: RawSpan) {
        if session === polls { handle(message) }
    }

    func longPollingDidRequest(_ session: LongPollingClient) {
        context.statistics.requested(at: context.moment)
    }

    func longPollingDidEnd(_ session: LongPollingClient, problem: String?) {
        guard session === polls else { return }
        polls = nil
        ended(problem)
    }

    private func handle(_ text: RawSpan) {
        if stage == .talking {
            if let number = Envelope.plainReply(text) { return handle(reply: number, .ok, text) }
            if !wantsWholePushes, Envelope.isPlainPush(text) { return pushes.pushed(self, text) }
        }
        do {
            switch try Envelope.read(text) {
            case .greeting: greeted()
            case .reply(let number, let status, _): handle(reply: number, Self.reply(status), text)
            case .push(let action, let body):
                if stage == .talking { pushes.pushed(self, action: action, body: body, text) }
            case .otherControl(let verb): if verb != "o" { fail("control message \(verb)") }
            }
        } catch {
            fail("a message that is none: \(error)")
        }
    }

    private static func reply(_ status: String?) -> Reply {
        switch status {
        case nil: .ok
        case "datastale": .stale
        case .some(let text): .refused(text)
        }
    }

    private func greeted() {
        guard stage == .greeting else { return fail("a second greeting") }
        if let token = context.plan.token { return authenticate(token) }
        stage = .talking
        up()
    }

    private func handle(reply number: Int, _ reply: Reply, _ text: RawSpan) {
        if stage == .talking, pending.first?.number == number { return replied(reply, text) }
        guard let oldest = pending.first, oldest.number <= number else {
            return context.findings.add(
                \.duplicates, "connection \(index): request \(number) was answered twice")
        }
        // Responses come in order, so a request that was skipped has none (§6.1).
        while let skipped = pending.first, skipped.number < number {
            _ = pending.popFirst()
            delegate.requestLost(self, skipped.request)
        }
        guard pending.first?.number == number else {
            return context.findings.add(
                \.duplicates, "connection \(index): a reply to no request: \(number)")
        }
        guard stage == .authenticating else { return replied(reply, text) }
        _ = pending.popFirst()
        guard case .ok = reply else { return fail("the token was refused") }
        stage = .talking
        up()
    }

    private func fail(_ problem: String) {
        context.findings.add(\.wrong, "connection \(index): \(problem)")
        cut()
    }
}
