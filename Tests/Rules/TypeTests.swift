import PandoBytes
import Testing

@testable import PandoRules

/// The problems that an upload reports for one expression as a `.validate` at `/$x/b`, without the position
/// of the string itself.
private func complaints(_ expression: String, _ kind: String = ".validate") -> [String] {
    // One line for the rule; the text begins in column 2.
    let escaped = expression.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    return problems("{\"rules\":{\"$x\":{\"b\":{\"\(kind)\":\n\"\(escaped)\"}}}}").map { line in
        line.hasPrefix("2:") ? String(line.dropFirst(2)) : line
    }
}

extension String {
    fileprivate func replacing(_ old: String, with new: String) -> String {
        Text(self).replacing(Text(old), with: Text(new), byteLimit: 1 << 20)?.string ?? self
    }
}

/// An operand of each static type (rules §5).
private let samples: [(type: StaticType, text: String)] = [
    (.boolean, "true"), (.boolean, "data.exists()"), (.boolean, "query.orderByKey"), (.number, "1"),
    (.number, "now"),
    (.string, "'a'"), (.string, "$x"), (.null, "null"), (.pattern, "/a/"), (.snapshot, "data"),
    (.method, "data.val"),
    (.query, "query"), (.value, "data.val()"), (.value, "data.getPriority()"), (.auth, "auth"),
    (.auth, "auth.uid"),
    (.queryValue, "query.equalTo"), (.mixed, "(data.exists() ? 1 : 'a')"), (.array, "['a']"),
]

private let equality: Set<String> = [
    "boolean", "number", "string", "null", "value", "auth", "queryValue", "mixed",
]
private let ordering: Set<String> = ["number", "string", "value", "auth", "queryValue", "mixed"]
private let arithmetic: Set<String> = ["number", "value", "auth", "queryValue", "mixed"]
private let argument: Set<String> = ["string", "value", "auth", "mixed"]

/// Every row of the table of positions, with an operand of every type.
@Test(
    arguments: [
        // expression with a hole      accepted        problem
        ("_", ["boolean"], "Expression must evaluate to a boolean."),
        ("!_", ["boolean"], "! only operates on booleans."),
        ("_ && true", ["boolean"], "Left operand of && must be boolean."),
        ("true && _", ["boolean"], "Right operand of && must be boolean."),
        ("_ || true", ["boolean"], "Left operand of || must be boolean."),
        ("false || true || _", ["boolean"], "Right operand of || must be boolean."),
        ("_ ? true : false", ["boolean"], "condition of ? must be boolean."),
        ("_ == 1", equality, "Invalid == expression: left operand is not a number, boolean, string, null."),
        (
            "1 == _", equality,
            "Invalid == expression: right operand is not a number, boolean, string, or null."
        ),
        (
            "_ != 1", equality,
            "Invalid != expression: left operand is not a number, boolean, string, or null."
        ),
        (
            "1 != _", equality,
            "Invalid != expression: right operand is not a number, boolean, string, or null."
        ),
        ("_ === 1", equality, "Invalid == expression: left operand is not a number, boolean, string, null."),
        (
            "1 !== _", equality,
            "Invalid != expression: right operand is not a number, boolean, string, or null."
        ),
        ("_ < 1", ordering, "Invalid < expression: left operand must be a number or string."),
        ("1 <= _", ordering, "Invalid <= expression: right operand must be a number or string."),
        ("_ > 1", ordering, "Invalid > expression: left operand must be a number or string."),
        ("1 >= _", ordering, "Invalid >= expression: right operand must be a number or string."),
        ("_ + 1 == 1", ordering, "Invalid + expression: left operand is not a number or string."),
        ("1 + _ == 1", ordering, "Invalid + expression: right operand is not a number or string."),
        ("_ - 1 == 1", arithmetic, "Invalid - expression: left operand is not a number."),
        ("1 * _ == 1", arithmetic, "Invalid * expression: right operand is not a number."),
        ("_ / 1 == 1", arithmetic, "Invalid / expression: left operand is not a number."),
        ("1 % _ == 1", arithmetic, "Invalid % expression: right operand is not a number."),
        ("-_ == 1", arithmetic, "- only operates on numbers."),
        ("data.child(_).exists()", argument, "child() expects a string argument."),
        ("data.hasChild(_)", argument, "hasChild() expects a string argument."),
        ("data.hasChildren([_])", argument, "hasChildren() expects an array of strings."),
        ("'a'.contains(_)", argument, "contains() expects a string argument."),
        ("'a'.beginsWith(_)", argument, "beginsWith() expects a string argument."),
        ("'a'.endsWith(_)", argument, "endsWith() expects a string argument."),
        ("'a'.replace(_, 'a') == ''", argument, "Argument 1 of replace() must be a string."),
        ("'a'.replace('a', _) == ''", argument, "Argument 2 of replace() must be a string."),
    ] as [(String, Set<String>, String)])
