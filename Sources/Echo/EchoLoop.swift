import PandoBytes
import PandoCompression
import PandoReactor
import PandoTLS
import PandoWebSocket
import Synchronization

/// What all loops of the echo server have in common.
final class EchoOptions: Sendable {
    let messageByteLimit: Int
    /// nil: permessage-deflate is not negotiated.
    let deflate: DeflateOptions?
    let deflater: MessageDeflater.Options
    /// Bounds the memory of compression with context takeover.
    let budget: CompressionBudget
    /// nil without TLS.
    let certificates: CertificateStore?
    /// Bit 0 once a listener without compression has joined `/broadcast`, bit n once one has joined whose
    /// window has 2^n bytes.
    private let joinedWindows = Atomic<UInt32>(0)

    init(
        messageByteLimit: Int, deflate: DeflateOptions?, deflater: MessageDeflater.Options,
        budget: CompressionBudget, certificates: CertificateStore?
    ) {
        self.messageByteLimit = messageByteLimit
        self.deflate = deflate
        self.deflater = deflater
        self.budget = budget
        self.certificates = certificates
    }

    /// - Parameter window: The deflate window; 0 for no compression.
    func join(window: Int) {
        joinedWindows.bitwiseOr(1 << UInt32(window), ordering: .relaxed)
    }

    func hasJoined(window: Int) -> Bool {
        joinedWindows.load(ordering: .relaxed) & 1 << UInt32(window) != 0
    }
}

/// A message to `/broadcast`, as one frame for all listeners with the same deflate window; index 0 is for
/// those without compression.
typealias BroadcastFrames = [SharedBytes?]

/// One event loop of the echo server, with its connections to `/broadcast`.
///
/// `@unchecked Sendable`: mutable state is used on the loop's thread only, or before it runs.
final class EchoLoop: @unchecked Sendable {
    let loop: EventLoop
    let options: EchoOptions
    /// What connections without context takeover share.
    let compression: SharedCompression
    /// The mailboxes of all loops, this one included.
    private var mailboxes: [Mailbox<BroadcastFrames>] = []
    /// With the index of their frame in ``BroadcastFrames``.
    private var listeners: [ObjectIdentifier: (channel: Channel, window: Int)] = [:]
    /// The channels of `listeners` by that index, for ``deliver(_:)``; nil after a change.
    private var channelsByWindow: [[Channel]]?
    /// The header of the frame that is sent back, or the frame; its memory is reused.
    private var buffer: [UInt8] = []

    /// Most capacity of `buffer` that is kept.
    private static let keptByteLimit = 256 << 10

    private init(_ loop: EventLoop, options: EchoOptions) {
        self.loop = loop
        self.options = options
        compression = SharedCompression(options: options.deflater)
    }

    static func make(on eventLoops: [EventLoop], options: EchoOptions) -> [EchoLoop] {
        let loops = eventLoops.map { EchoLoop($0, options: options) }
        let mailboxes = loops.map { echoLoop in
            echoLoop.loop.mailbox(of: BroadcastFrames.self) { batch in
                for frames in batch { echoLoop.deliver(frames) }
            }
        }
        for loop in loops { loop.mailboxes = mailboxes }
        return loops
    }

    /// Calls `body` with what `write` appends to an empty buffer.
    func withBuffer(_ write: (inout [UInt8]) -> Void, _ body: (RawSpan) -> Void) {
        var buffer = exchange(&self.buffer, with: [])
        buffer.removeAll(keepingCapacity: true)
        write(&buffer)
        body(buffer.rawSpan)
        if buffer.capacity <= Self.keptByteLimit { self.buffer = consume buffer }
    }

    // MARK: Broadcast

    /// - Parameter windowBits: nil where messages to this channel are not compressed.
    func join(_ channel: Channel, windowBits: Int?) {
        let window = windowBits ?? 0
        listeners[ObjectIdentifier(channel)] = (channel, window)
        channelsByWindow = nil
        options.join(window: window)
    }

    func leave(_ channel: Channel) {
        if listeners.removeValue(forKey: ObjectIdentifier(channel)) != nil { channelsByWindow = nil }
    }

    /// Sends a message to all connections to `/broadcast`: with one loop at once, else through the loops'
    /// mailboxes. It is compressed once for each deflate window that a listener has.
    func broadcast(_ opcode: Opcode, _ payload: RawSpan) {
        var plain: [UInt8] = []
        plain.reserveCapacity(payload.byteCount + 10)
        plain.append(frame: opcode, payload: payload)
        let plainFrame = SharedBytes(plain)
        var frames: BroadcastFrames = [plainFrame]
        for window in 1...DeflateParameters.windowBits.upperBound {
            guard options.hasJoined(window: window) else {
                frames.append(nil)
                continue
            }
            guard let deflater = try? compression.deflater(windowBits: window),
                deflater.compresses(byteCount: payload.byteCount)
            else {
                frames.append(plainFrame)
                continue
            }
            var frame: [UInt8] = []
            deflater.append(message: opcode, payload: payload, to: &frame)
            frames.append(SharedBytes(frame))
        }
        guard mailboxes.count > 1 else { return deliver(frames) }
        for mailbox in mailboxes { mailbox.post(frames) }
    }

    private func deliver(_ frames: BroadcastFrames) {
        let channelsByWindow = self.channelsByWindow ?? groupListeners()
        self.channelsByWindow = channelsByWindow
        for (frame, channels) in zip(frames, channelsByWindow) {
            // nil for those who have joined after the message was sent.
            guard let frame else { continue }
            for channel in channels { channel.write(frame) }
        }
    }

    private func groupListeners() -> [[Channel]] {
        var groups: [[Channel]] = Array(repeating: [], count: 1 + DeflateParameters.windowBits.upperBound)
        for (channel, window) in listeners.values { groups[window].append(channel) }
        return groups
    }
}
