/// What a client asks for.
enum ClientAction {
    /// A session begins.
    case open
    case authenticate
    case put([String], Draft)
    /// A transaction: only if the data is still `expected`. The hash may be one that nothing has.
    case compareAndSet([String], expected: Value, isHashWrong: Bool, Draft)
    case merge(base: [String], [(path: [String], draft: Draft)])
    case get([String], ReferenceQuery? = nil)
    case listen([String], ReferenceQuery?, tag: Int?)
    case unlisten([String], ReferenceQuery?, tag: Int?)
    case onDisconnect([String], Draft)
    case cancelOnDisconnect([String])
    /// The session ends.
    case close
    // Over REST:
    /// PUT; DELETE where `isDelete`, and then the value is nothing.
    case restPut([String], Value, expected: Value?, isTagWrong: Bool, isDelete: Bool)
    /// PATCH.
    case restPatch([String], [(path: [String], value: Value)])
    /// POST. The key of the new child; nil until the server has said it.
    case restPost([String], Value, key: String?)
    case restGet([String], ReferenceQuery?)
    case stream([String])
    case rules(RulesDocument)

    /// Nothing is lost where it is not done.
    var isRead: Bool {
        switch self {
        case .get, .listen, .unlisten, .restGet, .stream, .authenticate: true
        case .open, .put, .compareAndSet, .merge, .onDisconnect, .cancelOnDisconnect, .close, .restPut,
            .restPatch, .restPost, .rules:
            false
        }
    }
}

/// What the answer must say.
enum Outcome: Equatable {
    case ok
    case data(Value)
    case denied
    case stale
    /// The disk is full; only where it may be.
    case diskFull
    case none
}
