import PandoTree

// How a view's window changes, and what its recipients are sent.

extension QueryView {
    /// Replaces the window's data.
    /// - Returns: nil when the window is as it was.
    func replace(with node: Node, _ updater: ViewUpdater) -> Push.Body? {
        let index = updater.indexes.indexAfterReplacement(query.order, at: path, over: node)
        return window.replace(with: node, by: index).isEmpty ? nil : .overwrite(path, window.node)
    }

    /// Applies altered children to the window.
    /// - Parameter node: The location's data after the write.
    /// - Returns: nil when the window is as it was.
    func update(
        _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node], inside: [Change], _ node: Node,
        _ updater: ViewUpdater
    ) -> Push.Body? {
        let difference = window.update(
            altered, in: node, by: updater.indexes.indexForWindow(query.order, at: path, over: node),
            visitingAtMost: updater.indexes.visitedChildCount)
        requestScanForMissingChildren(updater)
        guard !difference.isEmpty else { return nil }
        if node.isEmpty { return .overwrite(path, .empty) }
        return body(of: difference) {
            entries(ofChanged: difference.changed, altered, childrenAfterRemovals, inside: inside)
        }
    }

    /// Takes the children that the window lacks.
    /// - Parameter found: The window over the data as it is now.
    /// - Returns: nil when there are none.
    func complete(from found: Window, _ updater: ViewUpdater) -> Push.Body? {
        let difference = window.complete(from: found)
        requestScanForMissingChildren(updater)
        guard !difference.isEmpty else { return nil }
        return body(of: difference) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    /// Has another thread find the children that the window lacks, if it lacks any.
    func requestScanForMissingChildren(_ updater: ViewUpdater) {
        if window.lacksChildren { updater.scans.add(self) }
    }

    // MARK: Stale windows

    /// Whether the view may not show the last writes.
    func isStale(_ updater: ViewUpdater) -> Bool { isStale(inSweep: updater.sweeps.number(at: path)) }

    /// As ``isStale(_:)``, where many views of one location are asked: O(1).
    /// - Parameter number: Of the sweep at the view's location (``SweepSchedule/number(at:)``).
    func isStale(inSweep number: Int) -> Bool { awaitsReplacement || checkedSweep < number }

    /// Has another thread find the window anew. Until then it is not updated any more.
    func requestReplacement(_ updater: ViewUpdater) {
        awaitsReplacement = true
        // What is under way finds what it lacked, and not what it is.
        if case .underWay? = scan { updater.scans.cancel(self) }
        updater.scans.add(self)
    }

    /// Whether a write may have altered the view, and the sweep has not come to it yet.
    func awaitsSweep(_ updater: ViewUpdater) -> Bool {
        !awaitsReplacement && checkedSweep < updater.sweeps.number(at: path)
    }

    /// A window that awaits the sweep is replaced instead: what another thread finds is up to date.
    func requestReplacementBeforeSweep(_ updater: ViewUpdater) {
        guard aggregate == nil, awaitsSweep(updater) else { return }
        requestReplacement(updater)
    }

    /// Takes what another thread has found in place of a window that awaits its replacement.
    /// - Parameters:
    ///   - found: The window over an earlier snapshot.
    ///   - differences: What has changed since.
    ///   - node: The location's data now.
    /// - Returns: nil when that has changed nothing more.
    func takeReplacement(
        _ found: Window, _ differences: [ChildChange], over node: Node, _ updater: ViewUpdater
    ) -> Push.Body? {
        (awaitsReplacement, hasNewerRecipients) = (false, false)
        checkedSweep = updater.sweeps.lastNumber
        window = found
        let difference = window.update(
            differences, in: node, by: updater.indexes.readyIndex(query.order, at: path),
            visitingAtMost: updater.indexes.visitedChildCount)
        requestScanForMissingChildren(updater)
        guard !difference.isEmpty else { return nil }
        return body(of: difference) {
            difference.changed.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        }
    }

    // MARK: Pushes

    /// - Parameter changed: The entries of children that stayed and changed.
    private func body(of difference: Window.Update, changed: () -> [Push.Entry]) -> Push.Body {
        // Children that left come first: a client with a full window must remove one before it adds one.
        var entries = difference.left.map { Push.Entry(path: Path([$0]), node: .empty) }
        entries += changed()
        entries += difference.entered.map { Push.Entry(path: Path([$0.key]), node: $0.node) }
        if entries.count > 1 { return .merge(path, entries) }
        return .overwrite(path.appending(entries[0].path.keys), entries[0].node)
    }

    /// Entries for the children that stayed in the window and changed: the changes in them.
    ///
    /// A client applies entries one by one. It removes a child from its window as soon as that does not
    /// belong there, and then ignores changes in it. So a child is sent whole that the removals alone would
    /// empty, or would leave without a value in the window's order.
    private func entries(
        ofChanged changed: [WindowEntry], _ altered: [ChildChange], _ childrenAfterRemovals: [Key: Node],
        inside: [Change]
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