func positions(expression: String, accepted: Set<String>, complaint: String) {
    for (type, text) in samples {
        let hole =
            expression.utf8.count { $0 != UInt8(ascii: "_") } == 0
            ? 0 : expression.prefix { $0 != "_" }.utf8.count
        let found = complaints(expression.replacing("_", with: text))
        let column = hole + (text.hasPrefix("(") ? 3 : 2)
        let expected =
            accepted.contains("\(type)")
            ? []
            : type == .array ? ["\(column): Unexpected array literal."] : ["\(column): \(complaint)"]
        #expect(found == expected, "\(text) in \(expression)")
    }
}

/// Upload errors (§8), and where they stand: columns count from the quote.
@Test(
    arguments: [
        // expression                             complaints                                           because
        ("x == 1", ["2: Unknown variable 'x'."], "undeclared"),
        ("$y == 'a'", ["2: Unknown variable '$y'."], "a wildcard of another path"),
        ("$x == 'a' && $xy == 'a'", ["15: Unknown variable '$xy'."], "a name is read to its end"),
        ("data.foo()", ["7: No such method/property 'foo'."], "of a snapshot"),
        ("data.foo == 1", ["7: No such method/property 'foo'."], "without a call"),
        ("data.val().foo == 1", ["13: No such method/property 'foo'."], "of a value"),
        ("'a'.foo() == 1", ["6: No such method/property 'foo'."], "of a string"),
        ("query.foo == 1", ["8: No such method/property 'foo'."], "of a query"),
        ("data.length > 1", ["7: No such method/property 'length'."], "of the wrong thing"),
        ("data.val().exists()", ["13: No such method/property 'exists'."], "of the wrong thing"),
        ("'a'.val() == 1", ["6: No such method/property 'val'."], "of the wrong thing"),
        (
            "auth.exists()", ["2: Type error: Function call on target that is not a function."],
            "a claim is no function"
        ),
        (
            "'a'.length() == 1", ["2: Type error: Function call on target that is not a function."],
            "nor is the length"
        ),
        ("now()", ["2: Type error: Function call on target that is not a function."], "nor a number"),
        (
            "(data.exists())()", ["3: Type error: Function call on target that is not a function."],
            "nor a result"
        ),
        ("data.exists", ["2: Expression must evaluate to a boolean."], "a method that is not called"),
        ("data.exists(1)", ["2: exists() expects no arguments."], "too many"),
        (
            "data.val(x) == 1", ["2: val() expects no arguments.", "11: Unknown variable 'x'."],
            "each argument is checked"
        ),
        ("data.child().exists()", ["2: child() expects 1 argument."], "too few"),
        ("data.hasChild('a', 'b')", ["2: hasChild() expects 1 argument."], "too many"),
        ("'a'.contains()", ["2: contains() expects 1 argument."], "too few"),
        ("'a'.replace('a') == ''", ["2: replace() expects two arguments."], "too few"),
        ("'a'.matches()", ["2: matches() expects 1 regular expression literal argument."], "too few"),
        (
            "'a'.matches('a')", ["14: matches() expects a regular expression literal argument."],
            "a string is not an array"
        ),
        (
            "'a'.matches(data.val())", ["14: matches() expects a regular expression literal argument."],
            "nor a value"
        ),
        (
            "data.hasChildren(['a'], ['b'])",
            ["2: hasChildren() expects only a single argument (containing an array of child names)."],
            "too many"
        ),
        ("data.hasChildren('a')", ["19: hasChildren() expects an array of child names."], "no array"),
        (
            "data.hasChildren(['a', 1, null])",
            [
                "25: hasChildren() expects an array of strings.",
                "28: hasChildren() expects an array of strings.",
            ], "each element"
        ),
        ("['a'] == 1", ["2: Unexpected array literal."], "an array elsewhere"),
        ("data.child(['a']).exists()", ["13: Unexpected array literal."], "as an argument"),
        ("root['exi'+'sts']()", ["7: Invalid property access."], "68: a computed index"),
        ("data[$x] == 1", ["7: Invalid property access."], "of a snapshot"),
        ("data.val()[$x] == 1", ["13: Invalid property access."], "of a value"),
        ("now[$x] == 1", ["6: Invalid property access: target is not an object."], "of a number"),
        ("now['a'] == 1", ["6: Invalid property access: target is not an object."], "with a literal too"),
        ("now.a == 1", ["6: Invalid property access: target is not an object."], "as a property"),
        (
            "query.equalTo.length > 1", ["16: Invalid property access: target is not an object."],
            "of a query's value"
        ),
        ("newData.val() = 1", ["16: Rule expressions may not contain assignments."], "57: an assignment"),
        ("now += 1", ["6: Rule expressions may not contain assignments."], "another"),
        ("now & 1", ["6: Rule expressions may not contain operator &"], "bits"),
        ("now | 1", ["6: Rule expressions may not contain operator |"], "bits"),
        ("now ^ 1", ["6: Rule expressions may not contain operator ^"], "bits"),
        ("~now", ["2: Rule expressions may not contain operator ~"], "bits"),
        ("now << 1", ["6: Rule expressions may not contain operator <<"], "bits"),
        ("now ** 1", ["6: Rule expressions may not contain operator **"], "powers"),
        ("typeof now == 'number'", ["2: Rule expressions may not contain operator typeof"], "words"),
        ("new Date() == 1", ["2: Rule expressions may not contain operator new"], "words"),
        ("'a' in data", ["6: Rule expressions may not contain operator in"], "words between operands"),
        ("var a", ["2: syntax error"], "a statement"),
        ("function() {}", ["2: syntax error"], "a function"),
        ("true;", ["6: syntax error"], "the end of a statement"),
        ("true true", ["7: missing ; before statement"], "two expressions"),
        ("true)", ["6: syntax error"], "a brace too many"),
        ("(true", ["7: Unexpected end of expression"], "a brace too few"),
        ("", ["2: Unexpected end of expression"], "nothing"),
        (" \n ", ["3:2: Unexpected end of expression"], "only white space and comments"),
        ("true &&", ["9: Unexpected end of expression"], "half an expression"),
        ("true && && true", ["10: syntax error"], "a missing operand"),
        ("+1 == 1", ["2: syntax error"], "no such unary operator"),
        ("true ? false", ["14: Unexpected end of expression"], "half a choice"),
        ("true ? false false", ["15: missing : in conditional expression"], "a missing colon"),
        ("data.child('a' 'b')", ["17: missing ) after argument list"], "a missing comma"),
        ("data[1 2]", ["9: missing ] in index expression"], "a missing bracket"),
        ("data.1", ["6: missing ; before statement"], "a number, not a name"),
        ("data.(a)", ["7: missing name after . operator"], "no name"),
        ("'abc", ["2: unterminated string literal"], "an open string"),
        ("'\\q' == ''", ["3: invalid escape sequence"], "no such escape"),
        ("'\\u12' == ''", ["3: malformed Unicode character escape sequence"], "half an escape"),
        ("'\\ud83d' == ''", ["3: invalid escape sequence"], "half of a surrogate pair"),
        ("1a == 1", ["3: identifier starts immediately after numeric literal"], "a number with a tail"),
        ("1e == 1", ["2: missing exponent"], "half a number"),
        ("0x == 1", ["2: missing hexadecimal digits after '0x'"], "half a number"),
        ("/* a", ["2: unterminated comment"], "an open comment"),
        ("# a", ["2: illegal character"], "a character that begins no token"),
        ("é == 1", ["2: illegal character"], "letters are ASCII"),
        ("'a'.matches(/a)", ["14: unterminated regular expression literal"], "an open pattern"),
        (
            "'a'.matches(/[/)", ["14: unterminated regular expression literal"],
            "a slash in a set does not end the pattern"
        ),
        ("'a'.matches(/a/g)", ["14: regular expressions do not support flags other than i"], "flags"),
        (
            "'a'.matches(/(abcdefghi/)", ["25: Illegal regular expression, expected ')' at position 10"],
            "a bad pattern"
        ),
        (
            "'a'.matches(/é(/) || x",
            [
                "17: Illegal regular expression, expected a character at position 2",
                "23: Unknown variable 'x'.",
            ], "and the rest is read"
        ),
        (
            "x && y || !1 ? 'a' - 1 : now.z",
            [
                "2: Unknown variable 'x'.", "7: Unknown variable 'y'.", "13: ! only operates on booleans.",
                "17: Invalid - expression: left operand is not a number.",
                "31: Invalid property access: target is not an object.",
            ], "everything at once, in order"
        ),
    ] as [(String, [String], String)])
