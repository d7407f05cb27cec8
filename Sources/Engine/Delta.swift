import PandoBytes
import PandoRules
import PandoTree

/// What a command comes to, decided but not done: resolved, authorised, and free of anything that could turn
/// out differently when it is replayed.
package struct Delta: Sendable {
    package var session: SessionID
    package var kind: Kind
    package var reply: Reply?

    package enum Kind: Sendable {
        /// Nothing to change: a read, a refusal, a merge or a priority of what is there.
        case nothing
        /// The rules forbid what was asked for; it is handed back to who asks why.
        indirect case denied(Operation)
        /// One change by itself, as most are: an array would cost an allocation. Its commit tells when it
        /// changes nothing (``Effects/isRedundant``).
        case put(Change)
        case write(base: Path, [Change])
        // Boxed, as in ``Operation``.
        indirect case listen(Listen)
        indirect case unlisten(Path, Query?, tag: Int64?)
        indirect case queue([Write], DisconnectQueue.Author)
        /// Never empty.
        case unqueue([Path])
        /// The session's end, with what its onDisconnect queue wrote.
        case endSession([Change])

        /// The change of a put, moved out; nil, and nothing has changed, for anything else.
        mutating func takePut() -> Change? {
            guard case .put = self else { return nil }
            var taken = Kind.nothing
            swap(&taken, &self)
            guard case .put(let change) = consume taken else { return nil }
            return change
        }
    }

    /// True when the delta must be in the journal before its effects leave, unless they are redundant.
    package func isDurable(hadQueue: Bool) -> Bool {
        switch kind {
        case .nothing, .denied, .listen, .unlisten: false
        case .put, .write, .queue, .unqueue: true
        case .endSession: hadQueue
        }
    }
}

/// A location and what it holds from now on. A final key `.priority` means only the node's priority.
package struct Change: Sendable, Equatable {
    package var path: Path
    package var node: Node

    package init(path: Path, node: Node) {
        self.path = path
        self.node = node
    }

    /// Its parts, moved out and not counted anew.
    fileprivate consuming func take() -> (Path, Node) {
        var (path, node) = (Path(), Node.empty)
        swap(&path, &self.path)
        swap(&node, &self.node)
        return (path, node)
    }
}

extension Path {
    /// The pseudo-key under which a priority travels in paths (§5.1, §9.7). No real key can begin with a dot.
    package static let priorityKey: Key = ".priority"

    /// True when the path names a priority, not a node.
    package var namesPriority: Bool {
        ends(with: Self.priorityKey)
    }
}

extension Node {
    /// Does what a change says.
    package mutating func apply(_ change: consuming Change) {
        let (path, node) = change.take()
        if path.namesPriority { set(priority: Priority(node), at: path.parent) } else { set(node, at: path) }
    }

    /// Does what a change says, and looks whether that is what is there.
    /// - Returns: false when it is; of a priority always true.
    /// - Parameter replaced: Set to what was there, if it is another.
    mutating func update(with change: consuming Change, replaced: inout Node) -> Bool {
        let (path, node) = change.take()
        guard path.namesPriority else { return update(node, at: path, replaced: &replaced) }
        set(priority: Priority(node), at: path.parent)
        return true
    }

    /// Does what a change says that names no priority.
    /// - Returns: The node at the change's path before.
    mutating func exchange(_ change: consuming Change) -> Node {
        let (path, node) = change.take()
        precondition(!path.namesPriority)
        return set(node, at: path)
    }

    /// What a change's path holds now.
    package func value(at path: Path) -> Node {
        path.namesPriority ? self[path.parent].priority?.node ?? .empty : self[path]
    }
}
