import PandoReactor
import PandoTraffic

/// One connection writes, all others must get every message, once and in order. The writer waits for the last
/// of them, and for its own answer (its copy of the broadcast, the acknowledgement of its put), before it
/// counts a message as done; it keeps `inFlight` under way.
///
/// Connection 0 is the writer.
final class OneToManyLoad: Load {
    private struct Slot {
        var start: MonotonicTime
        /// Listeners that have not got it yet.
        var owed: Int
        var isAnswered: Bool
    }

    let dialect: WireProtocol
    private let listenerCount: Int
    private let inFlight: Int
    private let stampByteCount: Int
    private let path = "bench/value"
    /// The message with the number n is at n modulo the count.
    private var slots: [Slot]
    /// By connection: the number that must come next.
    private var next: [Int]
    private var sent = 0
    private var request: [UInt8] = []
    private var pushHint = 0
    private var answerHint = 0
    private var session: Session?
    private var writer: Client?
    private var missingCount = 0
    private var duplicateCount = 0
    private var strangeCount = 0
    /// Bytes of the last delivery's text.
    private(set) var pushByteCount = 0
    private(set) var deliveryCount = 0
    private(set) var checksum: UInt64 = 0

    init(_ dialect: WireProtocol, listeners: Int, inFlight: Int, stampByteCount: Int) {
        self.dialect = dialect
        listenerCount = listeners
        self.inFlight = inFlight
        self.stampByteCount = stampByteCount
        slots = Array(
            repeating: Slot(start: .now, owed: 0, isAnswered: true), count: inFlight)
        next = Array(repeating: 1, count: listeners + 1)
    }

    var connectionCount: Int { listenerCount + 1 }

    func listenedPath(of index: Int) -> String? { index == 0 ? nil : path }

    func begin(_ session: Session) {
        self.session = session
        writer = session.clients[0]
        for _ in 0..<inFlight { send(session) }
    }

    private func send(_ session: Session) {
        guard let start = session.start() else { return }
        sent += 1
        slots[sent % inFlight] = Slot(start: start, owed: listenerCount, isAnswered: false)
        request.removeAll(keepingCapacity: true)
        dialect.appendRequest(sent, path: path, stampByteCount: stampByteCount, to: &request)
        writer?.send(request)
    }

    func received(_ text: RawSpan, by client: Client) {
        guard let session else { return }
        client.index == 0 ? answered(text, session) : delivered(text, client.index, session)
    }

    private func answered(_ text: RawSpan, _ session: Session) {
        let number = dialect.answered(text, stampByteCount: stampByteCount, hint: &answerHint)
        guard let number, number == next[0], number <= sent else {
            strangeCount += 1
            return session.fail("the writer got an answer that is not the one to message \(next[0])")
        }
        next[0] = number + 1
        slots[number % inFlight].isAnswered = true
        completeIfDone(number, session)
    }

    private func delivered(_ text: RawSpan, _ index: Int, _ session: Session) {
        guard let number = Stamp.read(text, byteCount: stampByteCount, hint: &pushHint), number <= sent else {
            strangeCount += 1
            return session.fail("connection \(index): a message that was never sent")
        }
        guard number >= next[index] else {
            duplicateCount += 1
            return
        }
        // The ones that were left out will not come any more: count them, and let the run go on.
        while next[index] < number {
            missingCount += 1
            tick(index, session)
        }
        deliveryCount += 1
        checksum &+= UInt64(number)
        pushByteCount = text.byteCount
        tick(index, session)
    }

    /// The connection is through with its next message.
    private func tick(_ index: Int, _ session: Session) {
        let number = next[index]
        next[index] = number + 1
        let slot = number % inFlight
        slots[slot].owed -= 1
        guard slots[slot].owed == 0 else { return }
        session.record(since: slots[slot].start)
        completeIfDone(number, session)
    }

    private func completeIfDone(_ number: Int, _ session: Session) {
        let slot = slots[number % inFlight]
        guard slot.owed == 0, slot.isAnswered else { return }
        session.complete()
        send(session)
    }

    func problems(sent: Int) -> [String] {
        let expected = sent * listenerCount
        let isRight =
            deliveryCount == expected && missingCount == 0 && duplicateCount == 0 && strangeCount == 0
            && next[0] == sent + 1
        guard !isRight else { return [] }
        return [
            "\(expected) deliveries expected, \(deliveryCount) came; \(missingCount) missing, "
                + "\(duplicateCount) twice, \(strangeCount) strange; \(next[0] - 1) of \(sent) answered"
        ]
    }
}
