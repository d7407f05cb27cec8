import PandoTree

// The pushes of a write (`FanOut.swift`). Where a write has very many listens below it, they are not found by
// their locations, which takes as long as there are locations, but by their sessions.

extension ListenRegistry {
    /// Limits beyond which a write is done by sessions.
    struct Limits {
        /// The most nodes of the listener trie that are visited below the changes of a write: 1 to 2 ms. What
        /// long keys take counts as further nodes (``ListenerSearch``).
        var visitedNodeCount = 2048
        /// The most default listens of a session that are visited here; a session with more gets one
        /// ``ChangedListens``, which another thread evaluates. A listen at a long path counts as several,
        /// here and below (``ListenCost/visits(at:)``): with each limit, bytes of keys are limited.
        var visitedListenCount = 64
        /// The most default listens below the changes of one write that get their pushes here, over all
        /// sessions: 1 to 2 ms. Further sessions get a ``ChangedListens``, too. Sessions with at most
        /// ``alwaysVisitedListenCount`` listens there do not count.
        var visitedListenTotal = 2048
        /// A session with at most so many default listens below the changes gets its pushes here.
        var alwaysVisitedListenCount = 4
        /// Listens that are compared with many changes, or with changes at long paths, over all sessions: a
        /// millisecond. Further sessions get a ``ChangedListens``, whether they have listens below or not.
        var comparedListenTotal = 8192
        /// Filtered listens of a database up to which those below the changes are updated here. Where there
        /// are more, later steps update them (``ViewSweep``).
        var filteredListenTotal = 2048
    }

    /// The pushes of one change that was just done; see ``FanOut``.
    func pushes(
        for change: Change, mergeBase: Path? = nil, old: Node, in tree: Node, _ updater: ViewUpdater
    ) -> [Push] {
        var fanOut = beginFanOut(updater)
        fanOut.add(change, mergeBase: mergeBase, old: old, table, tree, updater)
        return pushes(of: fanOut, in: tree, updater)
    }

    /// The pushes of several changes that were just done at once.
    func pushes(
        for changes: [Change], olds: [Node], base: Path, in tree: Node, _ updater: ViewUpdater
    ) -> [Push] {
        var fanOut = beginFanOut(updater)
        fanOut.add(changes, olds: olds, base: base, table, tree, updater)
        return pushes(of: fanOut, in: tree, updater)
    }

    /// The pushes of changes that were just done as one.
    func pushes(
        for joined: JoinedChanges, _ result: JoinedChanges.Result, old: Node, in tree: Node,
        _ updater: ViewUpdater
    ) -> [Push] {
        var fanOut = beginFanOut(updater)
        fanOut.add(joined, result, old: old, table, tree, updater)
        return pushes(of: fanOut, in: tree, updater)
    }

    /// Begins to collect the pushes of a write, with a new budget for windows and aggregates.
    private func beginFanOut(_ updater: ViewUpdater) -> FanOut {
        updater.budget.beginWrite()
        return FanOut(visitingAtMost: limits.visitedNodeCount)
    }

    /// All pushes of a write, when its changes were added.
    private func pushes(of fanOut: consuming FanOut, in tree: Node, _ updater: ViewUpdater) -> [Push] {
        if !fanOut.unvisited.isEmpty { addPushes(to: &fanOut, in: tree, updater) }
        if let base = fanOut.sweptBase { updater.sweeps.begin(below: base, filteredListens) }
        return fanOut.pushes
    }

