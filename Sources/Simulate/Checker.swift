/// Somebody was promised something else.
struct BrokenPromise: Error, CustomStringConvertible {
    var description: String
}

/// Holds what clients are let see against the reference.
///
/// The server lets outputs out in the order of its decisions. So the stream of outputs alone tells how far it
/// has got, and at each answer every listener must hold exactly what the reference then does: one order for
/// all, all or nothing, nothing twice. As long as bursts are small it decides commands in the order in which
/// they came, of all sessions; where they are not (``bound``), in the order of each session.
struct Checker {
    struct Posted {
        var session: UInt64
        /// Nil where an answer carries none: opening, closing, REST.
        var number: Int?
        var person: Person
        var namespace: String
        var action: Action
        /// When the database thread took it.
        var time: Int64?
        /// What was acknowledged then.
        var acknowledgedIndex = 0
        /// Where sessions take turns: its place among all, and when it was taken.
        var arrival = 0
        var taken: Taken?

        var isClose: Bool { if case .close = action { true } else { false } }
    }

    /// The disk may be full: any write may be refused, and ends of sessions may wait.
    let mayBeFull: Bool
    /// Turns may end with messages not taken: then nobody knows the time of a command.
    let isTimeKnown: Bool
    /// Sessions take turns, and wait no longer than this; nil where commands are decided in the order of
    /// arrival.
    let bound: FairnessBound?

    var state = ReferenceState()
    /// Every state there was, up to ``state``.
    var history = [ReferenceState()]
    /// Commands whose answers are not there yet, in the order in which they were given.
    var posted: [Posted] = []
    /// The same, where sessions take turns.
    var waiting = Waiting()
    var turns: Turns
    /// Outputs are heard by clients, and not only found in a server that has died.
    var isDelivered = true
    /// The last state of which anybody knows.
    var heardIndex = 0
    /// Sessions that are gone and whose ends have not been seen.
    var endings: [Posted] = []
    var clients: [UInt64: Client] = [:]
    /// The latest time that the server can have stamped.
    var clock: Int64 = 0
    /// What a session heard when it was opened.
    var handshakeTime: Int64?
    private(set) var answerCount = 0
    private(set) var roomRefusalCount = 0

    /// Each with the moment at which somebody knew of it.
    var acknowledgements: [(index: Int, milliseconds: Int64)] = []
    /// Everything up to here survives a power cut, in the mode `interval`.
    var syncedIndex = 0
    /// Records that vouch for what was durable when they were written: by their places in ``history``. As
    /// long as one is there, what it vouches for survives one flipped bit.
    var vouchers: [(index: Int, for: Int)] = []
    /// Where this life of the server began.
    var startIndex = 0

    /// - Parameter workOfPiece: Nanoseconds of the piece of work that a look at its clock ends.
    init(mayBeFull: Bool, isTimeKnown: Bool, bound: FairnessBound?, workOfPiece: @escaping (UInt64) -> UInt64)
    {
        self.bound = bound
        turns = Turns(workOfPiece: workOfPiece)
        self.mayBeFull = mayBeFull
        self.isTimeKnown = isTimeKnown
    }

    var lastIndex: Int { history.count - 1 }
    /// Everything up to here survives one flipped bit.
    var markedIndex: Int { vouchers.last?.for ?? 0 }
    var unansweredCount: Int { bound == nil ? posted.count { !$0.isClose } : waiting.owedCount }
    var hasOpenEnds: Bool { !posted.isEmpty || !endings.isEmpty || waiting.count > 0 }

    // MARK: What clients do

    mutating func open(_ client: Client) {
        clients[client.session] = client
        post(client.session, nil, client.person, client.namespace, .open(client.person))
    }

    /// - Returns: The number of the request.
    mutating func ask(_ action: Action, of session: UInt64) -> Int {
        guard let client = clients[session] else { return 0 }
        switch action {
        case .listen(let path, let query, let tag): clients[session]?.ask(path, query, tag)
        case .unlisten(let path, _, let tag): clients[session]?.forget(path, tag)
        default: break
        }
        clients[session]?.nextRequest += 1
        post(session, client.nextRequest, client.person, client.namespace, action)
        return client.nextRequest
    }

    mutating func askOverREST(_ action: Action, _ session: UInt64, _ person: Person, _ namespace: String) {
        post(session, nil, person, namespace, action)
    }

    mutating func close(_ session: UInt64) {
        guard let client = clients.removeValue(forKey: session) else { return }
        post(session, nil, client.person, client.namespace, .close)
    }

