/// The checker of fairness: how much work of others was done before each answer.
///
/// Each request is one piece of work, and answers come in the order in which requests were done. So the
/// number of answers tells how many requests had been done; ends of sessions are pieces without an answer,
/// counted again whenever nothing waits. What is found is never more than what was.
struct FairnessChecker {
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
    /// Pieces without an answer.
    private var unansweredCount = 0
    /// Of what was allowed, the largest share that a request had to wait.
    private(set) var longestWaitPercent = 0

    init(workOfPiece: @escaping (UInt64) -> UInt64) { self.workOfPiece = workOfPiece }

    var count: Int { starts.count }

    /// Of a server that was started again.
    var emptied: FairnessChecker {
        var new = FairnessChecker(workOfPiece: workOfPiece)
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
        if isNothingWaiting { unansweredCount = pieceCount - answerCount }
    }

    /// An answer has come.
    /// - Parameter bound: What its request may have waited.
    mutating func answer(_ taken: PostedAction.Taken?, within bound: UInt64) throws {
        advance(to: answerCount + unansweredCount)
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
    private mutating func advance(to count: Int) {
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
