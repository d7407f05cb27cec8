import PandoTime

/// What a client has sent by long polling and is not read yet: segments of messages that are not complete,
/// and messages that wait.
struct SegmentInput {
    /// Messages that are read before other connections have their turn.
    private static let turnMessageCount = 64

    private let messageByteLimit: Int
    private var segments: SegmentReassembler
    private var messages = MessageQueue()
    private var rate = InputRate()
    /// Messages read in this turn; nil where none are being read.
    private var turnCount: Int?
    /// The messages that wait go on when others have had their turn.
    private(set) var isYielding = false
    /// Bytes of messages that are not complete, or not read.
    private(set) var unfinishedByteCount = 0

    /// - Parameter messageByteLimit: Bytes of one message, decoded.
    init(messageByteLimit: Int) {
        self.messageByteLimit = messageByteLimit
        segments = SegmentReassembler(messageByteLimit: messageByteLimit)
    }

    /// Messages wait.
    var hasMessages: Bool { !messages.isEmpty }

    /// More waits than any honest client sends.
    var isOverLimit: Bool { messages.isOverLimit }

    /// Takes segments; the messages that they complete wait.
    mutating func accept(_ new: [LongPollingRequest.Segment]) throws(SegmentReassembler.Violation) {
        var complete: [[UInt8]] = []
        for segment in new {
            rate.receivedByteCount += segment.text.count
            try segments.accept(segment, into: &complete)
        }
        for message in complete { messages.append(message) }
    }

    // MARK: Reading

    var isReading: Bool { turnCount != nil }

    mutating func beginReading() { turnCount = 0 }

    mutating func endReading() { turnCount = nil }

    /// Whether the next message must wait until others have had their turn.
    mutating func mustYield() -> Bool {
        isYielding = turnCount ?? 0 >= Self.turnMessageCount
        return isYielding
    }

    /// The oldest message; nil where none waits.
    mutating func removeFirst() -> [UInt8]? {
        turnCount = (turnCount ?? 0) + 1
        return messages.removeFirst()
    }

    /// The messages that wait go on when others have had their turn.
    mutating func yield() { isYielding = true }

    /// Others have had their turn.
    /// - Returns: Whether it has waited for that.
    mutating func turnCame() -> Bool { exchange(&isYielding, with: false) }

    // MARK: Dropping

    /// Drops segments of messages that are not complete.
    mutating func dropSegments() { segments = SegmentReassembler(messageByteLimit: messageByteLimit) }

    /// Drops messages that wait.
    mutating func dropMessages() { messages.removeAll() }

    /// What was not read will not be.
    mutating func drop() {
        dropSegments()
        rate.end()
        dropMessages()
        unfinishedByteCount = 0
    }

    // MARK: Counting

    /// - Parameter session: Bytes of messages that the session holds.
    mutating func countUnfinished(inSession session: Int) {
        unfinishedByteCount = segments.byteCount + messages.byteCount + session
    }

    /// Whether a message comes too slowly that is not complete.
    /// - Parameter mayExpect: The client may send.
    mutating func isTooSlow(mayExpect: Bool, _ context: inout ConnectionContext) -> Bool {
        rate.isTooSlow(whileExpected: mayExpect && segments.byteCount > 0, &context)
    }
}
