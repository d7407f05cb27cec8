import PandoBytes
import PandoRules
import PandoTree

/// The decision about one command: authorised, server values resolved, and not yet done. Nothing in it can turn
/// out differently when it is replayed.
package struct Delta: Sendable {
    package var session: SessionID
    package var kind: Kind
    /// Nil when the command expects no answer.
    package var result: CommandResult?

    package enum Kind: Sendable {
        /// Nothing changes: a read, a failed command, or a write of what is there already.
        case nothing
        /// The rules deny the operation, which is returned for an explanation.
        indirect case denied(Operation)
        /// One change: a put, a transaction whose comparison succeeded, or a priority. Alone it needs no array,
        /// and so no allocation. The commit reports a change that changed nothing (``Effects/isRedundant``).
        case put(Change)
        case write(base: Path, [Change])
        // Boxed, as in ``Operation``.
        indirect case listen(Listen)
        indirect case unlisten(Path, Query?, tag: Int64?)
        indirect case queue([Write], DisconnectQueue.Author)
        /// Removes queued writes at these paths and below. Never empty.
        case unqueue([Path])
        /// The session ends, and these changes of its queue are done.
        case endSession([Change])

        /// Moves the change of a put out, and leaves ``nothing``. Returns nil for any other kind, and changes
        /// nothing.
        mutating func extractPut() -> Change? {
            guard case .put = self, case .put(let change) = exchange(&self, with: .nothing) else {
                return nil
            }
            return change
        }
    }

    /// Whether the delta has to be in the journal before its effects may leave, unless they turn out redundant.
    /// - Parameter hadQueue: The session had onDisconnect writes queued before the delta was committed.
    package func isDurable(hadQueue: Bool) -> Bool {
        switch kind {
        case .nothing, .denied, .listen, .unlisten: false
        case .put, .write, .queue, .unqueue: true
        case .endSession: hadQueue
        }
    }
}

/// A location and its new value. A path that ends in `.priority` means only the node's priority.
package struct Change: Sendable, Equatable {
    package var path: Path
    package var node: Node

    package init(path: Path, node: Node) {
        self.path = path
        self.node = node
    }

    /// Moves both parts out, so that no reference is counted.
    fileprivate consuming func split() -> (Path, Node) {
        (exchange(&path, with: Path()), exchange(&node, with: .empty))
    }
}

extension Path {
    /// The last key of a path that names a priority (§5.1, §9.7). No real key begins with a dot.
    package static let priorityKey: Key = ".priority"

    /// Whether the path names a priority and not a node.
    package var namesPriority: Bool {
        ends(with: Self.priorityKey)
    }
}

extension Node {
    /// Does a change on this tree. O(depth × log n).
    package mutating func apply(_ change: consuming Change) {
        let (path, node) = change.split()
        if path.namesPriority { set(priority: Priority(node), at: path.parent) } else { set(node, at: path) }
    }

    /// Does a change on this tree, and finds out whether it changes anything. O(depth × log n).
    /// - Parameter replaced: Set to the previous value, if it differs.
    /// - Returns: false when the tree holds the value already; for a priority always true.
    mutating func update(with change: consuming Change, replaced: inout Node) -> Bool {
        let (path, node) = change.split()
        guard path.namesPriority else { return update(node, at: path, replaced: &replaced) }
        set(priority: Priority(node), at: path.parent)
        return true
    }

    /// Does a change that names no priority. O(depth × log n).
    /// - Returns: The previous value at the change's path.
    mutating func exchange(_ change: consuming Change) -> Node {
        let (path, node) = change.split()
        precondition(!path.namesPriority)
        return set(node, at: path)
    }

    /// The value at the path of a change, which may name a priority. O(depth × log n).
    package func value(at path: Path) -> Node {
        path.namesPriority ? self[path.parent].priority?.node ?? .empty : self[path]
    }
}
