import PandoEngine
import PandoStorage

/// The listens of a database's sessions that have ended and had many: they end a part at a time, in the order
/// of the ends of their sessions. All of them take the turns of one flow (``RequestBacklog``), however many
/// sessions end together.
struct EndingSessions {
    let database: StoredDatabase
    /// Nil where all have ended.
    private var waiting: [EndingListens?] = []
    /// Places at the front of ``waiting`` that are nil.
    private var endedCount = 0

    /// Places at the front that are kept before the rest moves there.
    private static let keptCount = 64

    init(of database: StoredDatabase) { self.database = database }

    var isEmpty: Bool { endedCount == waiting.count }

    /// Listens that have not ended. O(sessions); for tests.
    var listenCount: Int { waiting.reduce(0) { $0 + ($1?.count ?? 0) } }

    /// Adds the listens of a session. O(1).
    mutating func append(_ listens: EndingListens) { waiting.append(listens) }

    /// Ends listens until the work is done, or all have ended. What is pushed to the others meanwhile is
    /// dropped with the connection.
    /// - Parameter work: As of ``LiveTree/end(_:doing:)``; one listen may exceed it.
    /// - Returns: The listens of the sessions that have none any more: freeing them takes time, too.
    mutating func endSome(doing work: Int) -> [EndingListens] {
        var left = work
        var ended: [EndingListens] = []
        while left > 0, !isEmpty {
            // Out of the table while it is changed, so that it has one owner.
            guard var next = waiting[endedCount].take() else { break }
            database.engine.tree.end(&next, doing: &left)
            guard next.isEmpty else {
                waiting[endedCount] = next
                break
            }
            ended.append(next)
            endedCount += 1
        }
        if endedCount >= Self.keptCount, endedCount * 2 >= waiting.count {
            waiting.removeFirst(endedCount)
            endedCount = 0
        }
        return ended
    }
}
