import PandoTree

// Which pushes a write causes (realtime §6.4, §6.5, §7.5, §17.1).
//
//     at or above the change   every listen gets the change itself: one push, shared by all of them
//     below the change         a listen whose value differs gets its own new value
//     filtered                 the window is updated; the listen gets the difference, as one message
//
// Where very many listens are below a change, that part is left to `ListenRegistry+Pushes.swift`.
//
// A write of several changes stays one message for each listen, so that no client sees half of it. The
// changes here are those of `PushLocations.swift`: none names a priority, and none is at or below another.

extension ListenerTable {
    /// Before a change: stores, at each node with views on the way to it, the child that the change is in,
    /// with its value before. Costs nothing while there are no views.
    func capturePreimages(at path: Path, in tree: Node) {
        guard viewCount > 0 else { return }
        var node = root
        var value = tree
        for key in path.keys {
            let child = value[key]
            // A merge often names one child several times in a row.
            if let details = node.details, !details.views.isEmpty, details.preimages.last?.key != key {
                details.preimages.append((key, child))
            }
            guard let next = node.child(key) else { return }
            node = next
            value = child
        }
    }

    /// The pushes of one change that was just done. Order: the shared one, then windows from the root down,
    /// then the listens below in the order of keys.
    /// - Parameters:
    ///   - mergeBase: The location that the writer of a merge named; nil for another write.
    ///   - old: The value at the change's path before.
    ///   - fanOut: Gets the change where it has too many listens below it.
    func pushes(
        for change: Change, mergeBase: Path?, old: Node, in tree: Node, _ indexes: IndexCatalog,
        _ fanOut: inout FanOut
    ) -> [Push] {
        indexes.beginUpdates()
        var windows: [Push] = []
        var shared = Push(body: .overwrite(change.path, change.node), mergeBase: mergeBase)
        var node = root
        var depth = 0
        while true {
            if node.details != nil {
                settleCovered(of: node, along: change.path, depth)
                updateViews(
                    of: node, inside: [change], isWhole: depth == change.path.count, tree, indexes, &windows)
            }
            if !node.defaults.isEmpty { shared.recipients.append(node.defaults.members) }
            guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
            node = next
            depth += 1
        }
        var pushes = shared.recipients.isEmpty ? [] : [shared]
        if !windows.isEmpty { pushes += windows }
        guard depth == change.path.count else { return pushes }
        visitListeners(below: node, at: change.path, old: old, new: change.node, &fanOut) { node, value in
            pushWhole(Change(path: node.path, node: value), to: node, tree, indexes, &pushes)
        }
        return pushes
    }

    /// The pushes of several changes that were just done at once. Order: by change, from the root down, then
    /// the listens below in the order of keys.
    /// - Parameters:
    ///   - olds: The values at each change's path before.
    ///   - base: The location that the writer named. A shared merge is relative to it.
    ///   - fanOut: Gets the changes that have too many listens below them.
    func pushes(
        for changes: [Change], olds: [Node], base: Path, in tree: Node, _ indexes: IndexCatalog,
        _ fanOut: inout FanOut
    ) -> [Push] {
        precondition(changes.count == olds.count)
        indexes.beginUpdates()
        var pushes: [Push] = []
        var shared: Push?
        for notice in notices(of: changes, olds, &fanOut) {
            let node = notice.node
            if let newValue = notice.newValue {
                pushWhole(newValue, to: node, tree, indexes, &pushes)
                continue
            }
            let getsAllChanges = notice.changes.count == changes.count
            // All listens that get every change, at or above the writer's base, share one message.
            let isShared = getsAllChanges && node.path.contains(base)
            if isShared, !node.defaults.isEmpty {
                shared = shared ?? Push(body: message(changes, base: base))
                shared?.recipients.append(node.defaults.members)
            }
            if isShared, node.views.isEmpty { continue }
            let inside = getsAllChanges ? changes : notice.changes.map { changes[$0] }
            if !isShared, !node.defaults.isEmpty {
                pushes.append(
                    Push(body: message(inside, base: node.path), recipients: [node.defaults.members]))
            }
            // Several changes are all below the node. A change at the node itself is its only one.
            updateViews(
                of: node, inside: inside, isWhole: inside[0].path.count == node.path.count, tree, indexes,
                &pushes)
        }
        if let shared { pushes.insert(shared, at: 0) }
        return pushes
    }

