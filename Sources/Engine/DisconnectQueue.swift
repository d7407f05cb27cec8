import PandoRules
import PandoTree

/// The writes that a session has queued for its end (realtime §12.1): a sparse tree, as in the SDKs.
///
///     rooms ─┬─ r1 ─── typing      (nil, as anonymous)
///            └─ r2                 ({…}, as ann)         writes below r2 became part of this one
///
/// Always true: a branch with a queued write has no branches below it, and every branch but the root has a
/// queued write or branches. So the order of the writes does not matter.
package struct DisconnectQueue: Sendable {
    /// The credential with which a write was queued.
    package struct Author: Equatable, Sendable {
        package var credential: Credential
        /// The number of the session's sign-in; 0 for none. Of two with the same credential one may be
        /// revoked.
        package var signIn: UInt32

        package init(credential: Credential, signIn: UInt32 = 0) {
            self.credential = credential
            self.signIn = signIn
        }
    }

    /// The write that is queued at one path.
    private struct Pending: Sendable {
        var value: QueuedValue
        /// All authors of its parts (§12.2). When it runs, each of them must be permitted to write all of it.
        var authors: [Author]
        /// About its bytes in the journal, overwritten parts included.
        var byteCount: Int
        /// The keys of its path, and of the paths of its parts.
        var keyCount: Int
        /// UTF-8 bytes of these keys.
        var keyByteCount: Int

        var totals: Totals {
            Totals(count: 1, byteCount: byteCount, keyCount: keyCount, keyByteCount: keyByteCount)
        }
    }

    /// Sums over all queued writes.
    private struct Totals: Sendable, Equatable {
        /// Paths.
        var count = 0
        /// About the bytes in the journal.
        var byteCount = 0
        /// Keys of the paths.
        var keyCount = 0
        /// UTF-8 bytes of these keys.
        var keyByteCount = 0

        static func += (left: inout Totals, right: Totals) {
            left.count += right.count
            left.byteCount += right.byteCount
            left.keyCount += right.keyCount
            left.keyByteCount += right.keyByteCount
        }

        static func -= (left: inout Totals, right: Totals) {
            left.count -= right.count
            left.byteCount -= right.byteCount
            left.keyCount -= right.keyCount
            left.keyByteCount -= right.keyByteCount
        }
    }

    /// A queued write, and its authors.
    struct Entry: Sendable {
        var write: Write
        /// At least one.
        var authors: [Author]

        /// The credentials of the authors, each once.
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
            var totals = pending.map(\.totals) ?? Totals()
            for child in children.values { totals += child.totals }
            return totals
        }
    }

    /// Queued paths of one session; our own limit, so that a client cannot fill the server's memory.
    static let capacity = 10_000

    /// Authors of one queued write; our own limit, since each is stored. Clients do not normally have more
    /// than one.
    static let authorLimit = 8

    private var root = Branch()
    private var totals = Totals()
    /// Another number after each change, given by the caller: a session that has ended its queue and begins
    /// another one must not have a number twice.
    private(set) var revision = 0
    /// The number of queued paths. O(1).
    var count: Int { totals.count }
    /// About the bytes in the journal. O(1), since it is read for every queued write.
    var byteCount: Int { totals.byteCount }
    /// UTF-8 bytes of the keys of all paths, at least. O(1).
    var keyByteCount: Int { totals.keyByteCount }
    /// About the bytes of memory. O(1).
    var heldByteCount: Int { byteCount + (count + totals.keyCount) * Self.branchByteCount }
    /// Of each branch of the tree, which has a dictionary.
    private static let branchByteCount = 256

    var isEmpty: Bool { count == 0 }

    /// The data of all queued writes, in the order of ``pending``. O(queue).
    var nodes: [Node] { pending.map(\.write.draft.node) }

    /// The path of a queued write, any; the root where there is none. O(depth).
    var firstPath: Path {
        var path = Path.root
        var branch = root
        while branch.pending == nil, let (key, child) = branch.children.first {
            path = path.appending(key)
            branch = child
        }
        return Target(full: path).path
    }

    /// All queued writes, in ascending order of paths. O(queue × log).
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

    /// Traps when the totals or the tree are wrong. O(queue); for tests.
    func checkInvariants() {
        precondition(totals == root.totals && totals.count == pending.count, "what is queued is miscounted")
    }

    // MARK: Adding

    /// Whether the writes can be added: false when too many are queued, or a queued write above has too many
    /// authors. O(depth) for each write.
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

    /// Queues writes. A write replaces what is queued at its path and below; below a queued write it becomes
    /// a part of that.
    /// - Complexity: O(depth) for each write, and O(queue that it replaces).
    mutating func add(_ writes: [Write], by authors: [Author], revision: Int) {
        self.revision = revision
        for write in writes {
            let path = write.target.fullPath
            let pending = Pending(
                value: QueuedValue(write.draft), authors: authors, byteCount: write.queuedByteCount,
                keyCount: path.count, keyByteCount: path.keyByteCount)
            totals += Self.add(pending, at: path.keys[...], to: &root)
        }
    }

    /// Queues one write in a branch.
    /// - Returns: The change of the totals.
    private static func add(_ new: Pending, at keys: ArraySlice<Key>, to branch: inout Branch) -> Totals {
        guard let key = keys.first else {
            var difference = new.totals
            difference -= branch.totals
            branch = Branch(pending: new)
            return difference
        }
        if branch.pending != nil {
            branch.pending?.value.overwrite(at: keys, with: new.value)
            branch.pending?.byteCount += new.byteCount
            branch.pending?.keyCount += new.keyCount
            branch.pending?.keyByteCount += new.keyByteCount
            for author in new.authors where branch.pending?.authors.contains(author) == false {
                branch.pending?.authors.append(author)
            }
            return Totals(
                byteCount: new.byteCount, keyCount: new.keyCount, keyByteCount: new.keyByteCount)
        }
        return add(new, at: keys.dropFirst(), to: &branch.children[key, default: Branch()])
    }

    // MARK: Cancelling

    /// The queued paths that have one of these sign-ins as an author, in ascending order. They have to be
    /// cancelled, since each runs with all of its authors. Only the root, if that is everything.
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
        // One record of the journal instead of thousands.
        return paths.count == count && count > 0 ? [.root] : paths
    }

    /// Removes the writes at the path and below. A queued write above loses that part: its other children
    /// become writes of their own, and the write itself, which would have removed everything else, is
    /// dropped.
    /// - Complexity: O(depth + queue below the path + children of a write above).
    mutating func cancel(at path: Path, revision: Int) {
        self.revision = revision
        var difference = Totals()
        _ = Self.cancel(at: path.keys[...], in: &root, &difference)
        totals += difference
    }

    /// - Returns: Whether the branch is empty.
    private static func cancel(at keys: ArraySlice<Key>, in branch: inout Branch, _ difference: inout Totals)
        -> Bool
    {
        guard let key = keys.first else {
            difference -= branch.totals
            branch = Branch()
            return true
        }
        if let pending = branch.pending {
            // A leaf has no parts.
            guard !pending.value.node.isLeaf else { return false }
            difference -= pending.totals
            branch.pending = nil
            for (key, value) in pending.value.children {
                let part = Pending(
                    value: value, authors: pending.authors,
                    byteCount: Write.queuedByteCount(of: value.node, belowPathOf: keys.count),
                    keyCount: Limits.pathDepth, keyByteCount: pending.keyByteCount + key.utf8Count)
                difference += part.totals
                branch.children[key] = Branch(pending: part)
            }
        }
        // Removed while it changes, so that it is not copied.
        if var child = branch.children.removeValue(forKey: key) {
            if !cancel(at: keys.dropFirst(), in: &child, &difference) { branch.children[key] = child }
        }
        return branch.children.isEmpty
    }
}

