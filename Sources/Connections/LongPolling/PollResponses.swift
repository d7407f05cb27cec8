import PandoBytes
import PandoDatabase
import PandoTime

// What the polls of one session are answered (realtime §1.5.2). Responses are numbered without a gap;
// the client puts them in order, waits at a gap, and ignores a number that it has had. So a response may
// always be sent again, and must be when its connection broke:
//
//     messages ─▶ pending ──answer──▶ under way ──▶ acknowledged ──▶ received ──another poll came in time──▶
//     forgotten
//                                        │  ▲            │
//                                        ▼  │            │ the connection broke
//                                        lost ◀──────────┘
//                                           with the next answer; at once where a poll waits
//
// Acknowledged: by the client's system (TCP), whose program may still not have read it. Received: the client
// asked for something else on that connection, or closed it in order. What is acknowledged counts no more
// when another poll has come, and is kept for a while.
//
// A proxy may have received what the client never got. The client asks anew when it has waited for 25 s
// (§1.5.2): so where the next poll comes 24 s after the one that was answered, or later, the response is sent
// once more, with the next answer.

/// Messages for a client that polls, and the responses that it may not have received. Decides; the session
/// acts.
package struct PollResponses {
    private struct Response {
        let number: Int
        /// Of the poll that it answers; nil for the session's start.
        let serial: UInt64?
        /// Sent one after the other.
        let script: [SharedBytes]
        let byteCount: Int
        /// When that poll came.
        var asked: MonotonicTime
        var delivery = PollDelivery.underWay
        /// Another poll came, soon enough for the client to have received this.
        var isFollowed = false
        /// It is sent again with the next answer.
        var isRepeated = false

        /// The client has very likely received it.
        var isKept: Bool { delivery == .acknowledged && isFollowed }
    }

    /// Messages that no response has.
    private struct Group {
        /// The beginning of a large message.
        var parts: [SharedBytes]
        /// Behind the parts: the rest of that message, and others, with commas between them.
        var text: [UInt8]
        var partByteCount: Int { parts.reduce(0) { $0 + $1.count } }
    }

    /// Longer than any poll is held, and shorter than the 25 s after which a client gives one up.
    package static let clientPatience: Duration = .seconds(24)
    /// Messages of one response: at least one, and no further one from here on.
    package static let responseByteLimit = 256 << 10
    /// Responses that are kept though the client has very likely received them.
    package static let keptLimit = 16
    private static let keptByteLimit = 1 << 20
    /// Messages are joined up to here.
    private static let joinedByteLimit = 16 << 10
    /// A message is cut into parts from here on, as it comes, so that nothing is done for all of a large one
    /// at once.
    package static let partByteCount = 128 << 10

    private var nextNumber = 0
    /// In the order of their numbers.
    private var unconfirmed: [Response] = []
    private var unconfirmedByteCount = 0
    private var keptByteCount = 0
    /// Whole messages that no response has, from ``pendingHead`` on.
    private var pending: [Group] = []
    private var pendingHead = 0
    /// The beginning of a message.
    private var unfinished: [UInt8] = []
    private var unfinishedParts: [SharedBytes] = []
    private var escaper = ScriptEscaper()
    /// Bytes of messages that no response has, but those of parts, which count themselves.
    package private(set) var pendingByteCount = 0
    private var partByteCount = 0

    /// Bytes that the client has not taken, as far as is known.
    package var byteCount: Int { pendingByteCount + partByteCount + unconfirmedByteCount }

    /// All that is held.
    package var heldByteCount: Int { byteCount + keptByteCount }

    /// Responses that may have to be sent again.
    package var unconfirmedCount: Int { unconfirmed.count }

    package var hasMessages: Bool { pendingHead < pending.count }

    /// Whether a poll is answered at once.
    package var isUrgent: Bool { hasMessages || unconfirmed.contains { $0.delivery == .lost } }

    // MARK: Messages

    /// A part of a message: JSON, cut between characters. The message is complete with ``endMessage()``.
    package mutating func append(_ part: RawSpan) {
        let before = unfinished.count
        escaper.escape(part, into: &unfinished)
        pendingByteCount += unfinished.count - before
        if unfinished.count >= Self.partByteCount { cutUnfinished() }
    }

    private mutating func cutUnfinished() {
        let part = SharedBytes(Array(unfinished.dropLast(ScriptEscaper.openByteCount)))
        unfinished.removeFirst(part.count)
        unfinishedParts.append(part)
        pendingByteCount -= part.count
        partByteCount += part.count
    }

    package mutating func endMessage() {
        escaper = ScriptEscaper()
        if unfinishedParts.isEmpty, hasMessages,
            pending[pending.count - 1].text.count + unfinished.count < Self.joinedByteLimit
        {
            pending[pending.count - 1].text.append(UInt8(ascii: ","))
            pending[pending.count - 1].text += unfinished
            pendingByteCount += 1
            unfinished.removeAll(keepingCapacity: true)
        } else {
            pending.append(Group(parts: unfinishedParts, text: unfinished))
            unfinished = []
            unfinishedParts = []
        }
    }

    // MARK: Polls

    /// A poll has come.
    /// - Returns: What it is sent at once, where it was answered before and is asked again; else nil: it is
    ///   to be answered with ``answer(serial:asked:prefix:closes:)``, in time.
    package mutating func receivedPoll(_ serial: UInt64, at now: MonotonicTime) -> PollResponse? {
        if let index = unconfirmed.firstIndex(where: { $0.serial == serial }) {
            unconfirmed[index].delivery = .lost
            return takeRepeated()
        }
        unconfirmed.removeAll { response in
            now - response.asked >= Self.clientPatience && response.isKept
        }
        for index in unconfirmed.indices {
            if now - unconfirmed[index].asked < Self.clientPatience {
                unconfirmed[index].isFollowed = true
            } else if unconfirmed[index].delivery != .lost {
                unconfirmed[index].isRepeated = true
                unconfirmed[index].isFollowed = false
                unconfirmed[index].asked = now
            }
        }
        settle()
        return nil
    }

    /// Forgets what was received, and the oldest of what is kept over the limits.
    private mutating func settle() {
        unconfirmed.removeAll { $0.isFollowed && $0.delivery == .received }
        (unconfirmedByteCount, keptByteCount) = (0, 0)
        var keptCount = 0
        for index in unconfirmed.indices.reversed() {
            guard unconfirmed[index].isKept else {
                unconfirmedByteCount += unconfirmed[index].byteCount
                continue
            }
            keptCount += 1
            keptByteCount += unconfirmed[index].byteCount
            if keptCount > Self.keptLimit || keptByteCount > Self.keptByteLimit {
                keptByteCount -= unconfirmed[index].byteCount
                unconfirmed.remove(at: index)
            }
        }
    }

    /// The next answer: what must be sent again, and the next response with what there is, perhaps nothing.
    /// - Parameters:
    ///   - serial: Of the poll; nil for the session's start.
    ///   - asked: When the poll came.
    ///   - prefix: A script before the response.
    ///   - closes: The session ends behind the last message.
    package mutating func answer(
        serial: UInt64?, asked: MonotonicTime, prefix: [UInt8] = [], closes: Bool = false
    ) -> PollResponse {
        var answer = takeRepeated()
        let number = nextNumber
        nextNumber += 1
        var script: [SharedBytes] = []
        var text = prefix
        text.append(responseBegin: number)
        var byteCount = 0
        while hasMessages, byteCount < Self.responseByteLimit {
            if byteCount > 0 { text.append(UInt8(ascii: ",")) }
            let group = pending[pendingHead]
            pending[pendingHead] = Group(parts: [], text: [])
            pendingHead += 1
            if !group.parts.isEmpty {
                script.append(SharedBytes(text))
                text = []
                script += group.parts
                partByteCount -= group.partByteCount
            }
            text += group.text
            pendingByteCount -= group.text.count
            byteCount += group.partByteCount + group.text.count
        }
        if !hasMessages {
            pending = []
            pendingHead = 0
        }
        text.appendResponseEnd()
        if closes, !hasMessages { text.append(closeCommand: number) }
        script.append(SharedBytes(text))
        unconfirmed.append(
            Response(
                number: number, serial: serial, script: script, byteCount: script.reduce(0) { $0 + $1.count },
                asked: asked))
        settle()
        answer.scripts += script
        answer.numbers.append(number)
        return answer
    }

    /// What is sent again.
    private mutating func takeRepeated() -> PollResponse {
        var answer = PollResponse(scripts: [], numbers: [])
        for index in unconfirmed.indices
        where unconfirmed[index].isRepeated || unconfirmed[index].delivery == .lost {
            unconfirmed[index].isRepeated = false
            unconfirmed[index].isFollowed = false
            unconfirmed[index].delivery = .underWay
            answer.scripts += unconfirmed[index].script
            answer.numbers.append(unconfirmed[index].number)
        }
        settle()
        return answer
    }

    // MARK: Deliveries

    /// What is known now of responses that one connection was given.
    package mutating func note(_ numbers: [Int], _ delivery: PollDelivery) {
        for index in unconfirmed.indices where numbers.contains(unconfirmed[index].number) {
            // On another connection it may have arrived already.
            if unconfirmed[index].delivery != .received { unconfirmed[index].delivery = delivery }
        }
        settle()
    }
}
