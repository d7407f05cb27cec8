import PandoBytes
import PandoDatabase
import PandoEngine
import PandoHTTP
import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections

private func request(_ query: String) throws(LongPollingRequest.Malformed) -> LongPollingRequest {
    let query = QueryString(Array(query.utf8)[...], plusIsSpace: false)
    let request = try LongPollingRequest(query)
    if case .poll = request { _ = try LongPollingRequest.segments(query) }
    return request
}

@Suite struct LongPollingRequestTests {
    private static let address = LongPollingRequest.Address(
        id: SessionID(5_124_373), password: Array("k2Jd83hf0Q".utf8))

    @Test(
        arguments: [
            (
                "start=t&ser=48190213&cb=7&v=5&ns=demo",
                .start(.init(callback: Array("7".utf8), namespace: "demo", previousSession: nil))
            ),
            (
                "v=5&ls=SID1&ns=&start=t",
                .start(.init(callback: [], namespace: nil, previousSession: "SID1"))
            ),
            ("id=5124373&pw=k2Jd83hf0Q&ser=48190214", .poll(.init(address: address, serial: 48_190_214))),
            (
                "pw=k2Jd83hf0Q&id=5124373&ser=1&ns=demo&seg0=3&ts0=2&d0=eyJ0&seg1=4&ts1=2&d1=Ijox.&d2=ignored",
                .poll(.init(address: address, serial: 1))
            ),
            ("dframe=t&id=5124373&pw=k2Jd83hf0Q", .disconnectPage(address)),
            ("disconn=t&id=5124373&pw=k2Jd83hf0Q", .disconnect(address)),
        ] as [(String, LongPollingRequest)])
    func reads(query: String, expected: LongPollingRequest) throws {
        #expect(try request(query) == expected)
    }

    @Test(
        arguments: [
            ("seg0=3&ts0=2&d0=eyJ0&seg1=4&ts1=2&d1=Ijox.&d2=ignored", [(3, 2, "eyJ0"), (4, 2, "Ijox.")]),
            ("", []),
            ("d1=b&ts1=1&seg1=6&d0=a&ts0=1&seg0=5", [(5, 1, "a"), (6, 1, "b")]),
            ("seg0=1&ts0=1&d0=a&seg0=2&ts0=2&d0=b", [(1, 1, "a")]),
            ("seg00=9&seg0=1&d00=x&d0=a&ts0=1", [(1, 1, "a")]),
            ("seg1=1&ts1=1&d1=behind-a-gap", []),
            ("seg0=1&ts0=1&d0&dframe1=x&disconn0=x&seg129=1&seg99999999999999999999=1", [(1, 1, "")]),
            ("seg=1&ts=1&d=a&segx=1&SEG0=1&s=1", []),
        ] as [(String, [(Int, Int, String)])])
    func readsSegments(query: String, expected: [(Int, Int, String)]) throws {
        let segments = try LongPollingRequest.segments(
            QueryString(Array(query.utf8)[...], plusIsSpace: false))
        #expect(segments == expected.map { .init(number: $0.0, total: $0.1, text: Array($0.2.utf8)) })
    }

