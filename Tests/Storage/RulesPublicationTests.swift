import PandoBytes
import PandoEngine
import PandoRules
import Testing

@testable import PandoStorage

@Suite struct RulesPublicationTests {
    @Test(arguments: [
        ("", "", #"{"rules":{}}"#), ("ann", "k1", #"{"rules":{".read":true}}"#), ("ünïcode 😀", "", ""),
        ("", "only the key", "// no rules"),
    ])
    func roundTrip(uid: String, keyID: String, source: String) throws {
        let publication = RulesPublication(uid: uid, keyID: keyID, source: Array(source.utf8))
        #expect(try RulesPublication(reading: publication.payload.rawSpan) == publication)
    }

    @Test func longNamesAreCut() throws {
        let name = String(repeating: "x", count: RulesPublication.nameByteLimit + 1)
        let payload = RulesPublication(uid: name, keyID: "é" + name, source: [1, 2]).payload
        let read = try RulesPublication(reading: payload.rawSpan)
        #expect(read.uid.utf8.count == RulesPublication.nameByteLimit)
        #expect(read.keyID.hasPrefix("é") && read.keyID.utf8.count == RulesPublication.nameByteLimit)
        let accents = "x" + String(repeating: "é", count: RulesPublication.nameByteLimit / 2)
        let whole = try RulesPublication(
            reading: RulesPublication(uid: accents, keyID: "", source: []).payload.rawSpan)
        #expect(whole.uid == String(accents.dropLast()), "no half of a character")
        #expect(read.source == [1, 2])
    }

    @Test(
        arguments: [
            [], [0], [1], [0, 1], [2, 97, 0], [0xff],
            [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] as [[UInt8]])
    func otherBytesAreRefused(payload: [UInt8]) {
        #expect(throws: UnreadableRecord.self) { try RulesPublication(reading: payload.rawSpan) }
    }

    /// A record of published rules puts them in force, and its source alone goes into checkpoints.
    @Test func replayed() throws {
        var state = RecoveredState(access: .locked)
        let source = Array(#"{"rules":{".read":true}}"#.utf8)
        let publication = RulesPublication(uid: "ann", keyID: "k1", source: source)
        try state.replay(.publishedRules, namespace: 1, time: 5, payload: publication.payload.rawSpan)
        guard case .loaded(let rules)? = state.databases[1]?.storedAccess else {
            Issue.record("no rules are in force")
            return
        }
        #expect(rules.source.bytes == source)
        var kinds: [String] = []
        state.snapshot.forEachRecord { kind, _, payload in
            if kind == .rules { kinds.append(String(decoding: payload, as: UTF8.self)) }
        }
        #expect(kinds == [String(decoding: source, as: UTF8.self)])
    }
}
