import PandoBytes
import PandoRules
import PandoTree

/// The tree of a database, and what changes with it in the same step:
///
///     a write ──▶ root      the data; a copy is a snapshot
///             ──▶ hashes    of a few large locations: those that it makes wrong are forgotten
///             ──▶ indexes   of children by value
///             ──▶ listens   and the pushes that sessions get
///             ──▶ updater   the windows of filtered listens, and live aggregates
///
/// It asks no rules and resolves no server values: ``Engine`` decides what is written, and by whom.
///
/// It cannot be copied: a copy would retain every part of it for each question, and the next change would
/// copy the listens of all sessions. For a snapshot copy ``root``.
package struct LiveTree: ~Copyable, Sendable {
    /// The data. O(1) to copy.
    package internal(set) var root: Node
    var listens = ListenRegistry()
    var hashes = HashCache()
    let indexes = IndexCatalog()
    let updater: ViewUpdater
    /// A window that was made for the next listen.
    var preparedWindow: PreparedWindow?
    /// Large nodes that writes have removed.
    var replaced = ReplacedNodes()
    /// Never read: see ``PassedByAddress``.
    private let passing = PassedByAddress()

    init(root: Node) {
        self.root = root
        updater = ViewUpdater(indexes)
    }

    /// The rules have changed: which indexes they declare.
    func declareIndexes(of access: Access) { indexes.declare(IndexDeclarations(access)) }

    /// Removes and returns the large nodes that writes have taken out of the tree since the last call; nil
    /// for none. To free a million children takes a tenth of a second, which a caller may leave to another
    /// thread.
    package mutating func removeReplacedNodes() -> [Node]? { replaced.removeAll() }

    /// Removes and returns the pushes of views that were updated in later steps than that of a write, since
    /// the last call.
    package mutating func removeScanPushes() -> [Push] { updater.removePushes() }

    // MARK: Recovery

    /// Does a change that a journal or an import holds. There are no listeners yet, so there are no pushes.
    package mutating func restore(_ change: Change) {
        root.apply(change)
    }

    // MARK: Invariants

    /// Counts the nodes of the listener trie, the root included; for tests. Traps when any state is left that
    /// nothing needs, or an index is wrong. O(listens × depth + children of indexed locations).
    func checkInvariants() -> Int {
        indexes.checkInvariants(of: root)
        return listens.checkInvariants()
    }
}
