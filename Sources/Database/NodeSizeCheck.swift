import PandoEngine
import PandoREST
import PandoReactor
import PandoTree

/// Finds the children that a query selects, whether that is more than may be sent, and its ETag. O(size),
/// with an index O(log n) for each child that is selected.
package struct NodeSizeCheckJob: Sendable {
    package var session: SessionID
    package var node: Node
    /// Nil for all of the node.
    package var query: IndexedQuery?
    /// Bytes that it may print to, about; nil for any number.
    package var byteLimit: Int?
    package var wantsETag: Bool
    package var results: Mailbox<NodeSizeCheck>

    package init(
        session: SessionID, node: Node, query: IndexedQuery?, byteLimit: Int?, wantsETag: Bool,
        results: Mailbox<NodeSizeCheck>
    ) {
        self.session = session
        self.node = node
        self.query = query
        self.byteLimit = byteLimit
        self.wantsETag = wantsETag
        self.results = results
    }
}

/// The result of a ``NodeSizeCheckJob``.
package struct NodeSizeCheck: Sendable {
    package var session: SessionID
    /// What the query selects; nil where there is none.
    package var filtered: Node?
    /// Where a limit has cut that.
    package var endOfPage: Window.PageEnd?
    package var isTooHeavy: Bool
    package var etag: String?
}

extension NodeSizeCheck {
    /// Does a ``NodeSizeCheckJob``; its parts are explained there. O(size).
    package init(
        of node: Node, _ query: IndexedQuery?, for session: SessionID, byteLimit: Int?, wantsETag: Bool
    ) {
        let window = query.flatMap { $0.query.aggregates.isEmpty ? Window($0, over: node) : nil }
        let filtered = window?.node ?? query.map { $0.result(over: node) }
        let selected = filtered ?? node
        let isTooHeavy = byteLimit.map { selected.isHeavier(than: $0) } ?? false
        self.init(
            session: session, filtered: filtered, endOfPage: window?.endOfPage, isTooHeavy: isTooHeavy,
            etag: wantsETag && !isTooHeavy ? selected.etag : nil)
    }
}
