import COperatingSystem
import Glibc
import PandoBytes
import PandoHTTP
import PandoTLS

//  socket ──ciphertext──▶ SecureBuffers.received ──(decrypted in place)──▶ delegate
//  delegate ──▶ the channel's queue: data, shared where it was written as SharedBytes
//           ──(a batch, when the kernel accepts bytes)──▶ SecureBuffers.sealed ──▶ socket
//                                                                  └──(what the kernel did not accept)──▶ `unsent`
//
//  Data is encrypted only when the kernel accepts bytes. So a fan-out to slow clients stays shared, and a
//  channel has at most one batch of its own.

/// The stage of a channel between its socket and its delegate that speaks TLS. A channel without TLS has
/// none.
///
/// An established idle connection costs this object, a ``TLSConnection``, and libcrypto's state of two
/// ciphers: about 3 KiB.
///
/// `@unchecked Sendable`: confined to the loop of its channel; between two loops it moves with the socket.
package final class SecureStage: @unchecked Sendable {
    /// Most bytes of data in a batch, which is encrypted and sent at once.
    private static let batchByteLimit = 64 << 10

    /// Most bytes of records that may wait for the kernel: a batch, and replies to a peer that asks for new
    /// keys again and again without reading. A handshake has less.
    private static let unsentByteLimit = 256 << 10

    private let connection: TLSConnection
    /// Records that the kernel has not accepted, from `unsentOffset` on.
    private var unsent: [UInt8] = []
    private var unsentOffset = 0
    /// Bytes of data in the batch that is not completely sent. They count as unsent until it is.
    private(set) var batchDataByteCount = 0
    /// How far the handshake has come, as far as the socket tells it.
    private var progress = Progress.nothingReceived
    /// Bytes that the peer has acknowledged, at least: never less than before.
    private var acknowledged = 0
    /// What the loop counts for this stage (``LoopBuffers/secureByteCount``).
    private var countedByteCount = 0
    /// Ends a handshake that takes too long.
    var timeout: TimerToken?
    /// Why the connection cannot go on.
    private(set) var failure: TLSError?

    init(_ connection: TLSConnection) {
        self.connection = connection
    }

    private enum Progress {
        case nothingReceived, begunByPeer, answered
    }

    /// The channel begins: a client has something to say.
    func begin(_ buffers: LoopBuffers) {
        let output = buffers.secure.sealed
        output.removeAll()
        connection.begin(to: output)
        if output.count > 0 {
            unsent += output.array()
            progress = .answered
        }
        output.removeAll()
    }

    /// The handshake is done, and data can be sent.
    var isEstablished: Bool { connection.isEstablished }
    /// The handshake is done.
    var isHandshakeDone: Bool { connection.facts != nil }
    /// A server's handshake waits for the client's last messages only (``TLSConnection/hasAnswered``).
    var hasAnswered: Bool { connection.hasAnswered }
    /// What the handshake has agreed on.
    var facts: TLSFacts? { connection.facts }

    /// The keys may not be used for much more (``TLSConnection/isUsedUp``).
    var isUsedUp: Bool { connection.isUsedUp }

    /// Records wait for the kernel.
    var hasUnsent: Bool { !unsent.isEmpty }

    /// Bytes of memory of what is not complete and not sent.
    var heldByteCount: Int { connection.heldByteCount + unsent.capacity }

    // MARK: Receiving

    /// What one read has given.
    struct Input {
        /// The result of recv(2).
        let result: Int64
        /// Whether the peer has more, probably.
        let isFull: Bool
        /// The peer has closed before it got a reply to its handshake.
        var isAbandoned = false
        var received = TLSConnection.Received()
    }

    /// Receives at most `byteLimit` bytes and decrypts them. Replies are queued.
    func read(_ descriptor: Int32, atMost byteLimit: Int, _ buffers: LoopBuffers) -> Input {
        let buffers = buffers.secure
        let headroom = TLSConnection.headroomByteCount
        let byteLimit = min(byteLimit, SecureBuffers.receivedByteCount)
        // In bounds: the buffer has space for the headroom and `receivedByteCount` bytes.
        let result = unsafe pando_receive(
            descriptor, buffers.received.baseAddress.map { unsafe $0 + headroom }, byteLimit)
        var input = Input(result: result, isFull: result >= byteLimit)
        guard result > 0 else { return input }
        // In bounds: at least one byte was received.
        if unsafe isAbandoned(descriptor, first: buffers.received[headroom]) {
            return Input(result: 0, isFull: false, isAbandoned: true)
        }
        let replies = buffers.sealed
        replies.removeAll()
        unsafe input.received = connection.receive(buffers.received, count: Int(result), replies: replies)
        if replies.count > 0 {
            progress = .answered
            if unsent.count + replies.count > Self.unsentByteLimit {
                input.received.failure = .tooManyControlRecords
            } else {
                unsent += replies.array()
            }
        }
        replies.removeAll()
        if let failure = input.received.failure {
            self.failure = failure
            if case .plainHTTP(let isHEAD) = failure { unsent = Self.plainAnswer(isHEAD: isHEAD) }
        }
        return input
    }

    /// Whether the peer has closed before it got a reply, so that its handshake cannot be done: then nothing
    /// is computed for it. A signature takes a hundred times as long as this question, and a flood of clients
    /// that do not wait for it would take the time of those that do.
    private func isAbandoned(_ descriptor: Int32, first byte: UInt8) -> Bool {
        switch progress {
        case .answered: return false
        case .nothingReceived where byte != RecordType.handshake: return false  // gets an alert
        case .nothingReceived, .begunByPeer: break
        }
        progress = .begunByPeer
        return pando_peer_has_closed(descriptor) != 0
    }

    /// For a client that speaks HTTP without TLS.
    private static func plainAnswer(isHEAD: Bool) -> [UInt8] {
        let text: StaticString = "This port speaks TLS. Begin the URL https://."
        var answer: [UInt8] = []
        answer.append(statusLine: .badRequest)
        answer.append(dateLine: Int64(time(nil)))
        answer.append(field: "Content-Type", "text/plain; charset=utf-8")
        answer.append(field: "Content-Length", decimal: UInt64(text.utf8CodeUnitCount))
        answer.append(field: "Connection", "close")
        answer.appendEndOfHead()
        if !isHEAD { answer.append(text) }
        return answer
    }

    // MARK: Sending

    /// Most batches of a flush; the rest waits for the next tick, so that other channels are flushed in this
    /// one.
    private static let batchLimit = 8

    /// As ``PlainStage/flush(_:to:_:)``: records that wait first, then batches of data. One system call for
    /// each batch.
    func flush(_ output: inout ChannelOutput, to descriptor: Int32, _ buffers: LoopBuffers) -> Int64 {
        var rounds = Self.batchLimit
        while output.unsentByteCount > 0 || hasUnsent {
            let error: Int64
            if hasUnsent {
                error = sendUnsent(descriptor)
            } else {
                // Before the handshake is done, data waits.
                guard isEstablished else { break }
                error = sendBatch(of: &output, to: descriptor, buffers)
            }
            guard error == 0 else { return error }
            rounds -= 1
            if hasUnsent {
                output.isBlocked = true
                break
            }
            output.countSent(exchange(&batchDataByteCount, with: 0))
            if rounds == 0, output.unsentByteCount > 0 {
                output.isBlocked = true
                break
            }
        }
        count(in: buffers)
        if output.unsentByteCount == 0, !hasUnsent { output.isBlocked = false }
        return 0
    }

    /// Encrypts a batch of data, what was written first, and sends it as far as the kernel accepts it.
    /// - Returns: A negative errno, or 0.
    /// - Precondition: ``isEstablished``, and not ``hasUnsent``.
    private func sendBatch(
        of output: inout ChannelOutput, to descriptor: Int32, _ buffers: LoopBuffers
    ) -> Int64 {
        let sealed = buffers.secure.sealed
        sealed.removeAll()
        let (sliceCount, _) = output.gather(in: buffers)
        let slices = unsafe buffers.slices
        let taken: Int
        do throws(TLSError) {
            taken = try unsafe connection.seal(
                sliceCount: sliceCount, byteLimit: Self.batchByteLimit, to: sealed
            ) { index in
                // In bounds: `gather` has filled `sliceCount` slices, and nothing changes what they point to.
                let slice = unsafe slices[index]
                return unsafe UnsafeRawBufferPointer(start: slice.base, count: slice.count)
            }
        } catch {
            failure = error
            return -Int64(PANDO_ENOMEM)
        }
        output.remove(taken, in: buffers)
        batchDataByteCount = taken
        // In bounds: `sealed` has as many bytes.
        let accepted = unsafe pando_send(descriptor, sealed.baseAddress, sealed.count)
        guard accepted >= 0 || accepted == -Int64(PANDO_EAGAIN) else { return accepted }
        let sent = max(0, Int(accepted))
        if sent < sealed.count { unsent = sealed.array(from: sent) }
        sealed.removeAll()
        return 0
    }

    /// Sends records that wait, as far as the kernel accepts them.
    /// - Returns: A negative errno, or 0.
    func sendUnsent(_ descriptor: Int32) -> Int64 {
        let accepted = unsafe unsent.withUnsafeBytes { bytes in
            // In bounds: the offset is less than the count.
            unsafe pando_send(
                descriptor, bytes.baseAddress.map { unsafe $0 + unsentOffset }, bytes.count - unsentOffset)
        }
        guard accepted >= 0 else { return accepted == -Int64(PANDO_EAGAIN) ? 0 : accepted }
        unsentOffset += Int(accepted)
        if unsentOffset == unsent.count {
            unsent = []
            unsentOffset = 0
        }
        return 0
    }

    /// Queues the message that no more data follows (close_notify).
    func close(_ buffers: LoopBuffers) {
        let output = buffers.secure.sealed
        output.removeAll()
        connection.close(to: output)
        if output.count > 0 { unsent += output.array() }
        output.removeAll()
    }

    // MARK: Counting

    /// Bytes of data that the peer's system has acknowledged, at least.
    /// - Parameters:
    ///   - accepted: Bytes of data that the kernel has accepted.
    ///   - unacknowledged: Bytes that it has sent, or has still to send, without an acknowledgement.
    func acknowledgedByteCount(accepted: Int, unacknowledged: Int) -> Int {
        // A record counts when all of it has arrived, since it is of no use before.
        let missing = unacknowledged > 0 ? unacknowledged + RecordLimits.dataByteCount : 0
        acknowledged = max(acknowledged, accepted - missing)
        return acknowledged
    }

    /// Counts the memory of this stage in its loop's sum.
    func count(in buffers: LoopBuffers) {
        let byteCount = heldByteCount
        buffers.secureByteCount += byteCount - countedByteCount
        countedByteCount = byteCount
    }

    /// The channel has closed, or the socket leaves the loop. The channel cancels ``timeout``.
    func leave(_ buffers: LoopBuffers) {
        buffers.secureByteCount -= countedByteCount
        countedByteCount = 0
        acknowledged = 0
        batchDataByteCount = 0
        timeout = nil
    }
}
