/// Messages of a client that polls, which wait for the requests before them to be answered: a client stops
/// when its polls are not answered, so only what it had sent by then waits.
struct MessageQueue {
    /// Bytes that may wait, beside one message.
    private static let byteLimit = 1 << 20
    /// Messages that may wait, and what each takes beside its bytes. What two requests bring is far less.
    private static let countLimit = 1024
    private static let messageOverhead = 64
    /// Messages at the front that were taken: those behind them do not move for each.
    private static let keptCount = 64

    /// From `head` on.
    private var messages: [[UInt8]] = []
    private var head = 0
    /// Bytes of memory that the messages take.
    private(set) var byteCount = 0

    private var count: Int { messages.count - head }

    var isEmpty: Bool { head == messages.count }

    /// More waits than any honest client sends.
    var isOverLimit: Bool { byteCount > Self.byteLimit && count > 1 || count > Self.countLimit }

    mutating func append(_ message: [UInt8]) {
        byteCount += message.count + Self.messageOverhead
        messages.append(message)
    }

    mutating func removeFirst() -> [UInt8]? {
        guard head < messages.count else { return nil }
        let message = exchange(&messages[head], with: [])
        head += 1
        byteCount -= message.count + Self.messageOverhead
        if head == messages.count {
            removeAll()
        } else if head > Self.keptCount, head * 2 > messages.count {
            messages.removeFirst(head)
            head = 0
        }
        return message
    }

    mutating func removeAll() {
        messages = []
        head = 0
        byteCount = 0
    }
}
