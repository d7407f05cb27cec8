import PandoBytes
import PandoRandom
import PandoTree
import Testing

/// The result of a text.
enum Parsed: Equatable, CustomStringConvertible {
    /// The draft, printed.
    case data(String)
    case malformed
    case tooDeep
    case invalid(InvalidData)

    init(_ bytes: [UInt8]) {
        self = withCursor(over: bytes.rawSpan) { cursor in
            var parser = DraftParser(JSONReader(cursor))
            do throws(MalformedJSON) {
                let draft = try parser.readDraft()
                try parser.reader.expectEnd()
                return parser.reader.invalidData.map(Parsed.invalid) ?? .data(draft.node.description)
            } catch {
                guard error.byteOffset <= bytes.count else { preconditionFailure("an error behind the end") }
                if case .tooDeep = error { return .tooDeep }
                return .malformed
            }
        }
    }

    init(_ text: String) { self.init(Array(text.utf8)) }

    var description: String {
        switch self {
        case .data(let text): "data \(text)"
        case .malformed: "malformed"
        case .tooDeep: "too deep"
        case .invalid(let problem): "invalid: \(problem)"
        }
    }
}

/// The reader that only skips accepts exactly the texts that the parser accepts as JSON.
func skips(_ bytes: [UInt8]) -> Bool {
    withCursor(over: bytes.rawSpan) { cursor in
        var reader = JSONReader(cursor)
        do throws(MalformedJSON) {
            _ = try reader.skipValue()
            try reader.expectEnd()
            return true
        } catch {
            return false
        }
    }
}

