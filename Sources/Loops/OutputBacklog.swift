import PandoDatabase
import PandoEngine

/// Outputs of the databases that a loop has not delivered, the oldest first.
///
/// They are delivered in their order, some in each tick. When they come faster than the loop delivers them, a
/// client that sends little must not wait behind thousands of outputs for others. Outputs for such sessions
/// are delivered early:
///
///     batch 7   a a a b c c c …       b has kept up, and no earlier output waits for it: delivered early
///     batch 8   c d d b c …           so is this one; d has not kept up, and its outputs wait
///     batch 9   d b …                 an output waits for d: this one waits behind it
///
/// Outputs for one session keep their order, which is all that clients are promised: for each session the
/// last batch is known with an output that waits for it, and no later output is delivered before that batch.
///
/// Without channel and clock. Used by the loop's thread only.
struct OutputBacklog {
    /// Which outputs are delivered early.
    enum Urgency {
        /// The client sends much, or does not take what it is sent.
        case none
        /// It takes what it is sent: a listener.
        case listening
        /// It has also sent something lately, and probably waits for the reply.
        case asking
    }

    /// The loop whose sessions these outputs are for. A batch also names recipients of other loops.
    private let loopIndex: UInt8
    /// Not delivered. The first may be delivered in part; the loop's ``OutputPosition`` says how far.
    private(set) var batches: [OutputBatch] = []
    /// Batches at the front that were searched, and items of the batch behind them. None is searched twice.
    private var searchedCount = 0
    private var searchedItemCount = 0
    /// The number of the first batch; the next one has the next number.
    private var firstNumber: UInt64 = 1
    /// By slot: the number of the last batch with an output that waits for the session; less than
    /// `firstNumber` for none. The output waits, for this purpose, until all of its batch is delivered.
    private var lastWaitingBatch: ContiguousArray<UInt64> = []

    /// Outputs with more recipients are not delivered early.
    static let earlyRecipientLimit = 4
    /// Outputs that are delivered early in one call, and those of them for sessions that only listen: what a
    /// write sends to thousands of listeners must not keep a reply back.
    static let earlyItemLimit = 128
    static let earlyListeningLimit = 64
    /// Recipients that are looked at in one call: about 100 µs.
    static let searchLimit = 8192

    init(ofLoop index: UInt8) { loopIndex = index }

    var isEmpty: Bool { batches.isEmpty }

    /// Moves all batches out, to be delivered. ``put(back:deliveredCount:)`` follows.
    mutating func take() -> [OutputBatch] { exchange(&batches, with: []) }

    /// - Parameters:
    ///   - rest: Those that were not delivered, in their order.
    ///   - deliveredCount: How many came before them.
    mutating func put(back rest: consuming [OutputBatch], deliveredCount: Int) {
        assert(batches.isEmpty)
        batches = rest
        firstNumber += UInt64(deliveredCount)
        if deliveredCount > searchedCount { searchedItemCount = 0 }
        searchedCount = max(0, searchedCount - deliveredCount)
    }

    /// Searches the outputs that were not searched before, and delivers each now that a client of some
    /// urgency gets, if no earlier output waits for any of its recipients. The others keep their places.
    /// - Parameters:
    ///   - position: How far the first batch was delivered.
    ///   - isOver: Whether there is no more time; asked before each output that is delivered early.
    ///   - urgency: That of a session of this loop.
    ///   - deliver: Delivers an item of a batch to all its recipients, and gives their number.
    /// - Complexity: O(items, recipients), at most ``searchLimit`` and one item.
    mutating func deliverEarly(
        behind position: OutputPosition, isOver: () -> Bool, urgency: (SessionID) -> Urgency,
        deliver: (OutputBatch, Int) -> Int
    ) {
        var (leftCount, leftListeningCount) = (Self.earlyItemLimit, Self.earlyListeningLimit)
        var searchLeft = Self.searchLimit
        while searchedCount < batches.count {
            let number = firstNumber + UInt64(searchedCount)
            let isFirst = searchedCount == 0
            if isFirst { searchedItemCount = max(searchedItemCount, position.item) }
            while searchedItemCount < batches[searchedCount].items.count {
                // What is not searched waits, and nothing behind it is delivered early.
                guard searchLeft > 0 else { return }
                let index = searchedItemCount
                searchedItemCount += 1
                let recipients = batches[searchedCount].recipients(ofItem: index)
                searchLeft -= recipients.count
                var urgency = isFirst && position.hasBegun(index) ? .none : mayOvertake(recipients, urgency)
                if urgency == .listening, leftListeningCount == 0 { urgency = .none }
                if urgency != .none, leftCount > 0 {
                    guard !isOver() else {
                        searchedItemCount = index
                        return
                    }
                    leftCount -= 1
                    if urgency == .listening { leftListeningCount -= 1 }
                    let count = deliver(batches[searchedCount], index)
                    batches[searchedCount].noteDelivered(index, recipientCount: count)
                } else {
                    noteWaiting(recipients, inBatch: number)
                }
            }
            searchedCount += 1
            searchedItemCount = 0
        }
    }

    /// The highest urgency of the recipients; none where an earlier output waits for one of them.
    private func mayOvertake(
        _ recipients: OutputBatch.Recipients, _ urgency: (SessionID) -> Urgency
    ) -> Urgency {
        switch recipients {
        case .none: return .none
        // Very many.
        case .tagged: return .none
        case .one(let session): return hasWaitingOutput(session) ? .none : urgency(session)
        case .several(let sessions):
            guard sessions.count <= Self.earlyRecipientLimit else { return .none }
            var highest = Urgency.none
            for session in sessions where session.loop == loopIndex {
                if hasWaitingOutput(session) { return .none }
                switch urgency(session) {
                case .none: break
                case .listening: if highest == .none { highest = .listening }
                case .asking: highest = .asking
                }
            }
            return highest
        }
    }

    private func hasWaitingOutput(_ session: SessionID) -> Bool {
        let slot = Int(session.slot)
        return slot < lastWaitingBatch.count && lastWaitingBatch[slot] >= firstNumber
    }

    private mutating func noteWaiting(_ recipients: OutputBatch.Recipients, inBatch number: UInt64) {
        switch recipients {
        case .none: break
        case .one(let session): noteWaiting(session, inBatch: number)
        case .several(let sessions): for session in sessions { noteWaiting(session, inBatch: number) }
        case .tagged(let recipients):
            for recipient in recipients { noteWaiting(recipient.session, inBatch: number) }
        }
    }

    private mutating func noteWaiting(_ session: SessionID, inBatch number: UInt64) {
        guard session.loop == loopIndex else { return }
        let slot = Int(session.slot)
        if slot >= lastWaitingBatch.count {
            lastWaitingBatch.append(
                contentsOf: repeatElement(0, count: slot + 1 - lastWaitingBatch.count))
        }
        lastWaitingBatch[slot] = number
    }
}
