import PandoBytes
import PandoEngine
import PandoJournal
import PandoRules
import PandoTree
import Testing

@testable import PandoStorage

/// Recovery from the records of a snapshot makes the state that it was taken of.
@Suite struct SnapshotTests {
    @Test func roundTrip() throws {
        var state = RecoveredState(access: .locked)
        func replay(_ kind: RecordKind, _ namespace: UInt32, _ payload: [UInt8]) throws {
            try state.replay(kind, namespace: namespace, time: 77, payload: payload.rawSpan)
        }
        try replay(.namespaceMade, 2, Array("two".utf8))
        try replay(.namespaceMade, 3, Array("three".utf8))
        try replay(.namespaceMade, 4, Array("four".utf8))
        try replay(.namespaceDeleted, 4, [])
        try replay(.rules, 2, Array(#"{"rules":{".read":true}}"#.utf8))
        try replay(
            .settings, 2, RecoveredState.settingPayload("defaultWriteSizeLimit", Array(#""small""#.utf8)))
        try replay(.settings, 2, RecoveredState.settingPayload("strictTriggerValidation", Array("true".utf8)))
        let change = Change(path: "a/b", node: try Node(json: Array(#"{"x":1,".priority":2}"#.utf8).rawSpan))
        try replay(.delta, 1, EngineRecord.delta([change]).payload)
        try replay(.delta, 3, EngineRecord.delta([Change(path: .root, node: .string("leaf"))]).payload)
        let session = Command(
            session: SessionID(1), credential: .admin, time: 1,
            operation: .onDisconnect([Write(Target("on"), Draft(.boolean(false)))]))
        let delta = try #require(state.databases[1]).engine.decide(session)
        for record in delta.records(hadQueue: false) {
            try replay(record.kind.journalKind, 1, record.payload)
        }

        var other = RecoveredState(access: .locked)
        try state.snapshot.forEachRecord { kind, namespace, payload in
            try other.replay(kind, namespace: namespace, time: state.lastTime, payload: payload.rawSpan)
        }
        #expect(other.namespaceNames == ["default", "three", "two"])
        #expect(other.nextNamespace == 5, "the number of the deleted one is never used again")
        #expect(other.lastTime == 77)
        for id: UInt32 in 1...3 {
            let (one, two) = (try #require(state.databases[id]), try #require(other.databases[id]))
            #expect(one.engine.root == two.engine.root && one.settings == two.settings)
            #expect(one.engine.queueRecords.map(\.payload) == two.engine.queueRecords.map(\.payload))
        }
        guard case .loaded(let rules) = try #require(other.databases[2]).engine.access else {
            Issue.record("the rules are gone")
            return
        }
        #expect(rules.source.bytes == Array(#"{"rules":{".read":true}}"#.utf8))
        #expect(other.databases[1]?.engine.sessionsWithQueue.count == 1)
    }
}