/// After nst/JSONTestSuite: y is JSON, n is not, i is left to the implementation.
@Suite struct JSONTestSuite {
    @Test(
        arguments: [
            ("[[]   ]", "null"), (#"[""]"#, #"{"0":""}"#), ("[]", "null"), (#"["a"]"#, #"{"0":"a"}"#),
            ("[false]", #"{"0":false}"#),
            (#"[null, 1, "1", {}]"#, #"{"1":1,"2":"1"}"#), ("[null]", "null"), ("[1\n]", #"{"0":1}"#),
            (" [1]", #"{"0":1}"#),
            ("[1,null,null,null,2]", #"{"0":1,"4":2}"#), ("[2] ", #"{"0":2}"#),
            ("[123e65]", #"{"0":1.23e+67}"#),
            ("[0e+1]", #"{"0":0}"#), ("[0e1]", #"{"0":0}"#), ("[ 4]", #"{"0":4}"#),
            (
                "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
                #"{"0":-1e-78}"#
            ),
            ("[20e1]", #"{"0":200}"#), ("[-0]", #"{"0":0}"#), ("[-123]", #"{"0":-123}"#),
            ("[-1]", #"{"0":-1}"#), ("[-0.0]", #"{"0":0}"#),
            ("[1E22]", #"{"0":1e+22}"#), ("[1E-2]", #"{"0":0.01}"#), ("[1E+2]", #"{"0":100}"#),
            ("[123e45]", #"{"0":1.23e+47}"#),
            ("[123.456e78]", #"{"0":1.23456e+80}"#), ("[1e-2]", #"{"0":0.01}"#), ("[1e+2]", #"{"0":100}"#),
            ("[123]", #"{"0":123}"#),
            ("[123.456789]", #"{"0":123.456789}"#),
            (#"{"asd":"sdf", "dfg":"fgh"}"#, #"{"asd":"sdf","dfg":"fgh"}"#),
            (#"{"asd":"sdf"}"#, #"{"asd":"sdf"}"#), (#"{"a":"b","a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b","a":"b"}"#, #"{"a":"b"}"#), ("{}", "null"),
            (#"{ "min": -1.0e+28, "max": 1.0e+28 }"#, #"{"max":1e+28,"min":-1e+28}"#),
            (
                #"{"x":[{"id": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}], "id": "bbbbbbbbbbbbbbbbbbbbbbbb"}"#,
                #"{"id":"bbbbbbbbbbbbbbbbbbbbbbbb","x":{"0":{"id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}}"#
            ),
            (#"{"a":[]}"#, "null"),
            (#"{"title":"\u041f\u043e\u043b\u0442\u043e\u0440\u0430" }"#, #"{"title":"Полтора"}"#),
            ("{\n\"a\": \"b\"\n}", #"{"a":"b"}"#),
            (#"["\u0060\u012a\u12AB"]"#, #"{"0":"`Īካ"}"#), (#"["\uD801\udc37"]"#, #"{"0":"𐐷"}"#),
            (#"["\ud83d\ude39\ud83d\udc8d"]"#, #"{"0":"😹💍"}"#),
            (#"["\"\\\/\b\f\n\r\t"]"#, #"{"0":"\"\\/\b\f\n\r\t"}"#), (#"["\\u0000"]"#, #"{"0":"\\u0000"}"#),
            (#"["\""]"#, #"{"0":"\""}"#),
            (#"["a/*b*/c/*d//e"]"#, #"{"0":"a/*b*/c/*d//e"}"#), (#"["\\a"]"#, #"{"0":"\\a"}"#),
            (#"["\\n"]"#, #"{"0":"\\n"}"#), (#"["\u0012"]"#, #"{"0":"\u0012"}"#),
            (#"["\uFFFF"]"#, "{\"0\":\"\u{FFFF}\"}"), (#"["asd"]"#, #"{"0":"asd"}"#),
            (#"[ "asd"]"#, #"{"0":"asd"}"#), (#"["\uDBFF\uDFFF"]"#, "{\"0\":\"\u{10FFFF}\"}"),
            (#"["new\u00A0line"]"#, "{\"0\":\"new\u{A0}line\"}"),
            ("[\"\u{10FFFF}\"]", "{\"0\":\"\u{10FFFF}\"}"), ("[\"\u{FFFF}\"]", "{\"0\":\"\u{FFFF}\"}"),
            (#"["\u0000"]"#, #"{"0":"\u0000"}"#), (#"["\u002c"]"#, #"{"0":","}"#),
            ("[\"π\"]", "{\"0\":\"π\"}"), ("[\"\u{1BFFF}\"]", "{\"0\":\"\u{1BFFF}\"}"),
            (#"["asd "]"#, #"{"0":"asd "}"#),
            (#"" ""#, #"" ""#), (#"["\uD834\uDd1e"]"#, #"{"0":"𝄞"}"#),
            (#"["\u0821"]"#, "{\"0\":\"\u{821}\"}"), (#"["\u0123"]"#, #"{"0":"ģ"}"#),
            ("[\"\u{2028}\"]", "{\"0\":\"\u{2028}\"}"),
            ("[\"\u{2029}\"]", "{\"0\":\"\u{2029}\"}"), (#"["\u0061\u30af\u30EA\u30b9"]"#, #"{"0":"aクリス"}"#),
            (#"["new\u000Aline"]"#, #"{"0":"new\nline"}"#), ("[\"\u{7F}\"]", "{\"0\":\"\u{7F}\"}"),
            (#"["\uA66D"]"#, #"{"0":"ꙭ"}"#), (#"["\u005C"]"#, #"{"0":"\\"}"#),
            ("[\"⍂㈴⍂\"]", "{\"0\":\"⍂㈴⍂\"}"), (#"["\uDBFF\uDFFE"]"#, "{\"0\":\"\u{10FFFE}\"}"),
            (#"["\uD83F\uDFFE"]"#, "{\"0\":\"\u{1FFFE}\"}"),
            (#"["\u200B"]"#, "{\"0\":\"\u{200B}\"}"), (#"["\u2064"]"#, "{\"0\":\"\u{2064}\"}"),
            (#"["\uFDCF"]"#, "{\"0\":\"\u{FDCF}\"}"), (#"["\u0022"]"#, #"{"0":"\""}"#),
            ("[\"€𝄞\"]", "{\"0\":\"€𝄞\"}"),
            ("[\"a\u{7F}a\"]", "{\"0\":\"a\u{7F}a\"}"), ("false", "false"), ("42", "42"), ("-0.1", "-0.1"),
            ("null", "null"), (#""asd""#, #""asd""#), ("true", "true"), ("\"\"", "\"\""),
            ("[\"a\"]\n", #"{"0":"a"}"#), ("[true]", #"{"0":true}"#), (" [] ", "null"),
            ("\t\r\n 1\t\r\n ", "1"),
        ] as [(String, String)])
    func validTextsAreAccepted(text: String, printed: String) {
        #expect(Parsed(text) == .data(printed))
        #expect(skips(Array(text.utf8)))
    }

    @Test(arguments: [
        "[1 true]", #"["": 1]"#, #"[""],"#, "[,1]", "[1,,2]", #"["x",,]"#, #"["x"]]"#, #"["",]"#, #"["x""#,
        "[x", "[3[4]]", "[1:2]", "[,]", "[-]",
        "[   , \"\"]", "[\"a\",\n4\n,1,", "[1,]", "[1,,]", "[\"\u{0B}a\"\\f]", "[*]", #"[""#, "[1,",
        "[1,\n1\n,1", "[{}", "[fals]", "[nul]", "[tru]",
        "[++1234]", "[+1]", "[+Inf]", "[-01]", "[-1.0.]", "[-2.]", "[-NaN]", "[.-1]", "[.2e-3]", "[0.1.2]",
        "[0.3e+]", "[0.3e]", "[0.e1]",
        "[0E+]", "[0E]", "[0e+]", "[0e]", "[1.0e+]", "[1.0e-]", "[1.0e]", "[1 000.0]", "[1eE2]", "[2.e+3]",
        "[2.e-3]", "[2.e3]", "[9.e+]",
        "[Inf]", "[NaN]", "[\u{FF11}]", "[1+2]", "[0x1]", "[0x42]", "[Infinity]", "[0e+-1]", "[-123.123foo]",
        "[-Infinity]", "[-foo]", "[- 1]",
        "[-012]", "[-.123]", "[-1x]", "[1ea]", "[1.]", "[.123]", "[1.2a-3]", "[1.8011670033376514H-308]",
        "[012]",
        #"["x", truth]"#, #"{[: "x"}"#, #"{"x", null}"#, #"{"x"::"b"}"#, "{🇨🇭}", #"{"a":"a" 123}"#,
        "{key: 'value'}", #"{:"b"}"#, #"{"a" b}"#, #"{"a":"#,
        #"{"a""#, "{1:1}", "{9999E9999:1}", "{null:null,null:null}", #"{"id":0,,,,,}"#, "{'a':0}",
        #"{"id":0,}"#, #"{"a":"b"}/**/"#, #"{"a":"b"}/**//"#,
        #"{"a":"b"}//"#, #"{"a":"b"}/"#, #"{"a":"b",,"c":"d"}"#, #"{a: "b"}"#, #"{"a":"a"#,
        #"{ "foo" : "bar", "a" }"#, #"{"a":"b"}#"#, " ",
        #"["\uD800\"]"#, #"["\uD800\u"]"#, #"["\uD800\u1"]"#, #"["\uD800\u1x"]"#, "[é]", "[\"\\\u{0}\"]",
        #"["\x00"]"#, #"["\\\"]"#, "[\"\\\t\"]", #"["\🌀"]"#,
        #"["\"]"#, #"["\u00A"]"#, #"["\uD834\uDd"]"#, #"["\uD800\uD800\x"]"#, #"["\a"]"#, #"["\uqqqq"]"#,
        "[\\u0020\"asd\"]", "[\\n]", "\"", "['single quote']",
        "abc", #"["\"#, "[\"a\u{0}a\"]", "[\"new\nline\"]", "[\"\t\"]", #""\UA66D""#, "\"\"x", "[⁠]",
        "[\u{FEFF}]", "<.>", "[<null>]", "[1]x", "[1]]", #"["asd]"#,
        "aå", "[True]", "1]", #"{"x": true,"#, "[][]", "]", "[", "{", "", "2@", "{}}", #"{"":"#,
        #"{"a":/*comment*/"b"}"#, #"{"a": true} "x""#, "['",
        "[,", #"[{"#, #"["a"#, #"["a"#, #"{]"#, "{,", "{[", #"{"a"#, #"{'a'"#, #"["\{["\{["\{["\{"#, "*",
        #"{"a":"b"}#{}"#, #"[\u000A""]"#, "[1", "[ false, nul", "[ true, fals",
        "[ false, tru", "\u{E5}", "[\u{0C}]", "\u{2060}", "\u{FEFF}", "\u{FEFF}{}", "\"\u{1F}\"", "nullx",
        "truefalse", "1 2", "\"a\"b", "00", "-", "--1", "1e5.5", "0.", "1.e", "\u{0}", "1\u{0}",
    ])
    func invalidTextsAreRefused(text: String) {
        #expect(Parsed(text) == .malformed)
        #expect(!skips(Array(text.utf8)))
    }

    /// Bytes that are not UTF-8 are not JSON: in text, in place of a letter, and outside of values.
    @Test(
        arguments: [
            [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
            [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], [0x22, 0xE2, 0x82, 0x22],
            [0x22, 0x5C, 0xE5, 0x22], [0x22, 0x5C, 0x75, 0x30, 0x30, 0xE5, 0x22],
            [0x22, 0x5C, 0x6E, 0xFF, 0x22], [0xE5], [0x31, 0xE5], [0x5B, 0x61, 0xE5, 0x5D], [0x30, 0xE5],
            [0x31, 0x65, 0x31, 0xE5], [0xEF, 0xBB, 0xBF], [0xFF, 0xFE, 0x5B, 0x00, 0x5D, 0x00],
            [0x22, 0x80, 0x22], [0x22, 0x61, 0x61, 0x61, 0x61, 0x61, 0x61, 0x61, 0xFF, 0x61, 0x61, 0x22],
        ] as [[UInt8]])
    func noUTF8(bytes: [UInt8]) {
        #expect(Parsed(bytes) == .malformed)
        #expect(!skips(bytes))
    }

    /// JSON that cannot be stored, or that parsers read differently.
    @Test(
        arguments: [
            ("[123.456e-789]", .data(#"{"0":0}"#), "underflow is zero"),
            (
                "[0.4e00669999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999969999999006]",
                .invalid(.numberOutOfRange), "a huge exponent"
            ),
            (
                "[0.4e-00669999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999969999999006]",
                .data(#"{"0":0}"#), "a huge negative exponent"
            ),
            (
                "[0e00669999999999999999999999999999999999999999999999999]", .data(#"{"0":0}"#),
                "zero, whatever the exponent"
            ),
            ("[-1e+9999]", .invalid(.numberOutOfRange), "overflow"),
            ("[1.5e+9999]", .invalid(.numberOutOfRange), "overflow"),
            ("[1e400]", .invalid(.numberOutOfRange), "overflow"),
            (
                "[-123123123123123123123123123123]", .data(#"{"0":-1.2312312312312312e+29}"#),
                "too big an integer is a double"
            ),
            ("[100000000000000000000]", .data(#"{"0":1e+20}"#), "too big an integer is a double"),
            (
                "[-237462374673276894279832749832423479823246327846]",
                .data(#"{"0":-2.374623746732769e+47}"#), "too big an integer is a double"
            ),
            (#"{"\uDFAA":0}"#, .invalid(.loneSurrogate), "a lone low surrogate in a key"),
            (#"["\uDADA"]"#, .invalid(.loneSurrogate), "a lone high surrogate"),
            (#"["\uD888\u1234"]"#, .invalid(.loneSurrogate), "a high surrogate and no low one"),
            (#"["\uD800\n"]"#, .invalid(.loneSurrogate), "an escape behind it"),
            (#"["\uDd1ea"]"#, .invalid(.loneSurrogate), "a low surrogate and text"),
            (#"["\uD800\uD800\n"]"#, .invalid(.loneSurrogate), "two high ones"),
            (#"["\ud800"]"#, .invalid(.loneSurrogate), "a lone high surrogate"),
            (#"["\ud800abc"]"#, .invalid(.loneSurrogate), "and text"),
            (#"["\uDd1e\uD834"]"#, .invalid(.loneSurrogate), "the wrong way round"),
            (#"["\uDFAA"]"#, .invalid(.loneSurrogate), "a lone low one"),
            (#"{"":0}"#, .invalid(.key("")), "JSON allows an empty name, we do not"),
            (#"{"foo\u0000bar": 42}"#, .invalid(.key("foo\0bar")), "a NUL in a key"),
            (#"{"foo\u007fbar": 42}"#, .invalid(.key("foo\u{7F}bar")), "a DEL in a key"),
        ] as [(String, Parsed, String)])
    func implementation(text: String, parsed: Parsed, reason: String) {
        #expect(Parsed(text) == parsed, "\(reason)")
        #expect(skips(Array(text.utf8)), "\(reason)")
    }
}

@Suite struct JSONNesting {
    static func nested(_ open: String, _ inner: String, _ close: String, _ count: Int) -> String {
        String(repeating: open, count: count) + inner + String(repeating: close, count: count)
    }

    @Test(arguments: [
        ("[", "", "]"), ("[", "1", "]"), (#"{"a":"#, "1", "}"), (#"[{"a":"#, "[]", "}]"),
        (#"{".value":"#, "[]", "}"), (#"{".x":[],"a":"#, "1", "}"),
    ])
    func limit(open: String, inner: String, close: String) {
        let opened = open.utf8.filter { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }.count
        let extra = inner == "[]" ? 1 : 0
        let most = (1024 - extra) / (open == #"{".x":[],"a":"# ? 1 : opened)
        let fits = Self.nested(open, inner, close, most)
        if open == #"{".value":"# {
            // The object that `.value` may not be is skipped, to the same depth.
            #expect(Parsed(fits) == .invalid(.value))
        } else if open == #"{".x":[],"a":"# {
            #expect(Parsed(Self.nested(open, inner, close, 1023)) == .invalid(.key(".x")))
        } else {
            #expect(Parsed(fits) != .tooDeep && Parsed(fits) != .malformed)
            #expect(skips(Array(fits.utf8)))
            #expect(Parsed(Self.nested(open, inner, close, most + 1)) == .tooDeep)
            #expect(!skips(Array(Self.nested(open, inner, close, most + 1).utf8)))
        }
    }

    @Test(arguments: [
        "[", #"{"a":"#, #"[{"a":"#, #"{".value":"#, #"{".priority":["#, #"{".sv":{"x":"#, "[[],", "[1,",
    ])
    func millionBracketsAreRefused(open: String) {
        let text = Array(String(repeating: open, count: 1_000_000).utf8)
        #expect(Parsed(text) == .tooDeep)
        #expect(!skips(text))
    }

    @Test func siblingsDoNotAddDepth() {
        #expect(Parsed("[" + String(repeating: "[[]],", count: 5000) + "1]") == .data(#"{"5000":1}"#))
    }

    @Test func storedDataIsAsDeepAsThePathLimit() throws {
        let fits = Self.nested(#"{"a":"#, "1", "}", Limits.pathDepth)
        #expect(try node(fits).description == fits)
        #expect(throws: InvalidData.tooDeep) {
            try node(Self.nested(#"{"a":"#, "1", "}", Limits.pathDepth + 1))
        }
    }
}

@Suite struct JSONRobustness {
    static let text =
        #"{"a":[1,-2.5e3,true,false,null,"x\u00e9\ud83d\ude00\n"],"b":{".value":"v",".priority":"p"},"c":{".sv":"timestamp"},"d":{".sv":{"increment":1}},"é🐵":{"1":{"2":{"3":"deep"}}}, "z" : "0123456789abcdef\t" }"#

    @Test func truncatedAtEveryByte() {
        let bytes = Array(Self.text.utf8)
        #expect(Parsed(bytes) != .malformed)
        for end in 0..<bytes.count { #expect(Parsed(Array(bytes[..<end])) == .malformed, "cut at \(end)") }
        for end in 0..<bytes.count { #expect(!skips(Array(bytes[..<end]))) }
    }

    /// Every byte replaced by every other, removed and doubled: any result is allowed, and both readers
    /// agree.
    @Test func mutations() {
        let bytes = Array(Self.text.utf8)
        for index in bytes.indices {
            for value in UInt8.min...UInt8.max {
                var mutated = bytes
                mutated[index] = value
                let isJSON =
                    switch Parsed(mutated) {
                    case .data, .invalid: true;
                    case .malformed, .tooDeep: false
                    }
                #expect(skips(mutated) == isJSON)
            }
            var removed = bytes
            removed.remove(at: index)
            _ = Parsed(removed)
            _ = Parsed(Array(bytes[...index] + bytes[index...]))
        }
    }

    @Test(arguments: 0..<10) func randomBytesNeverTrap(seed: Int) {
        var generator = SeededGenerator(seed: seed)
        let alphabet = Array(#"{}[]",:\u0dDeE+-.19tfn "svalue\#u{E9}"#.utf8)
        for _ in 0..<3000 {
            let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ in generator.pick(alphabet) }
            let isJSON =
                switch Parsed(bytes) {
                case .data, .invalid: true;
                case .malformed, .tooDeep: false
                }
            #expect(skips(bytes) == isJSON, "\(bytes)")
        }
    }

    /// A quote, an escape, a control character and a letter beyond ASCII at every offset from the eight-byte
    /// steps.
    @Test func stringsAtEveryAlignment() {
        for length in 0..<40 {
            for place in 0...length {
                let (before, after) = (
                    String(repeating: "a", count: place), String(repeating: "b", count: length - place)
                )
                for (written, read) in [
                    ("\\n", "\n"), ("é", "é"), ("\\u00e9", "é"), ("\\\\", "\\"), ("🐵", "🐵"),
                ] {
                    let text = "\"\(before)\(written)\(after)\""
                    var printed: [UInt8] = []
                    printed.append(json: Text(before + read + after))
                    #expect(Parsed(text) == .data(String(decoding: printed, as: UTF8.self)))
                    #expect(Parsed(text + "        ") == .data(String(decoding: printed, as: UTF8.self)))
                }
                for control in UInt8(0)..<0x20 {
                    #expect(
                        Parsed(Array("\"\(before)".utf8) + [control] + Array("\(after)\"        ".utf8))
                            == .malformed)
                }
            }
        }
    }

    @Test func everyEscapeOfOneUnit() {
        for unit in UInt32(0)...0xFFFF {
            let digits = String(unit, radix: 16)
            let text = "\"\\u" + String(repeating: "0", count: 4 - digits.count) + digits + "\""
            if let scalar = Unicode.Scalar(unit) {
                guard case .data(let printed) = Parsed(text) else {
                    Issue.record("\(text)")
                    continue
                }
                #expect(Parsed(printed) == .data(printed))
                var expected: [UInt8] = []
                expected.append(json: Text(String(Character(scalar))))
                #expect(printed.utf8.elementsEqual(expected))
            } else {
                #expect(Parsed(text) == .invalid(.loneSurrogate))
            }
        }
    }
}

/// A text's memory is bounded while it is read: nodes have few bytes of text and many of memory.
@Test(
    arguments: [
        ("1", 0, true, "the root is its caller's"),
        ("[0,0,0]", 3, true, "as many as may"),
        ("[0,0,0,0]", 3, false, "one more"),
        ("[[0],[0]]", 3, false, "arrays are nodes too"),
        ("[null,null,null,null,0]", 1, true, "nulls of an array are nothing"),
        (#"{"a":{"b":{"c":1}}}"#, 2, false, "depth counts"),
        (#"{"a":null,"b":null}"#, 1, false, "names are kept until the object closes"),
        (#"{"a":{".value":1,".priority":2}}"#, 1, false, "a priority has a box of its own"),
        (#"{"a":{"b":{".sv":"timestamp"}}}"#, 3, false, "a placeholder keeps its path"),
        (#"{"a":{"b":{".sv":"timestamp"}}}"#, 4, true, "and no more"),
    ] as [(String, Int, Bool, String)])
func nodeLimit(text: String, limit: Int, isRead: Bool, because: String) {
    let bytes = Array(text.utf8)
    let wasRead = withCursor(over: bytes.rawSpan) { cursor in
        var parser = DraftParser(JSONReader(cursor), nodeLimit: limit)
        do throws(MalformedJSON) {
            _ = try parser.readDraft()
            return true
        } catch {
            if case .tooManyNodes = error { return false }
            Issue.record("\(error)")
            return false
        }
    }
    #expect(wasRead == isRead, "\(because)")
}
