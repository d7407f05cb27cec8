import PandoBytes
import PandoDatabase
import PandoTime
import PandoWebSocket

/// What a state machine must know of its socket.
package struct SocketStatus: Equatable, Sendable {
    /// Bytes that were written and that the kernel has not accepted. Machines add what they write.
    package var unsentByteCount = 0
    /// Bytes that were written in all. Machines add what they write.
    package var writtenByteCount = 0
    /// Bytes that the peer's system has acknowledged. Only for ticks, and where the state machine says that
    /// it needs it: to ask for it is a system call.
    package var acknowledgedByteCount = 0
    /// Whether bytes that are written will be sent.
    package var isOpen = true
    /// The client has shown a certificate that administrators have (`--tls-client-ca`). false for a trusted
    /// proxy: its certificate is not its clients'.
    package var isAdministrator = false

    /// The peer is a proxy whose word about its clients counts (`--trusted-proxy`).
    package var isTrustedProxy = false
    /// The peer speaks TLS with the server.
    package var isSecure = false

    package init() {}
}

/// What a state machine is given with an event, and what the event leads to.
///
/// A loop has one, and uses it for all its connections: before an event it sets the inputs, and after it
/// carries out the actions. The buffers keep their capacity.
package struct ConnectionContext {
    package var settings: ConnectionSettings

    // MARK: Inputs

    package var now: MonotonicTime
    /// Seconds since 1970, at most one second old.
    package var wallSeconds: Int64 = 0
    /// The `Date` line of a head (RFC 9110 §6.6.1).
    package var dateLine: [UInt8] = []
    package var socket = SocketStatus()

    // MARK: Results

    /// What is to be done, in order.
    package private(set) var actions = ContiguousArray<ConnectionAction>()
    /// Messages for the databases, in order; of several events, until the loop hands them over.
    package var messages: [DatabaseMessage] = []
    /// One of the messages may take long.
    package var hasHeavyMessage = false
    /// Bytes of the messages that the event has added.
    package private(set) var postedByteCount = 0
    /// Responses that the loop's connections compress while they send them.
    package var compressingCount = 0
    /// What the loop's connections may print in this tick.
    package var printing = PrintingBudget.unlimited
    /// What the loop's WebSockets share that have agreed on permessage-deflate; nil where the server agrees
    /// on none.
    package var compression: SharedCompression?

    /// - Parameter now: The time of the first event.
    package init(_ settings: ConnectionSettings, now: MonotonicTime) {
        self.settings = settings
        self.now = now
    }

    /// More at once are sent as they are: zlib takes a quarter of a MiB for each, so 16 MiB on one loop.
    private static let compressingLimit = 64

    /// Whether there is memory for one more compressed response.
    var mayCompress: Bool { compressingCount < Self.compressingLimit }

    /// Responses of the loop's connections of which a part is printed and nothing sent, because their length
    /// is not known yet.
    var bufferingCount = 0

    /// Most such responses of a loop. Each holds up to 1 MiB and is printed in turns: with more of them, all
    /// would wait longer for their first byte. Our own limit.
    private static let bufferingLimit = 16

    /// Whether there is room for one more such response.
    var mayBuffer: Bool { bufferingCount < Self.bufferingLimit }

    /// Frames for one client, with the messages among them compressed that are long enough.
    /// - Parameter window: The client's; nil where its messages are not compressed.
    /// - Returns: nil where the frames are to be sent as they are.
    package func compressed(_ frames: RawSpan, for window: DeflateWindow?) -> [UInt8]? {
        guard let window, frames.byteCount >= CompressibleFrames.thresholdByteCount, let compression,
            compression.budget.byteCount >= CompressibleFrames.thresholdByteCount,
            let deflater = compression.deflater(for: window)
        else { return nil }
        var compressed: [UInt8] = []
        deflater.append(compressing: frames, within: &compression.budget, to: &compressed)
        return compressed
    }

    /// Takes the actions out.
    /// - Parameter buffer: An empty array, whose capacity is used for the next actions.
    package mutating func takeActions(into buffer: inout ContiguousArray<ConnectionAction>) {
        assert(buffer.isEmpty)
        swap(&actions, &buffer)
    }

    /// Takes ``postedByteCount`` out.
    package mutating func takePostedByteCount() -> Int {
        defer { postedByteCount = 0 }
        return postedByteCount
    }

    // MARK: For state machines

    mutating func append(_ action: consuming ConnectionAction) { actions.append(action) }

    /// Sends a message to the databases.
    /// - Parameter byteCount: Bytes of the client's message in it, which count against backpressure.
    package mutating func post(_ message: consuming DatabaseMessage, byteCount: Int = 0) {
        if !message.isLight { hasHeavyMessage = true }
        messages.append(message)
        postedByteCount += byteCount
    }

    /// Sends bytes to the client. Copies nothing.
    mutating func write(_ bytes: consuming [UInt8]) {
        socket.unsentByteCount += bytes.count
        socket.writtenByteCount += bytes.count
        actions.append(.write(bytes))
    }

    mutating func write(_ bytes: SharedBytes) {
        socket.unsentByteCount += bytes.count
        socket.writtenByteCount += bytes.count
        actions.append(.writeShared(bytes))
    }

    /// Whether the client has taken nearly all that was written.
    var isDrained: Bool { socket.unsentByteCount <= settings.outboundLowWaterByteCount }
}
