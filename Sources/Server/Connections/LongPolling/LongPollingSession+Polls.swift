import PandoDatabase
import PandoEngine
import PandoReactor

// The polls of a session: which wait, and when each is answered.

extension LongPollingSession {
    /// Polls that may wait while what the client has sent does. Clients have two under way.
    private static let heldPollLimit = 4

    /// Connections on which one poll waits, or whose answers may not have arrived: clients ask again now and
    /// then.
    private static let carrierLimit = 16

    func hold(_ poll: HeldPoll) {
        var poll = poll
        let serial = poll.serial
        let copies = polls.indices.filter { polls[$0].serial == serial }
        if copies.count >= Self.carrierLimit, let oldest = copies.first {
            let lost = polls.remove(at: oldest)
            release(lost)
            lost.connection.channel.reset()
        }
        poll.timer = owner.loop.schedule(after: owner.configuration.pollHoldTime) { [weak self] in
            self?.answerHeld(for: serial)
        }
        polls.append(poll)
        poll.connection.holdPoll(of: self)
        owner.connectedPolling(self)
    }

    /// A poll has waited as long as one may: it is answered, with nothing.
    private func answerHeld(for serial: UInt64?) {
        guard let index = polls.firstIndex(where: { $0.serial == serial }) else { return }
        answer(polls.remove(at: index))
    }

    func release(_ poll: HeldPoll) {
        if let timer = poll.timer { owner.loop.cancel(timer) }
        poll.connection.releasePoll()
    }

    func answerLater() {
        guard !isAnswerDue, !polls.isEmpty else { return }
        isAnswerDue = true
        owner.answerPollsLater(self)
    }

    /// At the end of the tick, when all is there that it brings: answers what is to be answered.
    func answerPolls() {
        isAnswerDue = false
        // An older poll is answered when another comes, so that the client can send; it is not to send while
        // what it has sent waits.
        while let first = polls.first,
            answers.isUrgent || isFinished || polls.count > (isHolding ? Self.heldPollLimit : 1)
        {
            polls.removeFirst()
            answer(first)
        }
    }

    /// Nothing more will come, and the client must be given the end.
    var isFinished: Bool { phase == .finishing || phase == .former }

    /// Answers a poll, on each connection on which it was asked: which of them still lives is not known.
    private func answer(_ poll: HeldPoll) {
        var prefix: [UInt8] = []
        if poll.serial == nil { swap(&prefix, &startScript) }
        let copies = polls.filter { $0.serial == poll.serial }
        polls.removeAll { $0.serial == poll.serial }
        // The end names the last response that there is.
        let answer = answers.answer(
            serial: poll.serial, asked: poll.came, prefix: prefix, closes: isFinished && polls.isEmpty)
        for copy in [poll] + copies {
            release(copy)
            send(answer, on: copy.connection)
        }
        countOutput()
        noteDisconnected()
    }

    func send(_ answer: PollAnswers.Answer, on connection: HTTPConnection) {
        if !carriers.contains(where: { $0 === connection }) {
            if carriers.count >= Self.carrierLimit {
                let oldest = carriers.removeFirst()
                oldest.loseDeliveries(of: self)
            }
            carriers.append(connection)
        }
        connection.answer(answer, of: self)
    }

    func noteDisconnected() {
        guard polls.isEmpty, phase != .over else { return }
        pollEnded = owner.loop.now
        owner.disconnectedPolling(self)
    }

    /// The connection of a poll broke before the answer.
    func pollIsGone(from connection: HTTPConnection) {
        guard let index = polls.firstIndex(where: { $0.connection === connection }) else { return }
        release(polls.remove(at: index))
        noteDisconnected()
    }
}