func uploadErrors(expression: String, expected: [String], reason: String) {
    #expect(complaints(expression) == expected, "\(expression): \(reason)")
}

@Test func newDataInReadRuleIsReported() {
    #expect(complaints("newData.exists()", ".read") == ["2: newData is invalid in .read expressions."])
    #expect(complaints("newData.exists()", ".write").isEmpty && complaints("newData.exists()").isEmpty)
    #expect(
        complaints("query.limitToFirst < 3", ".read").isEmpty && complaints("query.limitToFirst < 3").isEmpty)
}

/// Expressions that are legal although they look odd.
@Test(arguments: [
    "1 == 'a'", "root['exists']()", "data['child']('a')['val']() == 1", "auth.uid.length > 1",
    "auth['my-claim'] == 1",
    "auth.token['a'][$x] == 1", "auth.token.firebase.identities['google.com'][0] == 'a'",
    "auth[data.val()] == null",
    "data.val() + 1 > 2", "(data.val() + 'a').length > 2", "(data.exists() ? data : newData).exists()",
    "(data.exists() ? root : data.parent()).child('a').parent().exists()",
    "data.child($x).parent().val() == 1",
    "'a'.matches(/a/i)", "data.val().matches(/[/]/)", "1 /2/ 3 > 0", "data.hasChildren([])",
    "data.hasChildren([$x, 'a' + $x])",
    "-1 < 0 && - -1 > 0 && --1 > 0", "0x1F == 31 && 1e3 == 1000 && .5 < 1", "/* a */ true // b", "!!true",
    "'\\x41' == \"A\"",
    "true ? false : true ? true : false", "auth == null", "auth.contains('a')",
    "query.orderByChild == 'a' && query.orderByKey",
    "data\n.val\n( )\n!=\nnull", "(((true)))", "true === true && 1 !== 2",
])
func legal(expression: String) {
    #expect(complaints(expression).isEmpty)
}

