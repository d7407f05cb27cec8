/// Compares what the databases release with the reference.
///
/// The databases release outputs in the order of their decisions. So the sequence of outputs alone shows how
/// far they have got, and at each answer every listener must hold exactly what the reference then does: one
/// order for all, all or nothing, nothing twice. As long as bursts are small they decide commands in the
/// order in which they came, of all sessions; where they are not (``bound``), in the order of each session.
///
/// That clients decode from their bytes just what was released is checked by ``DeliveryChecker``; what must
/// be there after a crash, by ``StateHistory``.
struct Checker {
    /// The disk may be full: any write may be refused, and ends of sessions may wait.
    let mayBeFull: Bool
    /// It is known when a command was stamped: turns do not end with messages that were not taken.
    let isTimeKnown: Bool
    /// Sessions take turns, and wait no longer than this; nil where commands are decided in the order of
    /// arrival.
    let bound: FairnessBound?

    var state = ReferenceState()
    var history = StateHistory()
    var deliveries = DeliveryChecker()
    /// Commands whose answers are not there yet, in the order in which the databases got them.
    var posted: [PostedAction] = []
    /// The same, where sessions take turns.
    var waiting = WaitingRequests()
    var fairness: FairnessChecker
    /// Outputs are released to clients, and not only found in a server that has died.
    var isDelivered = true
    /// Sessions that are gone and whose ends have not been seen.
    var endings: [PostedAction] = []
    var replicas: [UInt64: Replica] = [:]
    /// The latest time that the server can have stamped.
    var clock: Int64 = 0
    private(set) var answerCount = 0
    private(set) var fullDiskRefusalCount = 0

    /// - Parameter workOfPiece: Nanoseconds of the piece of work that a look at its clock ends.
    init(mayBeFull: Bool, isTimeKnown: Bool, bound: FairnessBound?, workOfPiece: @escaping (UInt64) -> UInt64)
    {
        self.bound = bound
        fairness = FairnessChecker(workOfPiece: workOfPiece)
        self.mayBeFull = mayBeFull
        self.isTimeKnown = isTimeKnown
    }

    var unansweredCount: Int { bound == nil ? posted.count { !$0.isClose } : waiting.owedCount }
    var hasOpenEnds: Bool { !posted.isEmpty || !endings.isEmpty || waiting.count > 0 }

    // MARK: What the databases get

    /// A realtime session begins.
    mutating func open(_ replica: Replica) {
        replicas[replica.session] = replica
        post(replica.session, nil, replica.person, replica.namespace, .open)
    }

    /// A request.
    /// - Parameter number: Nil for REST.
    mutating func ask(
        _ action: ClientAction, number: Int?, of session: UInt64, _ person: Person, _ namespace: String
    ) {
        switch action {
        case .listen(let path, let query, let tag):
            replicas[session]?.ask(path, query, tag, request: number ?? 0)
        case .unlisten(let path, _, let tag): replicas[session]?.forget(path, tag)
        case .stream(let path):
            var replica = Replica(session: session, namespace: namespace, person: person)
            replica.ask(path, nil, nil, request: 0)
            replicas[session] = replica
        default: break
        }
        post(session, number, person, namespace, action)
    }

    /// A connection is gone.
    mutating func close(_ session: UInt64) {
        if let replica = replicas.removeValue(forKey: session) {
            post(session, nil, replica.person, replica.namespace, .close)
        } else if bound != nil, let namespace = waiting.namespace(of: session) {
            // Of a REST connection: its reads may be dropped.
            post(session, nil, .anonymous, namespace, .close)
        }
    }

    /// The server ends all sessions.
    mutating func closeAll() {
        guard bound != nil else {
            for session in replicas.keys.sorted() { close(session) }
            return
        }
        // What waits is done first, and answered.
        for (session, replica) in replicas.sorted(by: { $0.key < $1.key }) {
            waiting.append(
                PostedAction(
                    session: session, number: nil, person: replica.person, namespace: replica.namespace,
                    action: .close),
                endsWithServer: true)
        }
        waiting.endReads()
    }

    /// The server has ended a session.
    mutating func closed(_ session: UInt64) {
        if bound != nil { replicas[session] = nil }
    }

    private mutating func post(
        _ session: UInt64, _ number: Int?, _ person: Person, _ namespace: String, _ action: ClientAction
    ) {
        let entry = PostedAction(
            session: session, number: number, person: person, namespace: namespace, action: action)
        if bound == nil { posted.append(entry) } else { waiting.append(entry) }
    }

    // MARK: What the server does

    /// The databases have taken all there was.
    /// - Parameters:
    ///   - pieceCount: Pieces of work that it has done, commands and others.
    ///   - work: Nanoseconds that they took.
    ///   - firstLook: The look at the clock of work that ends the turn's first piece.
    mutating func databaseTurn(wall: Int64, pieceCount: Int, work: UInt64, firstLook: UInt64) {
        if bound != nil {
            clock = max(clock, wall)
            let state = state
            waiting.forgetEnds { !state.hasQueue($0) }
            fairness.begin(
                pieceCount: pieceCount, work: work, firstLook: firstLook,
                isNothingWaiting: waiting.hasOnlyArrivals)
            return waiting.take(
                inTurn: fairness.count, at: work, time: clock, acknowledgedIndex: history.releasedIndex,
                openSessions: replicas.mapValues(\.namespace))
        }
        clock = max(clock, wall)
        for index in posted.indices where posted[index].time == nil {
            posted[index].time = clock
            posted[index].acknowledgedIndex = history.lastIndex
        }
    }

