import PandoBytes
import PandoRandom
import PandoTree
import Testing

@Suite struct Keys {
    /// realtime §7.3, as the JS SDK sorts it.
    static let ordered: [Key] = [
        "-2147483648", "-5", "0", "-0", "00", "1", "01", "00000000001", "9", "10", "15", "2147483647", " 1",
        "+1", "-2147483649",
        "-K", "1e3", "2147483648", "A", "_", "a", "b", "~", "é", "🐵", "\u{E000}",
    ]

    @Test func order() {
        for (i, lower) in Self.ordered.enumerated() {
            for (j, higher) in Self.ordered.enumerated() {
                // Two texts for 0 of the same length: any fixed order.
                if Set([lower, higher]) == ["-0", "00"] { continue }
                #expect((lower < higher) == (i < j), "\(lower) \(higher)")
                #expect((Key.compare(lower, higher) == 0) == (i == j), "\(lower) \(higher)")
            }
        }
        #expect((Key.compare("-0", "00") < 0) != (Key.compare("00", "-0") < 0))
    }

    @Test(
        arguments: [
            ("0", 0, "zero"), ("-0", 0, "zero"), ("7", 7, "a digit"), ("007", 7, "leading zeros"),
            ("2147483647", 2_147_483_647, "the greatest"),
            ("2147483648", nil, "one more"), ("-2147483648", -2_147_483_648, "the least"),
            ("-2147483649", nil, "one less"),
            ("00000000000000000000000000002147483647", 2_147_483_647, "any number of zeros"),
            ("99999999999999999999999999", nil, "far too much"),
            ("18446744073709551616", nil, "wraps 64 bits"), ("", nil, "nothing"), ("-", nil, "a sign"),
            ("+1", nil, "the other sign"), ("--1", nil, "two signs"),
            ("1a", nil, "a letter"), (" 1", nil, "a space"), ("1 ", nil, "a space"), ("1.0", nil, "a point"),
            ("١", nil, "another script's digit"),
            ("-NjEtLV-abc", nil, "a push id"),
        ] as [(Key, Int64?, String)])
    func integers(key: Key, value: Int64?, reason: String) {
        #expect(key.integer == value, "\(reason)")
    }

    /// Strings by UTF-16 units, as JavaScript's `<`.
    @Test(arguments: 0..<10) func textOrder(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        let scalars: [Unicode.Scalar] = [
            "a", "b", "\u{7F}", "\u{80}", "é", "\u{7FF}", "\u{800}", "\u{D7FF}", "\u{E000}", "\u{FFFD}",
            "\u{FFFF}", "\u{10000}", "🐵", "\u{10FFFF}",
        ]
        for _ in 0..<2000 {
            func text() -> String {
                var view = String.UnicodeScalarView()
                for _ in 0..<Int.random(in: 0...12, using: &generator) {
                    view.append(generator.pick(scalars))
                }
                return String(view)
            }
            let (a, b) = (text(), text())
            #expect((Text(a) < Text(b)) == a.utf16.lexicographicallyPrecedes(b.utf16), "\(a) \(b)")
            #expect((Text(a) == Text(b)) == Array(a.utf8).elementsEqual(b.utf8))
        }
    }

    /// The definition, without packed words: integers by value and length, then text by UTF-16 units.
    @Test(arguments: 0..<10) func orderAgreesWithCompare(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        let parts = [
            "", "", "-", "0", "00", "1", "9", "2147483647", "2147483648", "a", "b", "aaaaaaa", "é", "\u{7FF}",
            "\u{800}", "\u{D7FF}", "🐵", "\u{10FFFF}",
            "\u{E000}", "\u{FFFF}", ".", "\0", ":", "/",
        ]
        let keys = (0..<250).map { _ in
            Key(
                unchecked: Text(
                    generator.pick(parts) + generator.pick(parts) + generator.pick(parts)
                        + generator.pick(parts)))
        }
        for a in keys {
            for b in keys {
                let expected: Bool
                switch (integer(a.string), integer(b.string)) {
                case (let x?, let y?) where x != y: expected = x < y
                case (_?, _?) where a.string.utf8.count != b.string.utf8.count:
                    expected = a.string.utf8.count < b.string.utf8.count
                case (_?, nil): expected = true
                case (nil, _?): expected = false
                default: expected = a.string.utf16.lexicographicallyPrecedes(b.string.utf16)
                }
                if (a < b) != expected || (a == b) != (a.string.utf8.elementsEqual(b.string.utf8))
                    || (Key.compare(a, b) == 0) != (a == b)
                {
                    Issue.record("\(a.string.debugDescription) \(b.string.debugDescription)")
                }
            }
        }
    }

    private func integer(_ text: String) -> Int64? {
        let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
        guard !digits.isEmpty, digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        let value = Double(text)!
        return value >= -0x1p31 && value < 0x1p31 ? Int64(value) : nil
    }

