import PandoBytes
import PandoTree

// Reading the body `b` of each action (realtime §4).

extension MessageParser {
    /// Reads the body of an action.
    /// - Returns: nil, with ``fault`` set, when a member is missing or has the wrong type.
    mutating func readAction(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        if let action = actionName.actionWithoutBody {
            try skip()
            return action
        }
        guard peek() == UInt8(ascii: "{") else { return try skip(.wrongType("b")) }
        switch actionName {
        case .put, .onDisconnectPut: return try readPut(actionName)
        case .merge, .onDisconnectMerge: return try readMerge(actionName)
        case .onDisconnectCancel: return try readCancel(actionName)
        case .listen, .unlisten, .get: return try readListen(actionName)
        case .aggregate, .endAggregate: return try readAggregate(actionName)
        case .authenticate: return try readCredential(actionName)
        case .statistics, .unauthenticate, .appCheck, .dropAppCheck, .unknown, .notText:
            return try skip(.wrongType("a"))
        }
    }

    /// The action that `make` returns. If it throws: an ``Action/invalid(_:_:)``, or nil with ``fault`` set.
    mutating func action(_ actionName: ActionName, _ make: () throws(FieldError) -> Action) -> Action? {
        do throws(FieldError) {
            return try make()
        } catch {
            switch error {
            case .malformed(let reason): return fail(reason)
            case .invalid(let problem): return .invalid(actionName.name, problem)
            }
        }
    }

    // MARK: Writes

    /// `p` and `o` (§4.5, §12.1): a path, and any data.
    private mutating func readPut(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
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
        return put(actionName, &target, &draft, hash, wantsCurrentValue)
    }

    /// As ``readPut(_:)``, for a body as JavaScript writes it: `p`, `d`, and `h` for a transaction, with `cv`
    /// behind it (§11.2).
    /// - Returns: nil for a body that is written differently, and for one that ``readPut(_:)`` must read to
    ///   find its fault.
    mutating func readCommonPut(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        guard drafts.reader.cursor.consume("{\"p\":") else { return nil }
        var target = try readTarget(below: .root)
        guard drafts.reader.cursor.consume(",\"d\":") else { return nil }
        var draft = try readDraft()
        let hash = drafts.reader.cursor.consume(",\"h\":") ? try readText() : .absent
        let wantsCurrentValue = drafts.reader.cursor.consume(",\"cv\":") ? try readBoolean() : .absent
        guard drafts.reader.cursor.consume("}") else { return nil }
        return put(actionName, &target, &draft, hash, wantsCurrentValue)
    }

    /// The action of a put with these members.
    private mutating func put(
        _ actionName: ActionName, _ target: inout Field<Target>, _ draft: inout Field<Draft>,
        _ hash: Field<Text>,
        _ wantsCurrentValue: Field<Bool>
    ) -> Action? {
        action(actionName) { () throws(FieldError) in
            let target = try target.take("p")
            let draft = try draft.take("d")
            try Self.check(draft, at: target)
            // Each action has a write of its own: of one for all of them, all but the last would be copies.
            if actionName == .onDisconnectPut { return .onDisconnectPut(Write(target, draft)) }
            // A transaction whose hash has the wrong type must not become a plain write.
            let hash = try hash.optional("h")
            let wantsCurrentValue = try wantsCurrentValue.optional("cv") ?? false
            guard let hash else { return .put(Write(target, draft)) }
            return .transaction(
                Write(target, draft), expectedHash: hash, wantsCurrentValue: wantsCurrentValue)
        }
    }

