import PandoBytes
import PandoTree

// The body of each action (realtime §4).

extension MessageParser {
    /// Reads the body of `verb`.
    mutating func readAction(_ verb: Verb) throws(MalformedJSON) -> Action? {
        if let action = verb.actionWithoutBody {
            try skip()
            return action
        }
        guard peek() == UInt8(ascii: "{") else { return try skip(.wrongType("b")) }
        switch verb {
        case .put, .onDisconnectPut: return try readPut(verb)
        case .merge, .onDisconnectMerge: return try readMerge(verb)
        case .onDisconnectCancel: return try readCancel(verb)
        case .listen, .unlisten, .get: return try readListen(verb)
        case .authenticate: return try readCredential(verb)
        case .statistics, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .notText:
            return try skip(.wrongType("a"))
        }
    }

    /// The action that `make` makes of its fields, or what becomes of it.
    mutating func action(_ verb: Verb, _ make: () throws(Refusal) -> Action) -> Action? {
        do throws(Refusal) {
            return try make()
        } catch {
            switch error {
            case .malformed(let reason): return fail(reason)
            case .invalid(let problem): return .invalid(verb.name, problem)
            }
        }
    }

    // MARK: Writes

    /// `p` and `o` (§4.5, §12.1): a path, and data of any kind.
    private mutating func readPut(_ verb: Verb) throws(MalformedJSON) -> Action? {
        var target = Field<Target>.absent
        var draft = Field<Draft>.absent
        var hash = Field<Text>.absent
        var wantsCurrentValue = Field<Bool>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .p: target = try parser.readTarget(below: .root)
            case .d: draft = try parser.readDraft()
            case .h: hash = try parser.readText()
            case .cv: wantsCurrentValue = try parser.readBoolean()
            default: try parser.skip()
            }
        }
        return put(verb, &target, &draft, hash, wantsCurrentValue)
    }

    /// As ``readPut(_:)``, of a body as JavaScript writes it: `p`, `d`, and `h` when it is a transaction,
    /// with `cv` behind (§11.2). Nil without a look at what may be in it when it is written otherwise.
    mutating func readUsualPut(_ verb: Verb) throws(MalformedJSON) -> Action? {
        guard drafts.reader.cursor.take("{\"p\":") else { return nil }
        var target = try readTarget(below: .root)
        guard drafts.reader.cursor.take(",\"d\":") else { return nil }
        var draft = try readDraft()
        let hash = drafts.reader.cursor.take(",\"h\":") ? try readText() : .absent
        let wantsCurrentValue = drafts.reader.cursor.take(",\"cv\":") ? try readBoolean() : .absent
        guard drafts.reader.cursor.take("}") else { return nil }
        return put(verb, &target, &draft, hash, wantsCurrentValue)
    }

    /// What the members of a put come to.
    private mutating func put(
        _ verb: Verb, _ target: inout Field<Target>, _ draft: inout Field<Draft>, _ hash: Field<Text>,
        _ wantsCurrentValue: Field<Bool>
    ) -> Action? {
        action(verb) { () throws(Refusal) in
            let target = try target.take("p")
            let draft = try draft.take("d")
            try Self.check(draft, at: target)
            if verb == .onDisconnectPut { return .onDisconnectPut(target, draft) }
            // A hash that cannot be read must not turn a transaction into a plain write.
            let hash = try hash.optional("h")
            let wants = try wantsCurrentValue.optional("cv") ?? false
            return .put(target, draft, hash: hash, wantsCurrentValue: wants)
        }
    }

    /// `oc` (§12.1). Its `d` is null and says nothing.
    private mutating func readCancel(_ verb: Verb) throws(MalformedJSON) -> Action? {
        var target = Field<Target>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            if name == .p { target = try parser.readTarget(below: .root) } else { try parser.skip() }
        }
        return action(verb) { () throws(Refusal) in .onDisconnectCancel(try target.required("p")) }
    }

    /// What the path and the data must keep to together (§8.2, §8.6).
    static func check(_ draft: Draft, at target: Target) throws(Refusal) {
        guard target.path.count + draft.depth <= Limits.pathDepth else { throw .invalid(.tooDeep) }
        guard target.isPriority else { return }
        switch draft.node {
        case .empty, .integer, .double, .string: break
        case .boolean, .object, .prioritized: throw .invalid(.priority)
        }
    }

    // MARK: Reads

    /// `q`, `n` and `g` (§4.2–4.4): a path and perhaps a query.
    private mutating func readListen(_ verb: Verb) throws(MalformedJSON) -> Action? {
        var path = Field<Path>.absent
        var query = Field<Query>.absent
        var queryText: Text?
        var tag = Field<Int64>.absent
        var hash = Field<Text>.absent
        var compoundHash: CompoundHash?
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .p: path = try parser.readPath()
            case .q:
                let start = parser.startOfValue()
                query = try parser.readQuery()
                if verb == .listen, case .value = query {
                    // All strings in it have just been read, so it is UTF-8.
                    queryText = parser.drafts.reader.cursor.text(start..<parser.offset)
                }
            case .t: tag = try parser.readInteger()
            case .h: hash = try parser.readText()
            case .ch: compoundHash = try CompoundHash(reading: &parser.drafts.reader)
            default: try parser.skip()
            }
        }
        return action(verb) { () throws(Refusal) in
            let path = try path.required("p")
            let query = try query.optional("q")
            switch verb {
            case .get: return .get(path, query ?? Query())
            case .unlisten:
                let tag = query == nil ? nil : try tag.optional("t")
                return .unlisten(path, query: query, tag: tag)
            default:
                var listen = Listen(path: path, hash: try hash.optional("h"), compoundHash: compoundHash)
                if let query {
                    let tag = try tag.required("t")
                    guard tag > 0 else { throw .malformed(.wrongType("t")) }
                    listen.query = query
                    listen.queryText = queryText
                    listen.tag = tag
                }
                return .listen(listen)
            }
        }
    }

    private mutating func readQuery() throws(MalformedJSON) -> Field<Query> {
        guard peek() == UInt8(ascii: "{") else {
            try skip()
            return .invalid(.notAnObject)
        }
        return try field { (parser) throws(MalformedJSON) in try Query(reading: &parser.drafts.reader) }
    }

    // MARK: Identity

    /// `auth` and `gauth` (§4.7).
    private mutating func readCredential(_ verb: Verb) throws(MalformedJSON) -> Action? {
        var token = Field<Text>.absent
        var isUnauthenticated = Field<Bool>.absent
        var authVariable = Field<Node>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .cred: token = try parser.readText()
            case .noauth: isUnauthenticated = try parser.readBoolean()
            case .authvar: authVariable = try parser.readAuthVariable()
            default: try parser.skip()
            }
        }
        return action(verb) { () throws(Refusal) in
            .authenticate(
                Credential(
                    token: try token.required("cred"),
                    isUnauthenticated: try isUnauthenticated.optional("noauth") ?? false,
                    // Were a null taken for "absent", an administrator who gives up all rights would keep
                    // them all.
                    authVariable: try authVariable.optional("authvar")))
        }
    }

    private mutating func readAuthVariable() throws(MalformedJSON) -> Field<Node> {
        guard peek() == UInt8(ascii: "{") else {
            try skip()
            return .wrongType
        }
        drafts.reader.invalidData = nil
        let draft = try drafts.readDraft()
        switch drafts.reader.invalidData {
        // Claims are not stored: their names may be anything.
        case nil, .key: return .value(draft.node)
        case let problem?: return .invalid(problem)
        }
    }
}
