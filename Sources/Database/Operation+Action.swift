import PandoEngine
import PandoTree
import PandoWire

extension Operation {
    /// Nil for actions that a session replies to by itself.
    /// - Parameter signIn: Which of the session's sign-ins the action belongs to.
    init?(_ action: consuming Action, signIn: UInt32) {
        switch consume action {
        case .listen(let listen, _): self = .listen(listen)
        case .unlisten(let path, let query, let tag): self = .unlisten(path, query, tag: tag)
        // Clients send an empty query for none, and do not spell the default order.
        case .get(let path, let query): self = .get(path, query == Query() ? nil : query)
        case .put(let write): self = .put(write)
        case .transaction(let write, let hash, let wantsCurrentValue):
            self = .transaction(write, expectedHash: hash, wantsCurrentValue: wantsCurrentValue)
        case .merge(let base, let entries): self = .merge(base: base, entries)
        case .onDisconnectPut(let write): self = .onDisconnect([write], signIn: signIn)
        case .onDisconnectMerge(_, let entries): self = .onDisconnect(entries, signIn: signIn)
        case .onDisconnectCancel(let target): self = .cancelOnDisconnect(target.fullPath)
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid:
            return nil
        }
    }
}

extension Action {
    /// The request of a write that was not executed; nil for an operation that is no write.
    init?(_ operation: Operation) {
        switch operation {
        case .put(let write): self = .put(write)
        case .transaction(let write, let hash, let wantsCurrentValue):
            self = .transaction(write, expectedHash: hash, wantsCurrentValue: wantsCurrentValue)
        case .merge(let base, let writes): self = .merge(base, writes)
        case .onDisconnect(let writes, _):
            self = writes.count == 1 ? .onDisconnectPut(writes[0]) : .onDisconnectMerge(.root, writes)
        case .listen, .unlisten, .get, .cancelOnDisconnect, .revokeOnDisconnect, .endSession: return nil
        }
    }
}
