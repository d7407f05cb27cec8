import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoTree
import PandoWire

extension DatabaseHost {
    /// Why a command was not done.
    enum Refusal: Error {
        /// It would write more than a record holds.
        case tooLarge
        /// The disk is full.
        case diskFull
    }

    /// Refuses what is no command of an engine when the log has no room for it.
    func refuseWithoutRoom(for payloadByteCount: Int) throws(Refusal) {
        let byteCount = JournalFormat.recordByteCount(payloadByteCount: payloadByteCount)
        guard hasRoom(for: byteCount + configuration.spareRoomByteCount) else { throw .diskFull }
    }

    /// Turns a wire action into an operation of the engine (realtime §4).
    func handle(_ request: PostedRequest) {
        let (session, number) = (request.session, request.number)
        var queryText: (tag: Int64, text: Text?)?
        switch request.action {
        case .listen(let listen): queryText = listen.tag.map { ($0, listen.queryText) }
        case .unlisten(_, _, let tag?): sessions[session]?.queryTexts[tag] = nil
        default: break
        }
        // Whatever becomes of them, they are freed elsewhere.
        let largeNodes = request.byteCount > Self.smallByteCount ? request.action.largeNodes : []
        defer { freeElsewhere(largeNodes) }
        guard let operation = Operation(request.takeAction(), signIn: request.signIn) else { return }
        if case .onDisconnect(let writes, _) = operation, !hasRoom(for: writes, of: session) {
            return encoder.answer(.tooBig(number), to: session)
        }
        let reply = run(
            consume operation, session, request.credential, number: number, byteCount: request.byteCount)
        if let queryText, case .listening? = reply {
            sessions[session]?.queryTexts[queryText.tag] = queryText.text
        }
    }

    /// Nothing happens where there are none.
    func freeElsewhere(_ nodes: [Node]) { if !nodes.isEmpty { free(nodes) } }

    /// Whether the writes may be queued beside what the session has queued already: they are written once
    /// more when it ends. O(size of the writes).
    private func hasRoom(for writes: [Write], of session: SessionID) -> Bool {
        guard let database = sessions[session]?.database else { return false }
        var left = Self.queuedByteLimit - database.engine.queuedByteCount(of: session)
        for write in writes where left >= 0 { left -= write.queuedByteCount }
        return left >= 0
    }
}

extension Operation {
    /// Nil for actions that the session answers itself.
    /// - Parameter signIn: Of which of its sign-ins it is.
    init?(_ action: consuming Action, signIn: UInt32) {
        switch consume action {
        case .listen(let listen):
            self = .listen(
                PandoEngine.Listen(
                    path: listen.path, query: listen.query, tag: listen.tag, hash: listen.hash,
                    compoundHash: listen.compoundHash))
        case .unlisten(let path, let query, let tag): self = .unlisten(path, query, tag: tag)
        // Clients send an empty one for none, and do not spell the default order.
        case .get(let path, let query): self = .get(path, query == Query() ? nil : query)
        case .put(let target, let draft, let hash, let wantsCurrentValue):
            let write = Write(target, draft)
            self =
                if let hash {
                    .transaction(write, expectedHash: hash, wantsCurrentValue: wantsCurrentValue)
                } else { .put(write) }
        case .merge(let base, let entries):
            self = .merge(base: base, entries)
        case .onDisconnectPut(let target, let draft):
            self = .onDisconnect([Write(target, draft)], signIn: signIn)
        case .onDisconnectMerge(_, let entries):
            self = .onDisconnect(entries, signIn: signIn)
        case .onDisconnectCancel(let target): self = .cancelOnDisconnect(target.fullPath)
        case .statistics, .authenticate, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .invalid:
            return nil
        }
    }
}
