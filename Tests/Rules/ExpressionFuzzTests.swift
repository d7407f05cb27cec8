import Glibc
import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

/// Random expressions of the grammar, mostly of the required types, sometimes of others.
struct ExpressionWriter {
    var generator: SeededGenerator

    mutating func boolean(_ depth: Int) -> String {
        guard depth > 0 else {
            return generator.pick(["true", "false", "data.exists()", "newData.exists()", "auth != null"])
        }
        switch Int.random(in: 0..<16, using: &generator) {
        case 0: return "!" + boolean(depth - 1).inParentheses
        case 1, 2: return "\(boolean(depth - 1).inParentheses) && \(boolean(depth - 1).inParentheses)"
        case 3: return "\(boolean(depth - 1)) || \(boolean(depth - 1))"
        case 4: return "(\(boolean(depth - 1)) ? \(boolean(depth - 1)) : \(boolean(depth - 1)))"
        case 5: return "\(any(depth - 1)) \(generator.pick(["==", "!=", "===", "!=="])) \(any(depth - 1))"
        case 6: return "\(number(depth - 1)) \(generator.pick(["<", "<=", ">", ">="])) \(number(depth - 1))"
        case 7: return "\(text(depth - 1)) \(generator.pick(["<", "<=", ">", ">="])) \(text(depth - 1))"
        case 8:
            return snapshot(depth - 1)
                + generator.pick([
                    ".exists()", ".isString()", ".isNumber()", ".isBoolean()", ".hasChildren()",
                    "['exists']()",
                ])
        case 9: return "\(snapshot(depth - 1)).hasChild(\(text(depth - 1)))"
        case 10:
            let names = (0..<Int.random(in: 0...3, using: &generator)).map { _ in text(depth - 2) }
            return "\(snapshot(depth - 1)).hasChildren([\(names.joined(separator: ", "))])"
        case 11:
            return
                "\(text(depth - 1)).\(generator.pick(["contains", "beginsWith", "endsWith"]))(\(text(depth - 1)))"
        case 12:
            return
                "\(text(depth - 1)).matches(\(generator.pick(["/a/", "/^[a-c]+$/i", "/^(a|u)\\d?$/", "/./", "/^$/"])))"
        case 13:
            return generator.pick([
                "query.orderByKey", "query.limitToFirst == null", "query.orderByChild != 'a'",
            ])
        case 14: return "\(snapshot(depth - 1)).val() == \(any(depth - 1))"
        default: return boolean(depth - 1)
        }
    }

    mutating func number(_ depth: Int) -> String {
        guard depth > 0 else {
            return generator.pick([
                "0", "1", "5", "1.5", "now", "1e3", "0x10", "data.val()", "newData.val()", "auth.token.n",
            ])
        }
        switch Int.random(in: 0..<6, using: &generator) {
        case 0, 1:
            return "(\(number(depth - 1)) \(generator.pick(["+", "-", "*", "/", "%"])) \(number(depth - 1)))"
        case 2: return "-" + number(depth - 1).inParentheses
        case 3: return text(depth - 1) + ".length"
        case 4: return snapshot(depth - 1) + generator.pick([".val()", ".getPriority()"])
        default: return number(0)
        }
    }

    mutating func text(_ depth: Int) -> String {
        guard depth > 0 else {
            return generator.pick([
                "'a'", "'b/c'", "''", "'k1'", "\"u1\"", "'é🐵'", "$k", "$x", "auth.uid", "auth.token.s",
                "auth.token[$k]", "data.val()",
                "newData.child('a').val()", "'..'", "'a/b/c'",
            ])
        }
        switch Int.random(in: 0..<8, using: &generator) {
        case 0, 1:
            return "(\(text(depth - 1)) + \(generator.one(in: 3) ? number(depth - 1) : text(depth - 1)))"
        case 2: return "\(text(depth - 1)).replace(\(text(depth - 1)), \(text(depth - 1)))"
        case 3: return text(depth - 1) + generator.pick([".toLowerCase()", ".toUpperCase()"])
        case 4: return snapshot(depth - 1) + ".val()"
        case 5: return "(\(boolean(depth - 1)) ? \(text(depth - 1)) : \(text(depth - 1)))"
        default: return text(0)
        }
    }

    mutating func snapshot(_ depth: Int) -> String {
        guard depth > 0 else { return generator.pick(["data", "newData", "root", "data", "newData"]) }
        switch Int.random(in: 0..<8, using: &generator) {
        case 0, 1, 2:
            return "\(snapshot(depth - 1)).child(\(generator.pick(["'a'", "'b/c'", "'k1'", "''", "'r/k1'"])))"
        case 3, 4: return "\(snapshot(depth - 1)).child(\(text(depth - 1)))"
        case 5, 6: return snapshot(depth - 1) + ".parent()"
        default: return "(\(boolean(depth - 1)) ? \(snapshot(depth - 1)) : \(snapshot(depth - 1)))"
        }
    }

