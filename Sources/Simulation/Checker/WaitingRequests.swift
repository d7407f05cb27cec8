/// Requests without an answer, where sessions take turns: per session, in the order in which it asked.
///
/// The answers show which session's turn it was; ``FairnessChecker`` checks that it was a fair one.
struct WaitingRequests {
    private struct Line {
        var namespace: String
        var entries: [PostedAction] = []
        /// Entries at the front that are gone.
        var goneCount = 0
        /// The session has ended, or ends with the server: reads that wait may be dropped.
        var isClosed = false
        /// When the database thread took the end of the session; nil before, and when the server ends all
        /// sessions.
        var closedTurn: Int?
        /// The server ends all sessions.
        var endsWithServer = false

        var left: ArraySlice<PostedAction> { entries[goneCount...] }

        mutating func drop(_ count: Int) {
            goneCount += count
            guard goneCount > 64, goneCount * 2 > entries.count else { return }
            entries.removeFirst(goneCount)
            goneCount = 0
        }
    }

    private var lines: [UInt64: Line] = [:]
    /// Sessions of the entries that no turn of the database thread has taken, in the order of arrival.
    private var arrived: [UInt64] = []
    private var arrivalCount = 0
    /// Sessions and REST requests that ever came.
    private var newcomerCount = 0
    /// Entries that are not gone.
    private(set) var count = 0
    /// The latest turn from which something is known to be done.
    private var latestTurn = 0
    private var latestArrival = 0

    private(set) var droppedReadCount = 0
    /// Answers that came before that of an earlier request.
    private(set) var overtakenCount = 0

    /// Of a server that was started again; what was counted is kept.
    var emptied: WaitingRequests {
        var new = WaitingRequests()
        (new.droppedReadCount, new.overtakenCount) = (droppedReadCount, overtakenCount)
        return new
    }

    /// Nothing waits but what has just arrived.
    var hasOnlyArrivals: Bool { count == arrived.count }

    /// The namespace of a session that has requests without an answer.
    func namespace(of session: UInt64) -> String? { lines[session]?.namespace }

    /// How many entries of a session have no answer.
    func count(of session: UInt64) -> Int { lines[session]?.left.count ?? 0 }

    /// Sessions that have ended, and of which more than that waits.
    var closingCount: Int { lines.values.count { $0.isClosed && $0.left.count > 1 } }

    /// Entries that must be answered.
    var owedCount: Int {
        lines.values.reduce(0) { sum, line in sum + line.left.count { self.line(line, owes: $0) } }
    }

    /// Entries that must be answered, for people.
    var owedDescription: String {
        lines.sorted { $0.key < $1.key }.map(\.value).flatMap { line in
            line.left.filter { self.line(line, owes: $0) }
        }
        .map { "\($0.session & 0xFFFF), number \($0.number ?? 0), \($0.action)" }.joined(separator: "; ")
    }

    private func line(_ line: Line, owes entry: PostedAction) -> Bool {
        !entry.isClose && !(line.isClosed && entry.action.isRead)
    }

    // MARK: Requests

    mutating func append(_ entry: PostedAction, endsWithServer: Bool = false) {
        if entry.number == nil, !entry.isClose { newcomerCount += 1 }
        var entry = entry
        entry.arrival = arrivalCount
        arrivalCount += 1
        count += 1
        lines[entry.session, default: Line(namespace: entry.namespace)].entries.append(entry)
        if entry.isClose {
            lines[entry.session]?.isClosed = true
            lines[entry.session]?.endsWithServer = endsWithServer
        }
        arrived.append(entry.session)
    }

    /// The database thread takes what has arrived.
    /// - Parameter flows: Sessions of each namespace that are open.
    mutating func take(
        inTurn turn: Int, at work: UInt64, time: Int64, acknowledgedIndex: Int, openSessions: [UInt64: String]
    ) {
        guard !arrived.isEmpty else { return }
        var flowCounts: [String: Int] = [:]
        for name in openSessions.values { flowCounts[name, default: 0] += 1 }
        for (session, line) in lines where openSessions[session] == nil && !line.left.isEmpty {
            flowCounts[line.namespace, default: 0] += 1
        }
        var counts: [UInt64: Int] = [:]
        for session in arrived { counts[session, default: 0] += 1 }
        for (session, count) in counts {
            guard var line = lines[session] else { continue }
            lines[session] = nil
            for index in line.entries.count - count..<line.entries.count {
                line.entries[index].time = time
                line.entries[index].acknowledgedIndex = acknowledgedIndex
                // One more for its identity, which is a message of its own.
                line.entries[index].taken = PostedAction.Taken(
                    turn: turn, work: work, aheadCount: index - line.goneCount + 2,
                    flowCount: flowCounts[line.namespace] ?? 1, newcomerCount: newcomerCount)
                if line.entries[index].isClose, !line.endsWithServer { line.closedTurn = turn }
            }
            lines[session] = line
        }
        arrived.removeAll(keepingCapacity: true)
    }

