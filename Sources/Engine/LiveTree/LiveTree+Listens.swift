import PandoBytes
import PandoTree

// How listens begin and end (realtime §4.2, §4.3, §6.4).

extension LiveTree {
    /// Whether the session gets every change at the path through a default listen there or above. O(bytes of
    /// the keys).
    func hasListen(covering path: Path, of session: SessionID) -> Bool {
        guard listens[session]?.defaults.isEmpty == false else { return false }
        return listens.table.depthOfHighestDefault(of: session, along: path) != nil
    }

    /// The number of the session's listens. O(1).
    package func listenCount(of session: SessionID) -> Int { listens[session]?.count ?? 0 }

    /// About the bytes of memory that the session's listens take. O(1).
    func listenByteCount(of session: SessionID) -> Int { listens[session]?.byteCount ?? 0 }

    /// About how long it takes to end the session's listens; see ``end(_:doing:)``. O(1).
    package func endingWork(of session: SessionID) -> Int { listens[session]?.endingWork ?? 0 }

    /// Registers a listen, or replaces the same listen.
    /// - Returns: One push with the data that the client lacks; none when the client's hash matches.
    mutating func begin(_ listen: Listen, for session: SessionID) -> [Push] {
        if let query = listen.query, let tag = listen.tag {
            return beginFiltered(
                listen, FilteredListenKey(path: listen.path, query: query, tag: tag), session)
        }
        listens.add(defaultAt: listen.path, of: session)
        return initialPush(root[listen.path], listen, session)
    }

    private mutating func beginFiltered(
        _ listen: Listen, _ key: FilteredListenKey, _ session: SessionID
    ) -> [Push] {
        let prepared = preparedWindow.take().flatMap {
            $0.path == key.path && $0.window.query == key.query ? $0 : nil
        }
        let view = listens.add(
            key, by: indexes.readyIndex(key.query.order, at: key.path), of: session, over: root[key.path],
            prepared: prepared?.window, sweep: updater.sweeps.lastNumber)
        view.requestReplacementBeforeSweep(updater)
        guard view.aggregate == nil else { return beginAggregate(view, listen, session) }
        var window = view.window
        if view.awaitsReplacement {
            // What it was before writes that are acknowledged is no answer. The scan brings all recipients
            // together again.
            view.hasNewerRecipients = true
            let query = IndexedQuery(key.query, by: indexes.readyIndex(key.query.order, at: key.path))
            window = prepared?.window ?? Window(query, over: root[key.path])
        } else {
            view.requestScanForMissingChildren(updater)
            if view.window.entries.count > Self.inlineQueryChildCount { view.window.identify() }
            window = view.window
        }
        guard window.entries.count > Self.inlineQueryChildCount else {
            return initialPush(window.node, listen, session)
        }
        let state = InitialState(
            path: listen.path, node: .empty, window: window, hash: listen.hash,
            compoundHash: listen.compoundHash)
        return [push(.initial(state), of: listen, to: session)]
    }

    /// - Returns: The value, unless it takes long to compute: then it comes later.
    private func beginAggregate(
        _ view: QueryView, _ listen: Listen, _ session: SessionID
    ) -> [Push] {
        if view.aggregate?.value == nil {
            let body = view.recompute(over: root[listen.path], updater, isFirst: true)
            // Other recipients have waited for a scan.
            return body.map { [Push(body: $0, taggedRecipients: view.recipients.members)] } ?? []
        }
        guard let value = view.aggregate?.value else { return [] }
        return [push(.overwrite(listen.path, value), of: listen, to: session)]
    }

    private func initialPush(_ node: Node, _ listen: Listen, _ session: SessionID) -> [Push] {
        let state = InitialState(
            path: listen.path, node: node, hash: listen.hash, compoundHash: listen.compoundHash)
        let knownHash = listen.query == nil && listen.compoundHash == nil ? hashes[listen.path] : nil
        let isLeftToHost =
            knownHash == nil && state.needsHash && node.isHeavier(than: Self.inlineHashByteCount)
        guard let body = isLeftToHost ? .initial(state) : state.body(knowing: knownHash) else { return [] }
        return [push(body, of: listen, to: session)]
    }

    private func push(_ body: Push.Body, of listen: Listen, to session: SessionID) -> Push {
        var push = Push(body: body)
        if let tag = listen.tag {
            push.taggedRecipients = [.init(session: session, tag: tag)]
        } else {
            push.recipients = [[session]]
        }
        return push
    }

    /// Ends a listen. One that does not exist is no error.
    mutating func end(_ path: Path, _ query: Query?, _ tag: Int64?, for session: SessionID) {
        if let query, let tag {
            let key = FilteredListenKey(path: path, query: query, tag: tag)
            if let view = listens.remove(key, of: session) { updater.noteEnd(of: view) }
        } else {
            listens.remove(defaultAt: path, of: session)
        }
    }

    mutating func endAllListens(of session: SessionID) {
        guard var ending = listens.detach(session) else { return }
        var work = Int.max
        end(&ending, doing: &work)
    }

    /// Removes all listens from the session, so that the caller can end them in parts (``end(_:doing:)``): to
    /// end fifty thousand takes forty milliseconds. The session's queue stays, and may run before the last
    /// listen has ended.
    /// - Returns: Nil where the session has no listens.
    package mutating func detachListens(of session: SessionID) -> EndingListens? { listens.detach(session) }

    /// Ends listens until the work is done, or all have ended.
    /// - Parameter work: Nodes of the listener trie that are visited, about: a thousand in a millisecond.
    ///   What is done is subtracted.
    package mutating func end(_ ending: inout EndingListens, doing work: inout Int) {
        for view in listens.end(&ending, doing: &work) { updater.noteEnd(of: view) }
        chargeResizedWindows()
    }
}
