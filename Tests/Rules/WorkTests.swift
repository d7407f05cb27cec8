import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

private let user = Credential(authVariable: #"{"uid":"u1"}"#)

/// A database with a large text, and a list beside it.
private func list(_ count: Int, textByteCount: Int = 1) -> Node {
    var node = Node.empty
    let text = String(repeating: "a", count: textByteCount)
    node.set(.string(Text(text)), at: "/big")
    node.set(.string(Text(text.dropLast() + "b")), at: "/other")
    node.set(.string(Text(String(repeating: "é", count: textByteCount / 2))), at: "/accents")
    node.set(.string(Text(String(repeating: "/", count: textByteCount))), at: "/slashes")
    for index in 0..<count { node.set(.integer(Int64(index)), at: Path(trusted: "l/i\(index)")) }
    return node
}

/// Whether a write of the list is refused with so many steps.
private func isRefused(_ validate: String, _ count: Int, stepCount: Int) throws -> Bool {
    let rules = try rules(#"{".write":true,"l":{"$i":{".validate":"\#(validate)"}}}"#)
    let after = list(count, textByteCount: 4000)
    let scope = scope(user, root: after)
    var cascade = RuleCascade(
        rules, EvaluationContext(writing: after, in: scope), NoObserver(),
        work: EvaluationBudget(stepCount: stepCount))
    let isRefused = cascade.refusal(of: ["/l"]) != nil
    // With the usual limit of steps, one such rule is true.
    if count == 1 { #expect(Access.loaded(rules).allowsWrite(at: ["/l"], after: after, in: scope)) }
    return isRefused
}

/// Each rule, each walk over a text and each lookup by a computed name is charged.
@Test(arguments: [
    "root.child('big').val().length == 4000", "root.child('big').val().contains('b') == false",
    "!root.child('big').val().contains(root.child('other').val())",
    "root.child('big').val().beginsWith(root.child('big').val())",
    "root.child('big').val().endsWith(root.child('big').val())",
    "root.child('big').val().matches(/^a*$/)", "!root.child('big').val().matches(/(a|b)*a(a|b){60}c/)",
    "root.child('big').val().replace('b', '') != ''", "root.child('big').val().toUpperCase() != ''",
    "root.child('big').val().toLowerCase() != ''", "root.child('accents').val().toUpperCase() != ''",
    "root.child('big').val() != root.child('other').val()",
    "root.child('big').val() < root.child('other').val()",
    "root.child('big').val() + 'a' != ''", "1 + root.child('big').val() != ''",
    "!root.child(root.child('slashes').val()).exists()",
    "!root.child('l').child(root.child('slashes').val() + 'a').child('a').parent().exists()",
    "auth[root.child('big').val()] == null",
])
func whatIsWalkedOverIsCounted(expression: String) throws {
    // 300 steps are fewer than the cheapest of them takes.
    #expect(try !isRefused(expression, 1, stepCount: 10_000_000), "\(expression)")
    #expect(try isRefused(expression, 1, stepCount: 300), "\(expression)")
    #expect(try isRefused("\(expression) || true", 200, stepCount: 200 * 300), "\(expression)")
}

@Test func rulesAreCounted() throws {
    #expect(try !isRefused("newData.exists()", 100, stepCount: 100 * EvaluationBudget.perRule))
    #expect(try isRefused("newData.exists()", 101, stepCount: 100 * EvaluationBudget.perRule))
    // Constants are not evaluated.
    #expect(try !isRefused("true || newData.exists()", 101, stepCount: 0))
}

/// A path without data costs only the keys that are read.
@Test func invalidPathsTakeFewSteps() throws {
    let allowance = EvaluationBudget.perRule + 3 * EvaluationBudget.perKey + Limits.keyByteCount
    #expect(try !isRefused("!root.child(root.child('big').val()).exists()", 1, stepCount: allowance))
    #expect(
        try !isRefused(
            "!root.child('none').child(root.child('slashes').val()).exists()", 1, stepCount: allowance))
}

/// A request over the limit of steps is refused, and the explanation and the coverage agree. The next request
/// has the full limit again.
@Test func requestWithTooManyStepsIsDenied() throws {
    let search = "root.child('big').val().contains(root.child('other').val())"
    let rules = try rules(#"{".write":true,"l":{"$i":{".validate":"!\#(search)"}}}"#)
    let (access, coverage) = (Access.loaded(rules), RuleCoverage(of: rules))
    let after = list(100, textByteCount: 1 << 19)
    let scope = scope(user, root: after)
    for (path, isAllowed) in [("/l", false), ("/l/i0", true)] as [(Path, Bool)] {
        #expect(access.allowsWrite(at: [path], after: after, in: scope) == isAllowed)
        #expect(access.allowsWrite(at: [path], after: after, in: scope, recording: coverage) == isAllowed)
        let denial = access.explainWrite(at: [path], after: after, in: scope)
        #expect((denial == nil) == isAllowed)
        if let denial {
            #expect(denial.cause == .invalid && denial.failedRules.count == 1)
            #expect(denial.failedRules[0].failure?.reason == "the rules take too much work for one request")
        }
    }
}

/// Within one write a rule has the same value for all paths below its node, so it is evaluated once, in
/// whatever order the paths come.
@Test(arguments: [false, true])
func sharedAncestorsAreEvaluatedOnce(isMixed: Bool) throws {
    let rules = try rules(
        #"""
        {".write":"data.child('x').exists()",".validate":"newData.hasChildren()",
         "a":{".validate":"newData.exists()",
              "$b":{".write":"auth != null",".validate":"$b != ''","$c":{".validate":"newData.isNumber()"}}}}
        """#
    )
    let (access, coverage) = (Access.loaded(rules), RuleCoverage(of: rules))
    var paths: [Path] = []
    var after = Node.empty
    for index in 0..<100 {
        let path = Path(trusted: isMixed ? "a/b\(index % 10)/c\(index)" : "a/b\(index / 10)/c\(index % 10)")
        paths.append(path)
        after.set(.integer(1), at: path)
    }
    #expect(access.allowsWrite(at: paths, after: after, in: scope(user), recording: coverage))
    #expect(coverage.entries.map(\.tally.total) == [1, 1, 1, 10, 10, 100])
    // A repeated path, and a path below another one, add no evaluation.
    paths += paths + ["/a/b0"]
    let second = RuleCoverage(of: rules)
    #expect(access.allowsWrite(at: paths, after: after, in: scope(user), recording: second))
    #expect(second.entries.map(\.tally.total) == [1, 1, 1, 10, 10, 100])
    #expect(access.allowsWrite(at: paths, after: after, in: scope(user)))
    #expect(!access.allowsWrite(at: paths, after: after, in: scope(.anonymous)))
}