    /// The server ends all sessions.
    mutating func closeAll() {
        guard bound != nil else {
            for session in clients.keys.sorted() { close(session) }
            return
        }
        // What waits is done first, and they hear of it.
        for (session, client) in clients.sorted(by: { $0.key < $1.key }) {
            waiting.append(
                Posted(
                    session: session, number: nil, person: client.person, namespace: client.namespace,
                    action: .close),
                endsWithServer: true)
        }
        waiting.endReads()
    }

    /// The server has ended a session.
    mutating func closed(_ session: UInt64) {
        if bound != nil { clients[session] = nil }
    }

    private mutating func post(
        _ session: UInt64, _ number: Int?, _ person: Person, _ namespace: String, _ action: Action
    ) {
        let entry = Posted(
            session: session, number: number, person: person, namespace: namespace, action: action)
        if bound == nil { posted.append(entry) } else { waiting.append(entry) }
    }

    // MARK: What the server does

    /// The database thread takes all there is.
    /// - Parameters:
    ///   - pieceCount: Pieces of work that it has done, commands and others.
    ///   - work: Nanoseconds that they took.
    ///   - firstLook: The look at the clock of work that ends the turn's first piece.
    mutating func databaseTurn(wall: Int64, pieceCount: Int, work: UInt64, firstLook: UInt64) {
        if bound != nil {
            clock = max(clock, wall)
            let state = state
            waiting.forgetEnds { !state.hasQueue($0) }
            turns.begin(
                pieceCount: pieceCount, work: work, firstLook: firstLook,
                isNothingWaiting: waiting.hasOnlyArrivals)
            return waiting.take(
                inTurn: turns.count, at: work, time: clock, acknowledgedIndex: heardIndex,
                openSessions: clients.mapValues(\.namespace))
        }
        guard posted.contains(where: { $0.time == nil }) else { return }
        clock = max(clock, wall)
        for index in posted.indices where posted[index].time == nil {
            posted[index].time = clock
            posted[index].acknowledgedIndex = lastIndex
        }
    }

    /// The journal thread has had a turn, at a moment of the monotonic clock.
    mutating func journalTurn(at milliseconds: Int64) {
        let cut = milliseconds - 100
        while let first = acknowledgements.first, first.milliseconds <= cut {
            syncedIndex = max(syncedIndex, first.index)
            acknowledgements.removeFirst()
        }
    }

    /// A message of the realtime protocol has come.
    mutating func hear(_ message: [UInt8], in session: UInt64, at milliseconds: Int64) throws {
        let value: Value
        do throws(NoJSON) { value = try Value(json: message) } catch {
            throw BrokenPromise(description: "no JSON: \(String(decoding: message, as: UTF8.self))")
        }
        let content = value["d"]
        if value["t"].text == "c" {
            guard content["t"].text == "h", let time = content["d"]["ts"].number else {
                throw BrokenPromise(description: "unexpected control message \(value.json)")
            }
            handshakeTime = Int64(time)
            return try settle(session, nil, at: milliseconds) { [isTimeKnown] entry, _ in
                isTimeKnown && entry.time != Int64(time)
                    ? "the handshake says \(Int64(time)), it is \(entry.time ?? 0)" : nil
            }
        }
        if let number = content["r"].number {
            return try answer(session, Int(number), content["b"], at: milliseconds)
        }
        let body = content["b"]
        guard clients[session] != nil, let path = body["p"].text.map(Self.keys) else { return }
        switch content["a"].text {
        case "d": clients[session]?.receive([(path, body["d"].pruned)], tag: body["t"].number.map { Int($0) })
        case "m":
            let entries = body["d"].members.map { (path: path + Self.keys($0.key), value: $0.value.pruned) }
            clients[session]?.receive(entries, tag: body["t"].number.map { Int($0) })
        case "c": clients[session]?.revoke(path, isFiltered: body["q"] != .nothing)
        default: throw BrokenPromise(description: "unexpected push \(value.json)")
        }
    }

    private static func keys(_ path: String) -> [String] {
        path.split(separator: "/").map(String.init)
    }

    private mutating func answer(_ session: UInt64, _ number: Int, _ body: Value, at milliseconds: Int64)
        throws
    {
        let status = body["s"].text ?? "?"
        let isFull = status == "unavailable"
        let next = bound == nil ? posted.first { !$0.isClose } : waiting.next(of: session, number: number)
        if let next, next.session == session {
            switch next.action {
            case .listen(let path, _, let tag):
                clients[session]?.answered(number, path, tag, isOn: status == "ok")
            case .unlisten: clients[session]?.forgetWhatIsAsked()
            default: break
            }
        }
        try settle(session, number, isRefusedForRoom: isFull, at: milliseconds) { _, expected in
            let isRight =
                switch expected {
                case .ok, .none: status == "ok"
                case .data(let value): status == "ok" && body["d"].pruned == value
                case .denied: status == "permission_denied"
                case .stale: status == "datastale"
                case .diskFull: isFull
                }
            return isRight ? nil : "answered \(body.json), expected \(expected)"
        }
    }