    /// Makes the pushes of a node whose whole value is new, because of a change above it.
    func pushWhole(
        _ value: Change, to node: TrieNode, _ tree: Node, _ indexes: IndexCatalog, _ pushes: inout [Push]
    ) {
        settleCovered(of: node, along: value.path, value.path.count)
        if !node.defaults.isEmpty {
            pushes.append(
                Push(body: .overwrite(value.path, value.node), recipients: [node.defaults.members]))
        }
        updateViews(of: node, inside: [], isWhole: true, tree, indexes, &pushes)
    }

    /// One change is an overwrite; several are one merge (§17.1).
    func message(_ changes: [Change], base: Path) -> Push.Body {
        if changes.count == 1 { return .overwrite(changes[0].path, changes[0].node) }
        return .merge(base, changes.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
    }

    // MARK: Finding the listens

    /// What a write of several changes does to one node with listeners.
    private struct Notice {
        let node: TrieNode
        /// Indexes of the changes at or below the node.
        var changes: [Int] = []
        /// The node's own new value, where a change above it altered that. Then ``changes`` is empty.
        var newValue: Change?
    }

    private func notices(of changes: [Change], _ olds: [Node], _ fanOut: inout FanOut) -> [Notice] {
        var notices: [Notice] = []
        func index(of node: TrieNode) -> Int {
            if node.noticeIndex >= 0 { return Int(node.noticeIndex) }
            node.noticeIndex = Int32(notices.count)
            notices.append(Notice(node: node))
            return notices.count - 1
        }
        for (number, change) in changes.enumerated() {
            var node = root
            var depth = 0
            while true {
                if node.hasListeners {
                    settleCovered(of: node, along: change.path, depth)
                    notices[index(of: node)].changes.append(number)
                }
                guard depth < change.path.count, let next = node.child(change.path[depth]) else { break }
                node = next
                depth += 1
            }
            guard depth == change.path.count else { continue }
            visitListeners(
                below: node, at: change.path, old: olds[number], new: change.node, &fanOut
            ) { node, value in
                notices[index(of: node)].newValue = Change(path: node.path, node: value)
            }
        }
        for notice in notices {
            notice.node.noticeIndex = -1
            assert(notice.newValue == nil || notice.changes.isEmpty, "one change is at or below another")
        }
        return notices
    }

    /// Visits the nodes strictly below `node` that have listeners and whose value differs, in the order of
    /// keys. Where equal values are large they are not compared to the end, and count as different.
    /// - Parameter fanOut: Gets the change, and nothing is visited, where there are too many nodes.
    func visitListeners(
        below node: TrieNode, at path: Path, old: Node, new: Node, _ fanOut: inout FanOut,
        _ visit: (TrieNode, Node) -> Void
    ) {
        guard mayVisitAll(below: node, &fanOut.nodesLeft) else {
            fanOut.unvisited.append(Alteration(path: path, old: old, new: new))
            return
        }
        var left = Node.comparedNodeLimit
        visitListeners(below: node, old: old, new: new, comparing: &left, visit)
    }

    /// Whether no more nodes are below one than may be visited. They are counted, as far as that is known.
    /// Recursion as deep as the trie.
    /// - Parameter left: Nodes that may still be visited; negative from the first one on that may not.
    func mayVisitAll(below node: TrieNode, _ left: inout Int) -> Bool {
        left -= node.childCount
        guard left >= 0 else { return false }
        return node.allChildren { mayVisitAll(below: $0, &left) }
    }

    /// Recursion as deep as the trie: at most ``Limits/pathDepth``.
    /// - Parameter left: Nodes that may still be compared.
    private func visitListeners(
        below node: TrieNode, old: Node, new: Node, comparing left: inout Int,
        _ visit: (TrieNode, Node) -> Void
    ) {
        guard node.hasChildren else { return }
        var differing: [(key: Key, node: TrieNode, before: Node, after: Node)] = []
        node.forEachChild { key, child in
            let (before, after) = (old[key], new[key])
            if !before.isEqual(to: after, visiting: &left) { differing.append((key, child, before, after)) }
        }
        // The order of a hash table would differ from machine to machine.
        if differing.count > 1 { differing.sort { $0.key < $1.key } }
        for child in differing {
            if child.node.hasListeners { visit(child.node, child.after) }
            visitListeners(
                below: child.node, old: child.before, new: child.after, comparing: &left, visit)
        }
    }

    // MARK: Windows

    /// To find and move a child of a window, and to make and print a push, take as much time as to visit so
    /// many children.
    private static let visitsPerAlteredChild = 8
    private static let visitsPerPush = 256

    /// About how many children a window visits when it is updated, or a live aggregate when it is computed
    /// anew.
    /// - Parameter alteredCount: Children of the location that have changed; nil where any may have.
    private static func cost(
        of view: QueryView, _ alteredCount: Int?, over value: Node, _ indexes: IndexCatalog
    ) -> Int {
        // Fewer children have no index: all may be visited.
        let childCount = value.children.count
        let visitedCount = childCount <= indexes.unindexedChildCount ? childCount : 0
        if view.aggregate != nil { return visitsPerPush + visitedCount * view.query.aggregates.count }
        let count = view.window.entries.count
        if let alteredCount {
            return visitsPerPush + alteredCount * visitsPerAlteredChild
                + (view.query.limit == nil || view.query.order == .key ? 0 : visitedCount)
        }
        guard let limit = view.query.limit, view.query.order == .key || indexes.hasIndexes else {
            return count + value.children.count
        }
        return count + min(limit.count, value.children.count)
    }

    /// Updates all windows of a node, and makes the pushes for their recipients.
    /// - Parameters:
    ///   - inside: The changes strictly below the node.
    ///   - remainder: Of changes that were done as one: what their removals alone would have left there; nil
    ///     where they do not remove and set.
    ///   - isWhole: A change at the node or above it may have altered any child. Then `inside` is ignored.
    func updateViews(
        of node: TrieNode, inside: [Change], remainder: Change? = nil, isWhole: Bool, _ tree: Node,
        _ indexes: IndexCatalog, _ pushes: inout [Push]
    ) {
        guard let details = node.details, !details.views.isEmpty else { return }
        let value = tree[node.path]
        let altered = isWhole ? [] : alteredChildren(of: details, value)
        details.preimages.removeAll()
        var values = IndexValues(of: altered)
        /// Computed for the first window that needs them.
        var childrenAfterRemovals: [Key: Node]?
        // Many windows are found by their ranges; of few, each is asked.
        let asksEach = !isWhole && !details.hasRanges
        for view in isWhole || asksEach ? details.views : values.touchedViews(of: details) {
            if view.isBehind || asksEach && !values.mayTouch(view.window) { continue }
            let hasTime = indexes.updatableChildCount > 0
            indexes.updatableChildCount -=
                hasTime ? Self.cost(of: view, isWhole ? nil : altered.count, over: value, indexes) : 0
            if view.aggregate != nil {
                if let body = view.recompute(over: value, at: node.path, indexes, hasTime: hasTime) {
                    pushes.append(Push(body: body, taggedRecipients: view.recipients.members))
                }
                continue
            }
            guard hasTime else {
                view.fallBehind(at: node.path, indexes)
                continue
            }
            var body: Push.Body?
            if isWhole {
                body = view.replace(with: value, at: node.path, indexes)
            } else {
                let bare =
                    childrenAfterRemovals
                    ?? Self.childrenAfterRemovals(altered, inside, remainder, at: node.path.count)
                childrenAfterRemovals = bare
                body = view.update(altered, bare, inside: inside, value, at: node.path, indexes)
            }
            details.updateRange(of: view)
            if let body { pushes.append(Push(body: body, taggedRecipients: view.recipients.members)) }
        }
    }

    /// The captured children of a node that a write altered, each once.
    private func alteredChildren(of details: NodeDetails, _ value: Node) -> [ChildChange] {
        var seen: Set<Key> = []
        var altered: [ChildChange] = []
        for (key, old) in details.preimages
        where details.preimages.count == 1 || seen.insert(key).inserted {
            altered.append(ChildChange(key: key, old: old, new: value[key]))
        }
        return altered
    }

    /// Children of a node in which a write removes and sets, as the removals alone would leave them. The
    /// client may see them so: it applies the entries of a merge one after the other.
    /// - Parameters:
    ///   - inside: The changes, strictly below the node.
    ///   - remainder: As of ``updateViews(of:inside:remainder:isWhole:_:_:_:)``.
    ///   - depth: The number of keys in the node's path.
    private static func childrenAfterRemovals(
        _ altered: [ChildChange], _ inside: [Change], _ remainder: Change?, at depth: Int
    ) -> [Key: Node] {
        var removals: [Change] = []
        if let remainder {
            removals = [remainder]
        } else if inside.count > 1, inside.contains(where: { !$0.node.isEmpty }) {
            removals = inside.filter(\.node.isEmpty)
        }
        if removals.isEmpty { return [:] }
        var children: [Key: Node] = [:]
        let olds = Dictionary(uniqueKeysWithValues: altered.map { ($0.key, $0.old) })
        for removal in removals {
            let key = removal.path[depth]
            guard let old = olds[key] else { continue }
            children[key, default: old].set(removal.node, at: Path(Array(removal.path.keys[(depth + 1)...])))
        }
        return children
    }
}

/// The values by which altered children are ordered, before and after a write. They are computed once for
/// each index, however many windows use it. So a window that a write does not touch costs a few comparisons.
private struct IndexValues {
    private typealias Value = (key: Key, value: Node)