    // MARK: Comparing with the reference

    /// An answer has come: everything up to its command has been done, and nothing behind it.
    mutating func settle(
        _ session: UInt64, _ number: Int?, key: String? = nil, isRefusedForSpace: Bool = false,
        at milliseconds: Int64, _ contradiction: (PostedAction, Outcome) -> String?
    ) throws {
        answerCount += 1
        if bound != nil {
            return try settleInTurn(
                session, number, key: key, isRefusedForSpace: isRefusedForSpace, at: milliseconds,
                contradiction)
        }
        while let first = posted.first, first.isClose { endings.append(posted.removeFirst()) }
        guard var entry = posted.first, entry.session == session, entry.number == number else {
            throw BrokenPromise(
                description:
                    "an answer to \(session) number \(number ?? 0) out of turn; \(posted.first.map { "\($0)" } ?? "none") is next"
            )
        }
        guard !isRefusedForSpace || mayBeFull else {
            throw BrokenPromise(description: "refused for want of space")
        }
        if isRefusedForSpace { fullDiskRefusalCount += 1 }
        posted.removeFirst()
        entry.action.setKey(key)
        var why = ""
        for count in endingCounts {
            var (next, changed) = (state, [ReferenceState]())
            run(endings.prefix(count), on: &next, &changed)
            let ended = next
            var outcome = Outcome.diskFull
            if !isRefusedForSpace {
                outcome = next.apply(
                    entry.action, session, entry.person, in: entry.namespace, time: entry.time ?? clock)
                changed.append(next)
            }
            if let problem = contradiction(entry, outcome) ?? self.contradiction(of: next) {
                if why.isEmpty { why = problem }
                continue
            }
            // Ends of sessions may have been written long before this answer, and then vouch for less.
            let hasRecord = next != ended
            endings.removeFirst(count)
            accept(next, changed, at: milliseconds)
            if hasRecord { history.vouch(for: entry.acknowledgedIndex) }
            return
        }
        throw BrokenPromise(description: "\(entry.session) in \(entry.namespace), \(entry.action): \(why)")
    }

    /// Everything that was released is known: what has no answer may show.
    mutating func settleRest(at milliseconds: Int64) throws {
        if bound != nil { return try settleRestInTurn(at: milliseconds) }
        guard let problem = contradiction(of: state) else { return }
        var (next, changed) = (state, [ReferenceState]())
        // Of those behind the next answer nothing can be known.
        let closes = endings + posted.prefix { $0.isClose }
        for (index, ending) in closes.enumerated() {
            run([ending], on: &next, &changed)
            guard contradiction(of: next) == nil else { continue }
            let newCount = max(0, index + 1 - endings.count)
            endings += posted.prefix(newCount)
            posted.removeFirst(newCount)
            endings.removeFirst(index + 1)
            return accept(next, changed, at: milliseconds)
        }
        throw BrokenPromise(description: "no client asked for this: \(problem)")
    }

    /// How many of the ended sessions may have had their end.
    private var endingCounts: [Int] {
        mayBeFull ? Array((0...endings.count).reversed()) : [endings.count]
    }

    func run(
        _ ends: some Collection<PostedAction>, on state: inout ReferenceState,
        _ changed: inout [ReferenceState]
    ) {
        for end in ends {
            _ = state.apply(.close, end.session, end.person, in: end.namespace, time: end.time ?? clock)
            changed.append(state)
        }
    }

    mutating func accept(_ next: ReferenceState, _ changed: [ReferenceState], at milliseconds: Int64) {
        for new in changed { history.append(new) }
        state = next
        if isDelivered { history.released(at: milliseconds) }
    }

    /// What a replica holds and the state does not say; nil where all are equal.
    mutating func contradiction(of state: ReferenceState) -> String? {
        for session in replicas.keys.sorted() {
            guard let replica = replicas[session], !replica.isLagging else { continue }
            let space = state.namespaces[replica.namespace] ?? .init()
            for path in replica.revoked where space.rules.allowsRead(path, replica.person) {
                return "session \(session & 0xFFFF) lost a listen at \(path), which it may read"
            }
            if let problem = replica.contradiction(of: space) {
                return "session \(session & 0xFFFF) in \(replica.namespace) \(problem)"
            }
        }
        for session in replicas.keys where replicas[session]?.revoked.isEmpty == false {
            replicas[session]?.revoked = []
        }
        guard bound != nil else { return nil }
        for session in replicas.keys where replicas[session]?.isLagging == false {
            guard let namespace = replicas[session]?.namespace, let space = state.namespaces[namespace] else {
                continue
            }
            replicas[session]?.share(space)
        }
        return nil
    }
}

extension ClientAction {
    /// The server has said the key of the new child of a POST.
    mutating func setKey(_ key: String?) {
        if let key, case .restPost(let path, let value, _) = self { self = .restPost(path, value, key: key) }
    }
}