    @Test(arguments: [
        ("a", true, "a letter"), ("-K_~!@%^&*()=+\\|'\";:,<>?` ", true, "all other marks"),
        ("é🐵\u{E000}\u{FFFF}", true, "beyond ASCII"),
        ("\u{80}\u{9F}", true, "C1 controls are not forbidden"), ("e\u{301}", true, "not normalised"),
        ("", false, "nothing"), ("a.b", false, "a point"), (".", false, "a point"),
        ("$a", false, "a dollar"), ("a#", false, "a hash"), ("[", false, "a bracket"),
        ("]", false, "a bracket"), ("a/b", false, "a slash"),
        ("\u{0}", false, "a control"), ("a\u{1F}", false, "a control"), ("\u{7F}", false, "a control"),
        ("a\n", false, "a new line"),
        (String(repeating: "k", count: 768), true, "as long as may be"),
        (String(repeating: "k", count: 769), false, "a byte longer"),
        (String(repeating: "é", count: 384), true, "counted in bytes"),
        (String(repeating: "é", count: 385), false, "counted in bytes"),
    ])
    func legality(text: String, isLegal: Bool, reason: String) {
        #expect(Key.isLegal(Text(text)) == isLegal, "\(reason)")
        #expect(((try? Key(validating: Text(text))) != nil) == isLegal, "\(reason)")
        // The parser agrees.
        var json: [UInt8] = []
        json.append(json: Text(text))
        let inObject = Parsed(Array("{".utf8) + json + Array(":1}".utf8))
        if case .invalid(.key) = inObject {
            #expect(!isLegal, "\(reason)")
        } else {
            #expect(isLegal, "\(reason)")
        }
    }

    @Test func equalOnlyByteForByte() {
        #expect(Key(unchecked: "é") != Key(unchecked: "e\u{301}"))
        #expect(Set<Key>([Key(unchecked: "é"), Key(unchecked: "e\u{301}"), Key(unchecked: "é")]).count == 2)
    }
}

@Suite struct Paths {
    /// realtime §4.0: as every SDK spells them.
    @Test(arguments: [
        ("/a/b", "a/b", "JS, iOS"), ("a/b", "a/b", "Android, C++"), ("/", "", "the root"),
        ("", "", "the root in C++ writes"), ("//a///b//", "a/b", "empty segments"),
        ("/a%2Fb", "a%2Fb", "not percent-encoded"), ("/é/🐵", "é/🐵", "beyond ASCII"),
        ("a/ /b", "a/ /b", "a space is a key"),
    ])
    func spelling(text: String, wire: String, reason: String) throws {
        let path = try Path(wire: Text(text))
        #expect(path.wireText == wire, "\(reason)")
        #expect(try Target(wire: Text(text)) == Target(path), "\(reason)")
        #expect(try Path(wire: Text(wire)) == path)
    }

    @Test(arguments: [
        ("a/.priority", "a"), ("/.priority", ""), (".priority", ""), ("a/b/.priority/", "a/b"),
    ])
    func priorityTarget(text: String, path: String) throws {
        #expect(try Target(wire: Text(text)) == Target(Path(wire: Text(path)), isPriority: true))
        #expect(throws: InvalidData.reservedPath) { try Path(wire: Text(text)) }
    }

    @Test(
        arguments: [
            (".info", .reservedPath, "the client's own"),
            ("/.info/connected", .reservedPath, "the client's own"), ("a/.info", .key(".info"), "no key"),
            (".priority/a", .reservedPath, "nothing is below a priority"),
            ("a/.priority/.priority", .reservedPath, "nothing is below a priority"),
            (".value", .key(".value"), "no path"), ("a/.value", .key(".value"), "no path"),
            (".sv", .key(".sv"), "no path"), ("a/.x/b", .key(".x"), "no key"),
            ("a.b", .key("a.b"), "an illegal character"), ("a/$b", .key("$b"), "an illegal character"),
            ("a/b#", .key("b#"), "an illegal character"),
            ("[MIN_NAME]", .key("[MIN_NAME]"), "an illegal character"),
            (String(repeating: "a/", count: 33), .tooDeep, "33 segments"),
            (String(repeating: "a/", count: 33) + ".priority", .tooDeep, "33 segments"),
            (String(repeating: "a/", count: 100_000), .tooDeep, "a hundred thousand"),
            ("a\u{0}", .key("a\u{0}"), "a control character"),
            (
                "a/" + String(repeating: "k", count: 769), .key(String(repeating: "k", count: 64)),
                "a long key"
            ),
            (String(repeating: "€", count: 300), .key(String(repeating: "€", count: 21)), "cut by bytes"),
            (
                "e" + String(repeating: "\u{301}", count: 400),
                .key("e" + String(repeating: "\u{301}", count: 31)), "one character"
            ),
        ] as [(String, InvalidData, String)])
    func refused(text: String, problem: InvalidData, reason: String) {
        #expect(throws: problem, "\(reason)") { try Target(wire: Text(text)) }
        #expect(throws: InvalidData.self, "\(reason)") { try Path(wire: Text(text)) }
    }

    @Test func pathOfTheGreatestDepth() throws {
        #expect(try Path(wire: Text(String(repeating: "/a", count: 32))).count == 32)
        #expect(try Target(wire: Text(String(repeating: "/a", count: 32) + "/.priority")).path.count == 32)
    }

    @Test func containment() {
        #expect(Path.root.contains("a/b") && Path.root.contains(.root))
        #expect(("a/b" as Path).contains("a/b/c") && ("a/b" as Path).contains("a/b"))
        #expect(
            !("a/b" as Path).contains("a") && !("a/b" as Path).contains("a/c/b")
                && !("a" as Path).contains("ab"))
        #expect(("a/b" as Path).relative("a/b/c/d") == "c/d")
        #expect(("a/b" as Path).parent == "a" && Path.root.parent == .root)
    }

    /// §9.6: per segment, a path before those below it.
    @Test func order() {
        let paths: [Path] = [
            "/", "1", "1/a", "2", "10", "a", "a/-K", "a/.priority", "a/a", "a/a/a", "a/b", "b",
        ]
        for (i, a) in paths.enumerated() { for (j, b) in paths.enumerated() { #expect((a < b) == (i < j)) } }
    }
}
