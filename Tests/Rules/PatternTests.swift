import PandoBytes
import PandoRandom
import Testing

@testable import PandoRules

/// Patterns and texts (rules §9).
@Test(
    arguments: [
        // pattern                matches                       does not                  because
        ("b", ["b", "abc"], ["", "a"], "unanchored"),
        ("^b", ["b", "bc"], ["ab"], "anchored at the start"),
        ("b$", ["b", "ab"], ["bc", "b\n"], "anchored at the end"),
        ("^[a-z]+$", ["a", "xyz"], ["", "ab1", "A"], "53: a class over the whole text"),
        ("^$", [""], ["a"], "nothing"),
        ("a*", ["", "b"], [], "none is enough"),
        ("^a*$", ["", "aaa"], ["ab"], "any number"),
        ("^ab?c$", ["ac", "abc"], ["abbc"], "at most one"),
        ("^a{3}$", ["aaa"], ["aa", "aaaa"], "so many"),
        ("^a{2,}$", ["aa", "aaaaa"], ["a"], "a lower bound only"),
        ("^a{1,3}$", ["a", "aa", "aaa"], ["", "aaaa"], "between"),
        ("^a{0}b$", ["b"], ["ab"], "none"),
        ("^(ab|cd)+$", ["ab", "cdab"], ["", "abc"], "a group"),
        ("^((a|b)-)+$", ["a-", "a-b-"], ["ab-"], "a group that begins with a group"),
        ("a|b", ["xa", "b"], ["c"], "alternatives"),
        ("^a|b$", ["a", "b"], ["ab", "ca"], "anchors are for the whole pattern"),
        (".", ["a", "é", "🐵", "\r"], ["", "\n"], "any character but the line feed"),
        ("^.$", ["🐵", "e"], ["e\u{301}", "ab"], "characters are Unicode scalars"),
        ("^\\s+$", [" \t\r\n\u{0B}\u{0C}"], ["\u{A0}", "a"], "white space is six characters"),
        ("^\\w+$", ["aZ_09"], ["-", "é"], "words"),
        ("^\\d\\D\\S\\W$", ["1a.."], ["aa..", "1a.a"], "classes and their opposites"),
        ("^[\\s\\d]+$", ["1 2"], ["a"], "classes in sets"),
        ("^[^\\d]$", ["a"], ["1"], "and in inverted ones"),
        ("^[^a-c]$", ["d", "🐵", "\n"], ["b"], "everything else"),
        ("^[a-]$", ["a", "-"], ["b"], "a hyphen at the end"),
        ("^[-a]$", ["a", "-"], ["b"], "and at the beginning"),
        ("^[\\w-.]$", ["a", "-", "."], ["+"], "a hyphen behind a class"),
        ("^[.*+?(){}|^$/]$", ["*", ".", "^", "$", "/"], ["a"], "in a set all of them are literal"),
        ("^[\\]\\\\]$", ["]", "\\"], ["["], "escaped in a set"),
        ("^\\.\\*\\/$", [".*/"], ["a*/"], "escaped"),
        ("^a\\$$", ["a$"], ["a"], "an escaped dollar is no anchor"),
        ("a}b", ["a}b"], ["ab"], "a brace alone is a literal"),
        ("^]$", ["]"], ["a"], "and so is a bracket"),
        ("(?:x)", ["?:x"], ["x"], "a metacharacter first in a group is a literal"),
        ("+1", ["+1", "a+1"], ["1"], "and first in the pattern"),
        ("*a", ["*a"], ["a"], "a star"),
        ("|a", ["|a"], ["a"], "a bar"),
        ("{2}", ["{2}"], ["2"], "a brace"),
        ("^+49", ["+49"], ["49"], "behind the anchor"),
        ("^é+$", ["é", "éé"], ["e"], "beyond ASCII"),
        ("^[α-ω]+$", ["αβγ"], ["abc", "Α"], "ranges beyond ASCII"),
        ("^[^😀]$", ["😁"], ["😀"], "beyond the first plane"),
        ("^\\u0041\\x42$", ["AB"], ["ab"], "by number"),
        ("^\\n$", ["\n"], ["n"], "a line feed"),
        ("^(a*)*$", ["", "aaa"], ["b"], "an empty group, any number of times"),
        ("^(a{0}){3}$", [""], ["a"], "an empty group, three times"),
        ("^a**$", ["", "aa"], ["b"], "two quantifiers"),
        (
            "^(\\+\\d{1,3})?[-. (]*\\d{3}[-. )]*\\d{3}[-. ]*\\d{4}$", ["+1 (555) 123-4567", "5551234567"],
            ["555"], "a phone"
        ),
        (
            "^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,4}$", ["a.b@c.org"], ["a@b", "@c.org"],
            "an address"
        ),
    ] as [(String, [String], [String], String)])
