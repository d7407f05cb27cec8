import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

private let instant: Int64 = 1_760_000_000_000

/// The value of one expression as the `.validate` of `/r/k1` (bound as `$k`), over this data.
private func outcome(
    of expression: String, auth: String? = nil, before: String = seed, after: String = change
) throws -> String {
    let escaped = expression.split(separator: "\\", omittingEmptySubsequences: false).joined(
        separator: "\\\\"
    )
    .split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\\\"")
    let access = Access.loaded(try rules(#"{".write":true,"r":{"$k":{".validate":"\#(escaped)"}}}"#))
    let scope = RuleScope(
        credential: Credential(authVariable: auth.map { Text($0) }), milliseconds: instant,
        root: try data(before))
    let (path, after): (Path, Node) = ("/r/k1", try data(after))
    let denial = access.explainWrite(at: [path], after: after, in: scope)
    #expect(access.allowsWrite(at: [path], after: after, in: scope) == (denial == nil), "\(expression)")
    guard let denial else { return "true" }
    return denial.failedRules.last?.failure?.reason ?? "false"
}

private let seed = #"""
    {"r":{"k1":{"n":5,"s":"abc","t":true,"o":{"x":1,"y":{"z":2}},"p":{".value":"w",".priority":7},"f":1.5}},
     "list":{"a":true},"null":1}
    """#
private let change = #"""
    {"r":{"k1":{"n":6,"s":"héllo🐵","o":{"x":1},"p":{".value":"w",".priority":"hi"},"big":9007199254740993}},"list":{"b":1}}
    """#

/// Run-time semantics (rules §7), methods (§6), variables (§3): `true`, `false`, or why it fails.
@Test(
    arguments: [
        // expression                                       outcome  because
        // A property of `query` is null in a write, and null is no operand of logic.
        (
            "'a' !== (query.orderByKey || false)", "a boolean is needed where there is another value",
            "an operand beside a constant that is folded away"
        ),
        (
            "!(query.orderByKey && true)", "a boolean is needed where there is another value",
            "an error under ! does not grant"
        ),
        (
            "'a' !== ((true ? query.orderByKey : true) || false)",
            "a boolean is needed where there is another value", "nor by way of a choice"
        ),
        // Operators
        ("10 - 4 - 3 == 3 && 2 + 3 * 4 == 14 && 12 / 3 / 2 == 2", "true", "50: from left to right"),
        ("true || false && false", "true", "50: && before ||"),
        ("true ? false : true || true", "false", "50: a choice takes all behind it"),
        ("false ? true : false ? false : true", "true", "?: is right-associative"),
        ("1 < 2 == true && 1 + 1 == 2 && !false == true", "true", "comparisons before equality"),
        ("-1 - -1 == 0 && 7 % 4 == 3 && -7 % 4 == -3", "true", "signs and remainders"),
        ("null + 1 == 1", "upload", "null literals are refused"),
        ("data.val() + 1 == 1", "an operand has a type that the operator cannot take", "an object"),
        ("data.child('zz').val() + 1 == 1", "an operand is null", "null"),
        (
            "data.child('t').val() + 1 == 1", "an operand has a type that the operator cannot take",
            "a boolean"
        ),
        ("data.child('s').val() - 1 == 1", "an operand has a type that the operator cannot take", "a string"),
        ("data.child('s').val() * 1 == 1", "an operand has a type that the operator cannot take", "a string"),
        ("data.child('s').val() / 1 == 1", "an operand has a type that the operator cannot take", "a string"),
        ("data.child('s').val() % 1 == 1", "an operand has a type that the operator cannot take", "a string"),
        ("-data.child('s').val() == 1", "an operand has a type that the operator cannot take", "a string"),
        ("-data.child('zz').val() == 1", "an operand is null", "null"),
        ("data.child('s').val() < 1", "a number and a string cannot be ordered", "60"),
        ("data.child('zz').val() <= 1", "an operand is null", "null"),
        ("data.val() > 1", "an operand has a type that the operator cannot take", "an object"),
        (
            "data.child('t').val() >= data.child('t').val()",
            "an operand has a type that the operator cannot take", "booleans"
        ),
        (
            "'a' < 'b' && 'B' < 'a' && 'a' < 'aa' && !('a' < 'a') && 'a' <= 'a'", "true",
            "strings by code units"
        ),
        ("'\u{1F435}' < '\u{FF5E}'", "true", "UTF-16 units, as in JavaScript"),
        ("1 == 'a' || true == 1 || null == false || '' == null", "false", "unequal across types"),
        ("data.child('n').val() == 5.0 && null == null && 1 === 1.0", "true", "equal"),
        (
            "data.val() != null && data.val() != 1 && data.val() != data.val()", "true",
            "an object is not null, and equals nothing"
        ),
        ("'é' == 'e\u{301}'", "false", "strings are not normalised"),
        ("newData.child('big').val() == 9007199254740992", "true", "numbers are doubles"),
        (
            "'one' + 1 == 'one1' && 1 + 'x' == '1x' && 'a' + 1.5 == 'a1.5' && 'a' + 1.0 == 'a1'", "true",
            "joining"
        ),
        (
            "'' + data.child('n').val() == '5' && '' + data.child('f').val() == '1.5'", "true",
            "numbers of the tree"
        ),
        ("'' + 1e21 == '1e+21' && '' + 1e20 == '100000000000000000000'", "true", "large numbers"),
        (
            "'' + 0.000001 == '0.000001' && '' + 0.0000001 == '1e-7' && '' + -1.25e-9 == '-1.25e-9'", "true",
            "small ones"
        ),
        (
            "'' + 123456789012345680000 == '123456789012345680000' && '' + 0.1 == '0.1' && '' + 12.5e30 == '1.25e+31'",
            "true", "others"
        ),
        ("'' + -0 == '0' && 'a' + -5 == 'a-5'", "true", "negative ones"),
        ("(1/0 + '') == 'NaN'", "true", "63"),
        ("1/0 > 2 || 1/0 < 2 || 1/0 == 1/0", "false", "63: NaN"),
        ("1 % 0 + '' == 'NaN' && 1/0 != 1/0", "true", "the remainder too"),
        ("data.child('n').val() / 0 > 2 || data.child('n').val() / 0 < 2", "false", "with values"),
        // Errors and short circuit
        ("data.child('zz').val() > 1 || true", "an operand is null", "26: an error fails all"),
        ("true || data.child('zz').val() > 1", "true", "27: what is not evaluated cannot"),
        ("false && data.child('zz').val() > 1", "false", "on the other side"),
        ("data.exists() || data.child('zz').val() > 1", "true", "27: at run time"),
        ("!data.exists() && data.child('zz').val() > 1", "false", "at run time"),
        ("!(data.child('zz').val() > 1)", "an operand is null", "28: nor is it turned around"),
        ("data.exists() ? true : data.child('zz').val() > 1", "true", "a choice evaluates one branch"),
        (
            "data.child('zz').val() > 1 ? true : true", "an operand is null",
            "an error in the condition of a choice"
        ),
        ("data.child('s').isString() && data.child('s').val().length > 2", "true", "a guard before a member"),
        // Strings
        ("data.child('n').val().length > 2", "a string is needed where there is another value", "25"),
        ("data.child('zz').val().length > 2", "a string is needed where there is null", "of null"),
        (
            "data.child('n').val().toUpperCase() == 'OK'", "a string is needed where there is another value",
            "48"
        ),
        ("newData.child('s').val().length == 7", "true", "UTF-16 units"),
        ("newData.child('s').val().toUpperCase() == 'HÉLLO🐵' && 'ÀB'.toLowerCase() == 'àb'", "true", "case"),
        (
            "'abc'.contains('bc') && 'abc'.contains('') && !'abc'.contains('B') && !'abc'.contains('abcd')",
            "true", "contains"
        ),
        (
            "'abc'.beginsWith('ab') && !'abc'.beginsWith('b') && 'abc'.endsWith('bc') && !'abc'.endsWith('b')",
            "true", "ends"
        ),
        (
            "'abc'.contains(data.child('n').val())", "a string is needed where there is another value",
            "a number is none"
        ),
        ("'abc'.beginsWith(auth.uid)", "a string is needed where there is null", "nor is null"),
        ("'/a/g'.replace('/a/g', 'z') == 'z' && 'a'.replace('/a/g', 'z') == 'a'", "true", "40: literally"),
        (
            "'aXbXc'.replace('X', '') == 'abc' && 'aaa'.replace('aa', 'b') == 'ba' && 'a'.replace('', 'b') == 'a'",
            "true", "every one"
        ),
        (
            "'a.b'.replace('.', data.child('n').val()) == ''",
            "a string is needed where there is another value", "a number is none"
        ),
        ("'abc'.replace('b', '$&') == 'a$&c'", "true", "the replacement is not a pattern"),
        ("'ab1'.matches(/^[a-z]+$/)", "false", "53"),
        ("'abc'.matches(/b/) && 'ABC'.matches(/b/i) && 'a/b'.matches(/^a\\/b$/)", "true", "54"),
        (
            "data.child('n').val().matches(/5/)", "a string is needed where there is another value",
            "of a number"
        ),
        // Snapshots
        ("data.exists() && !data.child('zz').exists() && data.child('o/y/z').exists()", "true", "paths"),
        ("data.child('/o//y/').exists() && data.child('').exists()", "true", "empty segments are dropped"),
        (
            "data.child('./n').exists() || data.child('..').exists() || data.child('n/.').exists()", "false",
            "38: dots are not resolved"
        ),
        (
            "data.child('a$b').exists() || data.child('[').exists() || data.child('#').exists()", "false",
            "a text that cannot be a key"
        ),
        ("data.child(auth.uid).exists()", "a string is needed where there is null", "37: null is no name"),
        (
            "data.child(data.child('n').val()).exists()", "a string is needed where there is another value",
            "nor is a number"
        ),
        ("data.hasChild('o') && data.hasChild('o/x') && !data.hasChild('o/zz')", "true", "hasChild"),
        ("data.hasChild(auth.uid)", "a string is needed where there is null", "of null"),
        (
            "data.hasChildren() && !data.child('n').hasChildren() && !data.child('zz').hasChildren()", "true",
            "any"
        ),
        (
            "data.hasChildren(['n', 's']) && !data.hasChildren(['n', 'zz']) && data.hasChildren([$k.replace('k1', 'n'), 'o/x'])",
            "true", "all"
        ),
        (
            "data.hasChildren([]) && data.child('n').hasChildren([]) && data.child('zz').hasChildren([])",
            "true", "39: none"
        ),
        (
            "data.hasChildren(['']) && !data.child('zz').hasChildren(['/'])", "true",
            "an empty name is the node"
        ),
        ("data.hasChildren(['zz', auth.uid])", "a string is needed where there is null", "a null among them"),
        (
            "data.child('s').isString() && data.child('n').isNumber() && data.child('t').isBoolean()", "true",
            "kinds"
        ),
        ("data.child('p').isString() && data.child('f').isNumber()", "true", "whatever the priority"),
        (
            "data.isString() || data.isNumber() || data.isBoolean() || data.child('zz').isString() || data.child('n').isString()",
            "false", "other kinds"
        ),
        (
            "data.child('p').getPriority() == 7 && newData.child('p').getPriority() == 'hi' && data.getPriority() == null",
            "true", "51: priorities"
        ),
        ("data.child('p').val() == 'w' && data.child('o').val() != null", "true", "values"),
        (
            "data.parent().child('k1/n').val() == 5 && data.parent().parent().child('list/a').val() == true",
            "true", "upwards"
        ),
        (
            "newData.parent().parent().child('list/b').val() == 1 && !newData.parent().parent().child('list/a').exists()",
            "true", "42: through the new tree"
        ),
        (
            "data.child('o/y').parent().child('x').val() == 1 && data.child('n').parent().parent().hasChild('k1')",
            "true", "down and up again"
        ),
        (
            "data.child(newData.child('p').val() + '/x/y').parent().parent().parent().child('n').val() == 5",
            "true", "from a computed path"
        ),
        ("data.child('s/' + $k).parent().val() == 'abc'", "true", "from a child of a leaf"),
        ("root.parent().exists()", "the root has no parent", "the root"),
        ("data.parent().parent().parent().exists()", "the root has no parent", "by climbing"),
        (
            "data.child('a' + $k).parent().parent().parent().parent().exists()", "the root has no parent",
            "at run time"
        ),
        (
            "(data.exists() ? data : newData).child('n').val() == 5 && (data.exists() ? data : root).parent().hasChild('k1')",
            "true", "chosen"
        ),
        ("(data.exists() ? data : 1) == 1", "a snapshot is no value", "a choice between different types"),
        ("(data.exists() ? 1 : data) == 1", "true", "a choice with equal branches"),
        (
            "root.child('list').val() != null && root.child('r/k1/n').val() == data.child('n').val()", "true",
            "root is the tree before"
        ),
        ("newData.child('n').val() == data.child('n').val() + 1", "true", "22"),
        // Variables
        ("$k == 'k1' && root.child('r').child($k).exists() && $k.length == 2", "true", "the key"),
        ("now == 1760000000000 && now > 0 && 'a' + now == 'a1760000000000'", "true", "the time"),
        (
            "query.limitToFirst == null && query.orderByKey == null && query.equalTo == null", "true",
            "no query in a write"
        ),
        ("query.orderByKey", "a boolean is needed where there is another value", "null is no boolean"),
        ("query.limitToFirst <= 10", "an operand is null", "30"),
        (
            "auth == null && auth.uid == null && auth.token.a.b == null && auth['x'][$k] == null", "true",
            "signed out"
        ),
        ("auth.uid.length > 1", "a string is needed where there is null", "of null"),
        ("'users/' + auth.uid == 'users/null'", "an operand is null", "66"),
        ("auth.token.contains('a')", "a string is needed where there is null", "of null"),
    ] as [(String, String, String)])
func evaluation(expression: String, expected: String, reason: String) throws {
    if expected == "upload" {
        #expect(throws: InvalidRules.self) { try outcome(of: expression) }
    } else {
        #expect(try outcome(of: expression) == expected, "\(expression): \(reason)")
    }
}

/// `auth` (rules §3.1, auth §3).
@Test(
    arguments: [
        // expression                                       outcome  because
        ("auth != null && auth.uid == 'u1' && auth.provider == 'password'", "true", "the usual"),
        (
            "auth.token.level >= 3 && auth.token.beta == 'true' && auth.token.beta != true", "true",
            "33, 34: no coercion"
        ),
        (
            "auth.token.none == null && auth.token.none.deeper == null && auth.uid.deeper == null", "true",
            "members of null"
        ),
        ("auth.token.none > 1", "an operand is null", "33: nothing is no number"),
        (
            "auth.token['my-claim'] == 1 && auth['uid'] == 'u1' && auth['token']['org'].tier == 'gold'",
            "true", "names in quotes"
        ),
        (
            "auth.token.org.tier == 'gold' && auth.token.org != null && auth.token.tags != null", "true",
            "nested claims"
        ),
        ("auth.token.org == 'gold'", "false", "an object equals nothing, as those of the data"),
        (
            "auth.token.org != 'gold' && auth.token.org != 1 && auth.token.org != true && auth.token.org != null",
            "true",
            "an object is not null"
        ),
        (
            "auth.token.org == auth.token.org || auth.token.org == data.val()", "false",
            "an object does not equal itself"
        ),
        ("auth.token.org != 'gold' && 'gold' != auth.token.org", "true", "on either side"),
        ("auth.token.org > 1", "an operand has a type that the operator cannot take", "still no number"),
        ("auth.token.org + 1 == ''", "an operand has a type that the operator cannot take", "an object"),
        ("auth.token.flags[$k] == true && auth.token.flags['k' + 2] == null", "true", "67: a computed index"),
        ("auth.token.flags[auth.token.none] == null", "a string is needed where there is null", "by null"),
        (
            "auth.token.tags[0] == 'a' && auth.token.tags['1'] == 'b' && auth.token.tags[2] == null", "true",
            "arrays"
        ),
        (
            "auth.token.firebase.sign_in_provider == 'password' && auth.token.firebase.identities['google.com'][0] == '123'",
            "true", "as the documentation has it"
        ),
        (
            "auth.uid.length == 2 && auth.uid.beginsWith('u') && auth.uid.matches(/^u\\d$/) && auth.uid.replace('u', '') == '1'",
            "true", "methods"
        ),
        ("(auth.uid == 'u1' ? auth.token : auth).level == 5", "true", "a choice between claims"),
        (
            "auth.token.level + 1 == 6 && auth.token.level == 5.0 && -auth.token.level == -5 && auth.token.half == 0.5",
            "true", "numbers"
        ),
        ("auth.tenant == null && auth.token.yes == true && auth.token.nothing == null", "true", "the rest"),
    ] as [(String, String, String)])
func claims(expression: String, expected: String, reason: String) throws {
    let auth = #"""
        {"uid":"u1","provider":"password","token":{"level":5,"half":0.5,"beta":"true","yes":true,"nothing":null,"my-claim":1,
         "org":{"tier":"gold"},"tags":["a","b"],"flags":{"k1":true},
         "firebase":{"sign_in_provider":"password","identities":{"google.com":["123"]}}}}
        """#
    #expect(try outcome(of: expression, auth: auth) == expected, "\(reason)")
}

/// Unreadable claims have no members; the user is signed in.
@Test(arguments: [
    "{", "", #"{"uid":"u1"} x"#, #"{"uid":"u1","uid":"u2"}"#, #"{"uid":"u1","token":{"a":1,"a":1}}"#,
    #"{"uid":"\ud800"}"#,
    #"{"uid":"u1","a":"# + String(repeating: "[", count: 5000) + String(repeating: "]", count: 5000) + "}",
    #"{"uid":"u1","n":1e999}"#, "[[[[[", #"{"a":"#,
])
func unreadableClaims(auth: String) throws {
    #expect(try outcome(of: "auth != null && auth.uid == null && auth.token.a == null", auth: auth) == "true")
}

@Test func credentialsCompareByText() {
    let (a, b) = (Credential(authVariable: #"{"uid":"u1"}"#), Credential(authVariable: #"{"uid":"u1"}"#))
    #expect(a == b && a.hashValue == b.hashValue && a.authVariable == #"{"uid":"u1"}"#)
    #expect(
        a != Credential(authVariable: #"{"uid": "u1"}"#) && a != .anonymous
            && a != Credential(isAdmin: true, authVariable: a.authVariable))
    #expect(Set([a, b, .anonymous, .admin]).count == 3)
}

/// `query` in reads (§3.2).
@Test(
    arguments: [
        // expression                                       query                            outcome because
        (
            "query.orderByKey == false && !query.orderByValue && !query.orderByPriority", nil, true,
            "32: a plain read"
        ),
        (
            "query.orderByChild == null && query.startAt == null && query.limitToFirst == null && query.limitToLast == null",
            nil, true, "nothing"
        ),
        (
            "query.orderByKey == false && query.orderByPriority == true", #"{"i":".priority"}"#, true,
            "one that only names the default order"
        ),
        ("query.limitToFirst <= 2", nil, false, "30: null"),
        ("query.limitToFirst <= 2", #"{"l":2,"vf":"l"}"#, true, "30: two"),
        ("query.limitToFirst <= 2", #"{"l":3,"vf":"l"}"#, false, "30: three"),
        ("query.limitToFirst == null && query.limitToLast == 3", #"{"l":3,"vf":"r"}"#, true, "the other end"),
        ("query.orderByPriority && !query.orderByKey", #"{"l":3,"vf":"r"}"#, true, "the default order"),
        (
            "query.orderByKey && query.equalTo == 'x' && query.startAt == 'x' && query.endAt == 'x'",
            #"{"i":".key","sp":"x","ep":"x"}"#, true, "keys"
        ),
        (
            "query.orderByKey && query.startAt == 'x' && query.endAt == null && query.equalTo == null",
            #"{"i":".key","sp":"x"}"#, true, "from a key"
        ),
        (
            "query.orderByValue && query.startAt == 1 && query.endAt == 5 && query.equalTo == null",
            #"{"i":".value","sp":1,"ep":5}"#, true, "values"
        ),
        (
            "query.orderByChild == 'owner' && query.equalTo == auth.uid",
            #"{"i":"owner","sp":"u1","ep":"u1"}"#, true, "31"
        ),
        (
            "query.orderByChild == 'owner' && query.equalTo == auth.uid",
            #"{"i":"owner","sp":"u2","ep":"u2"}"#, false, "31: another's"
        ),
        ("query.orderByChild == 'owner' && query.equalTo == auth.uid", nil, false, "31: all"),
        (
            "query.orderByChild == 'owner' && query.equalTo == auth.uid",
            #"{"i":"owner","sp":"u1","ep":"u2"}"#, false, "31: more than one"
        ),
        (
            "query.orderByChild == 'owner' && query.equalTo == auth.uid",
            #"{"i":"owner","sp":"u1","ep":"u1","ein":false}"#, false, "31: none"
        ),
        (
            "query.orderByChild == 'a/b' && query.startAt == true", #"{"i":"a/b","sp":true,"sin":false}"#,
            true, "startAfter counts as startAt"
        ),
    ] as [(String, String?, Bool, String)])
func queries(expression: String, query: String?, expected: Bool, reason: String) throws {
    let access = Access.loaded(try rules(#"{"items":{".read":"\#(expression)"}}"#))
    let parsed = try query.map { text in
        try withCursor(over: Array(text.utf8).rawSpan) { cursor in
            var reader = JSONReader(cursor)
            return try Query(reading: &reader)
        }
    }
    let scope = scope(Credential(authVariable: #"{"uid":"u1"}"#))
    #expect(access.allowsRead(at: "/items", query: parsed, in: scope) == expected, "\(reason)")
    #expect((access.explainRead(at: "/items", query: parsed, in: scope) == nil) == expected, "\(reason)")
}

/// The texts that a rule computes, and its time, are bounded.
@Test func evaluationIsBounded() throws {
    let text = String(repeating: "a", count: 1 << 17)
    let after = #"{"r":{"k1":{"s":"\#(text)b"}}}"#
    let tooLong = "a string grows beyond 10485760 bytes"
    #expect(
        try outcome(of: "newData.child('s').val().replace('a', newData.child('s').val()) == ''", after: after)
            == tooLong)
    let sum = Array(repeating: "newData.child('s').val()", count: 82).joined(separator: " + ")
    #expect(try outcome(of: "(\(sum)).length > 0", after: after) == tooLong)
    // The worst case for a naive search.
    #expect(
        try outcome(
            of: "newData.child('s').val().contains(newData.child('s').val().replace('b', '') + 'ab')",
            after: after) == "false")
    #expect(try outcome(of: "newData.child('s').val().matches(/^(a*)*c$/)", after: after) == "false")
    #expect(
        try outcome(of: "newData.child('s').val().matches(/(a|b)*a(a|b){2000}c/)", after: after)
            == "matching takes more than 10000000 steps")
    // A path of many segments, and back.
    let slashes = #"{"r":{"k1":{"s":"\#(String(repeating: "a/", count: 1 << 15))"}}}"#
    #expect(
        try outcome(of: "newData.child(newData.child('s').val()).parent().exists()", after: slashes)
            == "false")
}

/// Expressions of the greatest permitted depth: loading, evaluating and explaining fit in a thread's stack.
@Test(arguments: [
    String(repeating: "!", count: 190) + "data.exists()",
    String(repeating: "(data.exists() && ", count: 190) + "data.exists()"
        + String(repeating: ")", count: 190),
    String(repeating: "data.exists() ? ", count: 95) + "data.exists()"
        + String(repeating: " : false", count: 95),
    "data" + String(repeating: ".child('a' + $k).parent()", count: 30) + ".exists()",
    "(" + String(repeating: "-", count: 190) + "data.child('n').val()) == 5",
    "data.child('n').val()" + String(repeating: " + 1", count: 180) + " == 185",
    "auth.x" + String(repeating: "[auth.y", count: 90) + String(repeating: "]", count: 90)
        + " == null || true",
])
func deepExpressions(expression: String) throws {
    let result = try outcome(of: expression)
    #expect(result == (expression.hasPrefix("auth") ? "a string is needed where there is null" : "true"))
}

/// A computed path without a legal key is null, and not the node that it starts from (§6).
@Test(arguments: ["", "/", "//", "///"])
func pathsWithoutKeys(name: String) throws {
    let auth = #"{"uid":"\#(name)","token":{"name":"\#(name)"}}"#
    for expression in [
        "root.child('list').child(auth.uid).exists()", "root.child('list').hasChild(auth.uid)",
        "root.child('list').hasChildren([auth.uid])", "root.child('list').child(auth.token.name).exists()",
        "root.child(auth.uid).child('list').exists()", "root.child('' + '/').exists()",
        "root.child(auth.uid + '/').exists()", "data.child(auth.uid).child(auth.uid).parent().exists()",
    ] {
        #expect(try outcome(of: expression, auth: auth) == "false", "\(expression)")
    }
    for expression in [
        "root.child('list').child(auth.uid).parent().child('a').exists()", "root.child('').exists()",
        "root.child('list').hasChildren(['\(name)'])", "data.child('\(name)').exists()",
        "root.child('/list//' + 'a' + '/').exists()",
    ] {
        #expect(try outcome(of: expression, auth: auth) == "true", "\(expression)")
    }
}

/// `auth.uid` names one key (auth §5.2): who is `a/` is not `a`, and what is no legal key names no node.
@Test(arguments: ["a/", "/a", "//a//", "list/a", "/list", "a/x/..", ".", "a.b", "[a]", "a#"])
func aUIDIsNoPath(uid: String) throws {
    let auth = #"{"uid":"\#(uid)","token":{"name":"\#(uid)"}}"#
    for expression in [
        "root.child('list').child(auth.uid).exists()", "root.child('list').hasChild(auth.uid)",
        "root.child('list').hasChildren([auth.uid])", "root.child('list').child(auth['uid']).exists()",
        "root.child('list').child((auth.uid)).val() == true", "root.child(auth.uid).exists()",
        "root.child(auth.uid).child('a').exists()", "root.child('list').parent().hasChild(auth.uid)",
        "root.child('list').child(auth.uid).child('a').parent().exists()",
    ] {
        #expect(try outcome(of: expression, auth: auth) == "false", "\(expression)")
    }
    for expression in [
        "!root.child('list').child(auth.uid).exists() && auth.uid == '\(uid)'",
        "root.child('list').child(auth.uid).parent().child('a').exists()",
    ] {
        #expect(try outcome(of: expression, auth: auth) == "true", "\(expression)")
    }
}

/// What is composed is a path, as are other claims: `a/` is `a` there.
@Test func composedArgumentsArePaths() throws {
    let auth = #"{"uid":"a/","token":{"name":"list/a"}}"#
    for expression in [
        "root.child('list/' + auth.uid).exists()", "root.child('list').child(auth.uid + '').exists()",
        "root.child(auth.token.name).exists()",
    ] {
        #expect(try outcome(of: expression, auth: auth) == "true", "\(expression)")
    }
    #expect(try outcome(of: "root.child('list').hasChild(auth.uid)", auth: #"{"uid":"a"}"#) == "true")
}

/// A path is read only as far as there is data.
@Test func longPathsAreNotReadCompletely() {
    let key = String(repeating: "k", count: Limits.keyByteCount)
    var segments = PathSegments(Text("//a/" + key + "/" + key + "k/b//c"))
    #expect(segments.next() == "a" && segments.offset == 3)
    #expect(segments.next() == Key(unchecked: Text(key)) && !segments.isLost)
    #expect(segments.next() == nil && segments.isLost && segments.count == 2)
    #expect(segments.next() == nil && segments.skipRest() == 3 && segments.skipRest() == 0)
    segments = PathSegments(Text(String(repeating: "a/", count: 1 << 20)))
    for _ in 0..<Limits.pathDepth { #expect(segments.next() == "a") }
    #expect(segments.next() == nil && segments.isLost && segments.offset == 2 * Limits.pathDepth)
    segments = PathSegments("a")
    #expect(segments.next() == "a" && segments.next() == nil && !segments.isLost)
    segments = PathSegments("///")
    #expect(segments.next() == nil && !segments.isLost && segments.count == 0)
    segments = PathSegments(oneKey: "a b")
    #expect(segments.next() == "a b" && segments.next() == nil && !segments.isLost && segments.count == 1)
    for text in ["/", "a/", "a/b", "a.b"] as [Text] {
        segments = PathSegments(oneKey: text)
        #expect(segments.next() == nil && segments.isLost && segments.count == 0)
        #expect(segments.next() == nil && segments.skipRest() == 1 && segments.skipRest() == 0)
    }
    segments = PathSegments(oneKey: "")
    #expect(segments.next() == nil && !segments.isLost && segments.count == 0)
}

@Test func caseChangesAreCounted() throws {
    // Three letters each when they are capitals.
    let count = RulesLimits.textByteCount / 6 + 1
    let after = #"{"r":{"k1":{"s":"\#(String(repeating: "ΐ", count: count))"}}}"#
    let text = "newData.child('s').val()"
    let tooLong = "a string grows beyond 10485760 bytes"
    #expect(try outcome(of: "\(text).toUpperCase() != ''", after: after) == tooLong)
    #expect(try outcome(of: "\(text).toLowerCase() == \(text)", after: after) == "true")
    for text in ["", "aZ[`{@ z", "ÄöΣς", "ı", "aé", "\u{7F}"] {
        let after = #"{"r":{"k1":{"s":"x\#(text)"}}}"#
        #expect(
            try outcome(
                of: "newData.child('s').val().toUpperCase() == '\(("x" + text).uppercased())'"
                    + " && newData.child('s').val().toLowerCase() == '\(("x" + text).lowercased())'",
                after: after) == "true", "\(text)")
    }
}
