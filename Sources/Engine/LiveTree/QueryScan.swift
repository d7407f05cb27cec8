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

extension IndexCatalog {
    /// Has a query answered by another thread, over the data as it is when the caller takes the work.
    /// - Parameters:
    ///   - base: A window over an earlier snapshot, and that snapshot.
    ///   - sent: What the recipients have been sent, of a window that is behind.
    /// - Returns: The scan's number.
    func addScan(
        of query: Query, at path: Path, following base: (window: Window, node: Node)? = nil,
        replacing sent: Window? = nil
    ) -> Int {
        lastScan += 1
        work.scans.append(
            QueryScan(path: path, query: query, number: lastScan, base: base, replacing: sent))
        return lastScan
    }
}

extension LiveTree {
    /// Whether the listen that a scan is for still waits for it. O(depth).
    func isAwaited(_ scan: QueryScan) -> Bool {
        guard let view = listens.table.view(of: scan.query, at: scan.path) else { return false }
        return view.scan == scan.number || view.aggregate?.scan == scan.number
    }

    /// Takes the result of a scan.
    mutating func finish(_ scan: QueryScan) {
        guard let view = listens.table.view(of: scan.query, at: scan.path) else { return }
        switch scan.result {
        case .aggregate(let value): finish(scan, value, of: view)
        case .window(let window): finish(scan, window, of: view)
        case .replacement(let window, let body): finish(scan, window, body, of: view)
        case nil: break
        }
    }

    private mutating func finish(
        _ scan: QueryScan, _ found: Window, _ body: Push.Body?, of view: ListenerTable.QueryView
    ) {
        guard view.scan == scan.number, let snapshot = scan.input?.node else { return }
        let node = root[scan.path]
        let body = body ?? (view.hasLateRecipients ? .overwrite(scan.path, found.node) : nil)
        var bodies = body.map { [$0] } ?? []
        if let differences = differences(from: snapshot, to: node) {
            view.scan = nil
            let further = view.catchUp(with: found, differences, over: node, at: scan.path, indexes)
            if let further { bodies.append(further) }
        } else {
            // However much is written, the recipients get what it was a scan before.
            view.window = found
            view.scan = indexes.addScan(
                of: scan.query, at: scan.path, following: (found, snapshot), replacing: found)
        }
        for body in bodies {
            scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
    }

    /// What has changed since a snapshot, over which a window was made; nil where that is more than one step
    /// may do.
    func differences(from snapshot: Node, to node: Node) -> [ChildChange]? {
        node.children.differences(from: snapshot.children, atMost: Self.differenceLimit)
    }

    private mutating func finish(_ scan: QueryScan, _ found: Window, of view: ListenerTable.QueryView) {
        guard view.scan == scan.number, let snapshot = scan.input?.node else { return }
        view.scan = nil
        // Children that came into the range meanwhile may have filled it.
        guard view.window.lacksChildren else { return }
        let node = root[scan.path]
        guard let differences = differences(from: snapshot, to: node) else {
            // Fewer will have changed when these are done: in the end few enough.
            view.scan = indexes.addScan(of: scan.query, at: scan.path, following: (found, snapshot))
            return
        }
        var window = found
        _ = window.update(
            differences, in: node, by: indexes.index(scan.query.order, at: scan.path),
            visitingAtMost: indexes.visitedChildCount)
        if let body = view.complete(from: window, at: scan.path, indexes) {
            scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
    }
}
