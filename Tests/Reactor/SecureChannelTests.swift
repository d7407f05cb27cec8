import COperatingSystem
import PandoBytes
import PandoTLS
import PandoTime
import Testing

@testable import PandoReactor

/// A file of the tests of `PandoTLS`.
private func fixture(_ name: String) throws -> [UInt8] {
    try CertificateFile.read(
        String(#filePath.dropLast("Reactor/SecureChannelTests.swift".count)) + "TLS/Fixtures/" + name)
}

private func serverContext() throws -> TLSServerContext {
    TLSServerContext(
        standard: try TLSIdentity(
            chain: fixture("localhost.pem"), key: fixture("localhost.key"), tickets: TicketKeys()))
}

/// A loop whose accepted connections speak TLS.
private func secureHost(
    _ configuration: EventLoop.Configuration = .init(), _ log: Log<Event>,
    _ set: @escaping @Sendable (Scripted, Channel) -> Void
) throws -> Host {
    let context = try serverContext()
    return try Host(configuration) { socket, loop in
        _ = try? Channel.adopt(socket, on: loop, tls: TLSConnection(server: context)) { channel in
            let delegate = Scripted(0, log: log)
            set(delegate, channel)
            return delegate
        }
    }
}

/// A loop of its own with a client's connection that speaks TLS.
private final class SecureClient: Sendable {
    let loop: EventLoop
    private let thread: NamedThread

    init(
        _ address: SocketAddress, _ log: Log<Event>, issuer: String = "issuer",
        limits: TLSClientContext.Limits = .init(),
        _ set: @escaping @Sendable (Scripted, Channel) -> Void
    ) throws {
        let loop = try EventLoop()
        let context = try TLSClientContext(issuers: fixture(issuer + ".pem"), limits: limits)
        try Connector.connect(
            to: address, on: loop, tls: TLSConnection(client: context, host: "localhost"),
            makeDelegate: { channel in
                let delegate = Scripted(1, log: log)
                set(delegate, channel)
                return delegate
            }, onFailure: { Issue.record($0) })
        self.loop = loop
        thread = try NamedThread.start("test-client") { loop.run() }
    }

    func stop() {
        loop.stop()
        thread.join()
    }
}

extension Log where Value == Event {
    /// Bytes that one side has received.
    func bytes(of id: Int) -> [UInt8] {
        var found: [UInt8] = []
        for case .received(let receiver, let bytes) in all where receiver == id { found += bytes }
        return found
    }

    func waitForBytes(_ count: Int, of id: Int) -> [UInt8] {
        var (total, seen) = (0, 0)
        wait("\(count) bytes") { events in
            for case .received(let receiver, let bytes) in events[seen...] where receiver == id {
                total += bytes.count
            }
            seen = events.count
            return total >= count
        }
        return bytes(of: id)
    }

    func waitForClose(of id: Int) -> ChannelCloseReason? {
        var found: ChannelCloseReason?
        wait("the end") { events in
            for case .closed(let closed, let reason) in events where closed == id { found = reason }
            return found != nil
        }
        return found
    }
}

/// A channel that a test uses on the channel's loop only.
private final class HeldChannel: @unchecked Sendable {
    var channel: Channel?
}

@Suite struct SecureChannelTests {
    @Test func echoesManySizes() throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { delegate, _ in
            delegate.logsBytes = false
            delegate.onReceived = { bytes, channel in
                // In pieces, so that some are corked and some are not.
                let count = bytes.byteCount
                channel.write(bytes.bytes.extracting(0..<(count / 3)))
                channel.write(SharedBytes(bytes.bytes.extracting((count / 3)..<count)))
            }
        }
        defer { host.stop() }
        let sizes = [1, 2, 999, 16_384, 16_385, 65_537, 700_000]
        let all = sizes.flatMap { pattern(0..<$0) }
        let client = try SecureClient(host.address, log) { _, channel in
            // Written before the handshake is done.
            for size in sizes { channel.write(pattern(0..<size).rawSpan) }
        }
        defer { client.stop() }
        #expect(log.waitForBytes(all.count, of: 1) == all)
    }

    /// Handshakes are bulk, so that others are served before them. What follows a handshake is not.
    @Test func requestsAreNotBulk() throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { delegate, _ in
            delegate.onReceived = { bytes, channel in
                #expect(!channel.isBulk)
                channel.write(bytes.bytes)
            }
        }
        defer { host.stop() }
        let client = try SecureClient(host.address, log) { delegate, channel in
            delegate.onReceived = { bytes, channel in
                guard let number = array(bytes.bytes).last, number < 5 else { return }
                channel.write([number + 1].rawSpan)
            }
            channel.write([1].rawSpan)
        }
        defer { client.stop() }
        #expect(log.waitForBytes(5, of: 1) == [1, 2, 3, 4, 5])
    }

    /// A client that has its answer does not wait behind those that have none.
    @Test func theEndOfAHandshakeIsNotBulk() throws {
        let held = HeldChannel()
        let host = try secureHost(.init(), Log<Event>()) { _, channel in held.channel = channel }
        defer { host.stop() }
        let hello = SealedBuffer()
        try TLSConnection(
            client: TLSClientContext(issuers: fixture("issuer.pem")), host: "localhost"
        ).begin(to: hello)
        let peer = try Peer(host.address)
        peer.send(hello.array())
        #expect(peer.receive()?.isEmpty == false)
        let found = host.on { _ in
            // Released here: a channel is used on its loop only.
            let channel = exchange(&held.channel, with: nil)
            return channel.map { [$0.tlsFacts != nil, $0.isBulk, $0.wasLong] }
        }
        #expect(found == [false, false, true])
    }

    /// TLS 1.2 has no new keys (RFC 8446 §5.5): the peer connects again.
    @Test func aConnectionEndsBeforeItsKeysAreUsedUp() throws {
        let log = Log<Event>()
        let context = try serverContext()
        let host = try Host(.init()) { socket, loop in
            let tls = TLSConnection(server: context)
            tls.recordLimitOfKeys = 1
            _ = try? Channel.adopt(socket, on: loop, tls: tls) { _ in
                let delegate = Scripted(0, log: log)
                delegate.onReceived = { _, channel in channel.write(pattern(0..<50_000).rawSpan) }
                return delegate
            }
        }
        defer { host.stop() }
        var limits = TLSClientContext.Limits()
        limits.versions = 0x0303...0x0303
        let client = try SecureClient(host.address, log, limits: limits) { _, channel in
            channel.write([7].rawSpan)
        }
        defer { client.stop() }
        #expect(log.waitForBytes(50_000, of: 1) == pattern(0..<50_000))
        #expect(log.waitForClose(of: 1) == .requested && log.waitForClose(of: 0) == .requested)
        #expect(log.all.contains(.ended(1)), "with close_notify")
    }

    @Test func closeAfterFlushDeliversAll() throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { delegate, _ in
            delegate.onReceived = { _, channel in
                channel.write(SharedBytes(pattern(0..<3_000_000)))
                channel.closeAfterFlush()
            }
        }
        defer { host.stop() }
        let client = try SecureClient(host.address, log) { _, channel in channel.write([7].rawSpan) }
        defer { client.stop() }
        #expect(log.waitForBytes(3_000_000, of: 1) == pattern(0..<3_000_000))
        #expect(log.waitForClose(of: 1) == .requested && log.waitForClose(of: 0) == .requested)
        #expect(log.all.contains(.ended(1)), "the end of data is reported")
    }

    @Test func limitOfUnsentBytes() throws {
        let log = Log<Event>()
        var configuration = EventLoop.Configuration()
        configuration.outboundByteLimit = 6_000_000
        let host = try secureHost(configuration, log) { delegate, _ in
            delegate.onReceived = { bytes, channel in
                // Shared bytes stay shared: only a batch is encrypted for a client that does not read.
                let shared = SharedBytes([UInt8](repeating: 1, count: 1_000_000))
                for _ in 0..<5 { channel.write(shared) }
                #expect(channel.isOpen)
            }
        }
        defer { host.stop() }
        let client = try SecureClient(host.address, log) { delegate, channel in
            delegate.logsBytes = false
            channel.write([7].rawSpan)
            delegate.onReceived = { _, channel in channel.pauseReading() }
        }
        defer { client.stop() }
        log.wait("the request") { $0.contains(.received(0, [7])) }
        let owned = host.on { loop in loop.ownedOutputByteCount }
        #expect(owned < 400_000, "\(owned) bytes")
    }

    private static let waitingPieceByteCount = 60_000

    /// A server that answers 1 with 1, 2 with output until records of it wait for the socket, whose number of
    /// pieces it logs as `opened`, and anything else with `reply`.
    private static func hostWithWaitingRecords(
        _ log: Log<Event>, reply: @escaping @Sendable (Channel) -> Void
    ) throws -> Host {
        let piece = SharedBytes(pattern(0..<waitingPieceByteCount))
        return try secureHost(.init(), log) { delegate, channel in
            var pieceCount = 0
            /// One piece a tick, until the kernel accepts no more of one: then the queue is empty, and its
            /// records wait.
            func fill() {
                guard channel.outboundByteCount == 0 else { return log.add(.opened(pieceCount)) }
                channel.write(piece)
                pieceCount += 1
                channel.loop.schedule(after: .milliseconds(1)) { fill() }
            }
            delegate.onReceived = { bytes, channel in
                switch array(bytes.bytes) {
                case [1]: channel.write([1].rawSpan)
                case [2]: fill()
                default: reply(channel)
                }
            }
        }
    }

    /// A client that reads nothing until records wait for its socket and it has sent one more request: the
    /// 100 bytes of the response to that come whole, behind all others.
    /// - Returns: The client, still connected.
    private static func askBehindWaitingRecords(of host: Host, _ log: Log<Event>) throws -> SecureClient {
        let held = HeldChannel()
        let client = try SecureClient(host.address, log) { delegate, channel in
            held.channel = channel
            channel.write([1].rawSpan)
            delegate.onReceived = { bytes, channel in
                guard array(bytes.bytes) == [1] else { return }
                channel.pauseReading()
                channel.write([2].rawSpan)
            }
        }
        var pieceCount = 0
        log.wait("records that wait") { events in
            for case .opened(let count) in events { pieceCount = count }
            return pieceCount > 0
        }
        client.loop.submit { held.channel?.write([3].rawSpan) }
        log.wait("the request behind them") { $0.contains(.received(0, [3])) }
        client.loop.submit { held.channel?.resumeReading() }
        let count = 1 + pieceCount * waitingPieceByteCount + 100
        #expect(log.waitForBytes(count, of: 1).suffix(100) == pattern(0..<100)[...])
        return client
    }

    /// What is written inside `received` while records of earlier output wait for the socket leaves behind
    /// them, and is not lost.
    @Test func repliesToAClientThatDoesNotRead() throws {
        let log = Log<Event>()
        let host = try Self.hostWithWaitingRecords(log) { $0.write(pattern(0..<100).rawSpan) }
        defer { host.stop() }
        let client = try Self.askBehindWaitingRecords(of: host, log)
        defer { client.stop() }
        #expect(host.on { $0.ownedOutputByteCount } == 0)
    }

    @Test func anUnknownIssuer() throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { _, _ in }
        defer { host.stop() }
        let client = try SecureClient(host.address, log, issuer: "stranger") { _, channel in
            channel.write([7].rawSpan)
        }
        defer { client.stop() }
        guard case .insecure(.handshake) = log.waitForClose(of: 1), case .insecure = log.waitForClose(of: 0)
        else {
            Issue.record("\(log.all)")
            return
        }
    }

    @Test func aHandshakeThatTakesTooLong() throws {
        let log = Log<Event>()
        var configuration = EventLoop.Configuration()
        configuration.handshakeTimeout = .milliseconds(50)
        let host = try secureHost(configuration, log) { _, _ in }
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send([22, 3, 1])
        #expect(log.waitForClose(of: 0) == .handshakeTimedOut)
        #expect(host.on { $0.ownedOutputByteCount } == 0, "its memory is not counted any more")
        withExtendedLifetime(peer) {}
    }

    /// A client that has gone gets no reply: a signature takes long, and a flood of such clients would take
    /// the time of the others. What is not a handshake gets its alert.
    @Test(arguments: [(pieceCount: 1, isValid: true), (2, true), (1, false)])
    func aClientThatHasGoneBeforeItsHandshake(pieceCount: Int, isValid: Bool) throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { _, channel in log.add(.opened(0)) }
        defer { host.stop() }
        let context = try TLSClientContext(issuers: fixture("issuer.pem"))
        let hello = SealedBuffer()
        try TLSConnection(client: context, host: "localhost").begin(to: hello)
        var bytes = hello.array()
        if !isValid { bytes[0] = 0x17 }
        let peer = try Peer(host.address)
        if pieceCount == 2 {
            peer.send(Array(bytes.prefix(100)))
            bytes.removeFirst(100)
            log.wait("the connection") { $0.contains(.opened(0)) }
            let deadline = MonotonicTime.now + patience
            // Until the first piece has been read: it is kept.
            while host.on({ $0.ownedOutputByteCount }) == 0, .now < deadline {}
        }
        // The loop reads when all of it has arrived, and the end.
        let (isBusy, mayGoOn) = (Log<Bool>(), Log<Bool>())
        host.loop.submit {
            isBusy.add(true)
            mayGoOn.wait("the end of the input") { !$0.isEmpty }
        }
        isBusy.wait("the loop") { !$0.isEmpty }
        peer.send(bytes)
        peer.endWriting()
        mayGoOn.add(true)
        #expect(peer.receive()?.isEmpty == isValid)
        log.wait("the end of the input") { $0.contains(.ended(0)) }
    }

    @Test(arguments: ["GET", "HEAD"])
    func plainHTTPGetsAnAnswer(method: String) throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { _, _ in }
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send(Array("\(method) / HTTP/1.1\r\n\r\n".utf8))
        var answer: [UInt8] = []
        while let bytes = peer.receive(), !bytes.isEmpty { answer += bytes }
        let text = String(decoding: answer, as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 400 ") && text.contains("\r\nConnection: close\r\n"))
        #expect(text.contains("\r\nContent-Length: 45\r\n"))
        #expect(text.contains("\r\nDate: ") && text.contains(" GMT\r\n"), "RFC 9110 §6.6.1")
        #expect(
            text.hasSuffix(
                method == "HEAD" ? "\r\n\r\n" : "\r\n\r\nThis port speaks TLS. Begin the URL https://."))
        peer.close()
        #expect(log.waitForClose(of: 0) == .insecure(.plainHTTP(isHEAD: method == "HEAD")))
    }

    /// The owner learns at once that nothing more comes, while the peer leaves the connection open: a session
    /// ends then, and what its client has left for that is written.
    @Test func aBadRecordIsTheEndOfTheInput() throws {
        let log = Log<Event>()
        let host = try secureHost(.init(), log) { _, _ in }
        defer { host.stop() }
        let peer = try Peer(host.address)
        peer.send([0x17, 3, 3, 0, 0x40] + [UInt8](repeating: 0, count: 0x40))
        log.wait("the end of the input") { $0.contains(.ended(0)) }
        peer.close()
        #expect(log.waitForClose(of: 0) != nil)
        #expect(log.all.count { $0 == .ended(0) } == 1)
    }

    @Test func moves() throws {
        let log = Log<Event>()
        let second = try Host { _, _ in }
        defer { second.stop() }
        let target = second.loop
        let host = try secureHost(.init(), log) { delegate, _ in
            delegate.onReceived = { _, channel in
                channel.write(pattern(0..<200_000).rawSpan)
                guard let (socket, unsent) = channel.detach() else {
                    Issue.record("an open channel was not detached")
                    return
                }
                target.submit {
                    _ = try? Channel.adopt(socket, on: target) { channel in
                        let delegate = Scripted(2, log: log)
                        delegate.onReceived = { bytes, channel in channel.write(bytes.bytes) }
                        channel.write(unsent.rawSpan)
                        return delegate
                    }
                }
            }
        }
        defer { host.stop() }
        let client = try SecureClient(host.address, log) { delegate, channel in
            var count = 0
            delegate.onReceived = { bytes, channel in
                count += bytes.byteCount
                if count == 200_000 { channel.write(pattern(0..<100).rawSpan) }
            }
            channel.write([7].rawSpan)
        }
        defer { client.stop() }
        let bytes = log.waitForBytes(200_100, of: 1)
        #expect(bytes == pattern(0..<200_000) + pattern(0..<100))
        #expect(log.bytes(of: 2) == pattern(0..<100), "the second loop has the connection")
    }

    /// What was written inside `received` before the move goes with the socket, also where records of earlier
    /// output wait.
    @Test func movesWithAReplyBehindRecordsThatWait() throws {
        let log = Log<Event>()
        let second = try Host { _, _ in }
        defer { second.stop() }
        let target = second.loop
        let host = try Self.hostWithWaitingRecords(log) { channel in
            channel.write(pattern(0..<100).rawSpan)
            guard let (socket, unsent) = channel.detach() else {
                Issue.record("an open channel was not detached")
                return
            }
            target.submit {
                _ = try? Channel.adopt(socket, on: target) { channel in
                    channel.write(unsent.rawSpan)
                    return Scripted(2, log: log)
                }
            }
        }
        defer { host.stop() }
        try Self.askBehindWaitingRecords(of: host, log).stop()
    }
}
