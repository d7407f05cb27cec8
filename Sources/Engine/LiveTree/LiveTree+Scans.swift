import PandoTree

// What becomes of the results of scans (``QueryScan``): windows and live aggregates get them.

extension LiveTree {
    /// Begins a scan for views that wait for one; nil where none waits, or enough are under way.
    mutating func beginScan() -> QueryScan? {
        guard let (path, views) = indexes.work.takeScan(childCount: { root[$0].children.count }) else {
            return nil
        }
        var scan = QueryScan(at: path, over: root[path])
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
    /// - Returns: Whether all of it was taken.
    mutating func finishSome(_ scan: inout QueryScan) -> Bool {
        let node = root[scan.path]
        let differences = differences(from: scan.node, to: node)
        var left = Self.finishedEntryLimit
        while left > 0, scan.finishedCount < scan.parts.count {
            let part = scan.parts[scan.finishedCount]
            scan.finishedCount += 1
            left -= Self.entriesPerView
            guard let view = listens.table.view(of: part.query.query, at: scan.path) else { continue }
            view.settle(indexes)
            guard view.awaits(part.number) else { continue }
            view.scan = nil
            left -= FanOut.visitsPerRecipient * view.recipients.count
            left -= Self.entriesPerDifference * (differences?.count ?? 0)
            switch part.result {
            case .aggregate(let value): finish(value, of: view, over: node)
            case .window(let window):
                left -= window.entries.count
                finish(scan, window, of: view, differences, over: node)
            case .replacement(let window, let body):
                left -= window.entries.count
                finish(scan, window, body, of: view, differences, over: node)
            case nil: preconditionFailure("the scan was not performed")
            }
        }
        return scan.finishedCount == scan.parts.count
    }

    /// Takes the place of a window that is behind.
    private mutating func finish(
        _ scan: QueryScan, _ found: Window, _ body: Push.Body?, of view: QueryView,
        _ differences: [ChildChange]?, over node: Node
    ) {
        let body = body ?? (view.hasLateRecipients ? .overwrite(scan.path, found.node) : nil)
        var bodies = body.map { [$0] } ?? []
        if let differences {
            let further = view.catchUp(with: found, differences, over: node, indexes)
            if let further { bodies.append(further) }
        } else {
            // However much is written, the recipients get what it was a scan before.
            view.window = found
            follow(scan, found, for: view)
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
        indexes.resizedWindows.note(view)
        // A listen that may not have so large a window ends before it is sent that.
        chargeResizedWindows()
        guard !view.recipients.isEmpty else { return }
        for body in bodies {
            scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
        }
    }

    /// Has another thread find what has changed since a scan: more than one step may do.
    private func follow(_ scan: QueryScan, _ found: Window, for view: QueryView) {
        view.scanBase = (found, scan.node)
        indexes.work.addScan(for: view)
    }

    /// What has changed since a snapshot, over which a window was made; nil where that is more than one step
    /// may do.
    func differences(from snapshot: Node, to node: Node) -> [ChildChange]? {
        node.children.differences(from: snapshot.children, atMost: Self.differenceLimit)
    }

    /// Takes the children that a window lacks.
    private mutating func finish(
        _ scan: QueryScan, _ found: Window, of view: QueryView, _ differences: [ChildChange]?, over node: Node
    ) {
        // Children that came into the range meanwhile may have filled it.
        guard view.window.lacksChildren else { return }
        guard let differences else {
            // Fewer will have changed when these are done: in the end few enough.
            return follow(scan, found, for: view)
        }
        var window = found
        _ = window.update(
            differences, in: node, by: indexes.index(view.query.order, at: scan.path),
            visitingAtMost: indexes.visitedChildCount)
        let body = view.complete(from: window, indexes)
        listens.table.node(at: scan.path)?.updateRange(of: view)
        indexes.resizedWindows.note(view)
        chargeResizedWindows()
        guard let body, !view.recipients.isEmpty else { return }
        scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
    }

    /// Takes the value of a live aggregate that a scan has computed.
    private mutating func finish(_ value: Node, of view: QueryView, over node: Node) {
        let isStale = view.aggregate?.isStale ?? false
        view.aggregate?.isStale = false
        if let push = view.publish(value) { scanPushes.append(push) }
        guard isStale, let body = view.recompute(over: node, indexes) else { return }
        scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
    }
}
