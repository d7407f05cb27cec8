import PandoBytes
import PandoEngine
import PandoJournal
import PandoREST
import PandoRules
import PandoTree

// REST requests take the same road as realtime ones: one engine, one durable barrier (rest-api §9).

extension DatabaseHost {
    func answer(_ call: RESTCall, to session: SessionID) {
        guard let database = database(named: call.namespace) else {
            return encoder.answer(.refused(.noSuchDatabase), to: session)
        }
        do throws(RESTError) {
            switch call.action {
            case .refuse(let error): throw error
            case .data(let request, let body, let credential):
                try handle(request, body, credential, database, session)
            case .rules(let request, let source, let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(rules(request, source, database), to: session)
            case .setting(let name, let request, let value, let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(try setting(name, request, value, database), to: session)
            case .listDatabases(let credential):
                guard credential.isAdmin else { throw .unauthorized }
                encoder.answer(.verbatim(databaseList), to: session)
            }
        } catch {
            encoder.answer(.refused(error), to: session)
        }
    }

    private func handle(
        _ request: RESTRequest, _ body: RESTBody?, _ credential: Credential, _ database: Database,
        _ session: SessionID
    ) throws(RESTError) {
        guard case .data(let target) = request.location else { throw .internalError }
        if request.method.isRead {
            let node = try read(request, target, credential, database)
            if request.wantsStream { return stream(request, target.path, credential, database, session) }
            return encoder.answer(.read(node), to: session)
        }
        guard let body else { throw .internalError }
        encoder.answer(try write(request, body, target, credential, database, session), to: session)
    }

    // MARK: Reading

    private func read(
        _ request: RESTRequest, _ target: Target, _ credential: Credential, _ database: Database
    ) throws(RESTError) -> Node {
        let access = database.engine.access
        guard access.allowsRead(at: target.path, by: credential) else { throw .permissionDenied }
        let node = database.engine.root.value(at: target.fullPath)
        guard let query = request.query else {
            if !request.isShallow, node.isHeavier(than: configuration.readByteLimit) { throw .readTooLarge }
            return node
        }
        // Not even an administrator queries without an index (§5.1).
        if request.indexName != nil, !access.hasIndex(query.index, at: target.path) {
            throw request.missingIndex(at: target.path)
        }
        let filtered = query.loadsAllData ? node : Window(query, over: node).node
        if !request.isShallow, filtered.isHeavier(than: configuration.readByteLimit) { throw .readTooLarge }
        return filtered
    }

    /// Opens an event stream: a listen whose pushes are told as events.
    private func stream(
        _ request: RESTRequest, _ path: Path, _ credential: Credential, _ database: Database, _ session: SessionID
    ) {
        let filter = request.query.flatMap { $0.loadsAllData ? nil : $0 }
        sessions[session] = HostedSession(database: database, publicID: "", credential: credential)
        encoder.answer(.stream, to: session)
        encoder.streams[session] = OutputEncoder.StreamRoot(path: path, isQuery: filter != nil)
        let listen = Listen(path: path, query: filter, tag: filter == nil ? nil : 1)
        _ = perform(.listen(listen), session, credential, in: database)
    }

    // MARK: Writing

    private func write(
        _ request: RESTRequest, _ body: RESTBody, _ target: Target, _ credential: Credential, _ database: Database,
        _ session: SessionID
    ) throws(RESTError) -> RESTOutcome {
        switch body {
        case .value(let draft) where request.method == .post:
            let key = nextPushID()
            let path = target.path.appending(key)
            let put = Operation.put(Write(Target(path), draft), expectedHash: nil, wantsCurrentValue: false)
            if let failure = try failure(perform(put, session, credential, in: database)) { return failure }
            return .pushed(key, database.engine.root[path])
        case .value(let draft):
            // A refused compare-and-set tells the value, so it takes the right to read (§7).
            if request.expectedHash != nil,
                !database.engine.access.allowsRead(at: target.path, by: credential) {
                throw .permissionDenied
            }
            let put = Operation.put(
                Write(target, draft), expectedHash: request.expectedHash, wantsCurrentValue: true)
            if let failure = try failure(perform(put, session, credential, in: database)) { return failure }
            return .written(database.engine.root.value(at: target.fullPath))
        case .update(let updates):
            let writes = updates.map { Write($0.target, $0.draft) }
            let merge = Operation.merge(base: target.path, writes)
            if let failure = try failure(perform(merge, session, credential, in: database)) { return failure }
            return .updated(updates.map { database.engine.root.value(at: $0.target.fullPath) })
        }
    }

    /// Why a write was not done; nil when it was.
    private func failure(_ reply: Reply?) throws(RESTError) -> RESTOutcome? {
        switch reply {
        case .ok, .listening, .data: return nil
        case .permissionDenied: throw .permissionDenied
        case .failed(let reason): return .failed("\(reason)")
        case .dataStale(let current?): return .stale(current.node)
        case .dataStale(nil): throw .permissionDenied
        case nil: throw .writeTooLarge
        }
    }

    // MARK: Rules and databases

    private func rules(_ request: RESTRequest, _ source: [UInt8], _ database: Database) -> RESTOutcome {
        guard request.method == .put else {
            guard case .loaded(let rules) = database.engine.access else {
                return .verbatim(Array(Self.rulesText(of: database.engine.access).utf8))
            }
            return .verbatim(request.isStrict ? rules.strictJSON : rules.source.bytes)
        }
        do throws(InvalidRules) {
            let rules = try Ruleset(loading: source)
            if !request.isDryRun { load(rules, source, into: database) }
            return .verbatim(Array("{\"status\":\"ok\"}".utf8))
        } catch {
            return .failed(error.description)
        }
    }

    /// What a database without rules behaves like.
    private static func rulesText(of access: Access) -> String {
        if case .open = access { "{\"rules\":{\".read\":true,\".write\":true}}" } else {
            "{\"rules\":{\".read\":false,\".write\":false}}"
        }
    }

    /// Reads or changes a setting (§10). Triggers belong to a service that is not here: they are accepted and forgotten.
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
                change(name, to: node, in: database)
            }
            return .verbatim(database.settings[name] ?? Array("\"large\"".utf8))
        case "strictTriggerValidation":
            if request.method == .put {
                guard case .boolean = node else { throw .malformedData }
                change(name, to: node, in: database)
            }
            let stored = database.settings[name] ?? Array("false".utf8)
            return .verbatim(Array("{\"value\":".utf8) + stored + Array("}".utf8))
        case "functionTriggers": return .verbatim(Array("{}".utf8))
        default: throw .invalidPath
        }
    }

    private func change(_ name: String, to node: Node, in database: Database) {
        var json: [UInt8] = []
        json.append(json: node)
        database.settings[name] = json
        writeSetting(name, json, in: database)
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
