import PandoTree

// The part of a fan-out that updates query windows and live aggregates.

extension FanOut {
    /// Updates the windows and live aggregates of a node that the changes touch, and adds the pushes for
    /// their recipients. When the budget of the write is used up, or does not last for one of them, other
    /// threads find the windows anew, and compute the aggregates. Where too many are touched, none is
    /// updated, and all there await the sweep.
    /// - Parameters:
    ///   - inside: The changes strictly below the node.
    ///   - afterRemovals: Of changes that were done as one (``JoinedChanges/Result/afterRemovals``).
    ///   - isWhole: A change at the node or above it may have altered any child. Then `inside` is ignored.
    ///   - known: With `isWhole`: the children that it may have altered; nil for any.
    mutating func updateViews(
        of node: ListenerNode, inside: [Change], afterRemovals: Change? = nil, isWhole: Bool,
        amongOnly known: [ChildChange]? = nil, _ tree: Node, _ updater: ViewUpdater
    ) {
        guard let details = node.details, !details.views.isEmpty else { return }
        let value = tree[node.path]
        let altered = isWhole ? known ?? [] : Self.alteredChildren(of: details, value)
        details.preimages.removeAll()
        var values = IndexValues(of: altered)
        /// Computed for the first window that needs them.
        var childrenAfterRemovals: [Key: Node]?
        // Many windows are found by their ranges; of few, each is asked.
        let touchesAll = isWhole && known == nil
        let asksEach = !touchesAll && details.finder.isEmpty
        // Where there are more, those that await the sweep wait for their turn in it.
        let mayVisitAll = asksEach || details.views.count <= updater.budget.viewsLeft
        guard
            var views = Self.views(
                at: node.path, touchedBy: touchesAll || asksEach ? nil : altered, details, updater)
        else { return sweep(node.path) }
        let mayAwaitSweep = mayVisitAll && updater.sweeps.scope?.base.contains(node.path) == true
        if mayAwaitSweep, !touchesAll, !asksEach {
            let awaiting = details.views.filter { $0.awaitsSweep(updater) }
            views = awaiting + views.filter { !$0.awaitsSweep(updater) }
        }
        for view in views {
            let isSwept = mayAwaitSweep && view.awaitsSweep(updater)
            if view.awaitsReplacement || asksEach && !isSwept && !values.mayTouch(view.window) { continue }
            view.checkedSweep = updater.sweeps.lastNumber
            // What awaits the sweep is replaced, as by a write above.
            let isWhole = isWhole || isSwept
            let cost = UpdateBudget.cost(
                of: view, isWhole ? nil : altered.count, over: value, updater.indexes)
            // An aggregate that takes long is left to another thread by itself.
            let hasTime =
                view.aggregate == nil ? updater.budget.hasTime(for: cost) : !updater.budget.isUsedUp
            if hasTime { updater.budget.spend(cost) }
            if view.aggregate != nil {
                if let body = view.recompute(over: value, updater, hasTime: hasTime) {
                    push(body, to: view, updater)
                }
                continue
            }
            guard hasTime else {
                view.requestReplacement(updater)
                continue
            }
            var body: Push.Body?
            if isWhole {
                body = view.replace(with: value, updater)
            } else {
                let bare =
                    childrenAfterRemovals
                    ?? Self.childrenAfterRemovals(altered, inside, afterRemovals, at: node.path.count)
                childrenAfterRemovals = bare
                body = view.update(altered, bare, inside: inside, value, updater)
            }
            details.updateRange(of: view)
            updater.resized.note(view)
            if let body { push(body, to: view, updater) }
        }
    }

    /// The views of a location that a write may touch; nil where these are more than it may mark.
    /// - Parameter altered: Nil for all views.
    private static func views(
        at path: Path, touchedBy altered: [ChildChange]?, _ details: ListenerDetails, _ updater: ViewUpdater
    ) -> [QueryView]? {
        if let altered {
            let sweep = updater.sweeps.number(at: path)
            return details.finder.views(
                touchedBy: altered, exceptWhere: { $0.isStale(inSweep: sweep) }, spending: &updater.budget)
        }
        // Few are asked one by one, and do not count.
        guard !details.finder.isEmpty else { return details.views }
        guard details.views.count <= updater.budget.viewsLeft else { return nil }
        updater.budget.viewsLeft -= details.views.count
        return details.views
    }

    /// Later steps update all views at a location.
    private mutating func sweep(_ path: Path) {
        guard let base = sweptBase else { return sweptBase = path }
        sweptBase = Path(Array(base.keys[..<base.sharedDepth(with: path)]))
    }

    /// Adds a push for all recipients of a view: they count, too, for what the write may do.
    private mutating func push(_ body: Push.Body, to view: QueryView, _ updater: ViewUpdater) {
        updater.budget.spendPush(to: view)
        pushes.append(Push(body: body, taggedRecipients: view.recipients.members))
    }

    /// The captured children of a node that a write altered, each once.
    private static func alteredChildren(of details: ListenerDetails, _ value: Node) -> [ChildChange] {
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
    ///   - afterRemovals: As of ``updateViews(of:inside:afterRemovals:isWhole:amongOnly:_:_:)``.
    ///   - depth: The number of keys in the node's path.
    private static func childrenAfterRemovals(
        _ altered: [ChildChange], _ inside: [Change], _ afterRemovals: Change?, at depth: Int
    ) -> [Key: Node] {
        var removals: [Change] = []
        if let afterRemovals {
            removals = [afterRemovals]
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
