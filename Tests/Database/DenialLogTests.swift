import PandoRules
import Testing

@testable import PandoDatabase

@Suite("denials that are kept") struct DenialLogTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("the latest are listed, the newest first, and all are counted")
    func latest() {
        var kept = DenialLog.Kept()
        #expect(text(kept.json) == #"{"count":0,"denials":[]}"#)
        let last = DenialLog.keptCount + 2
        for number in 1...last {
            kept.count += 1
            kept.add(Array("\(number)".utf8))
        }
        let numbers = (3...last).reversed().map { "\($0)" }.joined(separator: ",")
        #expect(text(kept.json) == #"{"count":\#(last),"denials":[\#(numbers)]}"#)
    }

    @Test("fewer are kept where they are long")
    func long() {
        var kept = DenialLog.Kept()
        let zeros = String(repeating: "0", count: DenialLog.keptByteLimit / 10 - 2)
        for number in 10...35 { kept.add(Array("\(number)\(zeros)".utf8)) }
        #expect(kept.json.count < DenialLog.keptByteLimit + 100)
        let numbers = (26...35).reversed().map { "\($0)\(zeros)" }.joined(separator: ",")
        #expect(text(kept.json) == #"{"count":0,"denials":[\#(numbers)]}"#)
        for number in 1...DenialLog.keptCount { kept.add(Array("\(number)".utf8)) }
        #expect(kept.json.count < 10 * DenialLog.keptCount, "the long ones are forgotten")
    }

    @Test("a denied request is explained and printed at once")
    func printed() throws {
        let bench = try Bench(directory: nil)
        let rules = #"{"rules":{".read":"auth != null"}}"#
        bench.process([Bench.open(1), .rules(["demo": try Ruleset(loading: Array(rules.utf8))])])
        bench.process([try Bench.request(1, #"{"t":"d","d":{"r":1,"a":"g","b":{"p":"/a"}}}"#)])
        let processor = bench.host.processor
        let database = try #require(try processor.database(named: "demo"))
        let json = text(processor.denials.json(of: database))
        #expect(json.hasPrefix(#"{"count":1,"denials":[{"time":"#))
        #expect(json.contains(#","uid":null,"denial":{"operation":"read","path":"/a","cause":"notGranted","#))
        #expect(json.hasSuffix(#""values":[{"expression":"auth","value":"null"}]}]}}]}"#))
    }
}