func patterns(pattern: String, matching: [String], others: [String], reason: String) throws {
    let compiled = try Pattern(pattern, ignoresCase: false)
    for (texts, expected) in [(matching, true), (others, false)] {
        for text in texts {
            #expect(compiled.matches(Text(text)) == expected, "\(pattern) on \(text): \(reason)")
            #expect(compiled.matchesWithoutTable(Text(text)) == expected, "\(pattern) on \(text): \(reason)")
        }
    }
}

@Test(
    arguments: [
        // pattern       matches             does not          because
        ("^abc$", ["ABC", "aBc"], ["abd"], "letters"),
        ("^[a-c]$", ["B"], ["D"], "ranges"),
        ("^[^a-c]$", ["d", "D"], ["b", "B"], "the case is ignored before the set is inverted"),
        ("^é$", ["É", "é"], ["e"], "beyond ASCII"),
        ("^Я[а-я]$", ["яЖ"], ["яz"], "ranges beyond ASCII"),
        ("^k$", ["K"], ["\u{212A}"], "ASCII letters have ASCII partners only"),
        ("^_1$", ["_1"], ["\u{7F}1"], "letters without case"),
    ] as [(String, [String], [String], String)])
func patternsThatIgnoreCase(pattern: String, matching: [String], others: [String], reason: String) throws {
    let compiled = try Pattern(pattern, ignoresCase: true)
    for text in matching { #expect(compiled.matches(Text(text)) == true, "\(pattern) on \(text): \(reason)") }
    for text in others { #expect(compiled.matches(Text(text)) == false, "\(pattern) on \(text): \(reason)") }
}

@Test(
    arguments: [
        // pattern            problem                                           because
        ("", "expected a character at position 0", "nothing at all"),
        ("(^a$|b)", "'^' may stand only at an end of the pattern", "an anchor in a group"),
        ("(a$|b)", "'$' may stand only at an end of the pattern", "the other one"),
        ("a^b", "'^' may stand only at an end of the pattern", "in the middle"),
        ("a$b", "'$' may stand only at an end of the pattern", "in the middle"),
        ("(a|)", "expected a character at position 3", "an empty alternative"),
        ("a||b", "expected a character at position 2", "in the middle"),
        ("a|", "expected a character at position 2", "at the end"),
        ("()", "expected ')' at position 2", "an empty group: the brace is a literal"),
        ("(abcdefghi", "expected ')' at position 10", "an open group"),
        ("a)b", "expected end of pattern at position 1", "a stray brace"),
        ("(a))", "expected end of pattern at position 3", "behind a group"),
        ("[a", "expected ']' at position 2", "an open set"),
        ("[]", "expected a character at position 1", "an empty set"),
        ("[^]", "expected a character at position 2", "an empty inverted set"),
        ("[z-a]", "a range is out of order", "backwards"),
        ("a{2", "expected '}' at position 3", "an open repetition"),
        ("a{,2}", "expected a number at position 2", "no lower bound"),
        ("a{x}", "expected a number at position 2", "no number"),
        ("a{3,2}", "the bounds of a repetition are out of order", "backwards"),
        ("a{10001}", "more than 10000 repetitions", "too many"),
        ("a{99999999999999999999}", "more than 10000 repetitions", "far too many"),
        ("a{10000}", "it has too many states", "with the state behind the last"),
        ("(a{200}){200}", "it has too many states", "repetitions of repetitions"),
        ("((((a{0}){9999}){9999}){9999}){9999}", "it has too many states", "of nothing"),
        ("a{9999}|b", "it has too many states", "one alternative is too large with its branches"),
        ("a{9999}|b{9999}|c{9999}|d{9999}", "it has too many states", "each alternative is nearly too large"),
        ("(a{9999}|b){9999}", "it has too many states", "repetitions of alternatives"),
        (
            "/(((a{9999}|b){9999}|c){9999}|d)/", "it has too many states",
            "alternatives of repetitions of alternatives"
        ),
        ("(a|b){3000}", "it has too many states", "small alternatives, many times"),
        ("\\", "expected a character at position 1", "an escape at the end"),
        ("a\\bc", "'\\b' is not supported", "a word boundary"),
        ("(a)\\1", "'\\1' is not supported", "a reference"),
        ("\\p", "'\\p' is not supported", "a Unicode class"),
        ("\\x4", "expected a hexadecimal digit at position 3", "half a number"),
        ("\\ud800", "half of a surrogate pair is no character", "half of a surrogate pair"),
        ("a*****b", "expected a character at position 5", "too many quantifiers"),
    ] as [(String, String, String)])
func illegalPatterns(pattern: String, expected: String, reason: String) {
    let error = #expect(throws: IllegalPattern.self, "\(reason)") { try Pattern(pattern, ignoresCase: false) }
    #expect(error?.text == "Illegal regular expression, \(expected)", "\(reason)")
}

@Test func patternLimitsAreEnforced() throws {
    let limit = RulesLimits.patternByteCount
    _ = try Pattern(String(repeating: "a", count: limit), ignoresCase: false)
    #expect(throws: IllegalPattern.self) {
        try Pattern(String(repeating: "a", count: limit + 1), ignoresCase: false)
    }
    _ = try Pattern(
        String(repeating: "(", count: 64) + "a" + String(repeating: ")", count: 64), ignoresCase: false)
    #expect(throws: IllegalPattern.self) {
        try Pattern(String(repeating: "(", count: 1000) + "a", ignoresCase: false)
    }
    // Alternatives take two states each, but for the last.
    _ = try Pattern("a{4999}|b{4998}", ignoresCase: false)
    for pattern in [
        "a{4999}|b{4999}", "(((a{9999}|b){9999}|c){9999}|d){9999}", "(a{3333}|b{3333}|c{3333})?",
    ] {
        #expect(throws: IllegalPattern.self, "\(pattern)") { try Pattern(pattern, ignoresCase: false) }
    }
    let large = try Pattern("(a|b)*a(a|b){2000}$", ignoresCase: false)
    #expect(!large.hasTable)
    #expect(large.matches(Text(String(repeating: "a", count: 3000))) == true)
    #expect(large.matches(Text(String(repeating: "b", count: 3000))) == false)
    // Patterns that take exponential time by backtracking, and one over the limit of steps.
    let nested = try Pattern("^(a*)*(a*)*(a*)*$", ignoresCase: false)
    #expect(nested.matches(Text(String(repeating: "a", count: 20_000) + "b")) == false)
    #expect(large.matches(Text(String(repeating: "a", count: 20_000) + "c")) == nil)
}

