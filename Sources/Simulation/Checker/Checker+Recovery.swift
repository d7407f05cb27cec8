// What may have been forgotten after a crash, and what must not.

extension Checker {
    /// The server was started again, and this is there.
    /// - Parameter wall: What the machine's clock says.
    mutating func recovered(_ seen: ReferenceState, after start: RecoveryCheck.Start, wall: Int64) throws {
        guard start.time >= wall, start.time <= max(wall, clock) else {
            throw BrokenPromise(
                description:
                    "the clock says \(start.time); the machine's is \(wall), the last was \(clock)")
        }
        let check = RecoveryCheck(
            bound == nil ? seen : seen.sharing(state), from: state, history, asked: endings + posted,
            mayBeFull: mayBeFull, clock: clock, after: start)
        guard let match = check.match else { throw BrokenPromise(description: check.explanation) }
        history.forgetVouchers(behind: check.earliest)
        history.append(unreleased: check.unseen)
        history.append(
            unreleased: (0..<match.stateBeforeEnds.queueCount).map { count in
                var step = match.stateBeforeEnds
                step.endDeadSessions(time: start.time, atMost: count)
                return step
            })
        begin(with: match.ended, time: start.time)
    }

    private mutating func begin(with new: ReferenceState, time: Int64) {
        state = new
        history.restart(with: new)
        deliveries.restart()
        (posted, endings, replicas) = ([], [], [:])
        (waiting, fairness) = (waiting.emptied, fairness.emptied)
        clock = time
    }
}
