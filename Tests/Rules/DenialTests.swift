import PandoBytes
import PandoTree
import Testing

@testable import PandoRules

private let chat = #"""
    {
      ".read": "data.child('open').val() == true",
      "rooms": {
        "$room": {
          ".read": "auth != null &&
                    root.child('members').child($room).child(auth.uid).val() == true",
          ".write": "auth.uid == $room || newData.child('n').val() + 1 > 2",
          "text": { ".validate": "newData.isString() && newData.val().length <= 3" },
          "$other": { ".validate": false }
        }
      }
    }
    """#

private let user = Credential(authVariable: #"{"uid":"u1","token":{"secret":"s3cret","uid":"u1"}}"#)

@Test func deniedReadIsExplained() throws {
    let access = Access.loaded(try rules(chat))
    let scope = scope(user, root: try data(#"{"members":{"r1":{"u2":true}}}"#))
    let denial = try #require(access.explainRead(at: "/rooms/r1/text", query: nil, in: scope))
    #expect(denial.cause == .notGranted && denial.isRead && denial.path == "/rooms/r1/text")
    #expect(
        denial.lines == [
            "read of /rooms/r1/text is refused: no .read rule on the way is true",
            "  2:12 .read of /, at /, is false",
            "      data.child('open').val() = null",
            "  5:16 .read of /rooms/$room, at /rooms/r1, is false",
            "      auth = {…}",
            #"      $room = "r1""#,
            #"      auth.uid = "u1""#,
            "      root.child('members').child($room).child(auth.uid).val() = null",
        ])
    // Only claims that a rule mentions are shown (§2.6: clients never get an explanation).
    #expect(!denial.lines.joined().contains("s3cret"))
    #expect(
        String(decoding: denial.json(), as: UTF8.self)
            == #"{"operation":"read","path":"/rooms/r1/text","cause":"notGranted","rules":["#
            + #"{"rule":"/","kind":".read","line":2,"column":12,"location":"/","outcome":"false","values":["#
            + #"{"expression":"data.child('open').val()","value":"null"}]},"#
            + #"{"rule":"/rooms/$room","kind":".read","line":5,"column":16,"location":"/rooms/r1","outcome":"false","values":["#
            + #"{"expression":"auth","value":"{…}"},{"expression":"$room","value":"\"r1\""},"#
            + #"{"expression":"auth.uid","value":"\"u1\""},"#
            + #"{"expression":"root.child('members').child($room).child(auth.uid).val()","value":"null"}]}]}"#
    )
    // Signed out: the second expression stops at its first operand; the counts of the first stay.
    let other = try #require(
        access.explainRead(
            at: "/rooms/r1", query: nil, in: RuleScope(credential: .anonymous, milliseconds: 1, root: .empty))
    )
    #expect(other.failedRules.map(\.observations.count) == [1, 1])
    #expect(
        access.explainRead(
            at: "/rooms/r1", query: nil, in: RuleScope(credential: .admin, milliseconds: 1, root: .empty))
            == nil)
}

@Test func errorIsExplained() throws {
    let access = Access.loaded(try rules(chat))
    let denial = try #require(
        access.explainWrite(
            at: ["/rooms/r1/text"], after: try data(#"{"rooms":{"r1":{"text":"hi"}}}"#), in: scope(user)))
    #expect(denial.cause == .notGranted && denial.failedRules.count == 1)
    let failure = try #require(denial.failedRules.first?.failure)
    #expect(failure.reason == "an operand is null" && failure.expression == "newData.child('n').val() + 1")
    #expect(failure.position == SourcePosition(line: 7, column: 39))
    #expect(
        denial.lines == [
            "write to /rooms/r1/text is refused: no .write rule on the way is true",
            "  7:17 .write of /rooms/$room, at /rooms/r1, fails: an operand is null (7:39 newData.child('n').val() + 1)",
            #"      auth.uid = "u1""#, #"      $room = "r1""#, "      newData.child('n').val() = null",
        ])
    #expect(
        String(decoding: denial.json(), as: UTF8.self).contains(
            #""outcome":"error","error":{"reason":"an operand is null","#))
}

@Test func invalidWriteIsExplained() throws {
    let access = Access.loaded(try rules(chat))
    func explain(_ room: String, _ json: String) throws -> Denial? {
        let path = Path(trusted: "rooms/\(room)")
        var after = Node.empty
        after.set(try data(json), at: path)
        return access.explainWrite(at: [path], after: after, in: scope(user))
    }
    #expect(try explain("u1", #"{"text":"abc"}"#) == nil)
    let long = try #require(try explain("u1", #"{"text":"abcd"}"#))
    #expect(long.cause == .invalid && long.failedRules.count == 1)
    #expect(
        long.failedRules[0].rule == "/rooms/$room/text" && long.failedRules[0].location == "/rooms/u1/text")
    #expect(long.failedRules[0].observations.map(\.value) == ["true", #""abcd""#, "4"])
    // A constant has no operands. Of several rules the same one is always explained.
    let odd = try #require(try explain("u1", #"{"text":5,"a":1,"b":2}"#))
    #expect(odd.failedRules[0].rule == "/rooms/$room/$other" && odd.failedRules[0].location == "/rooms/u1/a")
    #expect(odd.lines.last == "  9:32 .validate of /rooms/$room/$other, at /rooms/u1/a, is false")
}

@Test func denialWithoutRulesHasNoDetails() throws {
    let access = Access.loaded(try rules("{}"))
    let denial = try #require(access.explainWrite(at: ["/a", "/b"], after: .empty, in: scope(user)))
    #expect(denial.cause == .noRule && denial.failedRules.isEmpty && denial.path == "/a")
    #expect(denial.lines == ["write to /a is refused: there is no .write rule on the way"])
    #expect(Access.locked.explainRead(at: "/a", query: nil, in: scope(user))?.cause == .locked)
    #expect(
        Access.locked.explainWrite(at: [], after: .empty, in: scope(user))?.lines == [
            "write to / is refused: no rules are loaded"
        ])
    #expect(Access.locked.explainRead(at: "/a", query: nil, in: scope(.admin)) == nil)
    #expect(Access.open.explainWrite(at: ["/a"], after: .empty, in: scope(user)) == nil)
}

@Test func explanationsAreBounded() throws {
    let text = String(repeating: "x", count: 1000)
    let parts = (0..<50).map { "data.child('\($0)\(text)').val() == null" }.joined(separator: " && ")
    let access = Access.loaded(
        try rules(
            #"{"\#(text.prefix(700))":{".read":"data.val() != '\\n' && \#(parts) && data.val() == 1"}}"#))
    let path = Path([Key(unchecked: Text(String(text.prefix(700))))])
    let scope = scope(user, root: Node.empty.with(path, .string(Text("\n" + text))))
    let denial = try #require(access.explainRead(at: path, query: nil, in: scope))
    #expect(denial.failedRules[0].observations.count == Denial.observationCount)
    #expect(
        denial.lines.allSatisfy { $0.utf8.count < 400 && !$0.contains("\n") } && denial.json().count < 10_000)
}

/// A client chooses paths of 31 keys of 768 bytes: what is printed of such a denial is bounded, and says what
/// is missing. The rules that stay are those that are nearest to the location.
@Test func longDenialsAreCut() throws {
    let depth = 31
    var node = #"{".read":"$k\#(depth - 1) == 'x'"}"#
    for level in (0..<depth - 1).reversed() {
        node = #"{".read":"$k\#(level) == 'x'","$k\#(level + 1)":\#(node)}"#
    }
    let access = Access.loaded(try rules(#"{"$k0":\#(node)}"#))
    let key = Key(unchecked: Text(String(repeating: "\"é", count: 256)))
    let path = Path(Array(repeating: key, count: depth))
    let denial = try #require(access.explainRead(at: path, query: nil, in: scope(user)))
    #expect(denial.failedRules.count == depth)

    /// The printed denial, and how many rules it has.
    func printed(atMost byteLimit: Int) throws -> (json: Node, ruleCount: Int, byteCount: Int) {
        let bytes = denial.json(atMost: byteLimit)
        let json = try data(String(decoding: bytes, as: UTF8.self))
        guard case .object(let rules) = json["rules" as Path] else { return (json, 0, bytes.count) }
        return (json, rules.count, bytes.count)
    }

    let whole = try printed(atMost: .max)
    #expect(whole.ruleCount == depth && whole.json["omitted" as Path] == .empty)
    #expect(whole.byteCount < 64 << 10)
    let one = try printed(atMost: 1)
    #expect(one.ruleCount == 1 && one.json["omitted" as Path] == .integer(Int64(depth - 1)))
    #expect(one.json["rules/0" as Path] == whole.json[Path(trusted: "rules/\(depth - 1)")])
    let some = try printed(atMost: 8192)
    #expect((2..<depth).contains(some.ruleCount) && some.byteCount < 9216)
    #expect(some.json["omitted" as Path] == .integer(Int64(depth - some.ruleCount)))
    for place in ["path", "rules/0/location"] {
        guard case .string(let text) = some.json[Path(trusted: place)] else {
            Issue.record("\(place) is no text")
            continue
        }
        #expect(text.string.hasSuffix("…") && text.utf8Count <= 515)
    }
}

extension Node {
    fileprivate func with(_ path: Path, _ value: Node) -> Node {
        var node = self
        node.set(value, at: path)
        return node
    }
}

/// Clients choose keys and values: none of them may begin a line of a log or send control characters to a
/// terminal.
@Test(arguments: [
    ("a\nb\tc", "a b c"), ("\u{7F}\u{1B}[1m", "  [1m"), ("\u{80}\u{85}\u{9F}\u{A0}", "   \u{A0}"),
    ("\u{2028}x\u{2029}", " x "), ("é🐵", "é🐵"),
])
func quotedNamesStayOnOneLine(text: String, expected: String) {
    #expect(cut(text, to: 10) == expected)
    #expect(quoted(Text(text)) == "'\(expected)'")
}

/// For a write to many paths, the first denied path is explained, with its own rules.
@Test func oneOfManyPathsIsExplained() throws {
    let access = Access.loaded(
        try rules(
            #"{".write":"data.child('open').exists()","#
                + #""l":{"$i":{".write":"$i != 'i7'",".validate":"newData.val() < 9"}}}"#))
    func explain(_ values: [Int64]) -> Denial? {
        var after = Node.empty
        let paths = values.indices.map { Path(trusted: "l/i\($0)") }
        for (path, value) in zip(paths, values) { after.set(.integer(value), at: path) }
        return access.explainWrite(at: paths.reversed(), after: after, in: scope(user))
    }
    #expect(explain(Array(repeating: 1, count: 7)) == nil)
    #expect(
        explain(Array(repeating: 1, count: 9))?.lines == [
            "write to /l/i7 is refused: no .write rule on the way is true",
            "  1:20 .write of /, at /, is false", "      data.child('open').exists() = false",
            "  1:70 .write of /l/$i, at /l/i7, is false", #"      $i = "i7""#,
        ])
    let invalid = explain([1, 2, 9, 1, 9])
    #expect(invalid?.cause == .invalid && invalid?.path == "/l/i2" && invalid?.failedRules.count == 1)
    #expect(invalid?.failedRules.first?.observations.map(\.value) == ["9"])
}

// MARK: Coverage

@Test func uncoveredRulesAreListed() throws {
    let loaded = try rules(chat)
    let (access, coverage) = (Access.loaded(loaded), RuleCoverage(of: loaded))
    #expect(
        coverage.lines == [
            "2:12 .read of / was never evaluated", "5:16 .read of /rooms/$room was never evaluated",
            "7:17 .write of /rooms/$room was never evaluated",
            "8:30 .validate of /rooms/$room/text was never evaluated",
            "9:32 .validate of /rooms/$room/$other was never evaluated",
        ])
    let scope = scope(user, root: try data(#"{"members":{"r1":{"u1":true}}}"#))
    #expect(access.allowsRead(at: "/rooms/r1", query: nil, in: scope, recording: coverage))
    #expect(
        !access.allowsWrite(
            at: ["/rooms/u1"], after: try data(#"{"rooms":{"u1":{"text":"abcd"}}}"#), in: scope,
            recording: coverage))
    #expect(
        !access.allowsWrite(
            at: ["/rooms/r1"], after: try data(#"{"rooms":{"r1":{"text":"abcd"}}}"#), in: scope,
            recording: coverage))
    // For an administrator no rule is evaluated.
    #expect(
        access.allowsRead(
            at: "/", query: nil, in: RuleScope(credential: .admin, milliseconds: 0, root: .empty),
            recording: coverage))
    #expect(
        coverage.lines == [
            "2:12 .read of / was never true",
            "5:16 .read of /rooms/$room was never false", "5:17 auth != null was never false",
            "6:17 root.child('members').child($room).child(auth.uid).val() == true was never false",
            "7:17 .write of /rooms/$room was never false", "7:17 .write of /rooms/$room was an error 1 times",
            "7:39 newData.child('n').val() + 1 > 2 was never true",
            "7:39 newData.child('n').val() + 1 > 2 was never false",
            "7:39 newData.child('n').val() + 1 > 2 was an error 1 times",
            "8:30 .validate of /rooms/$room/text was never true", "8:31 newData.isString() was never false",
            "8:53 newData.val().length <= 3 was never true",
            "9:32 .validate of /rooms/$room/$other was never evaluated",
        ])
    let write = coverage.entries[2]
    #expect(
        write.tally == RuleCoverage.Tally(trueCount: 1, falseCount: 0, errorCount: 1) && write.kind == .write
            && !write.isConstant)
    #expect(write.operands.map(\.text) == ["auth.uid == $room", "newData.child('n').val() + 1 > 2"])
    #expect(write.operands.map(\.tally.total) == [2, 1])
}

/// Only an expression that can be evaluated is reported as never evaluated.
@Test(arguments: [
    ("true && data.exists()", [] as [String]),
    ("false || data.exists()", []),
    ("data.exists() && (false && data.isString() || data.isNumber())", ["data.exists()", "data.isNumber()"]),
    ("data.exists() && (true || data.isString() && data.isNumber())", []),
    ("true ? data.exists() : (data.isString() && data.isNumber())", []),
    ("false ? (data.isString() && data.isNumber()) : !data.exists()", ["data.exists()"]),
    ("data.exists() && false && !data.isString()", ["data.exists()"]),
])
func whatIsFoldedAwayIsNotCounted(expression: String, operands: [String]) throws {
    let loaded = try rules(#"{".read":"\#(expression)"}"#)
    let (access, coverage) = (Access.loaded(loaded), RuleCoverage(of: loaded))
    for root: Node in [.empty, .integer(1), .string("a")] {
        _ = access.allowsRead(at: "/", query: nil, in: scope(.anonymous, root: root), recording: coverage)
    }
    // Operands that do not depend on the data are not counted: they have the same value each time.
    let counted = coverage.entries[0].operands.map(\.text)
    #expect(counted.filter { !$0.contains("||") } == operands, "\(counted)")
    #expect(!coverage.lines.contains { $0.contains("never evaluated") }, "\(coverage.lines)")
}

@Test func operandsAreCountedSeparately() throws {
    let loaded = try rules(
        #"{".read":"!(data.child('a').exists() || data.child('b').exists()) && (data.child('c').exists() ? !!data.child('d').exists() : true || now > 0)"}"#
    )
    let (access, coverage) = (Access.loaded(loaded), RuleCoverage(of: loaded))
    for json in [#"{"a":1}"#, #"{"b":1}"#, #"{"c":1}"#, #"{"c":1,"d":1}"#, "{}"] {
        _ = access.allowsRead(
            at: "/", query: nil, in: scope(.anonymous, root: try data(json)), recording: coverage)
    }
    #expect(coverage.lines.isEmpty)
    let entry = coverage.entries[0]
    #expect(entry.tally == RuleCoverage.Tally(trueCount: 2, falseCount: 3, errorCount: 0))
    #expect(
        entry.operands.map { "\($0.text): \($0.tally.trueCount)/\($0.tally.falseCount)" } == [
            "!(data.child('a').exists() || data.child('b').exists()): 3/2",
            "data.child('a').exists() || data.child('b').exists(): 2/3", "data.child('a').exists(): 1/4",
            "data.child('b').exists(): 1/3",
            "data.child('c').exists() ? !!data.child('d').exists() : true || now > 0: 2/1",
            "data.child('c').exists(): 2/1",
            "!data.child('d').exists(): 1/1", "data.child('d').exists(): 1/1",
        ])
}
