import PandoBytes
import PandoReactor
import PandoTraffic

/// A bare WebSocket server (`pando-echo`): what is sent comes back; on `/broadcast`, to everybody. The frames are as
/// long as a database's would be, so that rates may be compared.
final class EchoClient: Client, WebSocketClientDelegate {
    private var socket: WebSocketClient?
    private var request: [UInt8] = []
    private var hint = 0

    /// The connection for set-up, which has no number, hears nothing.
    private var isBroadcast: Bool {
        if case .fanOut = worker.plan.work { index >= 0 } else { false }
    }

    override func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        let made = WebSocketClient(
            on: channel, target: isBroadcast ? "/broadcast" : "/", host: worker.plan.target.host,
            messageByteLimit: 1 << 20, maskingKeys: worker.maskingKeys, delegate: self)
        socket = made
        return made
    }

    override func set(_ path: String, _ request: Pending) {
        send(request) { output in
            output.append(#"{"t":"d","d":{"r":"#)
            output.append(decimal: Int64(request.detail))
            output.append(#","a":"p","b":{"p":"/"#)
            output.append(utf8: path)
        }
    }

    override func publish(_ path: String, _ request: Pending) {
        send(request) { output in
            output.append(#"{"t":"d","d":{"a":"d","b":{"p":""#)
            output.append(utf8: path)
        }
    }

    private func send(_ request: Pending, _ head: (inout [UInt8]) -> Void) {
        pending.append((request.detail, request))
        self.request.removeAll(keepingCapacity: true)
        head(&self.request)
        self.request.append(#"","d":""#)
        Stamp.append(request.detail, time: request.intended, byteCount: worker.plan.size, to: &self.request)
        self.request.append(#""}}}"#)
        socket?.send(self.request)
    }

    /// Nobody needs to ask for broadcasts.
    override func listen(_ path: String, _ request: Pending) {
        worker.answered(self, request, .ok, [UInt8]().rawSpan)
    }

    override func fetch(_ path: String, _ request: Pending) {
        pending.append((0, request))
        socket?.ping()
    }

    override func remove(_ path: String, _ request: Pending) {
        worker.answered(self, request, .ok, [UInt8]().rawSpan)
    }

    override func close() {
        leave()
        socket?.close()
    }

    func webSocketDidOpen(_ socket: WebSocketClient) { up() }

    func webSocketDidPong(_ socket: WebSocketClient) {
        answered(.ok, [UInt8]().rawSpan)
    }

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) { ended(problem) }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        guard isSender else { return worker.scenario.pushed(self, text) }
        let stamp = Stamp.readTimed(text, byteCount: worker.plan.size, hint: &hint)
        guard let stamp, stamp.sequence == pending.first?.request.detail else {
            return worker.findings.add(\.wrong, "connection \(index): what came back was not what was sent")
        }
        answered(.ok, text)
    }
}
