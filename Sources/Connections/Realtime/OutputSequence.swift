import PandoBytes
import PandoDatabase
import PandoWebSocket

/// The outputs of one session in their order. What follows a large message waits until that is encoded and
/// its last piece was handed to the connection.
///
///     ready ──large message──▶ encoding ──pieces──▶ sending ──last piece──▶ ready
///
/// A queue that decides; ``RealtimeTransport`` sends.
struct OutputSequence {
    enum Output {
        /// Whole frames.
        case bytes([UInt8])
        case shared(SharedBytes)
        case large(LargeMessage)
        case windowMark
        case close(DisconnectReason)
    }

    private enum Stage {
        case ready
        case encoding(LargeMessage)
        /// `next`: the piece to be sent next.
        case sending(LargeMessage, next: Int)
    }

    /// Capacity for outputs that is kept when none wait.
    private static let keptCapacity = 64
    /// Bytes that one client leaves unread count for less where others may hold them, too.
    private static let sharedWeight = 16

    /// For which the receiver's messages are compressed; nil where they are not.
    let window: DeflateWindow?
    private var stage = Stage.ready
    /// Outputs behind a large message, from `head` on, and the memory that each takes; nil where it was sent.
    private var waiting: [(output: Output?, byteCount: Int)] = []
    private var head = 0
    /// Bytes of memory that the waiting outputs take.
    private(set) var waitingByteCount = 0

    init(window: DeflateWindow? = nil) {
        self.window = window
    }

    /// Outputs that wait.
    var waitingCount: Int { waiting.count - head }

    /// Whether an output may be sent at once.
    var isReady: Bool { if case .ready = stage { true } else { false } }

    /// Whether nothing is left to be sent.
    var isEmpty: Bool { isReady && waitingCount == 0 }

    /// Bytes of memory that this client takes: what others share counts little.
    var heldByteCount: Int {
        guard case .sending(let message, let next) = stage else { return waitingByteCount }
        // From the piece on that the connection has.
        let pieces = message.byteCount(from: max(0, next - 1), for: window)
        return waitingByteCount + (message.isShared ? pieces / Self.sharedWeight : pieces)
    }

    /// Keeps an output that may not be sent yet.
    mutating func append(_ output: Output, byteCount: Int) {
        waitingByteCount += byteCount
        if head > Self.keptCapacity, head * 2 > waiting.count {
            waiting.removeFirst(head)
            head = 0
        }
        waiting.append((output, byteCount))
    }

    /// The next output that may be sent; nil where none is, or a large message is in its way.
    mutating func removeFirst() -> Output? {
        guard isReady, head < waiting.count else { return nil }
        let (output, byteCount) = waiting[head]
        waiting[head].output = nil
        head += 1
        waitingByteCount -= byteCount
        if head == waiting.count { removeWaiting() }
        return output
    }

    /// A large message is next.
    /// - Precondition: ``isReady``.
    mutating func begin(_ message: LargeMessage) {
        assert(isReady)
        stage = .encoding(message)
    }

    /// A worker has encoded a message.
    /// - Returns: false for another message than the one that is awaited.
    mutating func endEncoding(of message: LargeMessage) -> Bool {
        guard case .encoding(let expected) = stage, expected === message else { return false }
        stage = .ready
        return true
    }

    /// The pieces of a message are next.
    /// - Precondition: It has pieces, and ``isReady``.
    mutating func send(_ message: LargeMessage) {
        assert(isReady && message.pieces?.isEmpty == false)
        stage = .sending(message, next: 0)
    }

    /// The next piece of a large message; nil where none is in progress.
    mutating func nextPiece() -> SharedBytes? {
        guard case .sending(let message, let next) = stage, let pieces = message.pieces(for: window)
        else { return nil }
        stage = next + 1 < pieces.count ? .sending(message, next: next + 1) : .ready
        return pieces[next]
    }

    /// Drops everything.
    /// - Returns: Whether a worker was to encode a message.
    mutating func removeAll() -> Bool {
        let wasEncoding = if case .encoding = stage { true } else { false }
        stage = .ready
        removeWaiting()
        return wasEncoding
    }

    private mutating func removeWaiting() {
        waiting.removeAll(keepingCapacity: waiting.capacity <= Self.keptCapacity)
        head = 0
        waitingByteCount = 0
    }
}