@Test func namesMayHaveAnyCharacter() throws {
    for name in ["$a-b", "$é", "$a b", "$1", "$"] {
        let found = problems(
            #"{"rules":{"\#(name)":{"b":{".read":"\#(name) == 'x' && \#(name) != \#(name)"}}}}"#)
        #expect(found.isEmpty, "\(name): \(found)")
    }
    // The longest name at that position; otherwise a minus.
    #expect(problems(#"{"rules":{"$a":{"$a-b":{".read":"$a-b == $a"}}}}"#).isEmpty)
    #expect(
        problems(#"{"rules":{"$a":{".read":"$a-1 == 0"}}}"#)
            == ["1:26: Invalid - expression: left operand is not a number."])
}

/// Positions are those of the document, through the escapes of its strings.
@Test func positionsOfProblemsAreExact() {
    let document =
        "{\"rules\":{\n  \".read\": \"true &&\n    \\\"é\\\" == \\u0078\",\n  \".write\": \"\\ud83d\\udc35\"}}"
    #expect(problems(document) == ["3:14: Unknown variable 'x'.", "4:14: illegal character"])
}

@Test func everyRuleIsListed() {
    let document = #"{"rules":{".read":"x",".write":"y &","a":{"$b":{".validate":"$b.z() || $c","c":1}}}}"#
    #expect(
        problems(document) == [
            "1:20: Unknown variable 'x'.", "1:35: Rule expressions may not contain operator &",
            "1:65: No such method/property 'z'.", "1:72: Unknown variable '$c'.", "1:80: Expected '{'.",
        ])
}

