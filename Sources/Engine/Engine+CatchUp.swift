import PandoTree

extension Engine {
    /// What a session is to be sent that has missed the pushes about some places: the values of now, one push
    /// for each of its listens (realtime §5.1, §5.2).
    /// - Parameters:
    ///   - paths: Places that have changed, none at or below another. Those to which it does not listen any
    ///     more are left out; of one above its listens, each listen is sent whole.
    ///   - tags: Filtered listens whose windows have changed; sent whole.
    package func catchUp(_ session: SessionID, paths: Set<Path>, tags: Set<Int64>) -> [Push] {
        guard let state = sessions[session] else { return [] }
        var pushes: [Push] = []
        for (listen, changed) in changes(of: paths, in: state) {
            var push = Push(body: .overwrite(changed[0], root[changed[0]]))
            if changed.count > 1 {
                push.body = .merge(
                    listen, changed.map { Push.Entry(path: listen.relative($0), node: root[$0]) })
            }
            push.recipients = [[session]]
            pushes.append(push)
        }
        guard !tags.isEmpty else { return pushes }
        for key in state.filteredListens.members where tags.contains(key.tag) {
            guard let window = listeners.window(of: key) else { continue }
            pushes.append(
                Push(
                    body: .overwrite(key.path, window.node),
                    taggedRecipients: [.init(session: session, tag: key.tag)]))
        }
        return pushes
    }

    /// The places, grouped by the listen that covers them, in the order of paths.
    private func changes(of paths: Set<Path>, in state: SessionState) -> [(listen: Path, changed: [Path])] {
        var byListen: [Path: [Path]] = [:]
        for path in paths {
            if let listen = state.uncoveredListen(at: path) {
                byListen[listen, default: []].append(path)
            } else {
                for (listen, isCovered) in state.defaultListens where !isCovered && path.contains(listen) {
                    byListen[listen] = [listen]
                }
            }
        }
        return byListen.sorted { $0.key < $1.key }.map { listen, changed in
            // A place above the listen has taken everything in.
            (listen, changed.contains(listen) ? [listen] : changed.sorted())
        }
    }
}
