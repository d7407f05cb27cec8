import PandoBytes
import PandoReactor
import PandoWebSocket

/// One event loop of the echo server, with its connections to `/broadcast`.
///
/// `@unchecked Sendable`: mutable state is used on the loop's thread only, or before it runs.
final class EchoLoop: @unchecked Sendable {
    let loop: EventLoop
    let messageByteLimit: Int
    /// The mailboxes of all loops, this one included.
    private var mailboxes: [Mailbox<SharedBytes>] = []
    private var listeners: [ObjectIdentifier: Channel] = [:]
    /// `listeners` as an array, for ``deliver(_:)``; nil after a change.
    private var listenerArray: [Channel]?
    /// The header of the frame that is sent back; its memory is reused.
    private var header: [UInt8] = []

    private init(_ loop: EventLoop, messageByteLimit: Int) {
        self.loop = loop
        self.messageByteLimit = messageByteLimit
    }

    static func make(on eventLoops: [EventLoop], messageByteLimit: Int) -> [EchoLoop] {
        let loops = eventLoops.map { EchoLoop($0, messageByteLimit: messageByteLimit) }
        let mailboxes = loops.map { echoLoop in
            echoLoop.loop.mailbox(of: SharedBytes.self) { frames in
                for frame in frames { echoLoop.deliver(frame) }
            }
        }
        for loop in loops { loop.mailboxes = mailboxes }
        return loops
    }

    func adopt(_ socket: ConnectedSocket) {
        // It fails when there is no memory for one more epoll entry: then the socket is closed.
        _ = try? Channel.adopt(socket, on: loop) { _ in EchoConnection(on: self) }
    }

    /// Calls `body` with the header of a frame that is to be sent.
    func withHeader(_ opcode: Opcode, payloadByteCount: Int, _ body: (RawSpan) -> Void) {
        var header = exchange(&self.header, with: [])
        header.removeAll(keepingCapacity: true)
        header.append(frameHeader: opcode, payloadByteCount: payloadByteCount)
        body(header.rawSpan)
        self.header = consume header
    }

    func join(_ channel: Channel) {
        listeners[ObjectIdentifier(channel)] = channel
        listenerArray = nil
    }

    func leave(_ channel: Channel) {
        if listeners.removeValue(forKey: ObjectIdentifier(channel)) != nil { listenerArray = nil }
    }

    /// Sends a frame to all connections to `/broadcast`: with one loop at once, else through the loops'
    /// mailboxes.
    func broadcast(_ frame: SharedBytes) {
        guard mailboxes.count > 1 else { return deliver(frame) }
        for mailbox in mailboxes { mailbox.post(frame) }
    }

    private func deliver(_ frame: SharedBytes) {
        let channels = listenerArray ?? Array(listeners.values)
        listenerArray = channels
        for channel in channels { channel.write(frame) }
    }
}
