import PandoBytes
import Synchronization
import Testing

@testable import PandoReactor

/// A connection that moves from one loop to another.
@Suite struct ChannelMoveTests {
    /// Two loops. What the first one reads decides whether it moves the connection to the second, which
    /// echoes upper-case.
    @Test(arguments: [0, 10, 3_000_000])
    func movedConnectionLosesNoBytes(unsentByteCount: Int) throws {
        let log = Log<Event>()
        let second = try EventLoop()
        let thread = try NamedThread.start("second-loop") { second.run() }
        defer {
            second.stop()
            thread.join()
        }
        let earlier = pattern(0..<unsentByteCount)
        let host = try Host(
            adopt: scripting(log) { delegate, _ in
                delegate.onReceived = { _, channel in
                    if !earlier.isEmpty { channel.write(earlier.rawSpan) }
                    guard let (socket, unsent) = channel.detach() else {
                        Issue.record("the connection is open")
                        return
                    }
                    #expect(channel.isClosed && !channel.isOpen)
                    #expect(channel.detach() == nil, "once")
                    channel.write(Array("ignored".utf8).rawSpan)
                    second.submit {
                        do {
                            try Channel.adopt(socket, on: second) { channel in
                                let delegate = Scripted(1, log: log)
                                delegate.onReceived = { bytes, channel in channel.write(bytes.bytes) }
                                channel.write(unsent.rawSpan)
                                return delegate
                            }
                        } catch { Issue.record(error) }
                    }
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send(Array("move".utf8))
        log.wait("the first loop to read") { $0.contains(.received(0, Array("move".utf8))) }
        peer.send(Array("echo".utf8))
        #expect(peer.receive(exactly: unsentByteCount) == earlier)
        #expect(peer.receive(exactly: 4) == Array("echo".utf8))
        peer.close()
        let seen = log.wait("the second loop to see the end") {
            $0.contains { if case .closed(1, _) = $0 { true } else { false } }
        }
        #expect(
            !seen.contains { if case .closed(0, _) = $0 { true } else { false } },
            "the first delegate gets no further call")
    }

    @Test func acknowledgedBytesAreKnownAfterTheClose() throws {
        let log = Log<Event>()
        let taken = Log<Int>()
        let host = try Host(
            adopt: scripting(log) { delegate, channel in
                channel.remembersAcknowledgedBytes = true
                delegate.onReceived = { _, channel in
                    channel.write([UInt8](repeating: 1, count: 4_000_000).rawSpan)
                }
                delegate.onClose = { taken.add($0.acknowledgedByteCount) }
            })
        defer { host.stop() }
        let peer = try Peer(host.address, receiveBufferByteCount: 4096)
        peer.send([1])
        #expect(!peer.receive(exactly: 100).isEmpty)
        peer.reset()
        let count = taken.wait("the end") { !$0.isEmpty }[0]
        #expect(count >= 100 && count < 4_000_000)
    }
}
