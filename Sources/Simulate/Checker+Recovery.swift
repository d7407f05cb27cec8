// What may have been forgotten after a crash, and what must not.

extension Checker {
    /// What the server may have forgotten.
    enum Loss: Comparable {
        /// Nothing that was written: the process died, or was stopped after everything was answered.
        case nothing
        /// What was not synced a tenth of a second after it was known.
        case lastMoment
        /// What was not synced when the process began.
        case sinceStart
        /// A bit has changed: what no later record vouches for.
        case unmarked
        /// Several have.
        case anything
    }

    private func floor(_ loss: Loss) -> Int {
        switch loss {
        case .nothing: heardIndex
        case .lastMoment: max(syncedIndex, startIndex)
        case .sinceStart: startIndex
        case .unmarked: min(markedIndex, lastIndex)
        case .anything: 0
        }
    }

    /// The server is up again and shows this.
    /// - Parameters:
    ///   - wasStopped: It ended by itself: then everything that was asked is done.
    ///   - attempts: When starts were tried that failed: each may have ended some of the dead sessions.
    ///   - time: What its clock says.
    mutating func recovered(
        _ seen: ReferenceState, after loss: Loss, wasStopped: Bool, attempts: [Int64], time: Int64,
        wall: Int64
    ) throws {
        guard time >= wall, time <= max(wall, clock) else {
            throw BrokenPromise(
                description: "the clock says \(time); the machine's is \(wall), the last was \(clock)")
        }
        let seen = bound == nil ? seen : seen.sharing(state)
        var candidates = Array(history[floor(loss)...])
        var fronts = [state]
        var unseen: [ReferenceState] = []
        for entry in endings + posted {
            var next: [ReferenceState] = []
            for front in fronts {
                var done = front
                _ = done.apply(
                    entry.action, entry.session, entry.person, in: entry.namespace, time: entry.time ?? clock)
                next.append(done)
                if mayBeFull, done != front, fronts.count < 512 { next.append(front) }
            }
            fronts = next
            if wasStopped { continue }
            candidates += fronts
            unseen += fronts
        }
        if wasStopped, case .nothing = loss { candidates = fronts }
        for candidate in candidates.reversed() {
            for front in Self.partlyEnded(candidate, at: attempts) {
                var ended = front
                ended.endDeadSessions(time: time)
                guard ended.isSeenAs(seen) else { continue }
                forgetVouchers(lostFrom: seen, floor(loss), attempts, time)
                // What was never answered is in the log all the same, step by step.
                history += unseen
                for count in 0..<front.queueCount {
                    var step = front
                    step.endDeadSessions(time: time, atMost: count)
                    history.append(step)
                }
                return begin(with: ended, time: time)
            }
        }
        throw BrokenPromise(description: explain(seen, candidates, loss, time))
    }

    /// What is seen may be the earliest state that looks so: then records behind that one are gone.
    private mutating func forgetVouchers(
        lostFrom seen: ReferenceState, _ floor: Int, _ attempts: [Int64], _ time: Int64
    ) {
        let earliest = history[floor...].firstIndex { state in
            Self.partlyEnded(state, at: attempts).contains { front in
                var ended = front
                ended.endDeadSessions(time: time)
                return ended.isSeenAs(seen)
            }
        }
        let last = earliest ?? lastIndex
        vouchers.removeAll { $0.index > last }
    }

    /// What starts that failed may have left of dead sessions.
    private static func partlyEnded(_ state: ReferenceState, at attempts: [Int64]) -> [ReferenceState] {
        var fronts = [state]
        for time in attempts {
            fronts = fronts.flatMap { front in
                (0...front.queueCount).map { count in
                    var next = front
                    next.endDeadSessions(time: time, atMost: count)
                    return next
                }
            }
        }
        return fronts
    }

    private mutating func begin(with new: ReferenceState, time: Int64) {
        state = new
        history.append(new)
        startIndex = lastIndex
        syncedIndex = lastIndex
        heardIndex = lastIndex
        (posted, endings, clients, acknowledgements) = ([], [], [:], [])
        (waiting, turns) = (waiting.emptied, turns.emptied)
        clock = time
        handshakeTime = nil
    }

    private func explain(_ seen: ReferenceState, _ candidates: [ReferenceState], _ loss: Loss, _ time: Int64)
        -> String
    {
        func show(_ state: ReferenceState) -> String {
            state.namespaces.sorted { $0.key < $1.key }
                .map { "\($0.key): \($0.value.rules) \($0.value.root.json)" }.joined(separator: "; ")
        }
        var last = candidates.last ?? state
        last.endDeadSessions(time: time)
        let earlier = history.lastIndex { old in
            var old = old
            old.endDeadSessions(time: time)
            return old.isSeenAs(seen)
        }
        return
            "after the start (\(loss)) there is {\(show(seen))}, which is none of \(candidates.count) states allowed, "
            + "the last of which is {\(show(last))}"
            + (earlier.map { "; it is state \($0) of \(lastIndex), and \(floor(loss)) was promised" } ?? "")
    }
}
