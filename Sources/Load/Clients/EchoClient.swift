import PandoBytes
import PandoReactor
import PandoTraffic

/// A bare WebSocket server (`pando-echo`): what is sent comes back; on `/broadcast`, to everybody. The frames
/// are as long as a database's would be, so that rates may be compared.
final class EchoClient: Client, WebSocketClientDelegate {
    private var socket: WebSocketClient?
    private let setting = StampedRequest()
    private let publishing = StampedRequest()
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
                output.append(#"{"t":"d","d":{"a":"d","b":{"p":""#)
                return nil
            }
        }
        send(publishing, request)
    }

    /// - Parameter head: What stands before the path; gives where the request's number is.
    private func make(
        _ request: StampedRequest, _ path: String, place: Int, _ head: (inout [UInt8]) -> Range<Int>?
    ) {
        var output: [UInt8] = []
        let digits = head(&output)
        output.append(utf8: path)
        output.append(#"","d":""#)
        let stampOffset = output.count
        Stamp.append(0, time: 0, byteCount: worker.plan.size, to: &output)
        output.append(#""}}}"#)
        request.become(output, place: place, stampOffset: stampOffset, number: digits)
    }

    private func send(_ stamped: StampedRequest, _ request: Pending) {
        pending.append((request.detail, request))
        stamped.with(request, number: request.detail) { socket?.send($0) }
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

    func webSocketWillRead(_ socket: WebSocketClient) { worker.readClock() }

    func webSocketDidPong(_ socket: WebSocketClient) {
        answered(.ok, [UInt8]().rawSpan)
    }

    func webSocketDidEnd(_ socket: WebSocketClient, problem: String?) { ended(problem) }

    func webSocket(_ socket: WebSocketClient, received text: RawSpan) {
        guard isSender else { return scenario.pushed(self, text) }
        let stamp = Stamp.readTimed(text, byteCount: worker.plan.size, hint: &hint)
        guard let stamp, stamp.sequence == pending.first?.request.detail else {
            return worker.findings.add(\.wrong, "connection \(index): what came back was not what was sent")
        }
        answered(.ok, text)
    }
}
