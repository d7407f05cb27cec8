import PandoTree

// Queries of listens that are answered by visiting all children of a large location, where no index helps.
// Another thread does that, on a snapshot; meanwhile the listen goes on with what it has:
//
//     a live aggregate         its last value                     (`LiveAggregates.swift`)
//     a window with a limit    fewer children than its limit, after one has left it
//     a stale window           what it had before a write that had too many windows to update

/// Queries at one location that another thread answers by visiting the children of a snapshot. A write may
/// leave many windows of a location to other threads at once: some of them are answered together.
package struct QueryScan: Sendable {
    let path: Path
    /// The location's data when the scan began.
    let node: Node
    private(set) var parts: [Part]
    /// Parts whose results were taken: the first ones.
    var finishedCount = 0

    /// What is done for one view.
    struct Part: Sendable {
        let query: IndexedQuery
        /// Distinguishes it from an earlier one of the same view.
        let number: Int
        /// A window over an earlier snapshot, and that snapshot: only what has changed since is to be done.
        fileprivate var base: (window: Window, node: Node)?
        /// What the recipients have been sent, of a window that awaits its replacement.
        fileprivate let sent: Window?
        fileprivate(set) var result: Result?
    }

    enum Result: Sendable {
        case aggregate(Node)
        case window(Window)
        /// In place of a stale one, with what is pushed; nil where the recipients have it.
        case replacement(Window, Push.Body?)
    }

    init(at path: Path, over node: Node) {
        self.path = path
        self.node = node
        parts = []
    }

    /// Adds a view whose scan is under way.
    /// - Parameter query: Its query, with its index.
    mutating func add(_ view: QueryView, _ query: IndexedQuery) {
        guard case .underWay(let number)? = view.scan else { preconditionFailure("no scan is under way") }
        parts.append(
            Part(
                query: query, number: number, base: view.scanBase.take(),
                sent: view.awaitsReplacement ? view.window : nil))
    }

    /// O(n) for each view, or O(changes since the earlier snapshot × log window).
    mutating func perform() {
        for index in parts.indices { parts[index].perform(over: node, at: path) }
    }
}

extension QueryScan.Part {
    fileprivate mutating func perform(over node: Node, at path: Path) {
        guard query.query.aggregates.isEmpty else {
            result = .aggregate(query.result(over: node))
            return
        }
        let base = base.take()
        let followed = base.flatMap { $0.window.following($0.node, to: node) }
        let found = followed ?? Window(query, over: node)
        guard var sent else { return result = .window(found) }
        let body = sent.complete(from: found).isEmpty ? nil : Push.Body.overwrite(path, found.node)
        result = .replacement(found, body)
    }
}
