import PandoRules
import PandoTree

/// What a session wants written when it ends (realtime §12.1): the sparse tree that the SDKs keep as
/// well.
///
///     rooms ─┬─ r1 ─── typing      (nil, as anonymous)
///            └─ r2                 ({…}, as ann)         what is queued below r2 has become part of this
///
/// Always true: a branch with something queued has no branches below it, and every branch but the root has
/// one or the other. So the order of the writes does not matter.
package struct DisconnectQueue: Sendable {
    /// Who has queued something.
    package struct Author: Equatable, Sendable {
        package var credential: Credential
        /// By which of the session's sign-ins; 0 for none. Two may have the same credential, and one of them
        /// be revoked.
        package var signIn: UInt32

        package init(credential: Credential, signIn: UInt32 = 0) {
            self.credential = credential
            self.signIn = signIn
        }
    }

    /// What is queued at one path.
    private struct Pending: Sendable {
        var value: QueuedValue
        /// As whom it runs (§12.2): whoever has put something into it; all of them must be allowed to write
        /// all of it.
        var authors: [Author]
        /// About how many it takes in the log; of what was overwritten inside it, too.
        var byteCount: Int
    }

    /// What is queued, in all.
    private struct Totals: Sendable, Equatable {
        /// Paths.
        var count = 0
        /// Bytes in the log, about.
        var byteCount = 0

        static func += (left: inout Totals, right: Totals) {
            left.count += right.count
            left.byteCount += right.byteCount
        }

        static func -= (left: inout Totals, right: Totals) {
            left.count -= right.count
            left.byteCount -= right.byteCount
        }
    }

    /// A queued write, and as whom it runs.
    struct Entry: Sendable {
        var write: Write
        /// At least one.
        var authors: [Author]

        /// Those of the authors, each once.
        var credentials: [Credential] {
            var credentials: [Credential] = []
            for author in authors where !credentials.contains(author.credential) {
                credentials.append(author.credential)
            }
            return credentials
        }
    }

    private struct Branch: Sendable {
        var pending: Pending?
        /// The final key of a path may be `.priority`.
        var children: [Key: Branch] = [:]

        var totals: Totals {
            var totals = pending.map { Totals(count: 1, byteCount: $0.byteCount) } ?? Totals()
            for child in children.values { totals += child.totals }
            return totals
        }
    }

    /// Operations that one session may have pending; our own bound, so that a client cannot fill the server's
    /// memory.
    static let capacity = 10_000

    /// Different people whose writes one connection may put into one another: nobody does that, and each is
    /// remembered.
    static let authorLimit = 8

    private var root = Branch()
    private var totals = Totals()
    /// Paths with something queued.
    var count: Int { totals.count }
    /// Bytes that it takes in the log, about. O(1): a client may ask for one write more any number of times.
    var byteCount: Int { totals.byteCount }

    var isEmpty: Bool { count == 0 }

    /// The data of everything queued, in the order of ``pending``.
    var nodes: [Node] { pending.map(\.write.draft.node) }

    /// Everything queued, by path in ascending order.
    var pending: [Entry] {
        var all: [Entry] = []
        all.reserveCapacity(count)
        func gather(_ branch: Branch, _ path: Path) {
            if let pending = branch.pending {
                let write = Write(Target(full: path), pending.value.draft)
                all.append(Entry(write: write, authors: pending.authors))
            }
            // The order of a hash table would differ from machine to machine.
            for (key, child) in branch.children.sorted(by: { $0.key < $1.key }) {
                gather(child, path.appending(key))
            }
        }
        gather(root, .root)
        return all
    }

    /// Traps when the totals are wrong. O(queue); for tests.
    func checkInvariants() {
        precondition(totals == root.totals && totals.count == pending.count, "what is queued is miscounted")
    }

    // MARK: Adding

    /// False when too much is queued, or too many people have put something into what lies above a write.
    func canAdd(_ writes: [Write], by author: Author) -> Bool {
        guard count + writes.count <= Self.capacity else { return false }
        return writes.allSatisfy { write in
            var branch = root
            for key in write.target.fullPath.keys {
                if let pending = branch.pending {
                    return pending.authors.contains(author) || pending.authors.count < Self.authorLimit
                }
                guard let next = branch.children[key] else { return true }
                branch = next
            }
            return true
        }
    }

    /// - Complexity: O(depth) a write, and O(what it replaces).
    mutating func add(_ writes: [Write], by authors: [Author]) {
        for write in writes {
            let pending = Pending(
                value: QueuedValue(write.draft), authors: authors, byteCount: write.queuedByteCount)
            totals += Self.add(pending, at: write.target.fullPath.keys[...], to: &root)
        }
    }

    /// Replaces what is queued at the path and below; under something queued it becomes part of that.
    /// - Returns: By how much the totals change.
    private static func add(_ new: Pending, at keys: ArraySlice<Key>, to branch: inout Branch) -> Totals {
        guard let key = keys.first else {
            var difference = Totals(count: 1, byteCount: new.byteCount)
            difference -= branch.totals
            branch = Branch(pending: new)
            return difference
        }
        if branch.pending != nil {
            branch.pending?.value.overwrite(at: keys, with: new.value)
            branch.pending?.byteCount += new.byteCount
            for author in new.authors where branch.pending?.authors.contains(author) == false {
                branch.pending?.authors.append(author)
            }
            return Totals(byteCount: new.byteCount)
        }
        return add(new, at: keys.dropFirst(), to: &branch.children[key, default: Branch()])
    }

    // MARK: Cancelling

    /// Where something is queued into which one of these sign-ins has put something, in ascending order: to
    /// be cancelled, since all of it runs as all of its authors. The root alone where that is everything.
    /// - Complexity: O(queue).
    func paths(by signIns: Set<UInt32>) -> [Path] {
        var paths: [Path] = []
        func gather(_ branch: Branch, _ path: Path) {
            if branch.pending?.authors.contains(where: { signIns.contains($0.signIn) }) == true {
                paths.append(path)
            }
            for (key, child) in branch.children.sorted(by: { $0.key < $1.key }) {
                gather(child, path.appending(key))
            }
        }
        gather(root, .root)
        // One record of the log in place of thousands.
        return paths.count == count && count > 0 ? [.root] : paths
    }

    /// Removes what is queued at the path and below. A put queued above loses that part: its children become
    /// writes of their own, and the put itself, which would have cleared everything else, is gone.
    mutating func cancel(at path: Path) {
        var difference = Totals()
        _ = Self.cancel(at: path.keys[...], in: &root, &difference)
        totals += difference
    }

    /// - Returns: True when nothing is left in the branch.
    private static func cancel(at keys: ArraySlice<Key>, in branch: inout Branch, _ difference: inout Totals)
        -> Bool
    {
        guard let key = keys.first else {
            difference -= branch.totals
            branch = Branch()
            return true
        }
        if let pending = branch.pending {
            // A leaf has no part that could be cut from it.
            guard !pending.value.node.isLeaf else { return false }
            difference -= Totals(count: 1, byteCount: pending.byteCount)
            branch.pending = nil
            for (key, value) in pending.value.children {
                let part = Pending(
                    value: value, authors: pending.authors,
                    byteCount: Write.queuedByteCount(of: value.node, belowPathOf: keys.count))
                difference += Totals(count: 1, byteCount: part.byteCount)
                branch.children[key] = Branch(pending: part)
            }
        }
        // Out of the table while it changes, so that it has one owner.
        if var child = branch.children.removeValue(forKey: key) {
            if !cancel(at: keys.dropFirst(), in: &child, &difference) { branch.children[key] = child }
        }
        return branch.children.isEmpty
    }
}

