import PandoBytes
import PandoReactor

/// A connection of a protocol that is a plain stream of bytes.
class StreamClient: Client, ChannelDelegate {
    /// What has come and is no whole answer yet.
    private var unread: [UInt8] = []

    override final func makeDelegate(on channel: Channel) -> any ChannelDelegate {
        unread = []
        // Not from inside the call that is about to hand the channel out.
        worker.loop.schedule(after: .zero) { [self] in
            if channel.isOpen { opened() }
        }
        return self
    }

    func opened() { up() }

    /// Takes whole answers from the front.
    /// - Returns: How many bytes they were.
    func read(_ bytes: RawSpan) -> Int { preconditionFailure("a speech is missing") }

    override final func close() {
        leave()
        channel?.closeAfterFlush()
    }

    final func write(_ bytes: RawSpan) { channel?.write(bytes) }

    final func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        worker.readClock()
        if unread.isEmpty {
            let used = read(bytes.bytes)
            if used < bytes.byteCount { unread.append(bytes.bytes.extracting(droppingFirst: used)) }
            return
        }
        unread.append(bytes.bytes)
        var whole: [UInt8] = []
        swap(&whole, &unread)
        let used = read(whole.rawSpan)
        whole.removeFirst(used)
        unread = whole
    }

    final func channelDidEnd(_ channel: Channel) {
        channel.close()
    }

    final func channelDidClose(_ channel: Channel, reason: CloseReason) {
        guard reason != .loopStopped else { return }
        ended("\(reason)")
    }

    final func fail(_ problem: String) {
        worker.findings.add(\.wrong, "connection \(index): \(problem)")
        cut()
    }
}
