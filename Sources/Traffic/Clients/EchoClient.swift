import PandoBytes
import PandoReactor

/// A WebSocket echo server (`pando-echo`): each message comes back, on `/broadcast` to all connections.
final class EchoClient: Client, WebSocketClientDelegate {
    private var socket: WebSocketClient?
    private let setting = StampedRequest()
    private let publishing = StampedRequest()
    private var hint = 0

    /// The connection for set-up has the number -1 and receives no broadcasts.
    private var isBroadcast: Bool {
        if case .fanOut = context.plan.work { index >= 0 } else { false }
    }

    private var path: String {
        if isBroadcast { return context.plan.target.echoPath ?? "/broadcast" }
        if case .fanOut = context.plan.work { return "/" }
        return context.plan.target.echoPath ?? "/"
    }

    override func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        let made = WebSocketClient(
            on: channel, target: path, host: context.plan.target.host,
            messageByteLimit: 1 << 20, maskingKeys: context.maskingKeys, delegate: self)
        socket = made
        return made
    }

    override func set(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        if !setting.fits(place: place, number: request.detail) {
            make(setting, path(), place: place) { output in
                output.append(#"{"t":"d","d":{"r":"#)
                let start = output.count
                output.append(decimal: Int64(request.detail))
                let digits = start..<output.count
                output.append(#","a":"p","b":{"p":"/"#)
                return digits
            }
        }
        send(setting, request)
    }

    override func publish(_ path: @autoclosure () -> String, place: Int, _ request: Pending) {
        if !publishing.fits(place: place, number: request.detail) {
            make(publishing, path(), place: place) { output in
                output.append("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"")
                return nil
            }
        }
        send(publishing, request)
    }

    /// - Parameter head: Appends the bytes before the path; returns where the number of the request is.
    private func make(
        _ request: StampedRequest, _ path: String, place: Int, _ head: (inout [UInt8]) -> Range<Int>?
    ) {
        var output: [UInt8] = []
        guard context.plan.target.echoMessage == .sizedAsDatabase else {
            Stamp.append(0, time: 0, byteCount: context.plan.size, to: &output)
            return request.become(output, place: place, stampOffset: 0)
        }
        let digits = head(&output)
        output.append(utf8: path)
        output.append("\",\"d\":\"")
        let stampOffset = output.count
        Stamp.append(0, time: 0, byteCount: context.plan.size, to: &output)
        output.append("\"}}}")
        request.become(output, place: place, stampOffset: stampOffset, number: digits)
    }

    private func send(_ stamped: StampedRequest, _ request: Pending) {
        pending.append((request.detail, request))
        stamped.with(request, number: request.detail) { socket?.send($0) }
    }

    /// Broadcasts come without a request.
    override func listen(_ path: String, _ request: Pending) {
        delegate.replied(self, request, .ok, [UInt8]().rawSpan)
    }

    override func fetch(_ path: String, _ request: Pending) {
        pending.append((0, request))
        socket?.ping()
    }

    override func remove(_ path: String, _ request: Pending) {
        delegate.replied(self, request, .ok, [UInt8]().rawSpan)
    }

    override func close() {
        leave()
        socket?.close()
    }

    func webSocketDidOpen(_ socket: WebSocketClient) { up() }

    func webSocketWillRead(_ socket: WebSocketClient) { context.readClock() }

    func webSocketDidPong(_ socket: WebSocketClient) {
        replied(.ok, [UInt8]().rawSpan)
    }

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) { ended(problem) }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        guard isSender else { return pushes.pushed(self, text) }
        let stamp = Stamp.readTimed(text, byteCount: context.plan.size, hint: &hint)
        guard let stamp, stamp.sequence == pending.first?.request.detail else {
            return context.findings.add(\.wrong, "connection \(index): the echo is not what was sent")
        }
        replied(.ok, text)
    }
}