    /// Adds the pushes for the listens below changes that have many below them. Order: those of the sessions
    /// that are visited (``Limits``), and windows, by location; then one for each of the other sessions.
    /// - Complexity: O(sessions with listens + their listens where these are few + filtered listens, if few).
    private func addPushes(to fanOut: inout FanOut, in tree: Node, _ updater: ViewUpdater) {
        let alterations = Alterations(fanOut.unvisited)
        var few: [Path: ContiguousArray<SessionID>] = [:]
        var many: [Push] = []
        var visitedLeft = limits.visitedListenTotal
        var comparedVisitsLeft = limits.comparedListenTotal
        /// The listens of one session below the changes.
        var below: [Path] = []
        // The order of a hash table would differ from machine to machine.
        for session in sessions.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let own = self[session], !own.defaults.isEmpty else { continue }
            // What it takes is known before it is done.
            let comparedVisits = alterations.visits(searchingFor: own)
            guard own.defaultVisits <= limits.visitedListenCount, comparedVisits <= comparedVisitsLeft else {
                many.append(Self.push(alterations, to: session, listening: own))
                continue
            }
            comparedVisitsLeft -= comparedVisits
            below.removeAll(keepingCapacity: true)
            var visits = 0
            for path in own.defaults.members where alterations.above(path) != nil {
                below.append(path)
                visits += ListenCost.visits(at: path)
            }
            if visits > limits.alwaysVisitedListenCount {
                guard visits <= visitedLeft else {
                    many.append(Self.push(alterations, to: session, listening: own))
                    continue
                }
                visitedLeft -= visits
            }
            below.removeAll { table.hasDefault(of: session, above: $0) }
            for path in below { few[path, default: []].append(session) }
        }
        var views: Set<Path> = []
        if filteredCount <= limits.filteredListenTotal,
            let found = viewLocations(
                visitingAtMost: limits.filteredListenTotal, where: { alterations.above($0) != nil })
        {
            views = found
        } else {
            updater.sweeps.begin(below: alterations.commonAncestor, filteredListens)
        }
        var comparedLeft = Node.comparedNodeLimit
        for path in views.union(few.keys).sorted() {
            guard let alteration = alterations.above(path) else { continue }
            let relative = alteration.path.relative(path)
            let value = alteration.new[relative]
            if let old = alteration.old, old[relative].isEqual(to: value, visiting: &comparedLeft) {
                continue
            }
            if let sessions = few[path] {
                fanOut.pushes.append(Push(body: .overwrite(path, value), recipients: [sessions]))
            }
            if views.contains(path), let node = table.node(at: path) {
                fanOut.updateViews(of: node, inside: [], isWhole: true, tree, updater)
            }
        }
        fanOut.pushes += many
    }

    /// The push to a session whose listens another thread visits.
    private static func push(
        _ alterations: Alterations, to session: SessionID, listening own: SessionListens
    ) -> Push {
        let changed = ChangedListens(listens: own.defaults.members, alterations: alterations)
        return Push(body: .listens(changed), recipients: [[session]])
    }

    /// The locations of filtered listens that fulfil a condition.
    /// - Parameter visitLimit: The most listens at short paths that are looked at
    ///   (``ListenCost/visits(at:)``).
    /// - Returns: Nil where there are more.
    /// - Complexity: O(sessions + locations of each).
    private func viewLocations(
        visitingAtMost visitLimit: Int = .max, where isChosen: (Path) -> Bool
    ) -> Set<Path>? {
        var left = visitLimit
        var chosen: Set<Path> = []
        for listens in listensInTable {
            for (path, count) in listens.filteredCounts {
                left -= count * ListenCost.visits(at: path)
                guard left >= 0 else { return nil }
                if isChosen(path) { chosen.insert(path) }
            }
        }
        return chosen
    }

    /// Calls `body` for each order of windows at a location and below, where a new value has many children.
    /// - Complexity: O(nodes of the trie there), or O(sessions + filtered listens) where these are many.
    func forEachOrder(
        at path: Path, over node: Node, ofMoreThan childCount: Int, _ body: (ChildOrder, Path, Node) -> Void
    ) {
        guard table.viewCount > 0, let location = table.node(at: path) else { return }
        var left = limits.visitedNodeCount
        if table.mayVisitAll(below: location, &left) {
            return table.forEachOrder(at: location, over: node, ofMoreThan: childCount, body)
        }
        for viewPath in (viewLocations { path.contains($0) } ?? []).sorted() {
            let value = node[path.relative(viewPath)]
            guard value.children.count > childCount else { continue }
            for view in table.node(at: viewPath)?.views ?? [] { body(view.query.order, viewPath, value) }
        }
    }
}