extension Write {
    /// About the bytes in the journal when it is queued. O(size).
    package var queuedByteCount: Int {
        // Long keys count as what they are.
        target.path.keys.reduce(0) { $0 + max(0, $1.utf8Count - Self.keyByteCount) }
            + Self.queuedByteCount(of: draft.node, belowPathOf: target.fullPath.count)
            + draft.placeholders.count * Self.placeholderByteCount
    }

    /// - Parameter keyCount: The number of keys of its path.
    fileprivate static func queuedByteCount(of node: Node, belowPathOf keyCount: Int) -> Int {
        headByteCount + keyCount * keyByteCount + node.weight(upTo: weightLimit)
    }

    /// Typical bytes of session, credential and counts in a record, of a key, and of a server value.
    private static var headByteCount: Int { 64 }
    private static var keyByteCount: Int { 16 }
    private static var placeholderByteCount: Int { 64 }
    /// More than a message can contain.
    private static var weightLimit: Int { 1 << 30 }
}

/// A value to be written later: a draft of which parts can be replaced and removed without visiting the rest.
struct QueuedValue: Sendable {
    /// The server values of a draft, as a tree like its node.
    private struct Slots: Sendable {
        /// The server value of this node, which is then a leaf.
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

    /// The value as a draft, with placeholders in ascending order of paths.
    var draft: Draft {
        var placeholders: [Draft.Placeholder] = []
        func gather(_ slots: Slots, _ path: Path) {
            // The value first: resolving it replaces the node, and keeps the priority.
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

    /// The children with their server values, in the order of keys. The priority of the value itself is
    /// dropped.
    var children: [(key: Key, value: QueuedValue)] {
        node.children.entries.map { entry in
            (
                entry.key,
                QueuedValue(entry.node, slots.children[entry.key] ?? Slots(), depth: max(0, depth - 1))
            )
        }
    }

    /// Changes the value as a put of `other` changes a tree (§8.4). A final key `.priority` means the
    /// priority.
    mutating func overwrite(at keys: ArraySlice<Key>, with other: QueuedValue) {
        let isPriority = keys.last == Path.priorityKey
        node.apply(Change(path: Path(Array(keys)), node: other.node))
        if !isPriority { depth = max(depth, keys.count + other.depth) }
        Self.overwrite(&slots, isPriority ? keys.dropLast() : keys, isPriority, with: other.slots, node)
    }

    /// - Parameter node: The value at these slots after the write.
    private static func overwrite(
        _ slots: inout Slots, _ keys: ArraySlice<Key>, _ isPriority: Bool, with new: Slots, _ node: Node
    ) {
        // A node that vanished loses its server values.
        guard !node.isEmpty else {
            slots = Slots()
            return
        }
        // A node that became an object is no server value any more. It keeps its priority.
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
