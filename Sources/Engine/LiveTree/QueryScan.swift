import PandoTree

// Queries of listens that are answered by visiting all children of a large location, where no index helps.
// Another thread does that, on a snapshot; meanwhile the listen goes on with what it has:
//
//     a live aggregate         its last value                     (`LiveAggregates.swift`)
//     a window with a limit    fewer children than its limit, after one has left it
//     a window that is behind  what it had before a write that had too many windows to update

/// A query that another thread answers by visiting the children of a snapshot.
package struct QueryScan: Sendable {
    let path: Path
    let query: Query
    /// Distinguishes it from an earlier one of the same listen.
    let number: Int
    /// A window over an earlier snapshot, and that snapshot: only what has changed since is to be done.
    private var base: (window: Window, node: Node)?
    /// What the recipients have been sent, of a window that is behind.
    private let sent: Window?
    private(set) var input: (query: IndexedQuery, node: Node)?
    private(set) var result: Result?

    enum Result: Sendable {
        case aggregate(Node)
        case window(Window)
        /// In place of one that is behind, with what is pushed; nil where the recipients have it.
        case replacement(Window, Push.Body?)
    }

    init(
        path: Path, query: Query, number: Int, base: (window: Window, node: Node)? = nil,
        replacing sent: Window? = nil
    ) {
        self.sent = sent
        self.path = path
        self.query = query
        self.number = number
        self.base = base
    }

    /// Whether it goes on from an earlier scan.
    var follows: Bool { base != nil }

    mutating func begin(over node: Node, by query: IndexedQuery) { input = (query, node) }

    /// O(n), or O(changes since the earlier snapshot × log window).
    mutating func perform() {
        guard let input else { return }
        guard query.aggregates.isEmpty else {
            result = .aggregate(input.query.result(over: input.node))
            return
        }
        let base = base.take()
        let followed = base.flatMap { $0.window.following($0.node, to: input.node) }
        let found = followed ?? Window(input.query, over: input.node)
        guard var sent else { return result = .window(found) }
        let body = sent.complete(from: found).isEmpty ? nil : Push.Body.overwrite(path, found.node)
        result = .replacement(found, body)
    }
}
