import COperatingSystem
import Glibc
import Synchronization
import Testing

@testable import PandoReactor

@Suite struct ListeningSocketTests {
    @Test(
        arguments: [
            // variables                                        descriptors   because
            ([:], 3..<3, "no service manager"),
            (["LISTEN_FDS": "2", "LISTEN_PID": "42"], 3..<5, "two sockets"),
            (["LISTEN_FDS": "2", "LISTEN_PID": "41"], 3..<3, "for another process"),
            (["LISTEN_FDS": "2"], 3..<3, "for no process"),
            (["LISTEN_FDS": "0", "LISTEN_PID": "42"], 3..<3, "none"),
            (["LISTEN_FDS": "-1", "LISTEN_PID": "42"], nil, "no number of sockets"),
            (["LISTEN_FDS": "65", "LISTEN_PID": "42"], nil, "too many"),
            (["LISTEN_FDS": "two", "LISTEN_PID": "42"], nil, "no number"),
        ] as [([String: String], Range<Int32>?, String)])
    func passedSockets(environment: [String: String], expected: Range<Int32>?, because: String) {
        #expect(PassedSockets.descriptors(environment, processID: 42) == expected, "\(because)")
    }

    private func path() -> String { "/tmp/pando-\(pando_process_id())-\(UInt32.random(in: 0 ... .max)).sock" }

    @Test func unixSocketOfAProcessThatIsGoneIsReplaced() throws {
        let path = path()
        defer { _ = unsafe unlink(path) }
        do {
            let first = try ListeningSocket.open(unixPath: path)
            #expect(first.address.isUnix && first.address.isLoopback)
            #expect(throws: SocketError.self, "in use") { try ListeningSocket.open(unixPath: path) }
        }
        let second = try ListeningSocket.open(unixPath: path)
        #expect(second.description == "unix:\(path)")
    }

    @Test func onlyTheNameThatTheAcceptorHasMadeIsRemoved() throws {
        let path = path()
        defer { _ = unsafe unlink(path) }
        let loop = try EventLoop()
        func acceptor() throws -> Acceptor {
            try Acceptor(
                ListeningSocket.open(unixPath: path), on: loop, targets: [loop], adopt: { _, _ in })
        }
        let first = try acceptor()
        _ = unsafe unlink(path)
        let second = try acceptor()
        first.close()
        let isThere = unsafe access(path, F_OK) == 0
        #expect(isThere, "it is another server's by then")
        second.close()
        let isLeft = unsafe access(path, F_OK) == 0
        #expect(!isLeft)
    }

    /// Sockets that are kept until all processes have had their turn; the lock guards them.
    private final class Opened: @unchecked Sendable {
        private let lock = Mutex(())
        private var sockets: [ListeningSocket] = []

        func open(_ path: String) {
            guard let socket = try? ListeningSocket.open(unixPath: path) else { return }
            lock.withLock { _ in sockets.append(socket) }
        }

        var count: Int { lock.withLock { _ in sockets.count } }
    }

    /// Each of them would remove what it finds left behind, were it there by then the other's.
    @Test func ofServersThatStartAtOnceOneListens() async throws {
        for round in 0..<50 {
            let path = path()
            defer { _ = unsafe unlink(path) }
            do { _ = try ListeningSocket.open(unixPath: path) }
            let opened = Opened()
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<4 { group.addTask { opened.open(path) } }
            }
            #expect(opened.count == 1, "round \(round)")
        }
    }

    @Test(arguments: ["", "/nowhere/at/all/pando.sock", "/tmp/" + String(repeating: "a", count: 200)])
    func unixSocketsThatCannotBe(path: String) {
        #expect(throws: SocketError.self) { try ListeningSocket.open(unixPath: path) }
    }

    @Test func bothFamiliesShareAPort() throws {
        let any4 = try #require(SocketAddress("0.0.0.0", port: 0))
        let v4 = try ListeningSocket.open(at: any4)
        let any6 = try #require(SocketAddress("::", port: v4.address.port))
        #expect(throws: SocketError.self, "[::] would serve IPv4, too") { try ListeningSocket.open(at: any6) }
        var options = SocketOptions()
        options.isIPv6Only = true
        _ = try ListeningSocket.open(at: any6, options: options)
    }

    @Test func onlyListeningSocketsAreAdopted() throws {
        let loop = try EventLoop()
        let listening = try ListeningSocket.open(at: #require(SocketAddress("127.0.0.1", port: 0)))
        let descriptor = listening.takeDescriptor()
        let adopted = try ListeningSocket.adopt(descriptor)
        #expect(adopted.address == listening.address)
        var raw = listening.address.raw
        var options = SocketOptions().raw
        let connected = unsafe pando_connect(&raw, &options)
        defer { _ = pando_close(connected) }
        #expect(throws: SocketError.self, "a connected socket") { try ListeningSocket.adopt(connected) }
        #expect(throws: SocketError.self, "no socket") { try ListeningSocket.adopt(loop.poller.descriptor) }
        #expect(throws: SocketError.self, "not open") { try ListeningSocket.adopt(1_000_000) }
    }
}