    /// `oc` (§12.1). Its `d` is null and is ignored.
    private mutating func readCancel(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        var target = Field<Target>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            if name == .p { target = try parser.readTarget(below: .root) } else { try parser.skip() }
        }
        return action(actionName) { () throws(FieldError) in .onDisconnectCancel(try target.required("p")) }
    }

    /// Checks path and data together: the depth (§8.6), and the value of a priority (§8.2).
    static func check(_ draft: Draft, at target: Target) throws(FieldError) {
        guard target.path.count + draft.depth <= Limits.pathDepth else { throw .invalid(.tooDeep) }
        guard target.isPriority else { return }
        switch draft.node {
        case .empty, .integer, .double, .string: break
        case .boolean, .object, .prioritized: throw .invalid(.priority)
        }
    }

    // MARK: Reads

    /// `q`, `n` and `g` (§4.2–4.4): a path and perhaps a query.
    private mutating func readListen(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
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
                if actionName == .listen, case .value = query {
                    // UTF-8: all strings in it were checked just now.
                    queryText = parser.drafts.reader.cursor.text(start..<parser.offset)
                }
            case .t: tag = try parser.readInteger()
            case .h: hash = try parser.readText()
            case .ch: compoundHash = try CompoundHash(reading: &parser.drafts.reader)
            default: try parser.skip()
            }
        }
        return action(actionName) { () throws(FieldError) in
            let path = try path.required("p")
            let query = try query.optional("q")
            switch actionName {
            case .get: return .get(path, query ?? Query())
            case .unlisten:
                let tag = query == nil ? nil : try tag.optional("t")
                return .unlisten(path, query, tag: tag)
            default:
                var listen = Listen(path: path, hash: try hash.optional("h"), compoundHash: compoundHash)
                if let query {
                    let tag = try tag.required("t")
                    guard tag > 0 else { throw .malformed(.wrongType("t")) }
                    listen.query = query
                    listen.tag = tag
                }
                return .listen(listen, queryText: query == nil ? nil : queryText)
            }
        }
    }

    /// `x-agg` and `x-unagg` (§4.9): a path, perhaps a query, the aggregates, and the tag of a live one. They
    /// become a get, a listen, or the end of one, through a query with aggregates.
    private mutating func readAggregate(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
        let start = startOfValue()
        var path = Field<Path>.absent
        var query = Field<Query>.absent
        var names = Field<[Text]>.absent
        var tag = Field<Int64>.absent
        try readObject { (parser, name) throws(MalformedJSON) in
            switch name {
            case .p: path = try parser.readPath()
            case .q: query = try parser.readQuery()
            case .f: names = try parser.readNames()
            case .t: tag = try parser.readInteger()
            default: try parser.skip()
            }
        }
        // UTF-8: all strings in it were checked just now.
        let text = drafts.reader.cursor.text(start..<offset)
        return action(actionName) { () throws(FieldError) in
            let path = try path.required("p")
            let plain = try query.optional("q") ?? Query()
            let names = try names.required("f")
            let tag = try tag.optional("t")
            let query: Query
            do throws(InvalidData) { query = try plain.aggregating(names) } catch { throw .invalid(error) }
            guard let tag else {
                guard actionName == .aggregate else { throw .malformed(.missing("t")) }
                return .get(path, query)
            }
            guard tag > 0 else { throw .malformed(.wrongType("t")) }
            if actionName == .endAggregate { return .unlisten(path, query, tag: tag) }
            guard text.utf8Count <= Limits.queryByteCount else {
                throw .invalid(.query("longer than \(Limits.queryByteCount) bytes"))
            }
            // The message that revokes it repeats its body.
            return .listen(Listen(path: path, query: query, tag: tag), queryText: text)
        }
    }

    /// Reads an array of strings; of more than there may be, one more is kept.
    private mutating func readNames() throws(MalformedJSON) -> Field<[Text]> {
        guard peek() == UInt8(ascii: "[") else {
            try skip()
            return .wrongType
        }
        drafts.reader.cursor.advance()
        var names: [Text] = []
        var field = Field<[Text]>.value([])
        if drafts.reader.consume(UInt8(ascii: "]")) { return field }
        repeat {
            switch try readText() {
            case .value(let name): if names.count <= Aggregate.countLimit { names.append(name) }
            case .invalid(let problem): field = .invalid(problem)
            case .absent, .wrongType: if case .value = field { field = .wrongType }
            }
        } while drafts.reader.consume(UInt8(ascii: ","))
        try drafts.reader.expect(UInt8(ascii: "]"))
        if case .value = field { field = .value(names) }
        return field
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
    private mutating func readCredential(_ actionName: ActionName) throws(MalformedJSON) -> Action? {
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
        return action(actionName) { () throws(FieldError) in
            .authenticate(
                AuthenticationRequest(
                    token: try token.required("cred"),
                    isUnauthenticated: try isUnauthenticated.optional("noauth") ?? false,
                    // null is not "absent": an administrator who asks for no rights would otherwise keep all
                    // rights.
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
        // Claims are not stored: their names need not be legal keys.
        case nil, .key: return .value(draft.node)
        case let problem?: return .invalid(problem)
        }
    }
}
