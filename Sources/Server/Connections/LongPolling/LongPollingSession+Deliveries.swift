import PandoDatabase
import PandoReactor

// Whether the client has received what it was answered, as its connections show it.

extension LongPollingSession {
    /// What is known now of responses that a connection was given.
    func note(_ numbers: [Int], on connection: HTTPConnection, _ delivery: PollAnswers.Delivery) {
        if delivery != .acknowledged, !connection.hasDeliveries(of: self) {
            carriers.removeAll { $0 === connection }
        }
        answers.note(numbers, delivery)
        noteDrained()
        answerLater()
    }

    /// Asks the connections what the client's machine has acknowledged. One system call each; there are two,
    /// as a rule.
    func settleDeliveries() {
        for connection in carriers { connection.noteAcknowledged() }
    }

    /// Whether the client has received nearly all that it was sent. Where it has not, its machine may only be
    /// late to say so, and what the session says meanwhile is held back.
    func noteDrained() {
        guard phase == .open else { return }
        guard unsentByteCount > owner.loop.configuration.outboundLowWaterByteCount else {
            catchUpIfDrained()
            return session.outputDrained()
        }
        guard !isLookingAgain, !polls.isEmpty, !carriers.isEmpty else { return }
        isLookingAgain = true
        owner.loop.schedule(after: Self.acknowledgementDelay) { [weak self] in
            guard let self else { return }
            isLookingAgain = false
            settleDeliveries()
            noteDrained()
        }
    }

    /// Linux, and others, may be that late to acknowledge what was received (TCP_DELACK_MIN).
    private static let acknowledgementDelay: Duration = .milliseconds(50)
}
