import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoRules
import PandoTree

// REST requests take the same road as realtime ones: one engine, one durable barrier (rest §9).

extension DatabaseHost {
    /// - Parameter byteCount: Bytes of the request's body.
    func answer(_ call: RESTCall, byteCount: Int, to session: SessionID) {
        do throws(RESTError) {
            guard let database = try orRefuse({ () throws(Refusal) in try database(named: call.namespace) })
            else {
                throw .noSuchDatabase
            }
            switch call.action {
            case .refuse(let error): throw error
            case .admit(let request, let credential):
                if case .locked = database.engine.access, !credential.isAdmin, request.method.isWrite {
                    throw .permissionDenied
                }
                encoder.answer(.admitted, to: session)
            case .data(let request, let body, let credential):
                let began = profiledTime
                do throws(RESTError) {
                    let outcome = try handle(
                        request, body, byteCount: byteCount, credential, database, session)
                    if let outcome { encoder.answer(outcome, to: session) }
                    tell(request, outcome, nil, byteCount: byteCount, on: database, began: began)
                } catch {
                    tell(request, nil, error, byteCount: byteCount, on: database, began: began)
                    throw error
                }
            case .rules(let request, let source, let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(try rules(request, source, database), to: session)
            case .setting("profile", let request, _, let credential) where request.wantsStream:
                guard credential.isAdmin else { throw .unauthorized }
                profile(database, to: session)
            case .setting(let name, let request, let value, let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(try setting(name, request, value, database), to: session)
            case .listDatabases(let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(.verbatim(databaseList), to: session)
            case .listDenials(let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(.verbatim(denials.json(of: database)), to: session)
            case .backup(let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(.backup(backup), to: session)
            }
        } catch {
            encoder.answer(.refused(error), to: session)
        }
    }

    private func orRefuse<Result>(_ body: () throws(Refusal) -> Result) throws(RESTError) -> Result {
        do throws(Refusal) { return try body() } catch {
            switch error {
            case .tooLarge: throw .writeTooLarge
            case .diskFull: throw .diskFull
            }
        }
    }

    /// - Returns: Nil where events follow in place of an answer.
    private func handle(
        _ request: RESTRequest, _ body: RESTBody?, byteCount: Int, _ credential: Credential,
        _ database: Database,
        _ session: SessionID
    ) throws(RESTError) -> RESTOutcome? {
        guard case .data(let target) = request.location else { throw .internalError }
        if request.method.isRead {
            try checkRead(request, target, credential, database)
            guard request.wantsStream else { return read(request, target, database) }
            stream(request, target.path, credential, database, session)
            return nil
        }
        guard let body else { throw .internalError }
        let limit = (request.writeSizeLimit ?? database.defaultWriteSizeLimit).byteCount.map {
            $0 - byteCount
        }
        guard limit ?? 0 >= 0 else { throw .writeTooLarge }
        return try write(request, body, replacingAtMost: limit, target, credential, database, session)
    }

    // MARK: Reading

    /// Whether the data may be read, and found. O(depth): how much it is, the loop finds out.
    private func checkRead(
        _ request: RESTRequest, _ target: Target, _ credential: Credential, _ database: Database
    ) throws(RESTError) {
        try checkRead(target.path, request.query, credential, database)
        // Not even an administrator queries without an index (rest §5.1).
        if request.isFiltered, let query = request.query, request.indexName != nil,
            !database.engine.access.hasIndex(query.index, at: target.path)
        {
            throw request.missingIndex(at: target.path)
        }
    }

    private func checkRead(
        _ path: Path, _ query: Query?, _ credential: Credential, _ database: Database
    ) throws(RESTError) {
        let time = clock.now()
        guard !database.engine.mayRead(path, query, as: credential, at: time) else { return }
        let get = Operation.get(path, query)
        denials.note(
            Command(session: SessionID(0), credential: credential, time: time, operation: get), in: database)
        throw .permissionDenied
    }

    private func read(_ request: RESTRequest, _ target: Target, _ database: Database) -> RESTOutcome {
        let node = database.engine.root.value(at: target.fullPath)
        guard request.isFiltered, let query = request.query, !query.loadsAllData else { return .read(node) }
        if query.visits(moreThan: Engine.inlineQueryChildCount, of: node) { return .filtered(node, query) }
        return .read(Window(query, over: node).node)
    }

    /// Opens an event stream: a listen whose pushes are told as events.
    private func stream(
        _ request: RESTRequest, _ path: Path, _ credential: Credential, _ database: Database,
        _ session: SessionID
    ) {
        let filter = request.query.flatMap { $0.loadsAllData ? nil : $0 }
        sessions.add(HostedSession(database: database, publicID: nil, credential: credential), as: session)
        encoder.answer(.stream, to: session)
        encoder.streams[session] = OutputEncoder.StreamRoot(
            path: path, query: request.query, isQuery: filter != nil)
        let listen = Listen(path: path, query: filter, tag: filter == nil ? nil : 1)
        // The rules have been asked just now, with the query as it was given, so they are not asked again.
        // And nothing is written down, so no room is needed.
        _ = try? perform(.listen(listen), session, .admin, in: database)
    }

    // MARK: Writing

    private func write(
        _ request: RESTRequest, _ body: RESTBody, replacingAtMost byteLimit: Int?, _ target: Target,
        _ credential: Credential, _ database: Database, _ session: SessionID
    ) throws(RESTError) -> RESTOutcome {
        switch body {
        case .value(let draft) where request.method == .post:
            let key = nextPushID()
            let path = target.path.appending(key)
            let put = Operation.put(Write(Target(path), draft))
            if let failure = try failure(of: put, session, credential, database) { return failure }
            return .pushed(
                key, mayShow(draft, at: Target(path), credential, database) ? database.engine.root[path] : nil
            )
        case .value(let draft):
            // A refused compare-and-set tells the value, so it takes the right to read (rest §7).
            if request.expectedHash != nil { try checkRead(target.path, nil, credential, database) }
            let write = Write(target, draft)
            let operation: PandoEngine.Operation =
                if let hash = request.expectedHash {
                    .transaction(write, expectedHash: hash, wantsCurrentValue: true)
                } else { .put(write) }
            if let failure = try failure(
                of: operation, session, credential, database, replacing: [target.fullPath], atMost: byteLimit)
            {
                return failure
            }
            return mayShow(draft, at: target, credential, database)
                ? .written(database.engine.root.value(at: target.fullPath)) : .writtenUnread(draft.unresolved)
        case .update(let updates):
            let writes = updates.map { Write($0.target, $0.draft) }
            let merge = Operation.merge(base: target.path, writes)
            if let failure = try failure(
                of: merge, session, credential, database, replacing: updates.map(\.target.fullPath),
                atMost: byteLimit)
            {
                return failure
            }
            return .updated(shownValues(of: updates, below: target.path, credential, database))
        }
    }

    // MARK: What the answer to a write shows

    /// Whether the answer to a write may show what is stored now: server values filled in are data like any
    /// other, and who may write need not be allowed to read (rest §2.1). Without any, what is stored is what
    /// was sent, and no rule is asked.
    private func mayShow(_ draft: Draft, at target: Target, _ credential: Credential, _ database: Database)
        -> Bool
    {
        draft.placeholders.isEmpty
            || database.engine.mayRead(target.path, nil, as: credential, at: clock.last)
    }

    /// Locations of one PATCH that the rules are asked about one by one, when its own may not be read; each
    /// may cost as much as a request. Further ones are answered as they were sent.
    private static let askedLocationLimit = 32

    /// What a PATCH has written, one for each of its updates: as it is stored where that may be read, else as
    /// it was sent.
    private func shownValues(
        of updates: [RESTUpdate], below base: Path, _ credential: Credential, _ database: Database
    ) -> [Node] {
        // A priority for a node that is not there is accepted and ignored: what is stored would show whether
        // it is there.
        let isSecret = { (update: RESTUpdate) in
            !update.draft.placeholders.isEmpty || update.target.isPriority
        }
        let root = database.engine.root
        guard updates.contains(where: isSecret),
            !database.engine.mayRead(base, nil, as: credential, at: clock.last)
        else { return updates.map { root.value(at: $0.target.fullPath) } }
        var askedCount = 0
        return updates.map { update in
            guard isSecret(update) else { return update.draft.node }
            askedCount += 1
            let mayShow =
                askedCount <= Self.askedLocationLimit
                && database.engine.mayRead(update.target.path, nil, as: credential, at: clock.last)
            return mayShow ? root.value(at: update.target.fullPath) : update.draft.unresolved
        }
    }

    /// Does a write. Answers why it was not done; nil when it was.
    private func failure(
        of write: Operation, _ session: SessionID, _ credential: Credential, _ database: Database,
        replacing paths: [Path] = [], atMost byteLimit: Int? = nil
    ) throws(RESTError) -> RESTOutcome? {
        let reply = try orRefuse { () throws(Refusal) in
            try perform(write, session, credential, in: database, replacing: paths, atMost: byteLimit)
        }
        switch reply {
        case .ok, .listening, .data, .filtered: return nil
        case .permissionDenied: throw .permissionDenied
        case .failed(let reason): return .failed("\(reason)")
        case .dataStale(let current?): return .stale(current.node)
        case .dataStale(nil): throw .permissionDenied
        case nil: throw .internalError
        }
    }

    // MARK: Rules and databases

    private func rules(
        _ request: RESTRequest, _ source: [UInt8], _ database: Database
    ) throws(RESTError) -> RESTOutcome {
        guard request.method == .put else {
            guard case .loaded(let rules) = database.engine.access else {
                return .verbatim(Array(Self.rulesText(of: database.engine.access).utf8))
            }
            return .verbatim(request.isStrict ? rules.strictJSON : rules.source.bytes)
        }
        let rules: Ruleset
        do throws(InvalidRules) { rules = try Ruleset(loading: source) } catch {
            return .failed(error.description)
        }
        if !request.isDryRun {
            guard database.fileRules == nil else { return .failed(Self.fileRulesText) }
            try orRefuse { () throws(Refusal) in try load(rules, source, into: database) }
        }
        return .verbatim(Array("{\"status\":\"ok\"}".utf8))
    }

    private static let fileRulesText =
        "The rules of this database are given by --rules and can't be replaced here."

    /// What a database without rules behaves like.
    private static func rulesText(of access: Access) -> String {
        if case .open = access {
            "{\"rules\":{\".read\":true,\".write\":true}}"
        } else {
            "{\"rules\":{\".read\":false,\".write\":false}}"
        }
    }

    /// Reads or changes a setting (rest §10). Triggers belong to a service that is not here: they are
    /// accepted and forgotten.
    private func setting(
        _ name: String, _ request: RESTRequest, _ value: [UInt8], _ database: Database
    ) throws(RESTError) -> RESTOutcome {
        let json = request.method == .put ? value : Array("null".utf8)
        guard let node = try? Node(json: json.rawSpan) else { throw .malformedData }
        switch name {
        case "defaultWriteSizeLimit":
            if request.method == .put {
                guard case .string(let text) = node, WriteSizeLimit(rawValue: text.string) != nil else {
                    throw .writeSizeLimitMalformed
                }
                try change(name, to: node, in: database)
            }
            return .verbatim(database.settings[name] ?? Array("\"large\"".utf8))
        case "strictTriggerValidation":
            if request.method == .put {
                guard case .boolean = node else { throw .malformedData }
                try change(name, to: node, in: database)
            }
            let stored = database.settings[name] ?? Array("false".utf8)
            return .verbatim(Array("{\"value\":".utf8) + stored + Array("}".utf8))
        case "functionTriggers": return .verbatim(Array("{}".utf8))
        // There are no staged rulesets: one is in force, and `/.settings/rules.json` has it.
        case "rulesets", "ruleset_labels":
            guard request.method.isRead else { throw .methodNotAllowed(allowed: .inspect) }
            return .verbatim(Array("{}".utf8))
        case "profile": return .failed("profile.json is an event stream: ask with Accept: text/event-stream")
        default: throw .invalidPath
        }
    }

    private func change(_ name: String, to node: Node, in database: Database) throws(RESTError) {
        var json: [UInt8] = []
        json.append(json: node)
        try orRefuse { () throws(Refusal) in try change(name, to: json, in: database) }
    }

    private var databaseList: [UInt8] {
        var json: [UInt8] = []
        json.append("[")
        for (index, name) in databaseNames.enumerated() {
            if index > 0 { json.append(",") }
            json.append("{\"name\":")
            json.append(json: Text(name))
            json.append("}")
        }
        json.append("]")
        return json
    }
}
