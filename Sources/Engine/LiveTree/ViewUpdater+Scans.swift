import PandoTree

// What becomes of the results of scans (``QueryScan``): windows and live aggregates get them.

extension ViewUpdater {
    /// Begins a scan for views that wait for one; nil where none waits, or enough are under way.
    func beginScan(over tree: Node) -> QueryScan? {
        guard let (path, views) = scans.take(childCount: { tree[$0].children.count }) else { return nil }
        var scan = QueryScan(at: path, over: tree[path])
        for view in views { scan.add(view, indexes.indexed(view.query, at: path)) }
        return scan
    }

    /// About how much of a scan's result is taken in one step, counted in entries of windows: half a
    /// millisecond.
    private static let finishedEntryLimit = 1 << 14
    /// To take the result for a view, and to encode what is pushed, takes as long as so many entries, or
    /// more.
    private static let entriesPerView = 256
    /// To apply a change takes as long as so many entries.
    private static let entriesPerDifference = 8

    /// Takes as much of the result of a scan as one step may, and of at least one view.
    /// - Parameters:
    ///   - tree: The data now.
    ///   - listens: Those that may not have so large a window any more end.
    /// - Returns: Whether all of it was taken.
    func finishSome(_ scan: inout QueryScan, over tree: Node, _ listens: inout ListenRegistry) -> Bool {
        let node = tree[scan.path]
        let differences = differences(from: scan.node, to: node)
        var left = Self.finishedEntryLimit
        while left > 0, scan.finishedCount < scan.parts.count {
            let part = scan.parts[scan.finishedCount]
            scan.finishedCount += 1
            left -= Self.entriesPerView
            guard let view = listens.table.view(of: part.query.query, at: scan.path) else { continue }
            view.requestReplacementBeforeSweep(self)
            guard view.awaits(part.number) else { continue }
            view.scan = nil
            left -= UpdateBudget.visitsPerRecipient * view.recipients.count
            left -= Self.entriesPerDifference * (differences?.count ?? 0)
            switch part.result {
            case .aggregate(let value): finish(value, of: view, over: node)
            case .window(let window):
                left -= window.entries.count
                complete(view, from: window, of: scan, differences, over: node, &listens)
            case .replacement(let window, let body):
                left -= window.entries.count
                replace(view, by: window, body, of: scan, differences, over: node, &listens)
            case nil: preconditionFailure("the scan was not performed")
            }
        }
        return scan.finishedCount == scan.parts.count
    }

    /// Takes a window in place of a stale one.
    private func replace(
        _ view: QueryView, by found: Window, _ body: Push.Body?, of scan: QueryScan,
        _ differences: [ChildChange]?, over node: Node, _ listens: inout ListenRegistry
    ) {
        let body = body ?? (view.hasNewerRecipients ? .overwrite(scan.path, found.node) : nil)
        var bodies = body.map { [$0] } ?? []
        if let differences {
            let further = view.takeReplacement(found, differences, over: node, self)
            if let further { bodies.append(further) }
        } else {
            // However much is written, the recipients get what it was a scan before.
            view.window = found
            follow(found, of: scan, for: view)
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
        resized.note(view)
        // A listen that may not have so large a window ends before it is sent that.
        chargeResizedWindows(&listens)
        guard !view.recipients.isEmpty else { return }
        for body in bodies { push(body, to: view) }
    }

    /// Has another thread find what has changed since a scan: more than one step may do.
    private func follow(_ found: Window, of scan: QueryScan, for view: QueryView) {
        view.scanBase = (found, scan.node)
        scans.add(view)
    }

    /// Takes the children that a window lacks.
    private func complete(
        _ view: QueryView, from found: Window, of scan: QueryScan, _ differences: [ChildChange]?,
        over node: Node, _ listens: inout ListenRegistry
    ) {
        // Children that came into the range meanwhile may have filled it.
        guard view.window.lacksChildren else { return }
        guard let differences else {
            // Fewer will have changed when these are done: in the end few enough.
            return follow(found, of: scan, for: view)
        }
        var window = found
        _ = window.update(
            differences, in: node, by: indexes.readyIndex(view.query.order, at: scan.path),
            visitingAtMost: indexes.visitedChildCount)
        let body = view.complete(from: window, self)
        listens.table.node(at: scan.path)?.updateRange(of: view)
        resized.note(view)
        chargeResizedWindows(&listens)
        guard let body, !view.recipients.isEmpty else { return }
        push(body, to: view)
    }

    /// Takes the value of a live aggregate that a scan has computed.
    private func finish(_ value: Node, of view: QueryView, over node: Node) {
        let isOutdated = view.aggregate?.isScanOutdated ?? false
        view.aggregate?.isScanOutdated = false
        if let body = view.publish(value) { push(body, to: view) }
        guard isOutdated, let body = view.recompute(over: node, self) else { return }
        push(body, to: view)
    }
}