    mutating func any(_ depth: Int) -> String {
        switch Int.random(in: 0..<9, using: &generator) {
        case 0, 1: number(depth)
        case 2, 3: text(depth)
        case 4: boolean(depth).inParentheses
        case 5:
            generator.pick(["null", "auth", "auth.token", "auth.token.o", "query.equalTo", "auth.token.l[0]"])
        case 6: snapshot(depth) + ".val()"
        case 7: generator.one(in: 8) ? snapshot(depth) : snapshot(depth) + ".getPriority()"
        default: generator.pick(["1", "'a'", "true", "null"])
        }
    }

    /// Pieces that the grammar allows in the same places.
    private static let families: [[Text]] = [
        ["&&", "||"], ["==", "!=", "<", ">=", "+", "&&"], ["data", "newData", "root"],
        [".val()", ".exists()", ".isString()", ".parent()", ".hasChildren()", ".length", ".getPriority()"],
        ["1", "'a'", "null", "true", "auth.uid", "$k"], ["contains", "beginsWith", "hasChild", "child"],
        ["!", "-"],
    ]

    /// A mutation: a piece replaced by one of its family, or by any characters.
    mutating func mutated(_ text: String) -> String {
        let family = generator.pick(Self.families)
        let (old, new) = (generator.pick(family), generator.pick(family))
        if generator.one(in: 2), old != new,
            let swapped = Text(text).replacing(old, with: new, byteLimit: 1 << 20)
        {
            return swapped.string
        }
        var scalars = Array(text.unicodeScalars)
        for _ in 0..<Int.random(in: 1...2, using: &generator) {
            let index = Int.random(in: 0...scalars.count, using: &generator)
            let spice = generator.pick([
                "(", ")", "[", "]", ".", ",", "'", "\"", "!", "-", "+", "*", "/", "%", "<", "=", "==", "&&",
                "||", "?", ":", "$k", "data",
                ".val()", ".child(", "null", "1", "1e", "\\", "é", "🐵", " ", "\n", "//", "/*", "{", "^",
                "auth", ".length", "/a/", "&",
                ".parent()", "newData", "[0]",
            ])
            if generator.one(in: 2) {
                scalars.removeSubrange(
                    index..<min(scalars.count, index + Int.random(in: 1...3, using: &generator)))
            } else {
                scalars.insert(contentsOf: spice.unicodeScalars, at: index)
            }
        }
        var result = ""
        result.unicodeScalars.append(contentsOf: scalars)
        return result
    }

    mutating func tree(_ depth: Int) -> Node {
        guard depth > 0, !generator.one(in: 4) else {
            let leaf: Node = generator.pick([
                .boolean(true), .boolean(false), .integer(0), .integer(5), .double(1.5), .string("a"),
                .string("b/c"), .string("k1"),
                .string("u1"), .string("é🐵"), .string(""), .empty,
            ])
            return generator.one(in: 6)
                ? leaf.with(priority: generator.pick([.number(7), .string("a")])) : leaf
        }
        var node = Node.empty
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            node.set(
                tree(depth - 1), at: Path([Key(unchecked: generator.pick(["a", "b", "c", "k1", "u1", "r"]))]))
        }
        return generator.one(in: 8) ? node.with(priority: .number(1)) : node
    }
}

extension String {
    fileprivate var inParentheses: String { "(\(self))" }
}

private let credentials: [Text?] = [
    nil, #"{"uid":"u1","token":{"n":5,"s":"a","k1":"b/c","o":{"x":1},"l":["a"]}}"#, #"{"uid":5}"#, "{",
    "null", #""text""#,
]

