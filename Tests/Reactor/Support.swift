import COperatingSystem
import PandoTime
import Synchronization
import Testing

@testable import PandoReactor

/// No test waits by sleeping. This only bounds a test that would otherwise hang, on however slow a
/// machine.
let patience: Duration = .seconds(60)

/// Byte `index` of a stream that differs from itself shifted.
func pattern(_ range: Range<Int>, seed: UInt8 = 0) -> [UInt8] {
    range.map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 11) &+ seed }
}

/// Values that other threads have recorded, for a test to wait for.
final class Log<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])
    private let wakeup: WakeupEvent

    init() { wakeup = try! WakeupEvent() }

    func add(_ value: Value) {
        values.withLock { $0.append(value) }
        wakeup.signal()
    }

    var all: [Value] { values.withLock { $0 } }

    /// Waits until `isEnough`, or records a failure.
    @discardableResult
    func wait(_ what: String, until isEnough: ([Value]) -> Bool) -> [Value] {
        let deadline = MonotonicTime.now + patience
        while true {
            let seen = all
            if isEnough(seen) { return seen }
            guard wakeup.wait(timeout: deadline - .now) else {
                Issue.record("gave up waiting for \(what); saw \(seen.count) values")
                return seen
            }
        }
    }
}

enum Event: Equatable, Sendable {
    case opened(Int), received(Int, [UInt8]), ended(Int), drained(Int), closed(Int, ChannelCloseReason)
}

/// A delegate that does what a test sets, and logs its calls.
final class Scripted: ChannelDelegate {
    let id: Int
    let log: Log<Event>
    var onReceived: (inout MutableRawSpan, Channel) -> Void = { _, _ in }
    var onEnd: (Channel) -> Void = { $0.closeAfterFlush() }
    var onDrain: (Channel) -> Void = { _ in }
    var onClose: (Channel) -> Void = { _ in }
    var logsBytes = true

    init(_ id: Int = 0, log: Log<Event>) {
        self.id = id
        self.log = log
    }

    func received(_ bytes: inout MutableRawSpan, on channel: Channel) {
        if logsBytes { log.add(.received(id, array(bytes.bytes))) }
        onReceived(&bytes, channel)
    }
    func channelDidEnd(_ channel: Channel) {
        log.add(.ended(id))
        onEnd(channel)
    }
    func channelDidDrain(_ channel: Channel) {
        log.add(.drained(id))
        onDrain(channel)
    }
    func channelDidClose(_ channel: Channel, reason: ChannelCloseReason) {
        log.add(.closed(id, reason))
        onClose(channel)
    }
}

func array(_ span: RawSpan) -> [UInt8] {
    unsafe span.withUnsafeBytes { unsafe Array($0) }
}

/// A loop on a thread of its own, with an acceptor on loopback.
final class Host: Sendable {
    let loop: EventLoop
    let address: SocketAddress
    private let thread: NamedThread

    init(
        _ configuration: EventLoop.Configuration = .init(), options: SocketOptions = .init(),
        adopt: @escaping @Sendable (ConnectedSocket, EventLoop) -> Void
    ) throws {
        loop = try EventLoop(configuration)
        var settings = Acceptor.Configuration()
        settings.options = options
        let acceptor = try Acceptor(
            at: SocketAddress("127.0.0.1", port: 0)!, on: loop, targets: [loop], configuration: settings,
            adopt: adopt)
        address = acceptor.address
        let loop = loop
        thread = try NamedThread.start("test-loop") { loop.run() }
    }

    /// Runs `task` on the loop and waits for its result.
    func on<Value: Sendable>(_ task: @escaping @Sendable (EventLoop) -> Value) -> Value {
        let answer = Log<Value>()
        let loop = loop
        loop.submit { answer.add(task(loop)) }
        return answer.wait("the loop to run a task") { !$0.isEmpty }[0]
    }

    func stop() {
        loop.stop()
        thread.join()
    }
}

/// The other end of a connection: blocking calls with a deadline.
final class Peer {
    let descriptor: Int32
    private let poll: Int32
    private var isOpen = true

    init(_ address: SocketAddress, receiveBufferByteCount: UInt32? = nil) throws {
        var raw = address.raw
        var options = SocketOptions()
        options.receiveBufferByteCount = receiveBufferByteCount
        var rawOptions = options.raw
        descriptor = try checked(unsafe pando_connect(&raw, &rawOptions), "connect")
        poll = try checked(pando_poll_create(), "poll")
        try checked(pando_poll_add(poll, descriptor, PANDO_WRITABLE, nil), "poll")
        try #require(waitFor(PANDO_WRITABLE))
        let error = pando_socket_error(descriptor)
        guard error == 0 else { throw SocketError(code: error, attempt: "connect to \(address)") }
    }

    deinit {
        close()
        _ = pando_close(poll)
    }

    func close() {
        if isOpen { _ = pando_close(descriptor) }
        isOpen = false
    }

    func reset() {
        _ = pando_linger_zero(descriptor)
        close()
    }

    func endWriting() { _ = pando_shutdown_write(descriptor) }

    private func waitFor(_ interest: UInt32) -> Bool {
        pando_poll_change(poll, descriptor, interest, nil)
        var event = unsafe pando_event()
        let deadline = MonotonicTime.now + patience
        while .now < deadline {
            let left = (deadline - .now).wholeMilliseconds
            if unsafe pando_poll_wait(poll, &event, 1, left) > 0 { return true }
        }
        return false
    }

    func send(_ bytes: [UInt8]) {
        var offset = 0
        while offset < bytes.count {
            let sent = unsafe bytes.withUnsafeBytes {
                unsafe pando_send(descriptor, $0.baseAddress! + offset, $0.count - offset)
            }
            if sent > 0 {
                offset += Int(sent)
            } else {
                guard sent == -Int64(PANDO_EAGAIN), waitFor(PANDO_WRITABLE) else {
                    Issue.record("send failed: \(sent)")
                    return
                }
            }
        }
    }

    /// The next bytes; empty at the end; nil for an error such as a reset.
    func receive(atMost capacity: Int = 65536) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: capacity)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes {
                unsafe pando_receive(descriptor, $0.baseAddress, $0.count)
            }
            if count >= 0 { return Array(buffer.prefix(Int(count))) }
            guard count == -Int64(PANDO_EAGAIN), waitFor(PANDO_READABLE) else { return nil }
        }
    }

    /// Exactly `count` bytes, or fewer if the connection ends.
    func receive(exactly count: Int, atMost step: Int = 65536) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = receive(atMost: min(step, count - bytes.count)), !more.isEmpty else { break }
            bytes += more
        }
        return bytes
    }
}