extension Write {
    /// About how many bytes it takes in the log to queue it. O(size).
    package var queuedByteCount: Int {
        Self.queuedByteCount(of: draft.node, belowPathOf: target.fullPath.count)
            + draft.placeholders.count * Self.placeholderByteCount
    }

    /// - Parameter keyCount: Keys of its path.
    fileprivate static func queuedByteCount(of node: Node, belowPathOf keyCount: Int) -> Int {
        headByteCount + keyCount * keyByteCount + node.weight(upTo: weightLimit)
    }

    /// Session, credential and counts of its record; a key of a path, and a server value, as they are
    /// commonly.
    private static var headByteCount: Int { 64 }
    private static var keyByteCount: Int { 16 }
    private static var placeholderByteCount: Int { 64 }
    /// More than a message can hold.
    private static var weightLimit: Int { 1 << 30 }
}

/// A value to be written later: a draft that parts can be put into and cut from without a look at the rest.
struct QueuedValue: Sendable {
    /// The server values of a draft, laid out like its node.
    private struct Slots: Sendable {
        /// The node here is a server value; then it is a leaf.
        var value: ServerValue?
        var priority: ServerValue?
        var children: [Key: Slots] = [:]

        var isEmpty: Bool { value == nil && priority == nil && children.isEmpty }
    }

