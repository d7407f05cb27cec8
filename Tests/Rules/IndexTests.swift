import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

@Test(
    arguments: [
        // path          order             has it   because
        ("/", .child("top"), true, "at the root"),
        ("/", .child("h"), false, "not one of another location"),
        ("/dinos", .child("h"), true, "one of a list"),
        ("/dinos", .child("dim/w"), true, "a child path"),
        ("/dinos", .child("dim"), false, "not a part of one"),
        ("/dinos", .child("w"), false, "nor its end"),
        ("/dinos", .child("x/y"), true, "slashes around a path are ignored"),
        ("/dinos", .value, false, "`.value` has to be named"),
        ("/dinos/rex", .child("h"), false, "an index is for one location, not those below"),
        ("/scores", .value, true, "by value, as a string"),
        ("/scores", .child("h"), false, "by value only"),
        ("/users/ann/posts", .child("date"), true, "below a wildcard"),
        ("/users/bob/posts", .child("date"), true, "for each key that the wildcard matches"),
        ("/users/ann/me/posts", .child("date"), false, "a wildcard matches one key only"),
        ("/users/posts", .child("date"), false, "and not none"),
        ("/users/ann", .child("name"), true, "at the wildcard itself"),
        ("/users/admin", .child("name"), false, "a literal child hides the wildcard"),
        ("/users/admin/posts", .child("date"), false, "with all that is below"),
        ("/users/admin/posts", .child("rank"), true, "and has its own"),
        ("/nowhere/at/all", .child("h"), false, "no rules there"),
        ("/nowhere", .key, true, "keys need none"),
        ("/nowhere", .priority, true, "an index by priority always exists"),
        ("/odd", .child("ok"), true, "beside names that cannot be an index"),
        ("/odd", .value, false, "none of them became an index"),
    ] as [(Path, ChildOrder, Bool, String)])
func indexes(path: Path, order: ChildOrder, expected: Bool, reason: String) throws {
    let rules = try rules(
        """
        { ".indexOn": "top",
          "dinos": { ".indexOn": ["h", "dim/w", "/x//y/"] },
          "scores": { ".indexOn": ".value" },
          "odd": { ".indexOn": ["", "/", ".key", ".priority", "a.b", "$x", ".valu", "ok"] },
          "users": {
            "$uid": { ".indexOn": ["name"], "posts": { ".indexOn": ["date"] } },
            "admin": { "posts": { ".indexOn": ["rank", ".value"] } } } }
        """)
    #expect(rules.hasIndex(order, at: path) == expected, "\(reason)")
}

/// Orders of several fields (§10): all but the last in any order.
@Test(
    arguments: [
        // declared           canonical fields
        ("country+score", ["country", "score"]),
        ("/country/+dim/w", ["country", "dim/w"]),
        ("b+a+score", ["a", "b", "score"]),
        ("a+b+c+d", ["a", "b", "c", "d"]),
    ] as [(String, [Path])])
func compoundIndexes(name: String, fields: [Path]) throws {
    let rules = try load(#"{"rules":{"q":{".indexOn":["x","\#(name)"]}}}"#)
    #expect(rules.hasIndex(.compound(fields), at: "q"))
    #expect(!rules.hasIndex(.compound(fields.reversed()), at: "q"))
    #expect(!rules.hasIndex(.compound(fields), at: "other"))
    #expect(rules.hasIndex(.child(try Path(wire: Text(name))), at: "q"), "it may be a child's name too")
}

/// Names that are no several fields: each is a child's, if it is a valid path.
@Test(
    arguments: [
        // declared     the child's path
        ("C++", "C++"), ("a+", "a+"), ("+a", "+a"), ("a++b", "a++b"), ("a+/", "a+"), ("a+a", "a+a"),
        ("a+b+c+d+e", "a+b+c+d+e"), ("x/a+x/a", "x/a+x/a"), (".value+a", nil), ("a+b.c", nil),
    ] as [(String, String?)])
func namesWithAPlusSign(name: String, path: String?) throws {
    let rules = try load(#"{"rules":{"q":{".indexOn":["x","\#(name)"]}}}"#)
    let expected: Set<ChildOrder> = [.child("x")]
    #expect(
        try #require(IndexDeclarations(.loaded(rules)))["q" as Path]?.orders
            == expected.union(try path.map { [.child(try Path(wire: Text($0)))] } ?? []))
}

/// What `query` of the rules shows of a query with `where`.
@Test(
    arguments: [
        // where and order             rule                                                            granted
        (#"{"w":{"owner":"u"}}"#, "query.orderByChild == 'owner' && query.equalTo == 'u'", true),
        (#"{"w":{"owner":"v"}}"#, "query.orderByChild == 'owner' && query.equalTo == 'u'", false),
        (#"{"w":{"owner":"u"},"i":"s"}"#, "query.orderByChild == 'owner+s' && query.equalTo == 'u'", true),
        (#"{"w":{"owner":"v"},"i":"s"}"#, "query.orderByChild == 'owner+s' && query.equalTo == 'u'", false),
        (#"{"w":{"owner":"u"},"i":"s"}"#, "query.orderByChild == 'owner'", false),
        (#"{"w":{"owner":"u"},"i":"s","sp":1,"ep":2}"#, "query.startAt == 1 && query.endAt == 2", true),
        (#"{"w":{"owner":"u"},"i":"s"}"#, "query.startAt == null && query.endAt == null", true),
        (#"{"w":{"owner":"u","a":1},"i":"s"}"#, "query.equalTo == 'u' || query.equalTo == 1", false),
        (#"{"w":{"owner":"u"},"i":"s","l":3,"vf":"l"}"#, "query.limitToFirst <= 3", true),
    ])
func rulesSeeWhere(spelled: String, rule: String, isGranted: Bool) throws {
    let rules = try load(#"{"rules":{"q":{".read":"\#(rule)"}}}"#)
    let bytes = Array(spelled.utf8)
    let query = try withCursor(over: bytes.rawSpan) { cursor throws(MalformedJSON) -> Query in
        var reader = JSONReader(cursor)
        return try Query(reading: &reader)
    }
    let scope = RuleScope(credential: .anonymous, milliseconds: 0, root: .empty)
    #expect(Access.loaded(rules).allowsRead(at: "q", query: query, in: scope) == isGranted, "\(rule)")
}