    /// Newcomers since an entry was taken.
    func newcomerCount(since taken: PostedAction.Taken) -> Int { newcomerCount - taken.newcomerCount }

    // MARK: Answers

    /// The request that an answer to a session is for, unless it comes out of turn.
    func next(of session: UInt64, number: Int?) -> PostedAction? {
        offset(of: number, in: session).flatMap { lines[session]?.left.dropFirst($0).first }
    }

    /// Entries of a session before the one of that number: none, but for reads that were dropped.
    private func offset(of number: Int?, in session: UInt64) -> Int? {
        guard let line = lines[session] else { return nil }
        for (offset, entry) in line.left.enumerated() {
            if entry.isClose { return nil }
            if entry.number == number { return offset }
            guard line.isClosed, entry.action.isRead else { return nil }
        }
        return nil
    }

    /// An answer has come.
    mutating func answer(_ session: UInt64, _ number: Int?) throws -> PostedAction {
        guard let offset = offset(of: number, in: session), let line = lines[session],
            let entry = line.left.dropFirst(offset).first
        else {
            let next = lines[session]?.left.first.map { "\($0.number ?? 0), \($0.action)" } ?? "nothing"
            throw BrokenPromise(
                description:
                    "an answer to \(session & 0xFFFF), number \(number ?? 0), out of its order: \(next) is next"
            )
        }
        if entry.action.isRead, let closedTurn = line.closedTurn, closedTurn < latestTurn {
            throw BrokenPromise(
                description:
                    "\(session & 0xFFFF) ended in turn \(closedTurn), and its read \(number ?? 0) is done after a "
                    + "request of turn \(latestTurn)")
        }
        droppedReadCount += offset
        lines[session]?.drop(offset + 1)
        count -= offset + 1
        if lines[session]?.left.isEmpty == true { lines[session] = nil }
        if let turn = entry.taken?.turn { latestTurn = max(latestTurn, turn) }
        if entry.arrival < latestArrival { overtakenCount += 1 }
        latestArrival = max(latestArrival, entry.arrival)
        return entry
    }

    // MARK: Ends

    /// Ends of sessions of which nothing else is owed any more, in the order of sessions.
    /// - Parameters:
    ///   - withServer: Those of sessions that end with the server.
    ///   - isMeant: Only these.
    func ends(withServer: Bool = false, where isMeant: (PostedAction) -> Bool = { _ in true })
        -> [PostedAction]
    {
        lines.values.compactMap { line in
            guard line.isClosed, line.endsWithServer == withServer, let last = line.left.last, last.isClose,
                isMeant(last),
                line.left.allSatisfy({ !self.line(line, owes: $0) })
            else { return nil }
            return last
        }.sorted { $0.session < $1.session }
    }

    /// Forgets ends that no client can see, of sessions of which nothing else waits.
    mutating func forgetEnds(where isUnseen: (PostedAction) -> Bool) {
        for end in ends(where: isUnseen) where lines[end.session]?.left.count == 1 { finish(end) }
    }

    /// The server stops: reads that wait may be dropped, also over REST.
    mutating func endReads() {
        for session in lines.keys where lines[session]?.isClosed == false {
            lines[session]?.isClosed = true
            lines[session]?.endsWithServer = true
        }
    }

    /// The server has stopped: forgets reads that were dropped, over REST.
    mutating func dropReads() {
        for (session, line) in lines where line.isClosed && line.left.last?.action.isRead == true {
            lines[session] = nil
            count -= line.left.count
            droppedReadCount += line.left.count
        }
    }

    /// The end of a session has been done.
    mutating func finish(_ end: PostedAction) {
        guard let line = lines.removeValue(forKey: end.session) else { return }
        count -= line.left.count
        droppedReadCount += line.left.count - 1
    }
}
