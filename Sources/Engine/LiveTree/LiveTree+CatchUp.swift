import PandoTree

extension LiveTree {
    /// The most children of a query window that is made into one node here when its session catches up. Of a
    /// larger one the push has a snapshot, and a worker makes the node: a session may have thousands of them.
    static let inlineCatchUpChildCount = 16

    /// Pushes for a session that has missed earlier ones: the current values, one push for each of its
    /// listens (realtime §5.1, §5.2).
    /// - Parameters:
    ///   - paths: Locations that have changed, none at or below another. Locations that the session no longer
    ///     listens to are left out. For a location above listens, each listen is sent whole; where the session
    ///     has many, as one push for all of them.
    ///   - tags: Filtered listens whose windows have changed. They are sent whole.
    /// - Complexity: O(bytes of the paths' keys). For a path above listens also O(listens of the session), if
    ///   these are at most `visitedListenCount`, else O(1). For tags O(filtered listens of the session), and
    ///   at most 16 children of each query window.
    package func catchUp(_ session: SessionID, paths: [Path], tags: Set<Int64>) -> [Push] {
        guard let own = listens[session] else { return [] }
        var pushes: [Push] = []
        var above: [Path] = []
        for (listen, changed) in changes(of: paths, for: session, own, &above) {
            var push = Push(body: .overwrite(changed[0], root[changed[0]]))
            if changed.count > 1 {
                push.body = .merge(
                    listen, changed.map { Push.Entry(path: listen.relative($0), node: root[$0]) })
            }
            push.recipients = [[session]]
            pushes.append(push)
        }
        if !above.isEmpty {
            let alterations = Alterations(
                above.sorted().map { Alteration(path: $0, old: nil, new: root[$0]) })
            let changed = ChangedListens(listens: own.defaults.members, alterations: alterations)
            pushes.append(Push(body: .listens(changed), recipients: [[session]]))
        }
        guard !tags.isEmpty else { return pushes }
        for key in own.filtered.members where tags.contains(key.tag) {
            guard let view = listens.table.view(of: key.query, at: key.path) else { continue }
            let body: Push.Body
            if view.aggregate == nil, view.window.entries.count > Self.inlineCatchUpChildCount {
                // To make one node of many children is left to the one who encodes it.
                view.window.identify()
                body = .initial(InitialState(path: key.path, node: .empty, window: view.window))
            } else {
                guard let node = view.node else { continue }
                body = .overwrite(key.path, node)
            }
            pushes.append(
                Push(body: body, taggedRecipients: [.init(session: session, tag: key.tag)]))
        }
        return pushes
    }

    /// The changed locations, grouped by the highest listen at or above them, in the order of paths.
    /// - Parameter above: Gets the paths that no listen of the session covers, if it has more than
    ///   `visitedListenCount` listens, or these are at long paths.
    private func changes(
        of paths: [Path], for session: SessionID, _ own: SessionListens, _ above: inout [Path]
    ) -> [(listen: Path, changed: [Path])] {
        guard !own.defaults.isEmpty else { return [] }
        let hasMany = own.defaultVisits > listens.limits.visitedListenCount
        var byListen: [Path: [Path]] = [:]
        for path in paths {
            if let depth = listens.table.depthOfHighestDefault(of: session, along: path) {
                byListen[Path(Array(path.keys[..<depth])), default: []].append(path)
            } else if hasMany {
                above.append(path)
            } else {
                for listen in own.defaults.members
                where path.contains(listen) && !listens.table.hasDefault(of: session, above: listen) {
                    byListen[listen] = [listen]
                }
            }
        }
        return byListen.sorted { $0.key < $1.key }.map { listen, changed in
            // A location above the listen includes all others.
            (listen, changed.contains(listen) ? [listen] : changed.sorted())
        }
    }
}
