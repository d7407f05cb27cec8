/// How long requests may wait for others, in work: a bound that follows from the quantum of the server's
/// scheduler and from the number of sessions, and not from how much any of them has asked for.
///
/// A session may do work of one quantum in a round, and once one request more than that, which is charged to
/// its next rounds; so may a database. `n` requests of a session, each of work `w` at most, are done after so
/// many rounds of its database's sessions, in each of which every one of the others may have done that much:
///
///     rounds   = ⌈(w + n·w) / quantum⌉ + 1
///     database = 2 · sessions · ((rounds + 1) · quantum + w) + n·w
///     others   = 2 · (databases − 1) · ((⌈(database + w) / quantum⌉ + 2) · quantum + w)
///
/// Twice, since between two turns of a round a session that has just come has one. Before, a burst may be
/// done in the order of arrival.
struct FairnessBound {
    /// Nanoseconds of work, as all of these.
    let quantum: UInt64
    let burst: UInt64
    /// The most that one request takes.
    let heaviest: UInt64
    let databaseCount: UInt64

    /// - Parameters:
    ///   - requestCount: Requests of the session, this one included, that were not done when it came.
    ///   - sessionCount: Sessions of its database that may have had requests.
    func work(requestCount: Int, sessionCount: Int) -> UInt64 {
        func quanta(_ work: UInt64) -> UInt64 { (work + quantum - 1) / quantum }
        let own = UInt64(requestCount) * heaviest
        let rounds = quanta(heaviest + own) + 1
        let database = 2 * UInt64(sessionCount) * ((rounds + 1) * quantum + heaviest) + own
        let others = 2 * (databaseCount - 1) * ((quanta(database + heaviest) + 2) * quantum + heaviest)
        return burst + heaviest + database + others
    }
}

/// Knows how much work was done before each answer.
///
/// Each request is one piece of work, and answers come in the order in which requests were done. So the
/// number of answers tells how many requests had been done; ends of sessions are pieces without an answer,
/// counted again whenever nothing waits. What is found is never more than what was.
struct Turns {
    private struct Start {
        /// Pieces of work, and nanoseconds, before the turn.
        var count: Int
        var work: UInt64
        /// The look at the clock of work that ends its first piece.
        var firstLook: UInt64
    }

    /// Nanoseconds of the piece of work that a look ends.
    private let workOfPiece: (UInt64) -> UInt64
    private var starts: [Start] = []
    /// The turn in which what was answered last was done.
    private var current = 0
    /// Pieces before what was answered last, and nanoseconds.
    private var reached: (count: Int, work: UInt64) = (0, 0)
    private var answerCount = 0
    private var silentCount = 0
    /// Of what was allowed, the largest share that a request had to wait.
    private(set) var longestWaitPercent = 0

    init(workOfPiece: @escaping (UInt64) -> UInt64) { self.workOfPiece = workOfPiece }

    var count: Int { starts.count }

    /// Of a server that was started again.
    var emptied: Turns {
        var new = Turns(workOfPiece: workOfPiece)
        new.longestWaitPercent = longestWaitPercent
        return new
    }

    /// A turn of the database thread begins.
    /// - Parameters:
    ///   - pieceCount: Pieces of work before it, and `work` their nanoseconds.
    ///   - firstLook: The look at the clock of work that ends its first piece.
    mutating func begin(pieceCount: Int, work: UInt64, firstLook: UInt64, isNothingWaiting: Bool) {
        if starts.isEmpty { reached = (pieceCount, work) }
        starts.append(Start(count: pieceCount, work: work, firstLook: firstLook))
        if isNothingWaiting { silentCount = pieceCount - answerCount }
    }

    /// An answer has come.
    /// - Parameter bound: What its request may have waited.
    mutating func answer(_ taken: Checker.Taken?, within bound: UInt64) throws {
        goOn(to: answerCount + silentCount)
        answerCount += 1
        guard let taken, reached.work > taken.work else { return }
        let wait = reached.work - taken.work
        longestWaitPercent = max(longestWaitPercent, Int(wait * 100 / bound))
        guard wait <= bound else {
            throw BrokenPromise(
                description:
                    "it waited for \(wait / 1000) µs of work of others, \(bound / 1000) are allowed with "
                    + "\(taken.aheadCount) of its own and \(taken.flowCount) sessions")
        }
    }

    /// - Parameter count: Pieces that were done before one.
    private mutating func goOn(to count: Int) {
        while current + 1 < starts.count, starts[current + 1].count <= count {
            current += 1
            reached = (starts[current].count, starts[current].work)
        }
        guard current < starts.count else { return }
        while reached.count < count {
            reached.work += workOfPiece(
                starts[current].firstLook + UInt64(reached.count - starts[current].count))
            reached.count += 1
        }
    }
}