    private let altered: [ChildChange]
    /// The values of each index that a window has asked for.
    private var known: [(order: ChildOrder, values: [Value])] = []

    init(of altered: [ChildChange]) {
        self.altered = altered
    }

    /// The views whose windows one of the children was in, is in, or has to enter, found by their ranges, in
    /// the order in which they came. O(views / 64 + 64 × views found) comparisons, at most.
    mutating func touchedViews(of details: ListenerTable.NodeDetails) -> [ListenerTable.QueryView] {
        var found: [Int: ListenerTable.QueryView] = [:]
        for (order, windows) in details.ranges {
            for (key, value) in values(by: order) {
                windows.forEach(at: IndexPlace(order == .key ? .empty : value, .key(key))) { range in
                    if range.view.window.admits(value, key) { found[range.number] = range.view }
                }
            }
        }
        if found.count < 2 { return Array(found.values) }
        // The order of a hash table would differ from machine to machine.
        return found.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Whether one of the children was in the window, is in it, or has to enter it.
    mutating func mayTouch(_ window: Window) -> Bool {
        values(by: window.query.order).contains { window.admits($0.value, $0.key) }
    }

    private mutating func values(by order: ChildOrder) -> [Value] {
        if let last = known.last, last.order == order { return last.values }
        if let found = known.first(where: { $0.order == order }) { return found.values }
        var values: [Value] = []
        for child in altered {
            if !child.old.isEmpty { values.append((child.key, order.value(of: child.old))) }
            if !child.new.isEmpty { values.append((child.key, order.value(of: child.new))) }
        }
        if known.count < Self.knownLimit { known.append((order, values)) }
        return values
    }

    private static let knownLimit = 16
}

extension ListenerTable.QueryView {
    /// Replaces the window's data.
    /// - Returns: nil when the window is as it was.
    fileprivate func replace(with node: Node, at path: Path, _ indexes: IndexCatalog) -> Push.Body? {
        let index = indexes.indexAfterReplacement(query.order, at: path, over: node)
        return window.replace(with: node, by: index).isEmpty ? nil : .overwrite(path, window.node)
    }

