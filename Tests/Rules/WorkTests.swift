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

/// Each rule, each walk over a text and each lookup is charged.
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

/// Of the way to the list.
private let stepsToList = EvaluationBudget.perKey
/// Of a child in it, and its rule.
private let stepsPerChild = EvaluationBudget.perKey + EvaluationBudget.perRule

@Test func rulesAreCounted() throws {
    let all = stepsToList + 100 * (stepsPerChild + 2 * EvaluationBudget.perInstruction)
    #expect(try !isRefused("newData.exists()", 100, stepCount: all))
    #expect(try isRefused("newData.exists()", 100, stepCount: all - 1))
    #expect(try isRefused("newData.exists()", 101, stepCount: all))
    // Constants are not evaluated, nor is what they are for visited.
    #expect(try !isRefused("true || newData.exists()", 101, stepCount: stepsToList))
}

/// The instructions of a rule that are evaluated, and the keys that they look up.
@Test(arguments: [
    ("newData.val() === 0", 4, 0), ("newData.isNumber() && newData.val() < 9", 7, 0),
    // Evaluated only as far as that decides.
    ("newData.isNumber() || newData.val() < 9", 3, 0),
    ("root.child('l/i0').val() === 0", 5, 2), ("root.child('a/b/c/d').val() === null", 5, 4),
    ("root.hasChildren(['l','big'])", 4, 2), ("root.child('l').child($i).exists()", 5, 2),
    ("data.exists() && data.val() === 0", 7, 2), ("newData.parent().child('i0').exists()", 3, 2),
    ("$i === 'i0'", 3, 0), ("auth.uid === 'u1'", 3, 0), ("auth.token.a === null", 3, 2),
])
func instructionsAndLookupsAreCounted(rule: String, instructionCount: Int, keyCount: Int) throws {
    let all =
        stepsToList + stepsPerChild + instructionCount * EvaluationBudget.perInstruction
        + keyCount * EvaluationBudget.perKey
    #expect(try !isRefused(rule, 1, stepCount: all))
    #expect(try isRefused(rule, 1, stepCount: all - 1))
}

/// Rules for many names that the data does not have cost nothing; nor does much data that no rule is for.
@Test func theFewerAreVisited() throws {
    let names = (0..<1000).map { #""n\#($0)":{".validate":"newData.isString()"}"# }
    let many = Access.loaded(try rules(#"{".write":true,"l":{"$i":{\#(names.joined(separator: ","))}}}"#))
    let one = Access.loaded(
        try rules(#"{".write":true,"l":{"$i":{"n1":{".validate":"newData.isString()"}}}}"#))
    func stepCount(_ json: String, in access: Access) throws -> Int {
        var after = Node.empty
        for index in 0..<100 { after.set(try data(json), at: Path(trusted: "l/i\(index)")) }
        var left = RulesLimits.requestStepCount
        let isAllowed = access.allowsWrite(at: ["/l"], after: after, in: scope(user), spending: &left)
        #expect(isAllowed)
        return RulesLimits.requestStepCount - left
    }
    let expected = stepsToList + 100 * 2 * EvaluationBudget.perKey
    #expect(try stepCount(#"{"a":1}"#, in: many) == expected)
    #expect(try stepCount(#"{"a":1,"b":1,"c":1}"#, in: one) == expected)
}

/// Lookups are limited also where no rule is evaluated.
@Test func lookupsWithoutRulesAreLimited() throws {
    let rules = try rules(
        #"{".write":true,"l":{"$i":{"n1":{".validate":"newData.isString()"}}}}"#)
    let access = Access.loaded(rules)
    var after = Node.empty
    for index in 0..<100 { after.set(try data(#"{"a":1}"#), at: Path(trusted: "l/i\(index)")) }
    for limit in [0, 50 * EvaluationBudget.perKey] {
        var left = limit
        let isAllowed = access.allowsWrite(at: ["/l"], after: after, in: scope(user), spending: &left)
        #expect(!isAllowed && left < 0)
        let denial = access.explainWrite(at: ["/l"], after: after, in: scope(user), stepLimit: limit)
        #expect(denial?.cause == .invalid)
    }
}

/// A path without data costs only the keys that are read.
@Test func invalidPathsTakeFewSteps() throws {
    let allowance =
        stepsToList + stepsPerChild + 3 * EvaluationBudget.perKey + 8 * EvaluationBudget.perInstruction
        + Limits.keyByteCount
    #expect(try !isRefused("!root.child(root.child('big').val()).exists()", 1, stepCount: allowance))
    #expect(
        try !isRefused(
            "!root.child('none').child(root.child('slashes').val()).exists()", 1, stepCount: allowance))
}

/// A request over the limit of steps is refused, and the explanation and the coverage agree. The next request
/// has the full limit again.
@Test func requestWithTooManyStepsIsDenied() throws {
    let rules = try rules(
        #"{".write":true,"l":{"$i":{".validate":"root.child('accents').val().toUpperCase() != ''"}}}"#)
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

/// Locations that depend on what is read elsewhere, which does so too: each is evaluated once, also where
/// what is read is noted. Twice on each level would take hours.
@Test(arguments: [("", 40), (".parent().child('k')", 22)])
func nestedLocationsAreEvaluatedOnce(way: String, depth: Int) throws {
    let text = (0..<depth).reduce("'k'") { inner, _ in "root.child('m/' + \(inner))\(way).val()" }
    let access = Access.loaded(try rules(#"{".write":"\#(text) == 'k'"}"#))
    let root = try data(#"{"m":{"k":"k"}}"#)
    var after = root
    after.set(.integer(1), at: "/a")
    let scope = scope(user, root: root)
    var (left, trackedLeft) = (1 << 20, 1 << 20)
    let isAllowed = access.allowsWrite(at: ["/a"], after: after, in: scope, spending: &left)
    let decision = access.decision(ofWritingAt: ["/a"], after: after, in: scope, spending: &trackedLeft)
    #expect(isAllowed && decision.isAllowed && left == trackedLeft)
    #expect((1 << 20) - left < depth * 400)
    var now = root
    now.set(.integer(1), at: "/beside")
    #expect(decision.reads.areUnchanged(from: root, to: now))
    now.set(.string("l"), at: "/m/k")
    #expect(!decision.reads.areUnchanged(from: root, to: now))
}