@Test func expressionLimitsAreEnforced() {
    func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
    let deep = "2:\(RulesLimits.expressionDepth)"
    #expect(deep == "2:200")
    let cases: [(String, Int)] = [
        (repeated("(", 199) + "true" + repeated(")", 199), 0),
        (repeated("(", 200) + "true" + repeated(")", 200), 1),
        (repeated("!", 198) + "true", 0), (repeated("!", 300) + "true", 1), (repeated("(", 100_000), 1),
        (repeated("!", 100_000), 1), (repeated("-", 100_000), 1), (repeated("[", 100_000), 1),
        (repeated("data.child(", 60_000), 1), (repeated("true ? ", 30_000), 1),
        (repeated("true ? true : ", 150) + "true", 0),
        (repeated("true ? true : ", 300) + "true", 1), (repeated("true || ", 5000) + "true", 0),
        (repeated("true && ", 5000) + "true", 0), ("1" + repeated("+1", 190) + " > 0", 0),
        ("1" + repeated("+1", 300) + " > 0", 1),
        ("data" + repeated(".parent()", 90) + ".exists()", 0),
        ("data" + repeated(".parent()", 300) + ".exists()", 1),
        (repeated("true || ", 21_000) + "true", 1),
    ]
    for (expression, count) in cases {
        let found = problems("{\"rules\":{\".read\":\"\(expression)\"}}")
        #expect(found.count == count, "\(expression.prefix(40)): \(found.prefix(2))")
    }
    // Of all expressions together.
    let rule = repeated("true || ", 1000) + "true"
    let nodes = (0..<20).map { "\"k\($0)\":{\".read\":\"\(rule)\"}" }.joined(separator: ",")
    #expect(problems("{\"rules\":{\(nodes)}}").count == 1)
    let patterns = (0..<12).map { "\"k\($0)\":{\".read\":\"'a'.matches(/a{9000}/)\"}" }.joined(separator: ",")
    #expect(problems("{\"rules\":{\(patterns)}}").first?.hasSuffix("it has too many states") == true)
    // Many problems in large rules are reported fast.
    let bad = (0..<100).map { "\"k\($0)\":{\".read\":\"\(repeated("x || ", 190)) x\"}" }.joined(
        separator: ",")
    #expect(problems("{\"rules\":{\(bad)}}").count == RulesLimits.problemCount)
}
