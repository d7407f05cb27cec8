import COperatingSystem
import PandoBytes
import Synchronization
import Testing

@testable import PandoReactor

/// The errnos with which the next calls of accept fail.
private final class Faults: Sendable {
    private let codes: Mutex<[Int32]>

    init(_ codes: [Int32]) { self.codes = Mutex(codes) }

    func add(_ more: [Int32]) { codes.withLock { $0 += more } }
    func next() -> Int32? { codes.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
}

@Suite struct AcceptorTests {
    @Test func exhaustionPausesReportsOnceAndRecovers() throws {
        let loop = try EventLoop()
        let log = Log<Event>()
        let reports = Log<SocketError>()
        let faults = Faults([PANDO_EMFILE, PANDO_EMFILE, PANDO_EMFILE])
        var configuration = Acceptor.Configuration()
        configuration.exhaustionPause = .milliseconds(10)
        let acceptor = try Acceptor(
            at: #require(SocketAddress("127.0.0.1", port: 0)), on: loop, targets: [loop],
            configuration: configuration, adopt: scripting(log) { _, _ in }, onExhausted: { reports.add($0) })
        // Twice three consecutive failures; nothing else in the process runs out of descriptors.
        acceptor.accept = { descriptor, peer in
            if let code = faults.next() { return -code }
            return unsafe pando_accept(descriptor, &peer)
        }
        let address = acceptor.address
        let thread = try NamedThread.start("loop") { loop.run() }
        let first = try Peer(address)
        log.wait("the first connection") { $0.count == 1 }
        #expect(reports.all.map(\.code) == [PANDO_EMFILE], "once for the row")
        faults.add([PANDO_ENFILE, PANDO_ENFILE, PANDO_ECONNABORTED])
        let second = try Peer(address)
        log.wait("the second connection") { $0.count == 2 }
        #expect(reports.all.map(\.code) == [PANDO_EMFILE, PANDO_ENFILE])
        loop.stop()
        thread.join()
        withExtendedLifetime((first, second)) {}
    }

    @Test func loopsGetConnectionsInTurn() throws {
        let loops = try (0..<3).map { _ in try EventLoop() }
        let log = Log<Int>()
        let acceptor = try Acceptor(
            at: #require(SocketAddress("::1", port: 0)), on: loops[0], targets: loops
        ) { socket, loop in
            #expect(loop.isCurrent)
            #expect(socket.peer.isLoopback)
            log.add(loops.firstIndex { $0 === loop }!)
        }
        let address = acceptor.address
        #expect(address.port != 0)
        let threads = try loops.map { loop in try NamedThread.start("loop") { loop.run() } }
        let peers = try (0..<9).map { _ in try Peer(address) }
        let dealt = log.wait("all nine") { $0.count == 9 }
        for index in 0..<3 { #expect(dealt.count { $0 == index } == 3) }
        for loop in loops { loop.stop() }
        for thread in threads { thread.join() }
        for peer in peers { #expect(peer.receive() == [], "no loop adopted it, so it was closed") }
    }

    @Test func addressInUse() throws {
        let loop = try EventLoop()
        let first = try Acceptor(
            at: #require(SocketAddress("127.0.0.1", port: 0)), on: loop, targets: [loop]
        ) { _, _ in }
        do {
            _ = try Acceptor(at: first.address, on: loop, targets: [loop]) { _, _ in }
            Issue.record("two listen on one port")
        } catch {
            #expect(error.code == PANDO_EADDRINUSE)
            #expect(error.description.hasPrefix("listen on 127.0.0.1:"))
        }
        loop.stop()
        loop.run()
    }

    @Test func connectsAndInheritsOptions() throws {
        var options = SocketOptions()
        options.userTimeout = .seconds(7)
        options.keepAlive = (.seconds(60), .seconds(10), 3)
        let log = Log<Event>()
        let found = Log<[Int32]>()
        let host = try Host(
            options: options,
            adopt: scripting(log) { delegate, channel in
                found.add([pando_no_delay(channel.descriptor), pando_user_timeout_ms(channel.descriptor)])
                delegate.onReceived = { bytes, channel in channel.write(bytes.bytes) }
            })
        defer { host.stop() }
        let client = Log<Event>()
        let address = host.address
        host.loop.submit { [loop = host.loop] in
            do {
                try Connector.connect(to: address, on: loop) { channel in
                    #expect(channel.peerAddress == address)
                    channel.write([1, 2, 3].rawSpan)
                    let delegate = Scripted(7, log: client)
                    delegate.onReceived = { _, channel in channel.close() }
                    return delegate
                } onFailure: {
                    Issue.record($0)
                }
            } catch { Issue.record(error) }
        }
        let events = client.wait("the echo") { $0.count == 2 }
        #expect(events == [.received(7, [1, 2, 3]), .closed(7, .requested)])
        #expect(found.all == [[1, 7000]])
    }

    @Test func refusedConnectionsFail() throws {
        let loop = try EventLoop()
        let log = Log<Int32>()
        // A port that was free just now, and on which nothing listens.
        let acceptor = try Acceptor(
            at: #require(SocketAddress("127.0.0.1", port: 0)), on: loop, targets: [loop]
        ) { _, _ in }
        let address = acceptor.address
        acceptor.close()
        try Connector.connect(to: address, on: loop) { _ in
            Issue.record("connected without a listener")
            return Scripted(log: Log())
        } onFailure: { error in
            log.add(error.code)
            loop.stop()
        }
        loop.run()
        #expect(log.all == [PANDO_ECONNREFUSED])
    }
}
