import PandoTree

// Who hears what of a write (realtime §6.4, §6.5, §7.5, §17.1).
//
//     at or above the change   everybody hears the change itself: one push, shared by all of them
//     below the change         a listen whose value differs hears its own new value
//     filtered                 the window moves; the listen hears the difference, as one message
//
// A write of several changes stays one message per listen, so that nobody sees half of it. The changes here
// are those of `PushLocations.swift`: none names a priority, and none lies at or below another.

extension ListenerTable {
    /// Notes for the filtered listens on the way to a change each child that the change is in, as it is
    /// before. Free while nobody listens through a query.
    func watch(_ path: Path, in tree: Node) {
        guard filteredCount > 0 else { return }
        var point = root
        var node = tree
        for key in path.keys {
            let child = node[key]
            // A merge often names one child several times in a row.
            if !point.filtered.isEmpty, point.watched.last?.key != key { point.watched.append((key, child)) }
            guard let next = point.children[key] else { return }
            point = next
            node = child
        }
    }

    /// The pushes of one change that has just been done. Order: the one that is shared, then windows from the
    /// root down, then the listens below in key order.
    /// - Parameter old: What the change's path held before.
    func pushes(for change: Change, old: Node, in tree: Node) -> [Push] {
        var windows: [Push] = []
        var shared = Push(body: .overwrite(change.path, change.node))
        var point = root
        var depth = 0
        while true {
            if !point.defaults.isEmpty { shared.recipients.append(point.defaults.members) }
            if !point.filtered.isEmpty {
                move(point, inside: [change], isWhole: depth == change.path.count, tree, &windows)
            }
            guard depth < change.path.count, let next = point.children[change.path[depth]] else { break }
            point = next
            depth += 1
        }
        var pushes = shared.recipients.isEmpty ? [] : [shared]
        if !windows.isEmpty { pushes += windows }
        guard depth == change.path.count else { return pushes }
        hearBelow(point, old: old, new: change.node) { point, value in
            tell(point, Change(path: point.path, node: value), tree, &pushes)
        }
        return pushes
    }

    /// The pushes of several changes that have just been done at once. Order: by change, from the root down,
    /// then into the listens below in key order.
    /// - Parameters:
    ///   - olds: What each change's path held before.
    ///   - base: Where the writer stood; a shared merge is told relative to it.
    func pushes(for changes: [Change], olds: [Node], base: Path, in tree: Node) -> [Push] {
        var pushes: [Push] = []
        var shared: Push?
        for report in reports(of: changes, olds) {
            let point = report.point
            if let below = report.below {
                tell(point, below, tree, &pushes)
                continue
            }
            let hearsAll = report.changes.count == changes.count
            // Whoever hears every change, from at or above the writer's place, hears the same message.
            let isShared = hearsAll && point.path.contains(base)
            if isShared, !point.defaults.isEmpty {
                shared = shared ?? Push(body: message(changes, base: base))
                shared?.recipients.append(point.defaults.members)
            }
            if isShared, point.filtered.isEmpty { continue }
            let inside = hearsAll ? changes : report.changes.map { changes[$0] }
            if !isShared, !point.defaults.isEmpty {
                pushes.append(
                    Push(body: message(inside, base: point.path), recipients: [point.defaults.members]))
            }
            // Several changes are below the point; one that is at it is the only one it hears.
            move(point, inside: inside, isWhole: inside[0].path.count == point.path.count, tree, &pushes)
        }
        if let shared { pushes.insert(shared, at: 0) }
        return pushes
    }

    /// Tells a point what it holds from now on, because of a change above it.
    private func tell(_ point: Point, _ value: Change, _ tree: Node, _ pushes: inout [Push]) {
        if !point.defaults.isEmpty {
            pushes.append(
                Push(body: .overwrite(value.path, value.node), recipients: [point.defaults.members]))
        }
        move(point, inside: [], isWhole: true, tree, &pushes)
    }

