import PandoBytes
import PandoReactor

/// A connection of a protocol that is a plain stream of bytes.
class StreamClient: Client, ChannelDelegate {
    /// Bytes that are not a whole response yet.
    private var unread: [UInt8] = []

    override final func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        unread = []
        // Not from inside the call that returns the delegate.
        context.loop.schedule(after: .zero) { [self] in
            if channel.isOpen { opened() }
        }
        return self
    }

    func opened() { up() }

    /// Reads whole responses from the front.
    /// - Returns: How many bytes they have.
    func read(_ bytes: RawSpan) -> Int { preconditionFailure("implemented by subclasses") }

    override final func close() {
        leave()
        channel?.closeAfterFlush()
    }

    final func write(_ bytes: RawSpan) { channel?.write(bytes) }

    final func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        context.readClock()
        if unread.isEmpty {
            let used = read(bytes.bytes)
            if used < bytes.byteCount { unread.append(bytes.bytes.extracting(droppingFirst: used)) }
            return
        }
        unread.append(bytes.bytes)
        var whole = exchange(&unread, with: [])
        let used = read(whole.rawSpan)
        whole.removeFirst(used)
        unread = whole
    }

    final func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    final func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        guard reason != .loopStopped else { return }
        ended("\(reason)")
    }

    final func fail(_ problem: String) {
        context.findings.add(\.wrong, "connection \(index): \(problem)")
        cut()
    }
}
