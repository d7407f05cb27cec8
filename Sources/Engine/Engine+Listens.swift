import PandoBytes
import PandoRules
import PandoTree

// Beginning and ending listens (realtime §4.2, §4.3, §6.4).

extension Engine {
    /// True when the session hears everything at the path through a default listen there or above.
    func hasListen(covering path: Path, of session: SessionID) -> Bool {
        sessions[session]?.hasDefaultListen(covering: path) ?? false
    }

    /// The session's listens that a credential may not read, by path: after a change of credential or rules
    /// the host tells the client that they are revoked (§5.4) and ends them. Hashes are nil.
    /// - Parameter time: `now`, for the rules.
    package func listens(of session: SessionID, deniedTo credential: Credential, at time: Int64) -> [Listen] {
        guard let state = sessions[session] else { return [] }
        let all =
            state.defaultListens.keys.map { Listen(path: $0) }
            + state.filteredListens.members.map { Listen(path: $0.path, query: $0.query, tag: $0.tag) }
        // Of the listens at one path the default one first; tags differ.
        return all.filter { !mayRead($0.path, Self.visible($0.query), as: credential, at: time) }
            .sorted { $0.path != $1.path ? $0.path < $1.path : $0.tag ?? .min < $1.tag ?? .min }
    }

    /// Listens that the session has.
    package func listenCount(of session: SessionID) -> Int { sessions[session]?.listenCount ?? 0 }

    func canQueue(_ writes: [Write], by author: DisconnectQueue.Author, for session: SessionID) -> Bool {
        (sessions[session]?.queue ?? DisconnectQueue()).canAdd(writes, by: author)
    }

    /// Registers a listen, in place of the same one if there is, and gives what the client lacks: one push,
    /// or none when its hash matches.
    mutating func begin(_ listen: Listen, for session: SessionID) -> [Push] {
        if let query = listen.query, let tag = listen.tag {
            return beginFiltered(
                listen, FilteredListenKey(path: listen.path, query: query, tag: tag), session)
        }
        var state = sessions.removeValue(forKey: session) ?? SessionState()
        if state.defaultListens[listen.path] == nil {
            let isCovered = state.hasDefaultListen(covering: listen.path, strictly: true)
            cover(below: listen.path, &state, session)
            state.defaultListens[listen.path] = isCovered
            listeners.addDefault(session, at: listen.path, isCovered: isCovered)
        }
        sessions[session] = state
        return initialPush(root[listen.path], listen, session)
    }

    private mutating func beginFiltered(
        _ listen: Listen, _ key: FilteredListenKey, _ session: SessionID
    ) -> [Push] {
        let prepared = preparedWindow.take().flatMap {
            $0.path == key.path && $0.window.query == key.query ? $0 : nil
        }
        let window = listeners.addFiltered(key, session, over: root[key.path], prepared: prepared?.window)
        sessions[session, default: SessionState()].insert(key)
        guard window.entries.count > Self.inlineQueryChildCount else {
            return initialPush(window.node, listen, session)
        }
        let state = InitialState(
            path: listen.path, node: .empty, window: window, hash: listen.hash,
            compoundHash: listen.compoundHash)
        return [push(.initial(state), of: listen, to: session)]
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

    /// Ends a listen; one that does not exist is no error.
    mutating func end(_ path: Path, _ query: Query?, _ tag: Int64?, for session: SessionID) {
        guard var state = sessions.removeValue(forKey: session) else { return }
        if let query, let tag {
            let key = FilteredListenKey(path: path, query: query, tag: tag)
            if state.remove(key) { listeners.removeFiltered(key, session) }
        } else if let isCovered = state.defaultListens.removeValue(forKey: path) {
            listeners.removeDefault(session, at: path, isCovered: isCovered)
            uncover(below: path, &state, session)
        }
        if !state.isIdle { sessions[session] = state }
    }

    /// Lets a listen at `path` speak for the session's listens below it.
    private mutating func cover(below path: Path, _ state: inout SessionState, _ session: SessionID) {
        for other in ownListens(below: path, state) where state.defaultListens[other] == false {
            state.defaultListens[other] = true
            listeners.setCovered(true, session, at: other)
        }
    }

    /// Lets the listens that one at `path` spoke for speak for themselves, unless another one covers them.
    private mutating func uncover(below path: Path, _ state: inout SessionState, _ session: SessionID) {
        for other in ownListens(below: path, state) where state.defaultListens[other] == true {
            guard !state.hasDefaultListen(covering: other, strictly: true) else { continue }
            state.defaultListens[other] = false
            listeners.setCovered(false, session, at: other)
        }
    }

    /// Places below the path among which are all of the session's listens there, in no order: each listen is
    /// at a point of its own, so none matters. Everybody's places there or the session's everywhere,
    /// whichever are fewer: a session that listens to fifty thousand places beside one another pays for none
    /// of the others.
    private func ownListens(below path: Path, _ state: SessionState) -> [Path] {
        guard !state.defaultListens.isEmpty else { return [] }
        return listeners.paths(below: path, atMost: state.defaultListens.count)
            ?? state.defaultListens.keys.filter { path != $0 && path.contains($0) }
    }

    mutating func endAllListens(of session: SessionID) {
        guard var listens = takeListens(of: session) else { return }
        end(&listens, atMost: .max)
    }

    /// Takes all of a session's listens, which are to be ended in parts (``end(_:atMost:)``), since to end
    /// fifty thousand takes forty milliseconds. What the session has queued stays, and may run before the
    /// last of them has ended.
    /// - Returns: Nil where there are none.
    package mutating func takeListens(of session: SessionID) -> EndingListens? {
        guard var state = sessions.removeValue(forKey: session) else { return nil }
        let listens = EndingListens(state, of: session)
        state.forgetListens()
        if !state.isIdle { sessions[session] = state }
        return listens.isEmpty ? nil : listens
    }

    /// Ends up to `limit` of them.
    package mutating func end(_ listens: inout EndingListens, atMost limit: Int) {
        for _ in 0..<min(limit, listens.defaults.count) {
            let (path, isCovered) = listens.defaults.removeLast()
            listeners.removeDefault(listens.session, at: path, isCovered: isCovered)
        }
        let last = listens.firstFiltered + min(limit, listens.filtered.count - listens.firstFiltered)
        for index in listens.firstFiltered..<last {
            listeners.removeFiltered(listens.filtered[index], listens.session)
        }
        listens.firstFiltered = last
    }
}

/// Listens of a session that has ended, which are still in the tables of who hears what.
package struct EndingListens: Sendable {
    fileprivate let session: SessionID
    fileprivate var defaults: [(path: Path, isCovered: Bool)]
    /// Shared with the state, so not changed.
    fileprivate let filtered: [FilteredListenKey]
    /// The first that has not ended.
    fileprivate var firstFiltered = 0
    /// Freed with the rest of it.
    private let state: SessionState

    fileprivate init(_ state: SessionState, of session: SessionID) {
        self.session = session
        self.state = state
        defaults = state.defaultListens.map { ($0.key, $0.value) }
        filtered = state.filteredListens.members
    }

    package var isEmpty: Bool { defaults.isEmpty && firstFiltered == filtered.count }
}
