// What may have been forgotten after a crash, and what must not.

extension Checker {
    /// The server was started again, and this is there.
    /// - Parameters:
    ///   - wasStopped: It was stopped in order: then everything that was asked is done.
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
        var candidates = Array(history.states[history.floor(loss)...])
        var fronts = [state]
        var unseen: [ReferenceState] = []
        for entry in endings + posted {
            var next: [ReferenceState] = []
            for front in fronts {
                var done = front
                _ = done.apply(
                    entry.action(finding: seen, from: front), entry.session, entry.person,
                    in: entry.namespace, time: entry.time ?? clock)
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
                forgetVouchers(lostFrom: seen, history.floor(loss), attempts, time)
                // What was never answered is in the journal all the same, step by step.
                history.append(unreleased: unseen)
                history.append(
                    unreleased: (0..<front.queueCount).map { count in
                        var step = front
                        step.endDeadSessions(time: time, atMost: count)
                        return step
                    })
                return begin(with: ended, time: time)
            }
        }
        throw BrokenPromise(description: explain(seen, candidates, loss, time))
    }

    /// What is seen may be the earliest state that looks so: then records behind that one are gone.
    private mutating func forgetVouchers(
        lostFrom seen: ReferenceState, _ floor: Int, _ attempts: [Int64], _ time: Int64
    ) {
        let earliest = history.states[floor...].firstIndex { state in
            Self.partlyEnded(state, at: attempts).contains { front in
                var ended = front
                ended.endDeadSessions(time: time)
                return ended.isSeenAs(seen)
            }
        }
        history.forgetVouchers(behind: earliest ?? history.lastIndex)
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
        history.restart(with: new)
        deliveries.restart()
        (posted, endings, replicas) = ([], [], [:])
        (waiting, fairness) = (waiting.emptied, fairness.emptied)
        clock = time
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
        let earlier = history.states.lastIndex { old in
            var old = old
            old.endDeadSessions(time: time)
            return old.isSeenAs(seen)
        }
        return
            "after the start (\(loss)) there is {\(show(seen))}, which is none of \(candidates.count) states allowed, "
            + "the last of which is {\(show(last))}"
            + (earlier.map {
                "; it is state \($0) of \(history.lastIndex), and \(history.floor(loss)) was promised"
            } ?? "")
    }
}

extension PostedAction {
    /// The action, of which no answer is known. The key that a POST has made is found in what is there after
    /// the crash.
    fileprivate func action(finding seen: ReferenceState, from state: ReferenceState) -> ClientAction {
        guard case .restPost(let path, let value, nil) = action,
            case .object(let children)? = seen.namespaces[namespace]?.root[path]
        else { return action }
        let old = state.namespaces[namespace]?.root[path] ?? .nothing
        let key = children.keys.sorted().first { old[$0] == .nothing && children[$0] == value.pruned }
        return .restPost(path, value, key: key)
    }
}