    /// As ``Draft/node``.
    private(set) var node: Node
    private var slots = Slots()
    private var depth: Int

    init(_ draft: Draft) {
        node = draft.node
        depth = draft.depth
        for placeholder in draft.placeholders {
            Self.place(
                placeholder.value, placeholder.target.isPriority, placeholder.target.path.keys[...], &slots)
        }
    }

    private init(_ node: Node, _ slots: Slots, depth: Int) {
        self.node = node
        self.slots = slots
        self.depth = depth
    }

    private static func place(
        _ value: ServerValue, _ isPriority: Bool, _ keys: ArraySlice<Key>, _ slots: inout Slots
    ) {
        if let key = keys.first {
            place(value, isPriority, keys.dropFirst(), &slots.children[key, default: Slots()])
        } else if isPriority {
            slots.priority = value
        } else {
            slots.value = value
        }
    }

    /// The value as a draft; placeholders by path in ascending order.
    var draft: Draft {
        var placeholders: [Draft.Placeholder] = []
        func gather(_ slots: Slots, _ path: Path) {
            // The value first: it replaces the node, and keeps the priority.
            if let value = slots.value { placeholders.append(.init(target: Target(path), value: value)) }
            if let value = slots.priority {
                placeholders.append(.init(target: Target(path, isPriority: true), value: value))
            }
            for (key, child) in slots.children.sorted(by: { $0.key < $1.key }) {
                gather(child, path.appending(key))
            }
        }
        gather(slots, .root)
        return Draft(node, placeholders: placeholders, depth: depth)
    }

    /// The children with what is theirs of the server values, in key order. The value's own priority belongs
    /// to none.
    var children: [(key: Key, value: QueuedValue)] {
        node.children.entries.map { entry in
            (
                entry.key,
                QueuedValue(entry.node, slots.children[entry.key] ?? Slots(), depth: max(0, depth - 1))
            )
        }
    }

    /// Does to the value what a put of `other` does to a tree (§8.4). A final key `.priority` means the
    /// priority.
    mutating func overwrite(at keys: ArraySlice<Key>, with other: QueuedValue) {
        let isPriority = keys.last == Path.priorityKey
        node.apply(Change(path: Path(Array(keys)), node: other.node))
        if !isPriority { depth = max(depth, keys.count + other.depth) }
        Self.overwrite(&slots, isPriority ? keys.dropLast() : keys, isPriority, with: other.slots, node)
    }

    /// - Parameter node: What the value holds at these slots, after the write.
    private static func overwrite(
        _ slots: inout Slots, _ keys: ArraySlice<Key>, _ isPriority: Bool, with new: Slots, _ node: Node
    ) {
        // What vanished takes its server values with it.
        guard !node.isEmpty else {
            slots = Slots()
            return
        }
        // A leaf that an object has replaced is no server value any more; its priority it keeps.
        if case .object = node.withoutPriority { slots.value = nil }
        if let key = keys.first {
            var child = slots.children.removeValue(forKey: key) ?? Slots()
            overwrite(&child, keys.dropFirst(), isPriority, with: new, node[key])
            if !child.isEmpty { slots.children[key] = child }
        } else if isPriority {
            slots.priority = new.value
        } else {
            slots = new
        }
    }
}
