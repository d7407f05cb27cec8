import PandoBytes
import PandoDatabase
import PandoTime

// What the polls of one session are answered (realtime §1.5.2). Responses are numbered without a gap;
// the client puts them in order, waits at a gap, and ignores a number that it has had. So a response may
// always be sent again, and must be when its connection broke, or when its poll is asked again:
//
//     messages ─▶ pending ──answer──▶ under way ──▶ acknowledged ──▶ received
//                                        │  ▲            │               │
//                                        ▼  │            │ the connection broke
//                                        lost ◀──────────┴───────────────┘ its poll is asked again
//                                           with the next answer; at once where a poll waits
//
// Acknowledged: by the client's system (TCP), whose program may still not have read it. Received: the client
// asked for something else on that connection, or closed it in order. What is acknowledged or received counts
// no more when a later poll has come, but is kept for a while: a proxy may have received what the client has
// not, and ask again. Another poll shows little, since a client has two in progress, and copies of earlier
// ones may be late.
//
// The client asks anew when it has waited for 25 s (§1.5.2): so where the next poll comes 24 s after the one
// that was answered, or later, and nothing has shown that the client has loaded the response, that is sent
// once more, with the next answer. A poll without data shows it: the client sends one only when no other is
// in progress. Once at most: where the polls are always that far apart, as those of a hidden page, none shows
// anything. And not while it is under way: the client still loads it.

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
        /// Bytes of memory that it takes of this client's: of what others may hold, too, a part.
        let heldByteCount: Int
        /// When the poll came to which it was last sent.
        var asked: MonotonicTime
        var delivery = PollDelivery.underWay
        /// With which it was last sent (``PollResponse/copy``).
        var copy: Int
        /// A later poll came, soon enough for the client to have received this.
        var isFollowed = false
        /// The same, when no other poll was in progress: the client has received this.
        var isLoaded = false
        /// It is sent again with the next answer.
        var isRepeated = false
        /// The client may have given it up, and so it was sent again once, or will be.
        var wasGivenUp = false
        /// Of the polls with whose answers it was sent again, the last one last; the last 16 of them.
        var laterSerials: [UInt64] = []

        /// The client has very likely received it.
        var isKept: Bool { isFollowed && (delivery == .acknowledged || delivery == .received) }

        /// Whether a poll was answered with it.
        func wasSent(to poll: UInt64) -> Bool { serial == poll || laterSerials.contains(poll) }

        /// Whether the poll to which it was last sent was asked before this one.
        func isBefore(_ poll: UInt64) -> Bool { (laterSerials.last ?? serial).map { $0 < poll } ?? true }

        /// The client has not asked for long, and may have given it up.
        mutating func noteGivenUp() {
            switch delivery {
            case .lost: break
            case .underWay: isFollowed = false
            case .acknowledged, .received:
                (isRepeated, isFollowed) = (!wasGivenUp, wasGivenUp)
                wasGivenUp = true
            }
        }

        /// It is sent again, to this poll.
        mutating func noteSent(to poll: UInt64?, asked now: MonotonicTime, copy newest: Int) {
            asked = now
            copy = newest
            isRepeated = false
            isFollowed = false
            isLoaded = false
            delivery = .underWay
            guard let poll else { return }
            laterSerials.removeAll { $0 == poll }
            laterSerials.append(poll)
            if laterSerials.count > PollResponses.keptLimit { laterSerials.removeFirst() }
        }
    }

    /// Messages that no response has: either a script in parts, or small messages in one text.
    private struct Group {
        /// Not copied: shared with others, or large.
        var parts = ScriptParts()
        /// With commas between the messages.
        var text: [UInt8] = []

        /// Whether a message may be added to the text.
        func mayTake(_ message: [UInt8]) -> Bool {
            parts.byteCount == 0 && text.count + message.count < PollResponses.joinedByteLimit
        }
    }

    /// Parts of messages, one behind the other.
    private struct ScriptParts {
        var parts: [SharedBytes] = []
        private(set) var byteCount = 0
        /// Bytes of those that other clients may hold, too.
        private(set) var sharedByteCount = 0

        /// Bytes of memory that they take of this client's.
        var heldByteCount: Int {
            byteCount - sharedByteCount + sharedByteCount / OutputSequence.sharedWeight
        }

        mutating func append(_ others: ScriptParts) {
            parts += others.parts
            byteCount += others.byteCount
            sharedByteCount += others.sharedByteCount
        }

        mutating func append(_ part: SharedBytes, isShared: Bool) {
            parts.append(part)
            byteCount += part.count
            if isShared { sharedByteCount += part.count }
        }
    }

    /// Longer than any poll is held, and shorter than the 25 s after which a client gives one up.
    package static let clientPatience: Duration = .seconds(24)
    /// Messages of one response: at least one, and no further one from here on.
    package static let responseByteLimit = 256 << 10
    /// Responses that are kept though the client has very likely received them; and their bytes, but that the
    /// last two are kept in any case until they are known to be loaded.
    package static let keptLimit = 16
    package static let keptByteLimit = 1 << 20
    private static let keptInAnyCase = 2
    /// Messages are joined up to here.
    private static let joinedByteLimit = 16 << 10

    private var nextNumber = 0
    /// Copies that were sent (``PollResponse/copy``).
    private var copyCount = 0
    /// Responses that may have to be sent again, in the order of their numbers.
    private var sent: [Response] = []
    /// The highest serial of a poll whose response was forgotten.
    private var forgottenSerial: UInt64?
    private var unconfirmedByteCount = 0
    private var keptByteCount = 0
    /// Bytes of memory that the responses take of this client's.
    private var sentHeldByteCount = 0
    /// Whole messages that no response has, from ``pendingHead`` on.
    private var pending: [Group] = []
    private var pendingHead = 0
    /// The beginning of a message: as text, or in parts.
    private var unfinished: [UInt8] = []
    private var unfinishedParts = ScriptParts()
    private var escaper = ScriptEscaper()
    /// Bytes of messages that no response has, but those of parts, which count themselves.
    package private(set) var pendingByteCount = 0
    private var partByteCount = 0
    /// Bytes of memory that those parts take of this client's.
    private var partHeldByteCount = 0

    /// Bytes that the client has not taken, as far as is known.
    package var byteCount: Int { pendingByteCount + partByteCount + unconfirmedByteCount }

    /// Bytes of memory that this client takes: what others share counts little.
    package var heldByteCount: Int { pendingByteCount + partHeldByteCount + sentHeldByteCount }

    /// Responses that may have to be sent again.
    package var sentCount: Int { sent.count }

    package var hasMessages: Bool { pendingHead < pending.count }

    /// Whether a poll is answered at once.
    package var isUrgent: Bool { hasMessages || sent.contains { $0.delivery == .lost } }

    // MARK: Messages

    /// A part of a message: JSON, cut between characters. The message is complete with ``endMessage()``.
    package mutating func append(_ part: RawSpan) {
        let before = unfinished.count
        escaper.escape(part, into: &unfinished)
        pendingByteCount += unfinished.count - before
    }

    package mutating func endMessage() {
        escaper = ScriptEscaper()
        if hasMessages, pending[pending.count - 1].mayTake(unfinished) {
            pending[pending.count - 1].text.append(UInt8(ascii: ","))
            pending[pending.count - 1].text += unfinished
            pendingByteCount += 1
            unfinished.removeAll(keepingCapacity: true)
        } else {
            pending.append(Group(text: unfinished))
            unfinished = []
        }
    }

    /// A message, or a part of one, that is a script already (``OutputForm/script``). Copies nothing.
    /// - Parameter isShared: Other clients may hold it, too.
    package mutating func append(script: SharedBytes, endsMessage: Bool, isShared: Bool) {
        assert(unfinished.isEmpty, "a message is cut by another one")
        partHeldByteCount -= unfinishedParts.heldByteCount
        unfinishedParts.append(script, isShared: isShared)
        partHeldByteCount += unfinishedParts.heldByteCount
        partByteCount += script.count
        if endsMessage { pending.append(Group(parts: exchange(&unfinishedParts, with: ScriptParts()))) }
    }

    // MARK: Polls

    /// A poll has come that does not wait already.
    /// - Parameter bringsData: The client may have another one in progress.
    /// - Returns: What it is sent at once, where it was answered before and is asked again: nothing, if that
    ///   response was forgotten. Else nil: it is to be answered with
    ///   ``answer(serial:asked:prefix:closes:)``, in time.
    package mutating func receivedPoll(
        _ serial: UInt64, bringsData: Bool, at now: MonotonicTime
    ) -> PollResponse? {
        if sent.contains(where: { $0.wasSent(to: serial) }) {
            for index in sent.indices where sent[index].wasSent(to: serial) { sent[index].delivery = .lost }
            return takeRepeated(for: serial, asked: now)
        }
        // A late copy, whose response the client does not read: with a number of its own, that number would
        // be missing to the client.
        if let forgottenSerial, serial <= forgottenSerial { return PollResponse(scripts: [], numbers: []) }
        noteLaterPoll(serial, bringsData: bringsData, at: now)
        settle()
        return nil
    }

    /// A poll has come: what it shows of the responses to the polls before it.
    private mutating func noteLaterPoll(_ serial: UInt64, bringsData: Bool, at now: MonotonicTime) {
        // By index, from the last: some are forgotten.
        for index in sent.indices.reversed() where sent[index].isBefore(serial) && !sent[index].isRepeated {
            if now - sent[index].asked < Self.clientPatience {
                sent[index].isFollowed = true
                if !bringsData { sent[index].isLoaded = true }
            } else if sent[index].isKept, sent[index].isLoaded {
                forget(index)
            } else {
                sent[index].noteGivenUp()
            }
        }
    }

    private mutating func forget(_ index: Int) {
        if let serial = sent.remove(at: index).serial { forgottenSerial = max(serial, forgottenSerial ?? 0) }
    }

    /// Forgets the oldest of what is kept over the limits.
    private mutating func settle() {
        (unconfirmedByteCount, keptByteCount, sentHeldByteCount) = (0, 0, 0)
        var keptCount = 0
        for index in sent.indices.reversed() {
            let (byteCount, heldByteCount) = (sent[index].byteCount, sent[index].heldByteCount)
            guard sent[index].isKept else {
                unconfirmedByteCount += byteCount
                sentHeldByteCount += heldByteCount
                continue
            }
            keptCount += 1
            let isTooMuch =
                keptByteCount + byteCount > Self.keptByteLimit
                && (sent[index].isLoaded || keptCount > Self.keptInAnyCase)
            if isTooMuch || keptCount > Self.keptLimit {
                forget(index)
            } else {
                keptByteCount += byteCount
                sentHeldByteCount += heldByteCount
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
        var answer = takeRepeated(for: serial, asked: asked)
        let number = nextNumber
        nextNumber += 1
        var script = ScriptParts()
        var text = prefix
        text.append(responseBegin: number)
        var byteCount = 0
        while hasMessages, byteCount < Self.responseByteLimit {
            if byteCount > 0 { text.append(UInt8(ascii: ",")) }
            let group = exchange(&pending[pendingHead], with: Group())
            pendingHead += 1
            if group.parts.byteCount > 0 {
                script.append(SharedBytes(text), isShared: false)
                text = []
                script.append(group.parts)
                partByteCount -= group.parts.byteCount
                partHeldByteCount -= group.parts.heldByteCount
            }
            text += group.text
            pendingByteCount -= group.text.count
            byteCount += group.parts.byteCount + group.text.count
        }
        if !hasMessages {
            pending = []
            pendingHead = 0
        }
        text.appendResponseEnd()
        if closes, !hasMessages { text.append(closeCommand: number) }
        script.append(SharedBytes(text), isShared: false)
        sent.append(
            Response(
                number: number, serial: serial, script: script.parts,
                byteCount: script.byteCount, heldByteCount: script.heldByteCount, asked: asked,
                copy: answer.copy))
        settle()
        answer.scripts += script.parts
        answer.numbers.append(number)
        return answer
    }

    /// What is sent again.
    /// - Parameters:
    ///   - serial: Of the poll that is answered with it.
    ///   - asked: When that poll came.
    private mutating func takeRepeated(for serial: UInt64?, asked: MonotonicTime) -> PollResponse {
        copyCount += 1
        var answer = PollResponse(scripts: [], numbers: [], copy: copyCount)
        for index in sent.indices where sent[index].isRepeated || sent[index].delivery == .lost {
            sent[index].noteSent(to: serial, asked: asked, copy: answer.copy)
            answer.scripts += sent[index].script
            answer.numbers.append(sent[index].number)
        }
        settle()
        return answer
    }

    // MARK: Deliveries

    /// What is known now of responses that one connection was given. Of those that were sent again since,
    /// nothing: the last copy is asked for because the client has not had an earlier one.
    package mutating func note(_ copies: SentResponses, _ delivery: PollDelivery) {
        for index in sent.indices
        where copies.copy == sent[index].copy && copies.numbers.contains(sent[index].number) {
            // The same copy may have arrived on another connection.
            if sent[index].delivery != .received { sent[index].delivery = delivery }
        }
        settle()
    }
}

extension PollResponses: MessageSink {}