/// Scalars with their one-scalar lower and upper case, from the standard library's tables. ASCII pairs with
/// ASCII only.
private let casePairs: [(value: UInt32, partner: UInt32)] = (0x41...0x1EFFF as ClosedRange<UInt32>).flatMap {
    value in
    guard let scalar = Unicode.Scalar(value), scalar.properties.isCased else {
        return [(value: UInt32, partner: UInt32)]()
    }
    return [scalar.properties.lowercaseMapping, scalar.properties.uppercaseMapping].compactMap { mapping in
        let partners = mapping.unicodeScalars.map(\.value)
        guard partners.count == 1, (partners[0] < 0x80) == (value < 0x80) else { return nil }
        return (value, partners[0])
    }
}

/// Sets are folded by ranges: the result agrees with the Unicode properties of each letter.
@Test(arguments: 0..<8 as Range<UInt64>)
func caseFoldingAgreesWithUnicode(seed: UInt64) {
    #expect(CaseRun.all.count < 500)
    var generator = SeededGenerator(seed: seed)
    var sets = [ScalarSet([0x80...0x10_FFFF]), ScalarSet([0...0x10_FFFF]), ScalarSet([]), .wordCharacters]
    for _ in 0..<20 {
        sets.append(
            ScalarSet(
                (0..<Int.random(in: 1...4, using: &generator)).map { _ in
                    let block: UInt32 = generator.pick([
                        0x40, 0x80, 0x180, 0x370, 0x400, 0x1E00, 0x2C00, 0x1E900,
                    ])
                    let first = block + .random(in: 0..<0x100, using: &generator)
                    let count: UInt32 = generator.one(in: 2) ? 2 : 0x60
                    return first...first + .random(in: 0..<count, using: &generator)
                }))
    }
    for set in sets {
        var expected = set.ranges
        for (value, partner) in casePairs {
            if set.contains(value) { expected.append(partner...partner) }
            if set.contains(partner) { expected.append(value...value) }
        }
        #expect(set.ignoringCase == ScalarSet(expected), "seed \(seed): \(set.ranges)")
    }
}

