import PandoBytes
import PandoHTTP
import PandoTree

/// What `/.inspect/evaluate.json` is asked: would the rules allow this (rest §10.2)?
package struct EvaluationRequest: Equatable, Sendable {
    package enum Method: Equatable, Sendable {
        case read(Query?)
        /// - resolves: Server values in it are those of the moment.
        case write(Draft)
    }

    package enum Identity: Equatable, Sendable {
        case administrator
        case anonymous
        /// The `auth` variable, as JSON.
        case user(Text)
    }

    package var method: Method
    package var target: Target
    package var identity: Identity
    /// The draft of a rules document; nil for the rules in force.
    package var rules: [UInt8]?

    /// Bytes of a body: a draft of the largest rules, and a value.
    package static let bodyByteLimit = 4 << 20

    /// Reads the body.
    /// - Throws: ``RESTError/payloadTooLarge``, ``RESTError/malformedData`` for a body that is no JSON
    ///   object, ``RESTError/parameter(_:)`` for a member that is missing or malformed, and the errors of a
    ///   query.
    /// - Complexity: O(bytes).
    package init(reading body: RawSpan) throws(RESTError) {
        guard body.byteCount <= Self.bodyByteLimit else { throw .payloadTooLarge }
        let members = try withCursor(over: body) { (cursor) throws(RESTError) in try Members(reading: cursor)
        }
        let path: Target
        do throws(InvalidData) { path = try Target(wire: members.path) } catch {
            throw .parameter(.pathMalformed)
        }
        target = path
        identity = members.identity
        rules = members.rules
        switch members.method {
        case "read":
            guard !path.isPriority else { throw .parameter(.pathMalformed) }
            method = .read(members.query)
        case "write":
            guard let draft = members.draft else { throw .parameter(.valueMissing) }
            guard path.path.count + draft.depth <= Limits.pathDepth else { throw .invalidData(.tooDeep) }
            method = .write(draft)
        default: throw .parameter(.methodMalformed)
        }
    }
}

/// The members of the body's object.
private struct Members {
    var method: Text = ""
    var path: Text
    var draft: Draft?
    var identity = EvaluationRequest.Identity.anonymous
    var rules: [UInt8]?
    var query: Query?

    init(reading cursor: ByteCursor) throws(RESTError) {
        var reader = JSONReader(cursor)
        var path: Text?
        var problem: RESTError?
        var found: (method: Text, draft: Draft?, rules: [UInt8]?) = ("", nil, nil)
        var identity = EvaluationRequest.Identity.anonymous
        var pairs: [QueryString.Pair] = []
        do throws(MalformedJSON) {
            try reader.readObject { (reader, name) throws(MalformedJSON) in
                switch name {
                case "method": found.method = try Self.text(&reader, .methodMalformed, &problem) ?? ""
                case "path": path = try Self.text(&reader, .pathMalformed, &problem)
                case "rules":
                    found.rules = try Self.text(&reader, .rulesMalformed, &problem).map {
                        Array($0.string.utf8)
                    }
                case "value":
                    var parser = DraftParser(reader)
                    let draft = try parser.readDraft()
                    reader = parser.reader
                    if let invalid = reader.invalidData { problem = problem ?? .invalidData(invalid) }
                    if parser.droppedChildren { problem = problem ?? .valueWithSiblings }
                    found.draft = draft
                case "auth": identity = try Self.identity(&reader, &problem)
                case "query": pairs = try Self.pairs(&reader, &problem)
                default:
                    problem = problem ?? .parameter(.unknownMember)
                    _ = try reader.skipValue(depth: 1)
                }
                reader.invalidData = nil
            }
            try reader.expectEnd()
        } catch {
            throw .malformedData
        }
        if let problem { throw problem }
        guard let path else { throw .parameter(.pathMissing) }
        self.path = path
        method = found.method
        draft = found.draft
        rules = found.rules
        self.identity = identity
        query = try Filter(QueryString(pairs)).query
    }

    /// A string, or null for none.
    private static func text(
        _ reader: inout JSONReader, _ parameter: RESTError.Parameter, _ problem: inout RESTError?
    ) throws(MalformedJSON) -> Text? {
        switch reader.peek() {
        case UInt8(ascii: "\""):
            let text = try reader.readString()
            if reader.invalidData != nil { problem = problem ?? .parameter(parameter) }
            return text
        case UInt8(ascii: "n"): try reader.expect(literal: "null")
        default:
            problem = problem ?? .parameter(parameter)
            _ = try reader.skipValue(depth: 1)
        }
        return nil
    }

    private static func identity(
        _ reader: inout JSONReader, _ problem: inout RESTError?
    ) throws(MalformedJSON) -> EvaluationRequest.Identity {
        switch reader.peek() {
        case UInt8(ascii: "n"):
            try reader.expect(literal: "null")
            return .anonymous
        case UInt8(ascii: "{"):
            let range = try reader.skipValue(depth: 1)
            return .user(reader.cursor.text(range))
        case UInt8(ascii: "\""):
            if try reader.readString() == "admin" { return .administrator }
        default: _ = try reader.skipValue(depth: 1)
        }
        problem = problem ?? .parameter(.authMalformed)
        return .anonymous
    }

    /// The members of `query` as the parameters of a GET: each value is JSON there, too.
    private static func pairs(
        _ reader: inout JSONReader, _ problem: inout RESTError?
    ) throws(MalformedJSON) -> [QueryString.Pair] {
        guard reader.peek() == UInt8(ascii: "{") else {
            if reader.peek() != UInt8(ascii: "n") { problem = problem ?? .parameter(.queryMalformed) }
            _ = try reader.skipValue(depth: 1)
            return []
        }
        var pairs: [QueryString.Pair] = []
        try reader.readObject { (reader, name) throws(MalformedJSON) in
            if !Filter.parameterNames.contains(where: name.equals) {
                problem = problem ?? .parameter(.queryMalformed)
            }
            let range = try reader.skipValue(depth: 2)
            pairs.append(QueryString.Pair(name: name, value: reader.cursor.text(range)))
        }
        return pairs
    }
}
