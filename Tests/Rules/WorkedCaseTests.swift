import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

/// One request of a worked case.
private enum Request {
    case read(Path, String? = nil)
    /// A value at a path.
    case write(Path, String)
    /// Several locations in one write.
    case update([(Path, String)])
}

private struct Case {
    var number: Int
    var rules: String
    var seed = "null"
    var user: String? = u1
    /// The requests, and whether they are allowed.
    var requests: [(Request, Bool)]

    init(
        _ number: Int, _ rules: String, seed: String = "null", as user: String? = u1,
        _ requests: [(Request, Bool)]
    ) {
        self.number = number
        self.rules = rules
        self.seed = seed
        self.user = user
        self.requests = requests
    }
}

private let u1 =
    #"{"uid":"u1","provider":"anonymous","token":{"sub":"u1","firebase":{"sign_in_provider":"anonymous"}}}"#
private let now: Int64 = 1_760_000_000_000

private func claim(_ members: String) -> String { #"{"uid":"u1","provider":"custom","token":{\#(members)}}"# }

private let signedIn = #"{".read":"auth != null",".write":"auth != null"}"#
private let owners = #"{"users":{"$uid":{".write":"auth.uid == $uid"}}}"#
private let lists = #"{"items":{"$id":{".write":"true"},"fixed":{".write":"false"}}}"#
private let titles = #"{"p":{".write":"auth != null","title":{".validate":true},"$o":{".validate":false}}}"#
private let needsX = #"{"p":{".write":"auth != null",".validate":"newData.hasChildren(['x'])"}}"#
private let needsAB = #"{"n":{"$i":{".write":"auth != null",".validate":"newData.hasChildren(['a','b'])"}}}"#
private let needsAny = #"{"par":{".write":"auth != null",".validate":"newData.hasChildren()"}}"#
private let tags =
    #"{"r":{"$i":{".write":"auth != null","title":{".validate":"newData.isString()"},"tag":{".validate":"newData.isNumber()"}}}}"#
private let counts =
    #"{"r":{"$i":{".write":"auth != null","count":{".validate":"newData.val() == data.val() + 1"}}}}"#
private let metas =
    #"{"d":{".write":"auth != null","meta":{".validate":"newData.parent().child('content').exists()"}}}"#
private let ownerQuery =
    #"{"items":{".indexOn":"owner",".read":"query.orderByChild=='owner' && query.equalTo==auth.uid"}}"#
private let posts = #"""
    {"posts":{"$p":{".write":true,
      ".validate":"newData.parent().parent().child('last').child(auth.uid).val()==now"}},
     "last":{"$u":{".write":"auth.uid==$u && newData.exists()"}}}
    """#
private let rooms = #"""
    {"rooms":{"$r":{"members":{"$u":{".write":"auth.uid==$u"}},
      "messages":{"$m":{".write":"data.parent().parent().child('members').child(auth.uid).val()==true"}}}}}
    """#
private let seats = ##"{"seats":{".write":true,"$s":{".validate":"$s=='0'||$s=='1'"}}}"##

/// A rule for writing anything at `/v`, which is looked at.
private func valid(_ expression: String) -> String { #"{"v":{".write":true,".validate":"\#(expression)"}}"# }
private func readable(_ expression: String) -> String { #"{".read":"\#(expression)"}"# }
private func writable(_ expression: String) -> String { #"{".write":"\#(expression)"}"# }

/// The worked cases of the specification (rules §12) with requests, by their numbers. 61 is
/// in two halves: the same write under rules that allow it and, later, under others.
private let cases: [Case] = [
    Case(1, signedIn, as: nil, [(.read("/x"), false)]),
    Case(2, signedIn, [(.write("/x", "1"), true)]),
    Case(3, "{}", [(.read("/x"), false)]),
    Case(4, owners, [(.write("/users/u2", "1"), false)]),
    Case(5, owners, [(.write("/users/u1/name", #""x""#), true)]),
    Case(6, #"{".write":false,"a":{".write":true,"b":{".write":false}}}"#, [(.write("/a/c", "1"), true)]),
    Case(7, #"{"a":{".read":true,"secret":{".read":false}}}"#, as: nil, [(.read("/a/secret"), true)]),
    Case(8, #"{"list":{"$id":{".read":true}}}"#, as: nil, [(.read("/list"), false)]),
    Case(9, lists, [(.write("/items/fixed", "1"), false), (.write("/items/other", "1"), true)]),
    Case(10, titles, [(.write("/p/title", "1"), true), (.write("/p/zz", "1"), false)]),
    Case(11, needsX, [(.write("/p/sub/k", "1"), false)]),
    Case(12, needsX, seed: #"{"p":{"x":1}}"#, [(.write("/p/sub/k", "1"), true)]),
    Case(13, needsX, [(.write("/p", #"{"y":1}"#), false)]),
    Case(14, needsAB, seed: #"{"n":{"1":{"a":1,"b":1}}}"#, [(.write("/n/1", "null"), true)]),
    Case(15, needsAB, seed: #"{"n":{"1":{"a":1,"b":1}}}"#, [(.write("/n/1", "{}"), true)]),
    Case(16, needsAB, seed: #"{"n":{"1":{"a":1,"b":1}}}"#, [(.write("/n/1/b", "null"), false)]),
    Case(17, needsAny, seed: #"{"par":{"c":1}}"#, [(.write("/par/c", "null"), true)]),
    Case(18, needsAny, seed: #"{"par":{"c":1,"d":1}}"#, [(.write("/par/c", "null"), true)]),
    Case(19, tags, seed: #"{"r":{"1":{"tag":"bad"}}}"#, [(.write("/r/1/title", #""t""#), true)]),
    Case(
        20, tags, seed: #"{"r":{"1":{"tag":"bad"}}}"#,
        [(.write("/r/1", #"{"title":"t","tag":"bad"}"#), false)]),
    Case(21, counts, seed: #"{"r":{"1":{"count":1}}}"#, [(.update([("/r/1/count", "1")]), false)]),
    Case(
        22, counts, seed: #"{"r":{"1":{"count":1}}}"#,
        [(.write("/r/1/count", "2"), true), (.write("/r/1/count", "3"), false)]),
    Case(23, counts, [(.write("/r/1/count", "1"), false)]),
    Case(24, metas, seed: #"{"d":{"meta":1,"content":1}}"#, [(.write("/d/content", "null"), true)]),
    Case(
        25, valid("newData.val().length > 2"), [(.write("/v", "5"), false), (.write("/v", #""abc""#), true)]),
    Case(
        26, valid("newData.val().toUpperCase()=='OK' || newData.isNumber()"),
        [(.write("/v", "5"), false), (.write("/v", #""ok""#), true)]),
    Case(27, valid("newData.isNumber() || newData.val().toUpperCase()=='OK'"), [(.write("/v", "5"), true)]),
    Case(
        28, valid("!(newData.val().toUpperCase()=='OK')"),
        [(.write("/v", "5"), false), (.write("/v", #""no""#), true)]),
    Case(29, #"{".write":"data.val() > 1","open":{".write":"auth!=null"}}"#, [(.write("/open", "1"), true)]),
    Case(
        30, readable("query.limitToFirst <= 2"),
        [
            (.read("/x"), false), (.read("/x", #"{"l":2,"vf":"l"}"#), true),
            (.read("/x", #"{"l":3,"vf":"l"}"#), false),
        ]),
    Case(
        31, ownerQuery,
        [
            (.read("/items", #"{"i":"owner","sp":"u1","ep":"u1"}"#), true),
            (.read("/items", #"{"i":"owner","sp":"u2","ep":"u2"}"#), false), (.read("/items"), false),
        ]),
    Case(32, readable("query.orderByKey == false"), [(.read("/x"), true)]),
    Case(33, writable("auth.token.level >= 3"), as: claim(#""level":5"#), [(.write("/x", "1"), true)]),
    Case(33, writable("auth.token.level >= 3"), as: claim(#""level":1"#), [(.write("/x", "1"), false)]),
    Case(33, writable("auth.token.level >= 3"), as: claim(""), [(.write("/x", "1"), false)]),
    Case(34, writable("auth.token.beta == true"), as: claim(#""beta":"true""#), [(.write("/x", "1"), false)]),
    Case(34, writable("auth.token.beta == true"), as: claim(#""beta":true"#), [(.write("/x", "1"), true)]),
    Case(35, writable("auth.provider == 'password'"), [(.write("/x", "1"), false)]),
    Case(35, writable("auth.provider == 'anonymous'"), [(.write("/x", "1"), true)]),
    Case(36, writable("auth.provider != null"), as: nil, [(.write("/x", "1"), false)]),
    Case(36, writable("auth.provider != null"), [(.write("/x", "1"), true)]),
    Case(37, readable("data.child(auth.uid).exists()"), seed: #"{"null":1}"#, as: nil, [(.read("/"), false)]),
    Case(38, valid("newData.child('./x').exists()"), [(.write("/v", #"{"x":1}"#), false)]),
    Case(39, valid("newData.hasChildren([])"), [(.write("/v", "5"), true)]),
    Case(
        40, valid("newData.val().replace('/a/g','z')=='z'"),
        [(.write("/v", #""/a/g""#), true), (.write("/v", #""a""#), false)]),
    Case(
        41, #"{"t":{".write":"auth != null",".validate":"newData.val()==now"}}"#,
        [(.write("/t", "\(now)"), true), (.write("/t", "\(now - 1)"), false)]),
    Case(42, posts, [(.update([("/posts/p1", #""h""#), ("/last/u1", "\(now)")]), true)]),
    Case(43, posts, [(.update([("/posts/p1", #""h""#)]), false)]),
    Case(
        44, posts, seed: #"{"last":{"u1":1}}"#,
        [(.write("/last/u1", "null"), false), (.write("/last/u1", "2"), true)]),
    Case(
        45, rooms,
        [
            (.update([("/rooms/r/members/u1", "true"), ("/rooms/r/messages/m", #""hi""#)]), false),
            (.write("/rooms/r/members/u1", "true"), true),
        ]),
    Case(
        45, rooms, seed: #"{"rooms":{"r":{"members":{"u1":true}}}}"#,
        [(.write("/rooms/r/messages/m", #""hi""#), true)]),
    Case(
        46, valid("newData.child('a').val() == 1"), seed: #"{"v":{"a":2,"b":3}}"#,
        [(.update([("/v/a", "1")]), true), (.update([("/v/b", "1")]), false)]),
    Case(
        47, #"{"x":{".write":"!data.exists() && newData.exists()"}}"#, seed: #"{"x":1}"#,
        [(.write("/x", "2"), false), (.write("/x", "null"), false)]),
    Case(47, #"{"x":{".write":"!data.exists() && newData.exists()"}}"#, [(.write("/x", "2"), true)]),
    Case(48, readable("data.child('v').val().toUpperCase()=='OK'"), seed: #"{"v":5}"#, [(.read("/"), false)]),
    Case(
        48, readable("data.child('v').val().toUpperCase()=='OK'"), seed: #"{"v":"ok"}"#, [(.read("/"), true)]),
    Case(49, valid("newData.val() === 5"), [(.write("/v", #""5""#), false), (.write("/v", "5"), true)]),
    Case(50, readable("10 - 4 - 3 == 3"), [(.read("/"), true)]),
    Case(50, readable("true || false && false"), [(.read("/"), true)]),
    Case(50, readable("true ? false : true || true"), [(.read("/"), false)]),
    Case(
        51, valid("newData.getPriority()==7"),
        [(.write("/v", #"{".value":"w",".priority":7}"#), true), (.write("/v", #""w""#), false)]),
    Case(52, seats, [(.write("/seats", #"["a","b"]"#), true), (.write("/seats", #"["a","b","c"]"#), false)]),
    Case(
        53, writable("newData.val().matches(/^[a-z]+$/)"),
        [(.write("/", #""ab1""#), false), (.write("/", #""ab""#), true)]),
    Case(54, writable("newData.val().matches(/b/)"), [(.write("/", #""abc""#), true)]),
    Case(59, #"{"a":{".validate":"newData.isNumber()"}}"#, [(.write("/a", "1"), false)]),
    Case(60, #"{"q":{".write":true,".validate":"newData.val() < 'a'"}}"#, [(.write("/q", "5"), false)]),
    Case(61, writable("auth.uid == 'u1'"), [(.write("/x", "1"), true)]),
    Case(61, writable("auth.uid == 'u2'"), [(.write("/x", "1"), false)]),
    Case(
        62, #"{"a":{".write":true}}"#,
        [(.update([("/a/b", "1"), ("/z", "2")]), false), (.update([("/a/b", "1")]), true)]),
    Case(63, valid("(1/0 + '') == 'NaN'"), [(.write("/v", "1"), true)]),
    Case(65, #"{"u":{"$id":{".write":"auth.uid.length > 3"}}}"#, [(.write("/u/x", "1"), false)]),
    Case(
        66, readable("root.child('users/' + auth.uid).exists()"), seed: #"{"users":{"null":1}}"#, as: nil,
        [(.read("/"), false)]),
    Case(
        67, #"{"$k":{".read":"auth.flags[$k] == true"}}"#, as: #"{"flags":{"k1":true}}"#,
        [(.read("/k1"), true), (.read("/k2"), false)]),
]

@Test(arguments: cases.indices)
func workedCases(index: Int) throws {
    let worked = cases[index]
    let access = Access.loaded(try rules(worked.rules))
    let root = try data(worked.seed)
    for credential in [Credential(authVariable: worked.user.map { Text($0) }), .admin] {
        let scope = RuleScope(credential: credential, milliseconds: now, root: root)
        for (request, allowed) in worked.requests {
            // 58: an administrator may do all of it.
            let expected = allowed || credential.isAdmin
            let coverage = RuleCoverage(of: try rules(worked.rules))
            let (verdict, explained, recorded): (Bool, Bool, Bool)
            switch request {
            case .read(let path, let query):
                let query = try query.map(parse)
                verdict = access.allowsRead(at: path, query: query, in: scope)
                explained = access.explainRead(at: path, query: query, in: scope) == nil
                recorded = access.allowsRead(at: path, query: query, in: scope, recording: coverage)
            case .write(let path, let json):
                (verdict, explained, recorded) = try ask(access, [(path, json)], scope, coverage)
            case .update(let writes):
                (verdict, explained, recorded) = try ask(access, writes, scope, coverage)
            }
            #expect(verdict == expected, "case \(worked.number): \(request)")
            #expect(explained == expected && recorded == expected, "case \(worked.number): \(request)")
        }
    }
}

private func ask(
    _ access: Access, _ writes: [(Path, String)], _ scope: RuleScope, _ coverage: RuleCoverage
) throws -> (Bool, Bool, Bool) {
    var after = scope.root
    for (path, json) in writes { after.set(try data(json), at: path) }
    let paths = writes.map(\.0)
    return (
        access.allowsWrite(at: paths, after: after, in: scope),
        access.explainWrite(at: paths, after: after, in: scope) == nil,
        access.allowsWrite(at: paths, after: after, in: scope, recording: coverage)
    )
}

private func parse(_ query: String) throws -> Query {
    try withCursor(over: Array(query.utf8).rawSpan) { cursor in
        var reader = JSONReader(cursor)
        return try Query(reading: &reader)
    }
}

/// The worked cases that are refused as uploads.
@Test(
    arguments: [
        // number, document                                            problem
        (55, #"{"rules":{".read":"auth.token.admin"}}"#, "1:20: Expression must evaluate to a boolean."),
        (
            56, #"{"rules":{".read":"data > 1"}}"#,
            "1:20: Invalid > expression: left operand must be a number or string."
        ),
        (
            57, #"{"rules":{".write":"newData.val() = 1"}}"#,
            "1:35: Rule expressions may not contain assignments."
        ),
        (
            64, #"{"rules":{"$a":{"$a":{".read":true}}}}"#,
            "1:17: Variable '$a' is already defined by a rule above."
        ),
        (68, #"{"rules":{".read":"root['exi'+'sts']()"}}"#, "1:25: Invalid property access."),
        (
            69, #"{"rules":{".read":"root.child('a') != null"}}"#,
            "1:20: Invalid != expression: left operand is not a number, boolean, string, or null."
        ),
    ] as [(Int, String, String)])
func workedUploads(number: Int, document: String, problem: String) {
    #expect(problems(document) == [problem], "case \(number)")
}

@Test func literalNamesOfMethodsAreMethods() throws {
    let access = Access.loaded(try rules(#"{".read":"root['exists']()"}"#))
    #expect(access.allowsRead(at: "/", query: nil, in: scope(.anonymous, root: .integer(1))))
}