    /// Applies altered children to the window.
    /// - Parameter node: The location's data after the write.
    /// - Returns: nil when the window is as it was.
    fileprivate func update(
        _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node], inside: [Change], _ node: Node,
        at path: Path, _ indexes: IndexCatalog
    ) -> Push.Body? {
        let difference = window.update(
            altered, in: node, by: indexes.indexForWindow(query.order, at: path, over: node),
            visitingAtMost: indexes.visitedChildCount)
        findLackingChildren(at: path, indexes)
        guard !difference.isEmpty else { return nil }
        if node.isEmpty { return .overwrite(path, .empty) }
        return body(of: difference, at: path) {
            entries(ofChanged: difference.changed, altered, childrenAfterRemovals, inside: inside, at: path)
        }
    }

    /// Takes the children that the window lacks.
    /// - Parameter found: The window over the data as it is now.
    /// - Returns: nil when there are none.
    func complete(from found: Window, at path: Path, _ indexes: IndexCatalog) -> Push.Body? {
        let difference = window.complete(from: found)
        findLackingChildren(at: path, indexes)
        guard !difference.isEmpty else { return nil }
        return body(of: difference, at: path) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    /// Has another thread find the children that the window lacks, if it lacks any.
    func findLackingChildren(at path: Path, _ indexes: IndexCatalog) {
        if window.lacksChildren, scan == nil { scan = indexes.addScan(of: query, at: path) }
    }

    /// The window is not updated any more, until another thread has found what it is then.
    fileprivate func fallBehind(at path: Path, _ indexes: IndexCatalog) {
        isBehind = true
        scan = indexes.addScan(of: query, at: path, replacing: window)
    }

    /// Takes what another thread has found in place of a window that is behind.
    /// - Parameters:
    ///   - found: The window over an earlier snapshot.
    ///   - differences: What has changed since.
    ///   - node: The location's data now.
    /// - Returns: nil when that has changed nothing more.
    func catchUp(
        with found: Window, _ differences: [ChildChange], over node: Node, at path: Path,
        _ indexes: IndexCatalog
    ) -> Push.Body? {
        (isBehind, hasLateRecipients) = (false, false)
        window = found
        let difference = window.update(
            differences, in: node, by: indexes.index(query.order, at: path),
            visitingAtMost: indexes.visitedChildCount)
        findLackingChildren(at: path, indexes)
        guard !difference.isEmpty else { return nil }
        return body(of: difference, at: path) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    /// - Parameter changed: The entries of children that stayed and changed.
    private func body(
        of difference: Window.Update, at path: Path, changed: () -> [Push.Entry]
    ) -> Push.Body {
        // Children that left come first: a client with a full window must remove one before it adds one.
        var entries = difference.left.map { Push.Entry(path: Path([$0]), node: .empty) }
        entries += changed()
        entries += difference.entered.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        if entries.count > 1 { return .merge(path, entries) }
        return .overwrite(path.appending(entries[0].path.keys), entries[0].node)
    }

    /// Entries for the children that stayed in the window and changed: the changes in them.
    ///
    /// A client removes a child from its window as soon as that does not belong there, and then ignores
    /// changes in it. So a child is sent whole that the removals alone would empty, or would leave without a
    /// value in the window's order. Between two values that are not empty, no client sees a third one.
    private func entries(
        ofChanged changed: [Window.Entry], _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node],
        inside: [Change], at path: Path
    ) -> [Push.Entry] {
        if changed.isEmpty { return [] }
        var entries: [Push.Entry] = []
        var kept = Set(changed.map(\.key))
        if !childrenAfterRemovals.isEmpty {
            let order = window.query.order
            var emptied: Set<Key> = []
            for child in altered {
                guard let bare = childrenAfterRemovals[child.key] else { continue }
                if bare.isEmpty || order.value(of: bare).isEmpty && !order.value(of: child.old).isEmpty {
                    emptied.insert(child.key)
                }
            }
            for child in changed where emptied.contains(child.key) {
                entries.append(Push.Entry(path: Path([child.key]), node: child.node))
                kept.remove(child.key)
            }
        }
        for change in inside where kept.contains(change.path[path.count]) {
            entries.append(Push.Entry(path: path.relative(change.path), node: change.node))
        }
        return entries
    }
}