    @Test func queriesOfManyPairsAreRefused() {
        let pairs = (0..<10_000).map { "x\($0)=1" }.joined(separator: "&")
        #expect(throws: LongPollingRequest.Malformed.self) {
            try request("id=1&pw=aaaaaaaaaa&ser=1&" + pairs)
        }
    }

    @Test(arguments: [
        // query                                           parameter  because
        ("", "id", "nothing at all"),
        ("id=1&ser=1", "pw", "no password"),
        ("pw=aaaaaaaaaa&ser=1", "id", "no id"),
        ("id=1&pw=aaaaaaaaaa", "ser", "no serial"),
        ("id=1&pw=aaaaaaaaaa&ser=1&seg0=0&d0=", "ts0", "no total"),
        ("id=1&pw=aaaaaaaaaa&ser=1&seg0=0&ts0=0&d0=", "ts0", "a message of no segments"),
        ("id=1&pw=aaaaaaaaaa&ser=1&seg0=0&ts0=1", "d0", "no data"),
        ("id=1&pw=aaaaaaaaaa&ser=1&seg0=-1&ts0=1&d0=", "seg0", "before the first"),
        ("id=1&pw=aaaaaaaaaa&ser=1&seg0=281474976710656&ts0=1&d0=", "seg0", "further than any client counts"),
        ("start=t&cb=1'", "cb", "goes into a script"),
        ("start=t&cb=123456789012345678901", "cb", "too long"),
        ("disconn=t&id=1", "pw", "no password"),
    ])
    func refuses(query: String, parameter: String, because: String) {
        #expect(throws: LongPollingRequest.Malformed(parameter: parameter), "\(because)") {
            try request(query)
        }
    }

    /// They are answered as those of a session that is over (realtime §1.5.3).
    @Test(arguments: [
        // id                    pw             because
        ("1", "aaaaaaaaa", "nine characters"),
        ("1", "aaaaaaaaaaa", "eleven characters"),
        ("1", "", "no characters"),
        ("1", "aaaaaaaaa'", "goes into a page"),
        ("1", "aaaaaaaa%C3%A4", "ten bytes, not all letters of ASCII"),
        ("+1", "aaaaaaaaaa", "a sign"),
        ("-1", "aaaaaaaaaa", "a sign"),
        ("", "aaaaaaaaaa", "empty"),
        ("x", "aaaaaaaaaa", "no number"),
        ("18446744073709551616", "aaaaaaaaaa", "one too large"),
    ])
    func namesNoSession(id: String, password: String, because: String) throws {
        let address = "id=\(id)&pw=\(password)"
        #expect(try request(address + "&ser=1") == .ofNoSession(.poll), "\(because)")
        #expect(try request(address) == .ofNoSession(.poll), "the serial means nothing then")
        #expect(try request("disconn=t&" + address) == .ofNoSession(.disconnect), "\(because)")
        #expect(try request("dframe=t&" + address) == .ofNoSession(.disconnectPage), "\(because)")
    }

    @Test func moreSegmentsThanARequestHoldsAreRefused() {
        var query = "id=1&pw=aaaaaaaaaa&ser=1"
        for index in 0...LongPollingRequest.segmentLimit {
            query += "&seg\(index)=\(index)&ts\(index)=1&d\(index)="
        }
        #expect(throws: LongPollingRequest.Malformed.self) { try request(query) }
    }

    @Test func passwordsAreLettersAndDigitsAndDiffer() {
        var random = SeededGenerator(seed: 10)
        let passwords = (0..<100).map { _ in LongPollingPassword.make(using: &random) }
        #expect(passwords.allSatisfy { $0.count == 10 && $0.allSatisfy(LongPollingPassword.isCharacter) })
        #expect(Set(passwords).count == 100)
        #expect(Set(passwords.joined()).count > 50, "of 62 characters")
    }

    @Test(arguments: [
        ("aaaaaaaaaa", true), ("aaaaaaaaab", false), ("baaaaaaaaa", false), ("aaaaaaaaa", false), ("", false),
    ])
    func passwordsAreCompared(other: String, isEqual: Bool) {
        #expect(LongPollingPassword.areEqual(Array("aaaaaaaaaa".utf8), Array(other.utf8)) == isEqual)
    }
}

