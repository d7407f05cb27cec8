import PandoTree

// What becomes of the results of scans (``QueryScan``): windows and live aggregates get them.

extension LiveTree {
    /// Whether the listen that a scan is for still waits for it. O(depth).
    func isAwaited(_ scan: QueryScan) -> Bool {
        guard let view = listens.table.view(of: scan.query, at: scan.path) else { return false }
        return view.scan == scan.number || view.aggregate?.scan == scan.number
    }

    /// Takes the result of a scan.
    mutating func finish(_ scan: QueryScan) {
        guard let view = listens.table.view(of: scan.query, at: scan.path) else { return }
        view.settle(at: scan.path, indexes)
        switch scan.result {
        case .aggregate(let value): finish(scan, value, of: view)
        case .window(let window): finish(scan, window, of: view)
        case .replacement(let window, let body): finish(scan, window, body, of: view)
        case nil: break
        }
    }

    private mutating func finish(
        _ scan: QueryScan, _ found: Window, _ body: Push.Body?, of view: QueryView
    ) {
        guard view.scan == scan.number, let snapshot = scan.input?.node else { return }
        let node = root[scan.path]
        let body = body ?? (view.hasLateRecipients ? .overwrite(scan.path, found.node) : nil)
        var bodies = body.map { [$0] } ?? []
        if let differences = differences(from: snapshot, to: node) {
            view.scan = nil
            let further = view.catchUp(with: found, differences, over: node, at: scan.path, indexes)
            if let further { bodies.append(further) }
        } else {
            // However much is written, the recipients get what it was a scan before.
            view.window = found
            view.scan = indexes.addScan(
                of: scan.query, at: scan.path, following: (found, snapshot), replacing: found)
        }
        for body in bodies {
            scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
    }

    /// What has changed since a snapshot, over which a window was made; nil where that is more than one step
    /// may do.
    func differences(from snapshot: Node, to node: Node) -> [ChildChange]? {
        node.children.differences(from: snapshot.children, atMost: Self.differenceLimit)
    }

    private mutating func finish(_ scan: QueryScan, _ found: Window, of view: QueryView) {
        guard view.scan == scan.number, let snapshot = scan.input?.node else { return }
        view.scan = nil
        // Children that came into the range meanwhile may have filled it.
        guard view.window.lacksChildren else { return }
        let node = root[scan.path]
        guard let differences = differences(from: snapshot, to: node) else {
            // Fewer will have changed when these are done: in the end few enough.
            view.scan = indexes.addScan(of: scan.query, at: scan.path, following: (found, snapshot))
            return
        }
        var window = found
        _ = window.update(
            differences, in: node, by: indexes.index(scan.query.order, at: scan.path),
            visitingAtMost: indexes.visitedChildCount)
        if let body = view.complete(from: window, at: scan.path, indexes) {
            scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
        }
        listens.table.node(at: scan.path)?.updateRange(of: view)
    }

    /// Takes the value of a live aggregate that a scan has computed.
    private mutating func finish(_ scan: QueryScan, _ value: Node, of view: QueryView) {
        guard view.aggregate?.scan == scan.number else { return }
        let isStale = view.aggregate?.isStale ?? false
        view.aggregate?.scan = nil
        view.aggregate?.isStale = false
        if let push = view.publish(value, at: scan.path) { scanPushes.append(push) }
        guard isStale, let body = view.recompute(over: root[scan.path], at: scan.path, indexes) else {
            return
        }
        scanPushes.append(Push(body: body, taggedRecipients: view.recipients.members))
    }
}