    enum RESTResponse {
        case data(Value), ok, denied, stale, diskFull
        case failed(String)
    }

    mutating func hearREST(_ answer: RESTResponse, in session: UInt64, at milliseconds: Int64) throws {
        let isFull = if case .diskFull = answer { true } else { false }
        try settle(session, nil, isRefusedForRoom: isFull, at: milliseconds) { _, expected in
            let isRight =
                switch (expected, answer) {
                case (.data(let value), .data(let got)): value == got.pruned
                case (.ok, .ok), (.ok, .data), (.denied, .denied), (.stale, .stale), (.diskFull, .diskFull):
                    true
                default: false
                }
            return isRight ? nil : "answered \(answer), expected \(expected)"
        }
    }

    // MARK: Holding it against the reference

    /// An answer has come: everything up to its command has been done, and nothing behind it.
    private mutating func settle(
        _ session: UInt64, _ number: Int?, isRefusedForRoom: Bool = false, at milliseconds: Int64,
        _ contradiction: (Posted, Outcome) -> String?
    ) throws {
        answerCount += 1
        if bound != nil {
            return try settleInTurn(
                session, number, isRefusedForRoom: isRefusedForRoom, at: milliseconds, contradiction)
        }
        while let first = posted.first, first.isClose { endings.append(posted.removeFirst()) }
        guard let entry = posted.first, entry.session == session, entry.number == number else {
            throw BrokenPromise(
                description:
                    "an answer to \(session) number \(number ?? 0) out of turn; \(posted.first.map { "\($0)" } ?? "none") is next"
            )
        }
        guard !isRefusedForRoom || mayBeFull else {
            throw BrokenPromise(description: "refused for want of room")
        }
        if isRefusedForRoom { roomRefusalCount += 1 }
        posted.removeFirst()
        var why = ""
        for count in endingCounts {
            var (next, changed) = (state, [ReferenceState]())
            run(endings.prefix(count), on: &next, &changed)
            let ended = next
            var outcome = Outcome.diskFull
            if !isRefusedForRoom {
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
            if hasRecord, entry.acknowledgedIndex > markedIndex {
                vouchers.append((lastIndex, entry.acknowledgedIndex))
            }
            return
        }
        throw BrokenPromise(description: "\(entry.session) in \(entry.namespace), \(entry.action): \(why)")
    }

    /// All that was let out has been heard: what has no answer may have been seen.
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
        throw BrokenPromise(description: "nobody asked for this: \(problem)")
    }

    /// How many of the ended sessions may have had their end.
    private var endingCounts: [Int] {
        mayBeFull ? Array((0...endings.count).reversed()) : [endings.count]
    }

    func run(
        _ ends: some Collection<Posted>, on state: inout ReferenceState, _ changed: inout [ReferenceState]
    ) {
        for end in ends {
            _ = state.apply(.close, end.session, end.person, in: end.namespace, time: end.time ?? clock)
            changed.append(state)
        }
    }

    mutating func accept(_ next: ReferenceState, _ changed: [ReferenceState], at milliseconds: Int64) {
        for new in changed where new != history[lastIndex] { history.append(new) }
        state = next
        guard isDelivered else { return }
        heardIndex = lastIndex
        if acknowledgements.last?.index != lastIndex { acknowledgements.append((lastIndex, milliseconds)) }
    }

    mutating func contradiction(of state: ReferenceState) -> String? {
        for session in clients.keys.sorted() {
            guard let client = clients[session] else { continue }
            let space = state.namespaces[client.namespace] ?? .init()
            for path in client.revoked where space.rules.allowsRead(path, client.person) {
                return "\(session) was told that it may not read \(path)"
            }
            if let problem = client.contradiction(of: space) {
                return "\(session) in \(client.namespace) \(problem)"
            }
        }
        for session in clients.keys where clients[session]?.revoked.isEmpty == false {
            clients[session]?.revoked = []
        }
        guard bound != nil else { return nil }
        for session in clients.keys {
            guard let namespace = clients[session]?.namespace, let space = state.namespaces[namespace] else {
                continue
            }
            clients[session]?.share(space)
        }
        return nil
    }
}
