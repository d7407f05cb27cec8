import PandoBytes
import PandoDatabase

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

        /// It holds a snapshot of a location for this client alone, until it is encoded: the reply to a read,
        /// or the beginning of a listen.
        var ownsSnapshot: Bool { if case .large(let message) = self { !message.isShared } else { false } }
    }

    /// A piece of a large message.
    struct Piece {
        let bytes: SharedBytes
        /// No other piece goes on with its last message.
        let endsMessage: Bool
        /// Other clients may hold it, too.
        let isShared: Bool
    }

    private enum Stage {
        case ready
        case encoding(LargeMessage)
        /// `next`: the piece to be sent next.
        case sending(LargeMessage, next: Int)
    }

    /// A large message in progress, and what waits behind it. A class, so that a session without one holds
    /// only a nil pointer.
    private final class Backlog {
        var stage = Stage.ready
        /// Outputs behind a large message, from `head` on, and the memory that each takes; nil where it was
        /// sent.
        var waiting: [(output: Output?, byteCount: Int)] = []
        var head = 0
        /// Bytes of memory that the waiting outputs take.
        var waitingByteCount = 0
        /// Waiting outputs that are ``Output/ownsSnapshot``.
        var ownedSnapshotCount = 0

        /// Bytes that snapshots keep and the tree has no longer. O(waiting outputs) where there are
        /// snapshots.
        var keptByteCount: Int {
            var byteCount = 0
            if case .encoding(let message) = stage { byteCount = message.keptByteCount }
            guard ownedSnapshotCount > 0 else { return byteCount }
            for case (.large(let message)?, _) in waiting[head...] { byteCount += message.keptByteCount }
            return byteCount
        }

        var isEmpty: Bool { if case .ready = stage { head == waiting.count } else { false } }
    }

    /// Sent outputs that may stay at the front of `waiting` before they are removed.
    private static let sentLimit = 64
    /// Bytes that are unsent to one client count for less where others may hold them, too.
    static let sharedWeight = 16

    /// In which the receiver takes large messages.
    let form: OutputForm
    /// Nil when it is empty.
    private var backlog: Backlog?

    init(form: OutputForm = .frames) {
        self.form = form
    }

    /// Outputs that wait.
    var waitingCount: Int { backlog.map { $0.waiting.count - $0.head } ?? 0 }

    /// Bytes of memory that the waiting outputs take.
    var waitingByteCount: Int { backlog?.waitingByteCount ?? 0 }

    /// Whether the answer to a read waits behind another one, with a snapshot of its own.
    var hasWaitingSnapshot: Bool { backlog.map { $0.ownedSnapshotCount > 0 } ?? false }

    /// Whether an output may be sent at once.
    var isReady: Bool {
        guard let backlog else { return true }
        return if case .ready = backlog.stage { true } else { false }
    }

    /// Whether nothing is left to be sent.
    var isEmpty: Bool { backlog == nil }

    private mutating func makeBacklogIfNeeded() -> Backlog {
        let made = backlog ?? Backlog()
        backlog = made
        return made
    }

    /// Bytes of memory that this client takes: what others share counts little.
    var heldByteCount: Int {
        guard let backlog else { return 0 }
        let waitingByteCount = backlog.waitingByteCount + backlog.keptByteCount
        guard case .sending(let message, let next) = backlog.stage else { return waitingByteCount }
        // From the piece on that the connection has.
        let pieces = message.byteCount(from: max(0, next - 1), for: form)
        return waitingByteCount + (message.isShared ? pieces / Self.sharedWeight : pieces)
    }

    /// Keeps an output that may not be sent yet.
    mutating func append(_ output: Output, byteCount: Int) {
        let backlog = makeBacklogIfNeeded()
        backlog.waitingByteCount += byteCount
        if output.ownsSnapshot { backlog.ownedSnapshotCount += 1 }
        if backlog.head > Self.sentLimit, backlog.head * 2 > backlog.waiting.count {
            backlog.waiting.removeFirst(backlog.head)
            backlog.head = 0
        }
        backlog.waiting.append((output, byteCount))
    }

    /// The next output that may be sent; nil where none is, or a large message is in its way.
    mutating func removeFirst() -> Output? {
        guard isReady, let backlog, backlog.head < backlog.waiting.count else { return nil }
        let (output, byteCount) = backlog.waiting[backlog.head]
        backlog.waiting[backlog.head].output = nil
        backlog.head += 1
        backlog.waitingByteCount -= byteCount
        if output?.ownsSnapshot == true { backlog.ownedSnapshotCount -= 1 }
        dropIfEmpty()
        return output
    }

    /// A large message is next.
    /// - Precondition: ``isReady``.
    mutating func begin(_ message: LargeMessage) {
        assert(isReady)
        makeBacklogIfNeeded().stage = .encoding(message)
    }

    /// A worker has encoded a message.
    /// - Returns: false for another message than the one that is awaited.
    mutating func endEncoding(of message: LargeMessage) -> Bool {
        guard let backlog, case .encoding(let expected) = backlog.stage, expected === message else {
            return false
        }
        backlog.stage = .ready
        dropIfEmpty()
        return true
    }

    /// The pieces of a message are next.
    /// - Precondition: It has pieces, and ``isReady``.
    mutating func send(_ message: LargeMessage) {
        assert(isReady && message.pieces?.isEmpty == false)
        makeBacklogIfNeeded().stage = .sending(message, next: 0)
    }

    /// The next piece of a large message; nil where none is in progress.
    mutating func nextPiece() -> Piece? {
        guard let backlog, case .sending(let message, let next) = backlog.stage,
            let pieces = message.pieces(for: form)
        else { return nil }
        let isLast = next + 1 >= pieces.count
        backlog.stage = isLast ? .ready : .sending(message, next: next + 1)
        dropIfEmpty()
        return Piece(
            bytes: pieces[next], endsMessage: isLast || message.hasWholeMessagesInPieces,
            isShared: message.isShared)
    }

    /// Drops everything.
    /// - Returns: Whether a worker was to encode a message.
    mutating func removeAll() -> Bool {
        guard let backlog = exchange(&backlog, with: nil) else { return false }
        return if case .encoding = backlog.stage { true } else { false }
    }

    private mutating func dropIfEmpty() {
        if backlog?.isEmpty == true { backlog = nil }
    }
}
