import PandoBytes
import PandoEngine
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoRules
import PandoTree

/// A user's table of cases for security rules: who does what on which data, and whether it is allowed.
///
///     {
///       "data": { … },                        what each case begins with, unless it brings its own
///       "now": 1760000000000,                 milliseconds since 1970
///       "cases": [ {
///         "name": "…",
///         "auth": null | "admin" | { … },     the `auth` variable; left out: signed out
///         "read": "/path", "query": { "orderBy": "owner", "limitToFirst": 2 },
///         "write": "/path", "value": …,       or "update": "/path", "value": { "a/b": … },   or "delete": "/path"
///         "expect": "allow" | "deny",
///         "data": { … }, "now": …
///       } … ]
///     }
///
/// A case is parsed as the REST request that it describes, so server values, illegal keys and query
/// parameters have the meaning of REST. Comments are allowed, as in rules.
struct RulesCases {
    struct Case {
        var name: String
        /// `read /a/b as u1`, for reports.
        var summary: String
        var credential: Credential
        var operation: Operation
        var isAllowed: Bool
        var data: Node
        var milliseconds: Int64
    }

    struct Problem: Error {
        var text: String
    }

    let cases: [Case]

    /// - Throws: ``Problem`` naming the case.
    init(_ text: [UInt8]) throws(Problem) {
        let json = CommentedJSON.withoutComments(text)
        let document = try Members(json, "the file")
        try document.expect(only: ["data", "now", "cases"])
        let data = try document.node("data") ?? .empty
        let now = try document.integer("now") ?? Self.standardTime
        guard document["cases"] != nil else { throw Problem(text: "the file has no \"cases\"") }
        guard let list = document.elements("cases") else { throw Problem(text: "\"cases\" is not an array") }
        var cases: [Case] = []
        for (index, element) in list.enumerated() {
            cases.append(try Case(Members(element, "case \(index + 1)"), index + 1, data, now))
        }
        self.cases = cases
    }

    /// `now` for tables without one: 9 October 2025.
    private static let standardTime: Int64 = 1_760_000_000_000
}

/// A JSON object of the file, and its name in messages. A name that occurs twice is an error: the case would
/// mean something else than its author thinks.
private struct Members {
    private let object: JSONObject
    private let owner: String

    /// Data is as deep as it may be, and lies a few levels deep in the file.
    private static let depthLimit = Limits.pathDepth + 16

    init(_ json: [UInt8], _ owner: String) throws(RulesCases.Problem) {
        guard let object = JSONObject(json, depthLimit: Self.depthLimit) else {
            throw RulesCases.Problem(
                text: "\(owner) is not a JSON object, or nests too deep, or has a name twice")
        }
        (self.object, self.owner) = (object, owner)
    }

    subscript(name: String) -> [UInt8]? { object.json(Text(name)).map { Array($0) } }

    func elements(_ name: String) -> [[UInt8]]? { object.elements(Text(name)) }

    var pairs: [(name: String, json: [UInt8])] {
        object.members.map { ($0.name.string, Array(object.bytes[$0.range])) }
    }

    func expect(only names: Set<String>) throws(RulesCases.Problem) {
        for (name, _) in object.members where !names.contains(name.string) {
            throw RulesCases.Problem(text: "\(owner) has an unknown member \"\(name)\"")
        }
    }

    func node(_ name: String) throws(RulesCases.Problem) -> Node? {
        guard let json = self[name] else { return nil }
        do {
            return try Node(json: json.rawSpan)
        } catch {
            throw RulesCases.Problem(text: "\(owner): \"\(name)\" can't be stored: \(error)")
        }
    }

    func integer(_ name: String) throws(RulesCases.Problem) -> Int64? {
        guard let node = try node(name) else { return nil }
        guard case .integer(let number) = node else {
            throw RulesCases.Problem(text: "\(owner): \"\(name)\" is not an integer")
        }
        return number
    }

    func text(_ name: String) throws(RulesCases.Problem) -> String? {
        guard let node = try node(name) else { return nil }
        guard case .string(let text) = node else {
            throw RulesCases.Problem(text: "\(owner): \"\(name)\" is not a string")
        }
        return text.string
    }
}

extension RulesCases.Case {
    private static let methods = [
        ("read", "GET"), ("write", "PUT"), ("update", "PATCH"), ("delete", "DELETE"),
    ]

    fileprivate init(
        _ members: Members, _ number: Int, _ data: Node, _ now: Int64
    ) throws(RulesCases.Problem) {
        func problem(_ text: String) -> RulesCases.Problem {
            RulesCases.Problem(text: "case \(number): \(text)")
        }

        try members.expect(
            only: Set(["name", "auth", "query", "value", "expect", "data", "now"] + Self.methods.map(\.0)))
        let asked = Self.methods.filter { members[$0.0] != nil }
        guard asked.count == 1, let (verb, method) = asked.first, let path = try members.text(verb) else {
            throw problem("one of read, write, update and delete must name a path")
        }
        switch try members.text("expect") {
        case "allow": isAllowed = true
        case "deny": isAllowed = false
        default: throw problem("\"expect\" must be \"allow\" or \"deny\"")
        }
        name = try members.text("name") ?? "case \(number)"
        self.data = try members.node("data") ?? data
        milliseconds = try members.integer("now") ?? now
        let auth = members["auth"] ?? Array("null".utf8)
        switch auth.first {
        case UInt8(ascii: "{"):
            credential = Credential(authVariable: Text(String(decoding: auth, as: UTF8.self)))
        case UInt8(ascii: "n"): credential = .anonymous
        default:
            guard try members.text("auth") == "admin" else {
                throw problem("\"auth\" must be null, \"admin\" or an object")
            }
            credential = .admin
        }
        let who =
            credential.isAdmin
            ? "the administrator" : members["auth"].map { String(decoding: $0, as: UTF8.self) }
        summary = "\(verb) \(path) as \(who ?? "null")"
        let needsValue = method == "PUT" || method == "PATCH"
        guard (members["value"] != nil) == needsValue else {
            throw problem(needsValue ? "\(verb) needs a \"value\"" : "\(verb) has no \"value\"")
        }
        var parameters: [String] = []
        if let query = members["query"] {
            guard method == "GET" else { throw problem("only a read has a \"query\"") }
            parameters = try Members(query, "case \(number), \"query\"").pairs.map {
                "\(encodePercent($0.name.utf8))=\(encodePercent($0.json))"
            }
        }
        do throws(RESTError) {
            operation = try Self.operation(method, path, parameters, members["value"] ?? [])
        } catch {
            throw problem(error.text)
        }
    }

    /// What the REST request comes to.
    private static func operation(
        _ method: String, _ path: String, _ parameters: [String], _ body: [UInt8]
    ) throws(RESTError) -> Operation {
        let segments = path.split(separator: "/").map { encodePercent($0.utf8) }
        let target = "/" + segments.joined(separator: "/") + ".json?" + parameters.joined(separator: "&")
        let bytes = Array("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        var reader = RequestHeadReader()
        var offset = 0
        guard let head = try? reader.read(bytes.rawSpan, from: &offset) else { throw .invalidPath }
        let request = try RESTRequest(head, RESTAddress(head))
        guard case .data(let target) = request.location else { throw .invalidPath }
        if request.method.isRead { return .get(target.path, request.query) }
        switch try request.readBody(body.rawSpan) {
        case .value(let draft): return .put(Write(target, draft))
        case .update(let update): return .merge(base: target.path, update.writes)
        }
    }
}
