import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

private let samples: [[UInt8]] = [
    #"{"rules":{"pub":{".read":true,".write":true,".indexOn":["h",".value"]},"priv":{"$uid":{".read":"auth.uid==$uid"}}}}"#,
    "// c\n{\n  \"rules\": {\n    /* all */ \".read\": \"auth != null &&\n\tnow > 1\",\n    \"$a\": { \"b\": { \"$c\": {}, }, },\n  },\n}\n",
    #"{"rules":{".validate":"'\\\/\u00e9\ud83d\udc35 é🐵' != now",".indexOn":"a/b","x":{"y":{"z":{".write":false}}}},"n":[1,-2.5e3,null]}"#,
    #"{"rules":{"$x":{},"$y":{"$y":{".bad":{}}},".read":1,".indexOn":[1,{}],"a":2,"a":{}}}"#,
].map { Array($0.utf8) }

/// Any bytes load, and then have the rules of their strict form; or they are refused, with ascending
/// positions inside the document.
private func check(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    do {
        let rules = try Ruleset(loading: bytes)
        #expect(rules.source.bytes == bytes)
        let strict = rules.strictJSON
        #expect(isStrictJSON(strict), "\(text)")
        let again = try Ruleset(loading: strict)
        #expect(again.root.outline == rules.root.outline, "\(text)")
        #expect(again.strictJSON == strict, "\(text)")
        #expect(
            try Ruleset(loading: Array("/**/".utf8) + bytes + Array("//".utf8)).strictJSON == strict,
            "\(text)")
    } catch {
        let lines = 1 + bytes.count { $0 == 0x0A || $0 == 0x0D }
        let positions = error.problems.map(\.position)
        #expect(!positions.isEmpty && positions == positions.sorted(), "\(text)")
        #expect(positions.allSatisfy { $0.line <= lines && $0.column <= bytes.count + 1 }, "\(text)")
    }
}

@Test func everyTruncationIsReported() {
    for sample in samples {
        for length in 0..<sample.count {
            check(Array(sample[..<length]))
            #expect(throws: InvalidRules.self) {
                try Ruleset(loading: Array(sample.dropLast(2)[..<min(length, sample.count - 2)]))
            }
        }
    }
}

@Test(arguments: 0..<8 as Range<UInt64>)
func mutationsNeverTrap(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let spice: [[UInt8]] =
        [
            "{", "}", "[", "]", "\"", ",", ":", "/", "/*", "*/", "//", "\\", "\\u", "d83d", "\n", "\r", "\t",
            " ", "$", ".",
            "true", "null", "1e", "\"a\":{},", "\"$b\":{},", "\u{0}", "\u{1}", "é", "🐵",
        ].map { Array($0.utf8) }
        + [[0x80], [0xC3], [0xED, 0xA0], [0xF0, 0x9F], [0xFF]]
    for sample in samples {
        for _ in 0..<200 {
            var bytes = sample
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let index = Int.random(in: 0..<max(1, bytes.count), using: &generator)
                guard index < bytes.count else { break }
                switch Int.random(in: 0..<5, using: &generator) {
                case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
                case 1: bytes.replaceSubrange(index...index, with: generator.pick(spice))
                case 2: bytes.insert(contentsOf: generator.pick(spice), at: index)
                case 3:
                    bytes.removeSubrange(
                        index..<min(bytes.count, index + Int.random(in: 1...9, using: &generator)))
                default:
                    let other = generator.pick(samples)
                    bytes.replaceSubrange(index..., with: other[min(index, other.count)...])
                }
            }
            check(bytes)
        }
    }
}

/// Documents of random tokens: more of them load than of random bytes.
@Test(arguments: 0..<4 as Range<UInt64>)
func tokensNeverTrap(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let tokens = [
        "{", "}", "[", "]", ",", ":", "true", "1", "\"rules\"", "\"a\"", "\"$a\"", "\".read\"",
        "\".indexOn\"", "/*x*/", "\n",
    ]
    for _ in 0..<3000 {
        let middle = (0..<Int.random(in: 0...12, using: &generator)).map { _ in generator.pick(tokens) }
        check(Array(("{\"rules\":{" + middle.joined() + (generator.one(in: 3) ? "" : "}}")).utf8))
    }
}
