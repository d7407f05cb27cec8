import PandoBytes
import PandoRules
import PandoTree

/// What a session wants written when it ends (wire-protocol §12.1).
///
/// Always true: no queued path lies at or below another, so the order of the writes does not matter.
struct DisconnectQueue: Sendable {
    struct Pending: Sendable {
        var write: Write
        /// As whom it runs: the credential of the moment it was queued (§12.2).
        var credential: Credential

        var path: Path { write.target.fullPath }
    }

    /// Operations that one session may have pending; our own bound, so that a client cannot fill the server's memory.
    static let capacity = 10_000

    private(set) var pending: [Pending] = []

    var isEmpty: Bool { pending.isEmpty }
    var count: Int { pending.count }

    /// The writes that their credentials still may do.
    func writes(allowed: (Path, Credential) -> Bool) -> [Write] {
        pending.filter { allowed($0.write.target.path, $0.credential) }.map(\.write)
    }

    mutating func add(_ writes: [Write], as credential: Credential) {
        for write in writes { add(write, credential) }
    }

    /// Replaces what is queued at the path and below; under a queued put it becomes part of that put's value.
    private mutating func add(_ write: Write, _ credential: Credential) {
        let path = write.target.fullPath
        pending.removeAll { path.contains($0.path) }
        if let index = pending.firstIndex(where: { $0.path.contains(path) }) {
            pending[index].write.draft.overwrite(pending[index].path.relative(path), with: write.draft)
            pending[index].credential = credential
        } else {
            pending.append(Pending(write: write, credential: credential))
        }
    }

    /// Removes what is queued at the path and below. A put queued above loses that part: what is left of it becomes
    /// writes of its own.
    mutating func cancel(at path: Path) {
        pending.removeAll { path.contains($0.path) }
        guard let index = pending.firstIndex(where: { $0.path.contains(path) }) else { return }
        // A queued leaf has no part that could be cut from it.
        guard let rest = pending[index].write.splitting(at: path) else { return }
        let credential = pending[index].credential
        pending.replaceSubrange(index...index, with: rest.map { Pending(write: $0, credential: credential) })
    }
}

extension Draft {
    /// Puts another draft in place of the part at `path`.
    fileprivate mutating func overwrite(_ path: Path, with other: Draft) {
        // Gone are the server values inside the part, and one in whose place an object now stands.
        placeholders.removeAll { placeholder in
            let place = placeholder.target.fullPath
            return path.contains(place) || (!placeholder.target.isPriority && place.contains(path))
        }
        guard !path.namesPriority else {
            node.apply(Change(path: path, node: other.node))
            for placeholder in other.placeholders {
                placeholders.append(.init(target: Target(path.parent, isPriority: true), value: placeholder.value))
            }
            return
        }
        node.set(other.node, at: path)
        for placeholder in other.placeholders {
            let target = Target(
                path.appending(placeholder.target.path.keys), isPriority: placeholder.target.isPriority)
            placeholders.append(.init(target: target, value: placeholder.value))
        }
        depth = max(depth, path.count + other.depth)
    }

    /// The part at one child.
    fileprivate func child(_ key: Key) -> Draft {
        let prefix = Path([key])
        let inside = placeholders.filter { prefix.contains($0.target.path) }.map { placeholder in
            Placeholder(
                target: Target(prefix.relative(placeholder.target.path), isPriority: placeholder.target.isPriority),
                value: placeholder.value)
        }
        return Draft(node[key], placeholders: inside, depth: max(0, depth - 1))
    }
}

extension Write {
    /// The write without the part at `cut`, as writes of the siblings along the way; nil when there is no such part.
    fileprivate func splitting(at cut: Path) -> [Write]? {
        guard !target.isPriority else { return nil }
        var rest: [Write] = []
        var path = target.path
        var part = draft
        for key in target.path.relative(cut).keys {
            guard case .object(let children) = part.node.withoutPriority else { return nil }
            children.forEach { sibling, _ in
                if sibling != key { rest.append(Write(Target(path.appending(sibling)), part.child(sibling))) }
                return true
            }
            part = part.child(key)
            path = path.appending(key)
        }
        return rest
    }
}
