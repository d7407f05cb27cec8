import PandoTree

// Who hears what of a write (wire-protocol §6.4, §6.5, §7.5, §17.1).
//
//     at or above the change   everybody hears the change itself: one push, shared by all of them
//     below the change         a listen whose value differs hears its own new value
//     filtered                 the window moves; the listen hears the difference, as one message
//
// A write of several changes stays one message per listen, so that nobody sees half of it.

extension ListenerTable {
    /// What the filtered listens above the changes must know of the tree before it changes: each child of a queried
    /// location that a change is in, as it was.
    struct Watch {
        private var children: [ObjectIdentifier: [(key: Key, old: Node)]] = [:]
        private var seen: [ObjectIdentifier: Set<Key>] = [:]

        mutating func note(_ point: Point, _ key: Key, _ old: Node) {
            guard seen[ObjectIdentifier(point), default: []].insert(key).inserted else { return }
            children[ObjectIdentifier(point), default: []].append((key, old))
        }

        func children(of point: Point) -> [(key: Key, old: Node)] {
            children[ObjectIdentifier(point)] ?? []
        }
    }

    /// Looks at the tree before the changes. Free while nobody listens through a query.
    func watch(_ changes: [Change], in tree: Node) -> Watch {
        var watch = Watch()
        guard filteredCount > 0 else { return watch }
        for change in changes {
            var point = root
            var node = tree
            for key in change.path.keys where key != Path.priorityKey {
                let child = node[key]
                if !point.filtered.isEmpty { watch.note(point, key, child) }
                guard let next = point.children[key] else { break }
                point = next
                node = child
            }
        }
        return watch
    }

    /// The pushes of a write that has just been done. Order: by change, from the root down, then into the listens
    /// below in key order.
    /// - Parameters:
    ///   - olds: What each change's path held before.
    ///   - base: Where the writer stood; a shared merge is told relative to it.
    func pushes(for changes: [Change], olds: [Node], base: Path, watch: Watch, root tree: Node) -> [Push] {
        guard !changes.isEmpty, !root.isEmpty else { return [] }
        var heard = Heard()
        for (index, change) in changes.enumerated() {
            hear(change, index, old: olds[index], &heard)
        }
        var pushes: [Push] = []
        var shared: Push?
        for report in heard.reports {
            if !report.point.defaults.isEmpty {
                // Whoever hears every change, from at or above the writer's place, hears the same message.
                let hearsAll = report.changes.count == changes.count && report.below.isEmpty
                if hearsAll, changes.count == 1 || report.point.path.contains(base) {
                    if shared == nil { shared = Push(body: message(changes, base: base)) }
                    shared?.recipients.append(report.point.defaults.members)
                } else {
                    let told = report.changes.map { changes[$0] } + report.below
                    pushes.append(
                        Push(
                            body: message(told, base: report.point.path),
                            recipients: [report.point.defaults.members]))
                }
            }
            for filtered in report.point.filtered {
                if let body = move(filtered, report, changes, watch, tree) {
                    pushes.append(Push(body: body, taggedRecipients: filtered.recipients))
                }
            }
        }
        if let shared { pushes.insert(shared, at: 0) }
        return pushes
    }

    /// One change is an overwrite; several are one merge (§17.1).
    private func message(_ changes: [Change], base: Path) -> Push.Body {
        if changes.count == 1 { return .overwrite(changes[0].path, changes[0].node) }
        return .merge(base, changes.map { Push.Entry(path: base.relative($0.path), node: $0.node) })
    }

    // MARK: Finding the listens

    /// What one point hears of a write.
    fileprivate struct Report {
        let point: Point
        /// Indexes of the changes at or below the point.
        var changes: [Int] = []
        /// The point's own new value, when a change above it altered that.
        var below: [Change] = []
    }

    fileprivate struct Heard {
        var reports: [Report] = []
        private var indexes: [ObjectIdentifier: Int] = [:]

        mutating func note(_ point: Point, change: Int?, below: Change?) {
            let index: Int
            // One change meets each point once: only a write of several needs to look points up again.
            if let found = indexes[ObjectIdentifier(point)] {
                index = found
            } else {
                index = reports.count
                reports.append(Report(point: point))
                indexes[ObjectIdentifier(point)] = index
            }
            if let change { reports[index].changes.append(change) }
            if let below { reports[index].below.append(below) }
        }
    }

    private func hear(_ change: Change, _ index: Int, old: Node, _ heard: inout Heard) {
        var point = root
        if point.hears { heard.note(point, change: index, below: nil) }
        for key in change.path.keys {
            // Nobody listens to a priority alone, nor does one alter what lies beside it.
            guard let next = point.children[key] else { return }
            point = next
            if point.hears { heard.note(point, change: index, below: nil) }
        }
        hearBelow(point, old: old, new: change.node, &heard)
    }

    private func hearBelow(_ point: Point, old: Node, new: Node, _ heard: inout Heard) {
        guard !point.children.isEmpty else { return }
        // In key order: the order of a hash table would differ from machine to machine.
        for key in point.children.keys.sorted() {
            guard let child = point.children[key] else { continue }
            let (before, after) = (old[key], new[key])
            // Equal subtrees share storage or are small; nobody below has anything to hear.
            if before == after { continue }
            if child.hears { heard.note(child, change: nil, below: Change(path: child.path, node: after)) }
            hearBelow(child, old: before, new: after, &heard)
        }
    }

    // MARK: Windows

    /// Moves a window along, and says what its listeners must be told; nil when nothing.
    private func move(
        _ filtered: Filtered, _ report: Report, _ changes: [Change], _ watch: Watch, _ tree: Node
    ) -> Push.Body? {
        let path = report.point.path
        let node = tree[path]
        let inside = report.changes.map { changes[$0] }
        // A change at the location itself, or above it, may have altered any child.
        if !report.below.isEmpty || inside.contains(where: { $0.path.count == path.count }) {
            guard !filtered.window.replace(with: node).isEmpty else { return nil }
            return .overwrite(path, filtered.window.node)
        }
        let moved = watch.children(of: report.point).map {
            Window.ChildChange(key: $0.key, old: $0.old, new: node[$0.key])
        }
        let difference = filtered.window.update(moved, in: node)
        guard !difference.isEmpty else { return nil }
        if node.isEmpty { return .overwrite(path, .empty) }
        // Who leaves is named first: a client that keeps a full window must make room before it sees who enters.
        var told = difference.left.map { Change(path: path.appending($0), node: .empty) }
        let stayed = Set(difference.changed.map(\.key))
        told += inside.filter { $0.path.count > path.count && stayed.contains($0.path[path.count]) }
        told += difference.entered.map { Change(path: path.appending($0.key), node: $0.node) }
        return message(told, base: path)
    }
}
