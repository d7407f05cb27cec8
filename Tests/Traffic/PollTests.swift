import PandoBytes
import PandoTraffic
import Testing

/// Long polling: what a page sends, and what it reads (realtime §1.5).
@Suite struct PollTests {
    private func data(_ segments: inout PollSegments) -> String {
        var output: [UInt8] = []
        segments.appendURLData(to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    @Test func workedExample() {
        var segments = PollSegments()
        let message = Array(#"{"t":"d","d":{"r":1,"a":"s","b":{"c":{"sdk.js.12-18-0":1}}}}"#.utf8)
        segments.append(message.rawSpan)
        let text = "eyJ0IjoiZCIsImQiOnsiciI6MSwiYSI6InMiLCJiIjp7ImMiOnsic2RrLmpzLjEyLTE4LTAiOjF9fX19"
        let first = data(&segments)
        #expect(first == "&seg0=0&ts0=1&d0=\(text)")
        #expect(segments.isEmpty)
        let last = Array(#"{"t":"c","d":{"t":"n","d":{}}}"#.utf8)
        segments.append(last.rawSpan)
        let second = data(&segments)
        #expect(second == "&seg0=1&ts0=1&d0=eyJ0IjoiYyIsImQiOnsidCI6Im4iLCJkIjp7fX19")
    }

    @Test(arguments: [0, 1, 2, 3, 1378, 1379, 1380, 1381, 2760, 5000])
    func segmentsFitURLsAndJoinToTheMessage(byteCount: Int) throws {
        var segments = PollSegments()
        let message = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        segments.append(message.rawSpan)
        segments.append(message.rawSpan)
        var pieces: [String] = []
        var numbers: [Int] = []
        var requests = 0
        while !segments.isEmpty, requests < 100 {
            requests += 1
            let url = data(&segments)
            // The header of the last segment may be longer than it is reckoned at.
            #expect(url.utf8.count <= PollSegments.urlByteLimit + PollSegments.headerByteCount)
            for part in url.split(separator: "&") {
                let (name, value) = (part.prefix { $0 != "=" }, part.drop { $0 != "=" }.dropFirst())
                if name.hasPrefix("seg") { numbers.append(try #require(Int(value))) }
                if name.hasPrefix("d") { pieces.append(String(value)) }
            }
        }
        #expect(segments.isEmpty && numbers == Array(0..<numbers.count) && pieces.count == numbers.count)
        #expect(pieces.allSatisfy { $0.utf8.count <= PollSegments.pieceByteLimit })
        let text = pieces.prefix(pieces.count / 2).joined().filter { $0 != "." }
        let decoded = decodeBase64(Array(text.utf8).rawSpan, alphabet: .urlSafe)
        #expect(decoded == message)
    }

    /// A call, with its messages as text.
    private func calls(_ script: String) throws -> [String] {
        let bytes = Array(script.utf8)
        return try PollScript.calls(bytes.rawSpan).map { call in
            switch call {
            case .start(let id, let password): "start \(id) \(password)"
            case .close(let number): "close \(number.map(String.init) ?? "now")"
            case .messages(let number, let ranges):
                "\(number): "
                    + ranges.map { String(decoding: bytes[$0], as: UTF8.self) }.joined(separator: " ")
            }
        }
    }

    @Test(
        arguments: [
            ("", []),
            ("pRTLPCB(3,[]);", ["3: "]),
            ("pRTLPCB( 3 , [ {} , {\"a\":1} ] ) ;\n", ["3: {} {\"a\":1}"]),
            (#"pRTLPCB(12,[{"a":"}]);\"{"}]);"#, [#"12: {"a":"}]);\"{"}"#]),
            ("pLPCommand('close');", ["close now"]),
            ("pLPCommand(\"close\", 7);", ["close 7"]),
            ("pRTLPCB(7,[{}]);pLPCommand('close',7);", ["7: {}", "close 7"]),
            (
                """
                function pLPCommand(c, a, b) { var f = parent.window["pLPCommand7"]; if (f) { f(c, a, b); } }
                function pRTLPCB(n, msgs) { var f = parent.window['pRTLPCB}7']; if (f) f(n, msgs); }
                pLPCommand('start', '5124373', 'k2Jd83hf0Q');
                pRTLPCB(0, [{"t":"c","d":{"t":"h","d":{"s":"x"}}}]);
                """, ["start 5124373 k2Jd83hf0Q", #"0: {"t":"c","d":{"t":"h","d":{"s":"x"}}}"#]
            ),
        ] as [(String, [String])])
    func scripts(script: String, expected: [String]) throws {
        let found = try calls(script)
        #expect(found == expected)
        // Cut anywhere it traps nowhere.
        for count in 0..<script.utf8.count {
            let beginning = Array(script.utf8.prefix(count))
            _ = try? PollScript.calls(beginning.rawSpan)
        }
    }

    @Test(arguments: [
        "alert(1);", "pRTLPCB(1,[", "pRTLPCB(1,[{]);", "pRTLPCB(,[]);", "pRTLPCB(1,[1]);",
        "pLPCommand('start','1');",
        "pLPCommand('open');", "pLPCommand('close", "function pLPCommand() {", "<html>",
        "pRTLPCB(99999999999999999999,[]);",
    ])
    func malformedScriptIsRefused(script: String) {
        #expect(throws: MalformedPollScript.self) { _ = try calls(script) }
    }
}