/// Which sets a character is in shows in its class.
@Test(arguments: 0..<8 as Range<UInt64>)
func classesAgreeWithSets(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<50 {
        let sets = (0..<Int.random(in: 0...20, using: &generator)).map { _ -> ScalarSet in
            let set = ScalarSet(
                (0..<Int.random(in: 1...4, using: &generator)).map { _ -> ClosedRange<UInt32> in
                    let first = UInt32.random(in: 0..<300, using: &generator)
                    return first...first + .random(in: 0..<60, using: &generator)
                })
            return generator.one(in: 3) ? set.inverted : set
        }
        let alphabet = PatternAlphabet(sets)
        #expect(alphabet.classCount <= 1 + 2 * sets.reduce(0) { $0 + $1.ranges.count })
        for value in 0..<400 as Range<UInt32> {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = Text(String(Character(scalar)))
            let place = text.withBytes { bytes -> Int in
                var index = 0
                return alphabet.nextClass(bytes, &index)
            }
            let isRight = sets.indices.allSatisfy {
                alphabet.contains(place, in: Int32($0)) == sets[$0].contains(value)
            }
            #expect(isRight, "seed \(seed): \(value) in \(sets.map(\.ranges))")
        }
    }
}

/// A backtracking matcher for short texts, written after the grammar: the automaton must agree with it.
private func backtrack(_ tree: PatternTree, _ text: [Unicode.Scalar], _ start: Int, _ rest: (Int) -> Bool)
    -> Bool
{
    switch tree {
    case .scalar(let set): return start < text.count && set.contains(text[start].value) && rest(start + 1)
    case .sequence(let items):
        guard let first = items.first else { return rest(start) }
        return backtrack(first, text, start) {
            backtrack(.sequence(Array(items.dropFirst())), text, $0, rest)
        }
    case .either(let items): return items.contains { backtrack($0, text, start, rest) }
    case .repeated(let item, let minimum, let maximum):
        if minimum == 0, rest(start) { return true }
        if maximum == 0 { return minimum == 0 && rest(start) }
        let next = PatternTree.repeated(item, minimum: max(0, minimum - 1), maximum: maximum.map { $0 - 1 })
        // An optional repetition that consumes nothing reaches no new state.
        return backtrack(item, text, start) { ($0 > start || minimum > 0) && backtrack(next, text, $0, rest) }
    }
}

@Test(arguments: 0..<8 as Range<UInt64>)
func automataAgreeWithBacktracking(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    func piece(_ depth: Int) -> String {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 5), using: &generator) {
        case 0, 1: return generator.pick(["a", "b", "é"])
        case 2: return generator.pick([".", "[ab]", "[^a]", "\\w", "[a-cé]", "\\W"])
        case 3:
            return generator.pick(["a", "b"])
                + generator.pick(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,1}"])
        case 4: return "ab"
        case 5: return "(" + piece(depth - 1) + "|" + piece(depth - 1) + ")"
        case 6: return "(" + piece(depth - 1) + ")" + generator.pick(["*", "+", "?", "{0,2}", "{2}", "**"])
        default: return piece(depth - 1) + piece(depth - 1)
        }
    }
    for _ in 0..<300 {
        let pattern = generator.pick(["", "^"]) + piece(3) + generator.pick(["", "$"])
        let ignoresCase = generator.one(in: 4)
        let parsed = try PatternParser.parse(pattern, ignoresCase: ignoresCase)
        let compiled = try Pattern(pattern, ignoresCase: ignoresCase)
        for _ in 0..<12 {
            let letters = (0..<Int.random(in: 0...7, using: &generator)).map { _ in
                generator.pick(["a", "b", "B", "c", "é"])
            }
            let text = letters.joined()
            let scalars = Array(text.unicodeScalars)
            let starts = parsed.isAnchoredAtStart ? 0...0 : 0...scalars.count
            let expected = starts.contains { start in
                backtrack(parsed.tree, scalars, start) { !parsed.isAnchoredAtEnd || $0 == scalars.count }
            }
            #expect(compiled.matches(Text(text)) == expected, "seed \(seed): /\(pattern)/ on \(text)")
            #expect(
                compiled.matchesWithoutTable(Text(text)) == expected, "seed \(seed): /\(pattern)/ on \(text)")
        }
    }
}
