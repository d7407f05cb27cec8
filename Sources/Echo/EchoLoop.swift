import PandoBytes
import PandoReactor
import PandoWebSocket

/// One thread of the echo server and who listens to broadcasts on it.
///
/// `@unchecked Sendable`: everything mutable is touched on the loop's thread only, or before it runs.
final class EchoLoop: @unchecked Sendable {
    let loop: EventLoop
    let messageByteLimit: Int
    /// Everybody's mailboxes, our own included.
    private var all: [Mailbox<SharedBytes>] = []
    private var listeners: [ObjectIdentifier: Channel] = [:]
    /// The same in an array, which a broadcast walks; made anew when somebody came or went.
    private var walk: [Channel]?
    /// The header of the frame being sent back; kept to be reused.
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
        for loop in loops { loop.all = mailboxes }
        return loops
    }

    func adopt(_ socket: ConnectedSocket) {
        // No memory for one more epoll entry: the socket is closed and the client hears it.
        _ = try? Channel.adopt(socket, on: loop) { _ in EchoConnection(on: self) }
    }

    /// Lends the header of a frame to be sent.
    func withHeader(_ opcode: Opcode, payloadByteCount: Int, _ body: (RawSpan) -> Void) {
        var header: [UInt8] = []
        swap(&header, &self.header)
        header.removeAll(keepingCapacity: true)
        header.append(frameHeader: opcode, payloadByteCount: payloadByteCount)
        body(header.rawSpan)
        swap(&header, &self.header)
    }

    func join(_ channel: Channel) {
        listeners[ObjectIdentifier(channel)] = channel
        walk = nil
    }

    func leave(_ channel: Channel) {
        if listeners.removeValue(forKey: ObjectIdentifier(channel)) != nil { walk = nil }
    }

    /// Sends a ready frame to everybody on `/broadcast`: here at once, on other loops through their
    /// mailboxes.
    func broadcast(_ frame: SharedBytes) {
        guard all.count > 1 else { return deliver(frame) }
        for mailbox in all { mailbox.post(frame) }
    }

    private func deliver(_ frame: SharedBytes) {
        let channels = walk ?? Array(listeners.values)
        walk = channels
        for channel in channels { channel.write(frame) }
    }
}