@Suite struct JSONPTests {
    @Test func firstPageDefinesTheFunctionsOfLaterOnes() {
        var script: [UInt8] = []
        script.append(startScript: Array("7".utf8), id: 5_124_373, password: Array("k2Jd83hf0Q".utf8))
        #expect(
            String(decoding: script, as: UTF8.self) == """
                function pLPCommand(c,a,b){var f=parent.window["pLPCommand7"];if(f)f(c,a,b);}
                function pRTLPCB(n,m){var f=parent.window["pRTLPCB7"];if(f)f(n,m);}
                pLPCommand('start','5124373','k2Jd83hf0Q');

                """)
    }

    @Test func responses() {
        var script: [UInt8] = []
        script.append(responseBegin: 3)
        script.appendResponseEnd()
        #expect(String(decoding: script, as: UTF8.self) == "pRTLPCB(3,[]);\n")
    }

    @Test(arguments: [
        (nil, "pLPCommand('close');\n"), (0, "pLPCommand('close');\n"), (12, "pLPCommand('close',12);\n"),
    ])
    func ends(number: Int?, expected: String) {
        var script: [UInt8] = []
        script.append(closeCommand: number)
        #expect(String(decoding: script, as: UTF8.self) == expected)
    }

    @Test(arguments: [
        ("", ""), ("a", "a"), ("\u{2028}", "\\u2028"), ("a\u{2028}\u{2029}b", "a\\u2028\\u2029b"),
        ("\u{2027}\u{202A}", "\u{2027}\u{202A}"), ("€\u{2028}", "€\\u2028"), ("\u{2029}😀", "\\u2029😀"),
    ])
    func lineSeparatorsAreEscaped(text: String, expected: String) {
        var script: [UInt8] = []
        var escaper = ScriptEscaper()
        escaper.escape(Array(text.utf8).rawSpan, into: &script)
        #expect(String(decoding: script, as: UTF8.self) == expected)
    }

    /// Ordinary bytes are copied many at a time: the result is that of one character after the other.
    @Test(arguments: 0..<100 as Range<UInt64>)
    func runsOfOrdinaryBytesAreCopied(seed: UInt64) {
        let texts = [
            "\"", "_", "\\", "__proto__", "\"__proto__\":", "\\\"__proto__\":", "\u{2028}", "\u{2029}", "…",
            "€", "\u{E2}",
            "a", "0123456789abcdef",
        ]
        var random = SeededGenerator(seed: seed)
        let text = (0..<200).map { _ in texts.randomElement(using: &random) ?? "" }.joined()
        var (whole, parts): ([UInt8], [UInt8]) = ([], [])
        var escaper = ScriptEscaper()
        escaper.escape(Array(text.utf8).rawSpan, into: &whole)
        escaper = ScriptEscaper()
        for scalar in text.unicodeScalars { escaper.escape(Array(String(scalar).utf8).rawSpan, into: &parts) }
        // Of texts so long only the outcome is shown.
        let isEqual = whole == parts
        #expect(isEqual && whole.count > text.utf8.count, "seed \(seed)")
    }

    /// Cut into any two parts, and into bytes.
    @Test(arguments: [
        (#"{"__proto__":1}"#, #"{["__proto__"]:1}"#),
        (
            #"{"a":{"__proto__":{"__proto__":null}},"b":0}"#,
            #"{"a":{["__proto__"]:{["__proto__"]:null}},"b":0}"#
        ),
        (#"{"a":"__proto__","b":["__proto__"]}"#, #"{"a":"__proto__","b":["__proto__"]}"#),
        (#"{"\"__proto__":1}"#, #"{"\"__proto__":1}"#),
        (#"{"a":"\"__proto__\":"}"#, #"{"a":"\"__proto__\":"}"#),
        (#"{"a":"\\","__proto__":1}"#, #"{"a":"\\",["__proto__"]:1}"#),
        (
            #"{"":"","__proto":1,"___proto__":1,"__proto__x":1}"#,
            #"{"":"","__proto":1,"___proto__":1,"__proto__x":1}"#
        ),
    ])
    func aMemberDoesNotSetThePrototype(text: String, expected: String) {
        let bytes = Array(text.utf8)
        func escaped(_ parts: [ArraySlice<UInt8>]) -> String {
            var answers = PollResponses()
            for part in parts { answers.append(Array(part).rawSpan) }
            answers.endMessage()
            let byteCount = answers.pendingByteCount
            let script = answers.answer(serial: 1, asked: MonotonicTime(nanoseconds: 0)).scripts[0].array
            #expect(byteCount == expected.utf8.count)
            return String(decoding: script, as: UTF8.self)
        }
        for cut in bytes.indices {
            #expect(escaped([bytes[..<cut], bytes[cut...]]) == "pRTLPCB(0,[\(expected)]);\n")
        }
        #expect(escaped(bytes.indices.map { bytes[$0...$0] }) == "pRTLPCB(0,[\(expected)]);\n")
    }
}
