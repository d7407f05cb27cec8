import COperatingSystem
import PandoBytes
import PandoRandom
import Synchronization
import Testing

@testable import PandoReactor

/// Adopts every connection with a numbered `Scripted` that `set` completes.
func scripting(
    _ log: Log<Event>, _ set: @escaping @Sendable (Scripted, Channel) -> Void
) -> @Sendable (ConnectedSocket, EventLoop) -> Void {
    let next = Atomic<Int>(0)
    let counter = Holder(next)
    return { socket, loop in
        let id = counter.value.add(1, ordering: .relaxed).oldValue
        do {
            try Channel.adopt(socket, on: loop) { channel in
                let delegate = Scripted(id, log: log)
                set(delegate, channel)
                log.add(.opened(id))
                return delegate
            }
        } catch { Issue.record(error) }
    }
}

final class Holder: Sendable {
    let value: Atomic<Int>
    init(_ value: consuming Atomic<Int>) { self.value = value }
}

@Suite struct ChannelTests {
    @Test(arguments: 0..<6 as Range<UInt64>)
    func echoesAnyCutOfTheStream(seed: UInt64) throws {
        var configuration = EventLoop.Configuration()
        // With small buffers the cork buffer overflows, and reads are cut.
        if seed % 2 == 0 {
            (configuration.receiveBufferByteCount, configuration.corkByteCount) = (4096, 1000)
        }
        let log = Log<Event>()
        let host = try Host(
            configuration,
            adopt: scripting(log) { delegate, _ in
                delegate.logsBytes = false
                delegate.onReceived = { bytes, channel in
                    // In pieces, so that some are corked and some are not.
                    let count = bytes.byteCount
                    channel.write(bytes.bytes.extracting(0..<(count / 3)))
                    channel.write(bytes.bytes.extracting((count / 3)..<count))
                }
            })
        defer { host.stop() }
        var random = SeededGenerator(seed: seed)
        let peer = try Peer(host.address)
        for size in [1, 2, 999, 1000, 1001, 4096, 65_537, 300_000] {
            let bytes = pattern(0..<size, seed: UInt8(seed))
            var (sent, echoed): (Int, [UInt8]) = (0, [])
            while sent < size {
                let cut = min(size - sent, Int.random(in: 1...max(1, size / 3), using: &random))
                peer.send(Array(bytes[sent..<(sent + cut)]))
                sent += cut
                echoed += peer.receive(exactly: Int.random(in: 0...(sent - echoed.count), using: &random))
            }
            echoed += peer.receive(exactly: size - echoed.count)
            #expect(echoed == bytes, "size \(size), seed \(seed)")
        }
    }

