/// Which states may be there after a crash: what a start finds must be one of them.
struct RecoveryCheck {
    /// What was found.
    let seen: ReferenceState
    /// The states of before, and what of them was promised.
    private let history: StateHistory
    private let state: ReferenceState
    private let start: Start
    /// The states allowed, before the ends of the dead sessions; the later ones last.
    private let candidates: [ReferenceState]
    /// States after requests that were never answered but may be in the journal, request by request.
    let unseen: [ReferenceState]

    /// What is known of the start.
    struct Start {
        /// What may have been forgotten.
        var loss: Loss
        /// The server was stopped in order: then everything that was asked is done.
        var wasStopped: Bool
        /// When starts were tried that failed: each may have ended some of the dead sessions.
        var attempts: [Int64]
        /// What the server's clock says.
        var time: Int64
    }

    /// A state that was found.
    struct Match {
        /// The state before the onDisconnect writes of the sessions that the crash ended, but for those that
        /// a failed start has run.
        var stateBeforeEnds: ReferenceState
        var ended: ReferenceState
    }

    /// - Parameters:
    ///   - asked: What has no answer, in order.
    ///   - clock: The latest time that the server can have stamped before.
    init(
        _ seen: ReferenceState, from state: ReferenceState, _ history: StateHistory, asked: [PostedAction],
        mayBeFull: Bool, clock: Int64, after start: Start
    ) {
        (self.seen, self.state, self.history, self.start) = (seen, state, history, start)
        var candidates = Array(history.states[history.floor(start.loss)...])
        var possible = [state]
        var unseen: [ReferenceState] = []
        for entry in asked {
            var next: [ReferenceState] = []
            for before in possible {
                var done = before
                _ = done.apply(
                    entry.action(finding: seen, from: before), entry.session, entry.person,
                    in: entry.namespace, time: entry.time ?? clock)
                next.append(done)
                if mayBeFull, done != before, possible.count < 512 { next.append(before) }
            }
            possible = next
            if start.wasStopped { continue }
            candidates += possible
            unseen += possible
        }
        if start.wasStopped, case .nothing = start.loss { candidates = possible }
        (self.candidates, self.unseen) = (candidates, unseen)
    }

    /// The latest state allowed that looks as what was found; nil for none.
    var match: Match? {
        for candidate in candidates.reversed() {
            for stateBeforeEnds in partlyEnded(candidate) {
                var ended = stateBeforeEnds
                ended.endDeadSessions(time: start.time)
                if ended.isSeenAs(seen) { return Match(stateBeforeEnds: stateBeforeEnds, ended: ended) }
            }
        }
        return nil
    }

    /// The index of the earliest state before the crash that equals what was found: records after that one
    /// may be gone.
    var earliest: Int {
        history.states[history.floor(start.loss)...].firstIndex { state in
            partlyEnded(state).contains { stateBeforeEnds in
                var ended = stateBeforeEnds
                ended.endDeadSessions(time: start.time)
                return ended.isSeenAs(seen)
            }
        } ?? history.lastIndex
    }

    /// What starts that failed may have left of dead sessions.
    private func partlyEnded(_ state: ReferenceState) -> [ReferenceState] {
        var states = [state]
        for time in start.attempts {
            states = states.flatMap { state in
                (0...state.queueCount).map { count in
                    var next = state
                    next.endDeadSessions(time: time, atMost: count)
                    return next
                }
            }
        }
        return states
    }

    /// Why there is no such state.
    var explanation: String {
        func show(_ state: ReferenceState) -> String {
            state.namespaces.sorted { $0.key < $1.key }
                .map { "\($0.key): \($0.value.rules) \($0.value.root.json)" }.joined(separator: "; ")
        }
        var last = candidates.last ?? state
        last.endDeadSessions(time: start.time)
        let earlier = history.states.lastIndex { old in
            var old = old
            old.endDeadSessions(time: start.time)
            return old.isSeenAs(seen)
        }
        return
            "after the start (\(start.loss)) there is {\(show(seen))}, which is none of \(candidates.count) states allowed, "
            + "the last of which is {\(show(last))}"
            + (earlier.map {
                "; it is state \($0) of \(history.lastIndex), and \(history.floor(start.loss)) was promised"
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