/// One expression over some random trees: the compiled expression, the naive evaluator, the explanation and
/// the coverage agree.
private func examine(
    _ text: String, _ writer: inout ExpressionWriter, _ tally: inout Tally, _ context: String
) throws {
    let isRead = writer.generator.one(in: 3)
    let text =
        isRead ? Text(text).replacing("newData", with: "data", byteLimit: 1 << 20)?.string ?? text : text
    let property = isRead ? ".read" : ".validate"
    var quoted: [UInt8] = []
    quoted.append(json: Text(text))
    let json = String(decoding: quoted, as: UTF8.self)
    let document = #"{"rules":{".write":true,"r":{"$x":{"$k":{"\#(property)":\#(json)}}}}}"#
    let loaded: Ruleset
    do {
        loaded = try Ruleset(loading: Array(document.utf8))
    } catch {
        let positions = error.problems.map(\.position)
        #expect(
            !positions.isEmpty && positions == positions.sorted()
                && positions.count <= RulesLimits.problemCount, "\(context)")
        #expect(
            positions.allSatisfy { $0.line == 1 && $0.column >= 19 && $0.column <= document.utf8.count },
            "\(context): \(error)")
        tally.refused += 1
        return
    }
    tally.loaded += 1
    var budget = ExpressionBudget()
    let (expression, _) = try ExpressionParser.parse(Text(text), variables: ["$x", "$k"], budget: &budget)
    let access = Access.loaded(loaded)
    let coverage = RuleCoverage(of: loaded)
    for _ in 0..<3 {
        let auth = writer.generator.pick(credentials)
        let keys = ["r", writer.generator.pick(["a", "u1"]), writer.generator.pick(["k1", "a", "é"])]
        let path = Path(keys.map { Key(unchecked: Text($0)) })
        var (before, after) = (writer.tree(5), writer.tree(5))
        if !writer.generator.one(in: 4) { before.set(writer.tree(3), at: path) }
        if !writer.generator.one(in: 4) { after.set(writer.tree(3), at: path) }
        let scope = RuleScope(credential: Credential(authVariable: auth), milliseconds: 1000, root: before)
        let naive = NaiveEvaluator(
            auth: auth.map { AuthVariable(json: $0).root } ?? .null, now: 1000, before: before, after: after,
            location: keys,
            variables: ["$x": keys[1], "$k": keys[2]], isRead: isRead)
        let expected = naive.holds(expression) || (!isRead && after[path].isEmpty)
        let start = ContinuousClock.now
        let verdict: Bool
        let denial: Denial?
        let recorded: Bool
        if isRead {
            verdict = access.allowsRead(at: path, query: nil, in: scope)
            denial = access.explainRead(at: path, query: nil, in: scope)
            recorded = access.allowsRead(at: path, query: nil, in: scope, recording: coverage)
        } else {
            verdict = access.allowsWrite(at: [path], after: after, in: scope)
            denial = access.explainWrite(at: [path], after: after, in: scope)
            recorded = access.allowsWrite(at: [path], after: after, in: scope, recording: coverage)
        }
        // In a run of its own only: a suite must not depend on the speed of the machine.
        if fuzzSeconds > 0 { #expect(ContinuousClock.now - start < .seconds(20), "\(context): slow") }
        #expect(verdict == expected, "\(context): \(before) to \(after) at \(path) as \(auth ?? "null")")
        #expect((denial == nil) == verdict && recorded == verdict, "\(context)")
        if let denial {
            #expect(
                isStrictJSON(denial.json()) && denial.lines.allSatisfy { !$0.contains("\n") }, "\(context)")
        }
    }
    let asked = coverage.entries.filter { $0.kind.rawValue == property }
    #expect(asked.count == 1 && asked[0].tally.total <= 3, "\(context)")
    guard let counts = asked.first?.tally else { return }
    tally.isTrue += counts.trueCount
    tally.isFalse += counts.falseCount
    tally.isError += counts.errorCount
}

private struct Tally {
    var (refused, loaded, isTrue, isFalse, isError) = (0, 0, 0, 0, 0)
}

private func fuzz(seed: UInt64, rounds: Int, _ written: inout Tally, _ mutated: inout Tally) throws {
    var writer = ExpressionWriter(generator: SeededGenerator(seed: seed))
    for round in 0..<rounds {
        let text = writer.boolean(Int.random(in: 1...5, using: &writer.generator))
        try examine(text, &writer, &written, "seed \(seed), round \(round): \(text)")
        let other = writer.mutated(text)
        try examine(other, &writer, &mutated, "seed \(seed), round \(round): \(other)")
    }
}

@Test(arguments: 0..<8 as Range<UInt64>)
func compiledExpressionsAgreeWithNaiveEvaluator(seed: UInt64) throws {
    var (written, mutated) = (Tally(), Tally())
    try fuzz(seed: seed, rounds: 100, &written, &mutated)
    // The test must have evaluated something.
    #expect(written.loaded > 50 && mutated.loaded > 5 && mutated.refused > 20, "\(written) \(mutated)")
    #expect(min(written.isTrue, written.isFalse, written.isError) > 15, "\(written)")
}

private let fuzzSeconds = unsafe getenv("PANDO_FUZZ_SECONDS").flatMap { unsafe Int(String(cString: $0)) } ?? 0

/// The same for as long as one likes: `PANDO_FUZZ_SECONDS=1800 swift test -c release --filter
/// expressionsForALongTime`. The seed of a failure is in its message.
@Test(.enabled(if: fuzzSeconds > 0))
func randomExpressionsNeverTrap() throws {
    let start = ContinuousClock.now
    var seed = UInt64.random(in: 0..<1 << 48)
    var (written, mutated) = (Tally(), Tally())
    while ContinuousClock.now - start < .seconds(fuzzSeconds) {
        try fuzz(seed: seed, rounds: 100, &written, &mutated)
        seed += 1
    }
    print("written: \(written), mutated: \(mutated)")
}