    @Test(arguments: 0..<4 as Range<UInt64>)
    func mixedWritesArriveInOrderThroughSmallBuffers(seed: UInt64) throws {
        var configuration = EventLoop.Configuration()
        configuration.corkByteCount = 10_000
        var options = SocketOptions()
        options.sendBufferByteCount = 8192
        let log = Log<Event>()
        let total = 3_000_000
        let host = try Host(
            configuration, options: options,
            adopt: scripting(log) { delegate, _ in
                delegate.onReceived = { _, channel in
                    var random = SeededGenerator(seed: seed)
                    var offset = 0
                    while offset < total {
                        // Mostly small: many chunks in one system call; some larger than any buffer.
                        let limit = [10, 300, 5000, 200_000].randomElement(using: &random)!
                        let size = min(total - offset, Int.random(in: 0...limit, using: &random))
                        let bytes = pattern(offset..<(offset + size))
                        if Bool.random(using: &random) {
                            channel.write(SharedBytes(bytes))
                        } else {
                            channel.write(bytes.rawSpan)
                        }
                        offset += size
                    }
                    channel.closeAfterFlush()
                    channel.write([0xFF].rawSpan)  // Too late: ignored.
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address, receiveBufferByteCount: 4096)
        peer.send([1])
        let bytes = peer.receive(exactly: total, atMost: 20_000)
        #expect(bytes == pattern(0..<total))
        #expect(peer.receive() == [], "then the end, and no reset")
        peer.close()
        log.wait("the close") { $0.contains(.closed(0, .requested)) }
    }

    @Test func moreChunksThanOneSystemCallSends() throws {
        let log = Log<Event>()
        let count = 20_000
        let host = try Host(
            adopt: scripting(log) { delegate, channel in
                for index in 0..<count { channel.write(SharedBytes([UInt8(truncatingIfNeeded: index)])) }
            })
        defer { host.stop() }
        let peer = try Peer(host.address)
        #expect(peer.receive(exactly: count) == (0..<count).map { UInt8(truncatingIfNeeded: $0) })
    }

    @Test func peerThatDoesNotReadIsDisconnectedAndOthersAreServed() throws {
        var configuration = EventLoop.Configuration()
        configuration.outboundByteLimit = 1 << 20
        let log = Log<Event>()
        let host = try Host(
            configuration,
            adopt: scripting(log) { delegate, channel in
                delegate.logsBytes = false
                delegate.onReceived = { bytes, channel in
                    let isHog = array(bytes.bytes)[0] == 1
                    guard isHog else { return channel.write(bytes.bytes) }
                    // Sends without end, a piece per tick.
                    let piece = SharedBytes([UInt8](repeating: 7, count: 100_000))
                    pump(channel, piece)
                }
            })
        defer { host.stop() }
        let good = try Peer(host.address)
        log.wait("the first to be adopted") { $0.contains(.opened(0)) }
        let bad = try Peer(host.address, receiveBufferByteCount: 4096)
        bad.send([1])
        while !log.all.contains(.closed(1, .outboundLimitExceeded)) {
            let ping: [UInt8] = [2, 3, 4]
            good.send(ping)
            #expect(good.receive(exactly: 3) == ping)
            guard !log.all.contains(where: { if case .closed(1, _) = $0 { true } else { false } }) else {
                break
            }
        }
        #expect(log.all.contains(.closed(1, .outboundLimitExceeded)))
        #expect(!log.all.contains(where: { if case .closed(0, _) = $0 { true } else { false } }))
    }

    @Test func closingOtherChannelsInsideABatch() throws {
        let log = Log<Event>()
        let channels = Confined<[Channel]>([])
        let host = try Host(
            adopt: scripting(log) { delegate, channel in
                channels.value.append(channel)
                delegate.onReceived = { _, channel in
                    for other in channels.value where other !== channel { other.close() }
                    channel.write([42].rawSpan)
                }
                delegate.onClose = { channel in channels.value.removeAll { $0 === channel } }
            })
        defer { host.stop() }
        let peers = try (0..<50).map { _ in try Peer(host.address) }
        log.wait("all to be adopted") { $0.count == 50 }
        // While the loop is blocked, all of them become readable: one batch.
        let isStanding = try WakeupEvent()
        let mayGoOn = try WakeupEvent()
        host.loop.submit {
            isStanding.signal()
            mayGoOn.wait()
        }
        isStanding.wait()
        for peer in peers { peer.send([1]) }
        mayGoOn.signal()
        let events = log.wait("49 to close") {
            $0.count(where: { if case .closed = $0 { true } else { false } }) == 49
        }
        let received = events.count { if case .received = $0 { true } else { false } }
        #expect(received == 1, "events of closed channels are stale")
        #expect(host.on { _ in channels.value.count } == 1)
        #expect(host.on { $0.watchedCount } == 2, "the survivor and the acceptor")
        for peer in peers { peer.close() }
        log.wait("the survivor to end") {
            $0.count(where: { if case .closed = $0 { true } else { false } }) == 50
        }
        host.on { _ in channels.value = [] }
    }

    @Test func halfClose() throws {
        let log = Log<Event>()
        let host = try Host(
            adopt: scripting(log) { delegate, _ in
                delegate.onEnd = { channel in
                    channel.write([1, 2, 3].rawSpan)
                    channel.closeAfterFlush()
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send([9])
        peer.endWriting()
        #expect(peer.receive(exactly: 3) == [1, 2, 3], "the peer still reads")
        #expect(peer.receive() == [])
        let events = log.wait("the close") { $0.count == 4 }
        #expect(events == [.opened(0), .received(0, [9]), .ended(0), .closed(0, .requested)])
    }

    @Test func lastReplySurvivesPendingInput() throws {
        let log = Log<Event>()
        let reply = pattern(0..<400_000)
        var options = SocketOptions()
        options.sendBufferByteCount = 8192
        let host = try Host(
            options: options,
            adopt: scripting(log) { delegate, _ in
                delegate.logsBytes = false
                delegate.onReceived = { _, channel in
                    channel.write(reply.rawSpan)
                    channel.pauseReading()
                    channel.closeAfterFlush()
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address, receiveBufferByteCount: 4096)
        peer.send([1])
        #expect(peer.receive(exactly: 1).count == 1)
        // More input: closing at once would answer it with RST, and lose the reply.
        peer.send([UInt8](repeating: 5, count: 1_000_000))
        #expect(peer.receive(exactly: reply.count - 1) == Array(reply.dropFirst()))
        #expect(peer.receive() == [])
    }

    @Test func peerThatAcknowledgesNothingIsDisconnectedAfterCloseAfterFlush() throws {
        var configuration = EventLoop.Configuration()
        configuration.closeStallTimeout = .milliseconds(50)
        let log = Log<Event>()
        let host = try Host(
            configuration,
            adopt: scripting(log) { delegate, channel in
                channel.write(SharedBytes([UInt8](repeating: 0, count: 30_000_000)))
                channel.closeAfterFlush()
            })
        defer { host.stop() }
        let peer = try Peer(host.address, receiveBufferByteCount: 4096)
        log.wait("the cut") { $0.contains(.closed(0, .stalled)) }
        withExtendedLifetime(peer) {}
    }

    @Test func peerThatNeverClosesIsClosedAfterLingering() throws {
        var configuration = EventLoop.Configuration()
        configuration.closeStallTimeout = .milliseconds(50)
        let log = Log<Event>()
        let host = try Host(
            configuration, adopt: scripting(log) { _, channel in channel.closeAfterFlush() })
        defer { host.stop() }
        let peer = try Peer(host.address)
        #expect(peer.receive() == [])
        log.wait("the end of lingering") { $0.contains(.closed(0, .requested)) }
    }

    @Test func drainIsReportedOnceBelowTheLowWaterMark() throws {
        var configuration = EventLoop.Configuration()
        configuration.outboundLowWaterByteCount = 1000
        var options = SocketOptions()
        options.sendBufferByteCount = 8192
        let log = Log<Event>()
        let host = try Host(
            configuration, options: options,
            adopt: scripting(log) { delegate, _ in
                delegate.logsBytes = false
                delegate.onReceived = { bytes, channel in
                    channel.write([UInt8](repeating: 1, count: 500_000).rawSpan)
                    channel.pauseReading()
                    #expect(channel.outboundByteCount == 500_000)
                }
                delegate.onDrain = { channel in
                    #expect(channel.outboundByteCount <= 1000)
                    channel.write([2].rawSpan)
                    channel.resumeReading()
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address, receiveBufferByteCount: 4096)
        for round in 1...3 {
            peer.send([0])
            let bytes = peer.receive(exactly: 500_001)
            #expect(bytes.count == 500_001 && bytes.last == 2)
            let drains = log.wait("the drain") { $0.contains(.drained(0)) }.count { $0 == .drained(0) }
            #expect(drains == round)
        }
    }

    @Test func pausedChannelReadsNothing() throws {
        let log = Log<Event>()
        let channels = Confined<[Channel]>([])
        let host = try Host(
            adopt: scripting(log) { _, channel in
                channel.pauseReading()
                channels.value.append(channel)
            })
        defer { host.stop() }
        let peer = try Peer(host.address)
        log.wait("adoption") { $0.count == 1 }
        peer.send([1, 2, 3])
        // Two full ticks with the bytes in the socket.
        _ = host.on { _ in 0 }
        _ = host.on { _ in 0 }
        #expect(log.all == [.opened(0)])
        host.on { _ in
            channels.value[0].resumeReading()
            channels.value = []
        }
        log.wait("the bytes") { $0.contains(.received(0, [1, 2, 3])) }
    }

    @Test func resetIsReportedWhilePausedAndWhileReading() throws {
        for pauses in [false, true] {
            let log = Log<Event>()
            let host = try Host(
                adopt: scripting(log) { _, channel in if pauses { channel.pauseReading() } })
            let peer = try Peer(host.address)
            log.wait("adoption") { $0.count == 1 }
            peer.reset()
            log.wait("the reset") { $0.contains(.closed(0, .reset)) }
            host.stop()
        }
    }

    @Test func resetReachesThePeer() throws {
        let log = Log<Event>()
        // Only when it is asked to: a peer that reads late would take an earlier reset for a refused
        // connection.
        let host = try Host(
            adopt: scripting(log) { delegate, _ in delegate.onReceived = { _, channel in channel.reset() } })
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send([1])
        #expect(peer.receive() == nil, "RST, not FIN")
        log.wait("the close") { $0.contains(.closed(0, .requested)) }
    }

    @Test func replacedDelegateGetsTheClose() throws {
        let log = Log<Event>()
        let host = try Host(
            adopt: scripting(log) { first, _ in
                first.onReceived = { _, channel in
                    let second = Scripted(100, log: log)
                    second.onReceived = { _, channel in
                        channel.close()
                        // Called later, never from inside close().
                        #expect(!log.all.contains(.closed(100, .requested)))
                    }
                    channel.delegate = second
                    channel.write([1].rawSpan)
                }
            })
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send([1])
        #expect(peer.receive(exactly: 1) == [1])
        peer.send([2])
        let events = log.wait("the close") { $0.count == 4 }
        #expect(
            events == [.opened(0), .received(0, [1]), .received(100, [2]), .closed(100, .requested)])
    }

    @Test func stoppingTheLoopClosesEverything() throws {
        let log = Log<Event>()
        let host = try Host(adopt: scripting(log) { _, _ in })
        let peers = try (0..<10).map { _ in try Peer(host.address) }
        log.wait("adoption") { $0.count == 10 }
        host.stop()
        #expect(log.all.count { if case .closed(_, .loopStopped) = $0 { true } else { false } } == 10)
        for peer in peers { #expect(peer.receive() == []) }
        #expect(throws: (any Error).self, "nothing listens any more") { try Peer(host.address) }
    }

    /// The signal of a stop() that comes while events are handled must not be lost.
    @Test func stopFromInsideAnEventIsNotLost() throws {
        let log = Log<Event>()
        let host = try Host(
            adopt: scripting(log) { delegate, _ in
                delegate.onReceived = { _, channel in channel.loop.stop() }
            })
        let peer = try Peer(host.address)
        peer.send([1])
        log.wait("the loop's own end") { $0.contains(.closed(0, .loopStopped)) }
        host.stop()
    }

    @Test func fanOutReachesAThousandChannels() throws {
        let log = Log<Event>()
        let channels = Confined<[Channel]>([])
        let host = try Host(
            adopt: scripting(log) { delegate, channel in
                channels.value.append(channel)
                delegate.onReceived = { bytes, _ in
                    let message = SharedBytes(bytes.bytes)
                    for each in channels.value { each.write(message) }
                }
                delegate.onClose = { channel in channels.value.removeAll { $0 === channel } }
            })
        let peers = try (0..<1000).map { _ in try Peer(host.address) }
        log.wait("all to be adopted") { $0.count == 1000 }
        for round in 0..<5 {
            let message = pattern(0..<200, seed: UInt8(round))
            peers[round * 7].send(message)
            for peer in peers { #expect(peer.receive(exactly: 200) == message) }
        }
        host.stop()
        #expect(channels.value.isEmpty)
    }
}

/// `@unchecked Sendable`: used on the test's loop only, or after it was joined.
final class Confined<Value>: @unchecked Sendable {
    var value: Value
    init(_ value: Value) { self.value = value }
}

/// Writes a piece in each tick, until the channel closes.
func pump(_ channel: Channel, _ piece: SharedBytes) {
    guard channel.isOpen else { return }
    channel.write(piece)
    channel.loop.schedule(after: .milliseconds(1)) { pump(channel, piece) }
}
