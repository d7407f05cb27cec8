// Where sessions take turns. The order of answers is that of decisions: it must be an interleaving of the
// orders in which sessions asked, and a fair one. The reference follows it.

extension Checker {
    /// An answer has come: everything before it in its session has been done, and nothing behind it.
    mutating func settleInTurn(
        _ session: UInt64, _ number: Int?, key: String?, isRefusedForSpace: Bool, at milliseconds: Int64,
        _ contradiction: (PostedAction, Outcome) -> String?
    ) throws {
        // A server whose disk has failed refuses, and sends no answer.
        guard !isRefusedForSpace || !isDelivered else {
            throw BrokenPromise(description: "refused for want of space")
        }
        var entry = try waiting.answer(session, number)
        entry.action.setKey(key)
        if let taken = entry.taken, let bound {
            let sessionCount = taken.flowCount + waiting.newcomerCount(since: taken)
            let work = bound.work(requestCount: taken.aheadCount, sessionCount: sessionCount)
            do { try fairness.answer(taken, within: work) } catch {
                throw BrokenPromise(
                    description:
                        "\(session & 0xFFFF) starves, number \(number ?? 0), \(entry.action): \(error)")
            }
        }
        var why = ""
        for ends in possibleEnds() {
            var (next, changed) = (state, [ReferenceState]())
            run(ends, on: &next, &changed)
            let ended = next
            var outcome = Outcome.diskFull
            if !isRefusedForSpace {
                outcome = next.apply(entry.action, session, entry.person, in: entry.namespace, time: clock)
                changed.append(next)
            }
            if let problem = contradiction(entry, outcome) ?? self.contradiction(of: next) {
                if why.isEmpty { why = problem }
                continue
            }
            let hasRecord = next != ended
            for end in ends { waiting.finish(end) }
            accept(next, changed, at: milliseconds)
            if isDelivered, hasRecord { history.vouch(for: entry.acknowledgedIndex) }
            return
        }
        throw BrokenPromise(
            description:
                "\(session & 0xFFFF) in \(entry.namespace), number \(number ?? 0), \(entry.action): \(why)")
    }

    /// Everything that was released is known: what has no answer may show.
    mutating func settleRestInTurn(at milliseconds: Int64) throws {
        var why = ""
        for ends in possibleEnds() {
            var (next, changed) = (state, [ReferenceState]())
            run(ends, on: &next, &changed)
            if let problem = contradiction(of: next) {
                if why.isEmpty { why = problem }
                continue
            }
            for end in ends { waiting.finish(end) }
            if !ends.isEmpty { accept(next, changed, at: milliseconds) }
            return
        }
        throw BrokenPromise(description: "no client asked for this: \(why)")
    }

    /// The server has nothing more to do, and everything was released.
    mutating func noteIdle(at milliseconds: Int64) throws {
        guard waiting.owedCount == 0 else {
            throw BrokenPromise(
                description: "requests are never done, or without an answer: \(waiting.owedDescription)")
        }
        let ends = waiting.ends()
        var (next, changed) = (state, [ReferenceState]())
        run(ends, on: &next, &changed)
        if let problem = contradiction(of: next) { throw BrokenPromise(description: "when idle: \(problem)") }
        for end in ends { waiting.finish(end) }
        accept(next, changed, at: milliseconds)
    }

    /// The server has ended all sessions, or died while it did: in the order of sessions, and no client was
    /// there to see it.
    mutating func endWithServer() {
        guard waiting.owedCount == 0 else { return }
        waiting.dropReads()
        let ends = waiting.ends(withServer: true)
        var (next, changed) = (state, [ReferenceState]())
        run(ends, on: &next, &changed)
        for end in ends { waiting.finish(end) }
        let wasDelivered = isDelivered
        isDelivered = false
        accept(next, changed, at: 0)
        isDelivered = wasDelivered
    }

    /// The process has died. What it had decided by then and not released may be on the disk or not.
    mutating func settleUndelivered(_ settle: (inout Checker) throws -> Void) throws {
        isDelivered = false
        try settle(&self)
        try settleRestInTurn(at: 0)
        endWithServer()
        isDelivered = true
    }

    /// Which sessions may have had their end since the last answer: none, one, or more. Only those that wrote
    /// something then, and what one writes cannot be taken for what others do
    /// (``ClientDriver/presenceAmount(of:)``).
    private func possibleEnds() -> [[PostedAction]] {
        let ends = waiting.ends(where: state.hasQueue).prefix(Self.undecidedEndLimit)
        return (0..<1 << ends.count).map { set in
            ends.enumerated().filter { set >> $0.offset & 1 == 1 }.map(\.element)
        }
    }

    /// Ends of which it is not known yet whether they have come; the simulation has fewer clients hang up at
    /// once.
    static let undecidedEndLimit = 6
}

extension ReferenceState {
    /// Whether the end of a session would write anything.
    func hasQueue(_ end: PostedAction) -> Bool { namespaces[end.namespace]?.queues[end.session] != nil }
}