    /// One change is an overwrite; several are one merge (§17.1).
    private func message(_ changes: [Change], base: Path) -> Push.Body {
        if changes.count == 1 { return .overwrite(changes[0].path, changes[0].node) }
        return .merge(base, changes.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
    }

    // MARK: Finding the listens

    /// What one point hears of a write of several changes.
    private struct Report {
        let point: Point
        /// Indexes of the changes at or below the point.
        var changes: [Int] = []
        /// The point's own new value, when a change above it altered that. Then there is no other.
        var below: Change?
    }

    private func reports(of changes: [Change], _ olds: [Node]) -> [Report] {
        var reports: [Report] = []
        func report(_ point: Point) -> Int {
            if let index = point.reportIndex { return index }
            point.reportIndex = reports.count
            reports.append(Report(point: point))
            return reports.count - 1
        }
        for (index, change) in changes.enumerated() {
            var point = root
            var depth = 0
            while true {
                if point.hears { reports[report(point)].changes.append(index) }
                guard depth < change.path.count, let next = point.children[change.path[depth]] else { break }
                point = next
                depth += 1
            }
            guard depth == change.path.count else { continue }
            hearBelow(point, old: olds[index], new: change.node) { point, value in
                reports[report(point)].below = Change(path: point.path, node: value)
            }
        }
        for report in reports { report.point.reportIndex = nil }
        return reports
    }

    /// Visits the points strictly below `point` that hear and whose value differs, in key order. Deep as the
    /// trie is: at most ``Limits/pathDepth``.
    private func hearBelow(_ point: Point, old: Node, new: Node, _ visit: (Point, Node) -> Void) {
        guard !point.children.isEmpty else { return }
        var differing: [(key: Key, point: Point, before: Node, after: Node)] = []
        for (key, child) in point.children {
            let (before, after) = (old[key], new[key])
            // Equal subtrees share storage or are small; nobody below has anything to hear.
            if before != after { differing.append((key, child, before, after)) }
        }
        // The order of a hash table would differ from machine to machine.
        if differing.count > 1 { differing.sort { $0.key < $1.key } }
        for child in differing {
            if child.point.hears { visit(child.point, child.after) }
            hearBelow(child.point, old: child.before, new: child.after, visit)
        }
    }

    // MARK: Windows

    /// Moves all windows at a point along, and says what their listeners must be told.
    /// - Parameters:
    ///   - inside: The changes strictly below the point.
    ///   - isWhole: A change at the point itself or above may have altered any child; then `inside` does not
    ///     count.
    private func move(_ point: Point, inside: [Change], isWhole: Bool, _ tree: Node, _ pushes: inout [Push]) {
        guard !point.filtered.isEmpty else { return }
        let node = tree[point.path]
        let moved = isWhole ? [] : takeWatched(point, node)
        point.watched.removeAll()
        var values = IndexValues(of: moved)
        for filtered in point.filtered {
            if !isWhole, !values.mayTouch(filtered.window) { continue }
            let body =
                isWhole
                ? filtered.replace(with: node, at: point.path)
                : filtered.update(moved, inside: inside, node, at: point.path)
            if let body { pushes.append(Push(body: body, taggedRecipients: filtered.recipients.members)) }
        }
    }

    /// The watched children of a point that a write altered, each once.
    private func takeWatched(_ point: Point, _ node: Node) -> [Window.ChildChange] {
        var seen: Set<Key> = []
        var moved: [Window.ChildChange] = []
        for (key, old) in point.watched where point.watched.count == 1 || seen.insert(key).inserted {
            moved.append(Window.ChildChange(key: key, old: old, new: node[key]))
        }
        return moved
    }
}

/// What children that a write altered are ordered by, before and after: found once for each index, however
/// many windows there are. So a window that a write does not touch costs it a few comparisons.
private struct IndexValues {
    private typealias Value = (key: Key, value: Node)

    private let moved: [Window.ChildChange]
    /// Of each index that a window has asked for; few.
    private var known: [(index: Index, values: [Value])] = []

    init(of moved: [Window.ChildChange]) {
        self.moved = moved
    }

    /// Whether one of the children is in the window, was, or would have to be.
    mutating func mayTouch(_ window: Window) -> Bool {
        values(by: window.query).contains { window.admits($0.value, $0.key) }
    }

    private mutating func values(by query: Query) -> [Value] {
        if let last = known.last, last.index == query.index { return last.values }
        if let found = known.first(where: { $0.index == query.index }) { return found.values }
        var values: [Value] = []
        for child in moved {
            if !child.old.isEmpty { values.append((child.key, query.indexValue(of: child.old))) }
            if !child.new.isEmpty { values.append((child.key, query.indexValue(of: child.new))) }
        }
        if known.count < Self.knownLimit { known.append((query.index, values)) }
        return values
    }

    private static let knownLimit = 16
}

extension ListenerTable.Filtered {
    /// Takes another node altogether; nil when the window is as it was.
    fileprivate func replace(with node: Node, at path: Path) -> Push.Body? {
        window.replace(with: node).isEmpty ? nil : .overwrite(path, window.node)
    }

    /// Takes the children that changed; nil when the window is as it was.
    fileprivate func update(
        _ moved: [Window.ChildChange], inside: [Change], _ node: Node, at path: Path
    ) -> Push.Body? {
        let difference = window.update(moved, in: node)
        guard !difference.isEmpty else { return nil }
        if node.isEmpty { return .overwrite(path, .empty) }
        // Who leaves is named first: a client that keeps a full window must make room before it sees who
        // enters.
        var told = difference.left.map { Push.Entry(path: Path([$0]), node: .empty) }
        told += stayed(difference.changed, moved, inside: inside, at: path)
        told += difference.entered.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        if told.count > 1 { return .merge(path, told) }
        return .overwrite(path.appending(told[0].path.keys), told[0].node)
    }

    /// What is told of the children that stayed: the changes in them.
    ///
    /// A client forgets a child of its window as soon as it is empty, and ignores what comes later of it. So
    /// a child that the removals alone would empty is told whole.
    private func stayed(
        _ changed: [Window.Entry], _ moved: [Window.ChildChange], inside: [Change], at path: Path
    ) -> [Push.Entry] {
        if changed.isEmpty { return [] }
        var told: [Push.Entry] = []
        var kept = Set(changed.map(\.key))
        if inside.count > 1, inside.contains(where: \.node.isEmpty) {
            var bare: [Key: Node] = [:]
            for child in moved where kept.contains(child.key) { bare[child.key] = child.old }
            for change in inside where change.node.isEmpty {
                bare[change.path[path.count]]?.set(
                    .empty, at: Path(Array(change.path.keys[(path.count + 1)...])))
            }
            for child in changed where bare[child.key]?.isEmpty == true {
                told.append(Push.Entry(path: Path([child.key]), node: child.node))
                kept.remove(child.key)
            }
        }
        for change in inside where kept.contains(change.path[path.count]) {
            told.append(Push.Entry(path: path.relative(change.path), node: change.node))
        }
        return told
    }
}
