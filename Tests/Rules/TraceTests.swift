import PandoBytes
import PandoRandom
import PandoTree
import Testing

@testable import PandoRules

private let document = #"""
    {
      "rooms": {
        "$room": {
          ".read": "auth.uid == 'ann'",
          ".write": "auth != null",
          "text": { ".validate": "newData.isString()" },
          "size": { ".validate": "newData.val() < 3" }
        }
      },
      "fails": { ".read": "data.val().length > 1" }
    }
    """#

private let ann = Credential(authVariable: #"{"uid":"ann"}"#)

/// Cause, then for each rule its kind, node, outcome and `!` where it decides.
private func outline(_ trace: RuleTrace) -> String {
    "\(trace.cause.rawValue) "
        + trace.steps.map {
            "\($0.rule.kind.rawValue)\($0.rule.rule)=\($0.outcome.map { "\($0)" } ?? "error")\($0.decides ? "!" : "")"
        }.joined(separator: " ")
}

@Suite struct TraceTests {
    static let readCases: [(Credential, Path, String)] = [
        (.admin, "/rooms/r", "administrator "),
        (ann, "/rooms/r/text", "granted .read/rooms/$room=true!"),
        (.anonymous, "/rooms/r", "notGranted .read/rooms/$room=false!"),
        (.anonymous, "/other", "noRule "),
        (.anonymous, "/fails", "notGranted .read/fails=error!"),
    ]

    @Test(arguments: 0..<readCases.count)
    func reads(index: Int) throws {
        let (credential, path, expected) = Self.readCases[index]
        let access = Access.loaded(try rules(document))
        #expect(
            outline(access.traceRead(at: path, query: nil, in: scope(credential, root: .empty))) == expected)
    }

    static let writeCases: [(Credential, String, String)] = [
        (
            ann, #"{"text":"t","size":1}"#,
            "granted .write/rooms/$room=true! .validate/rooms/$room/size=true! .validate/rooms/$room/text=true!"
        ),
        (
            ann, #"{"text":1,"size":1}"#,
            "invalid .write/rooms/$room=true .validate/rooms/$room/size=true .validate/rooms/$room/text=false!"
        ),
        (ann, "null", "granted .write/rooms/$room=true!"),
        (.anonymous, "1", "notGranted .write/rooms/$room=false!"),
    ]

    @Test(arguments: 0..<writeCases.count)
    func writes(index: Int) throws {
        let (credential, json, expected) = Self.writeCases[index]
        let access = Access.loaded(try rules(document))
        let after = try data("{\"rooms\":{\"r\":\(json)}}")
        let trace = access.traceWrite(at: "/rooms/r", after: after, in: scope(credential, root: .empty))
        #expect(outline(trace) == expected)
    }

    @Test func withoutRules() {
        let scope = scope(.anonymous, root: .empty)
        #expect(Access.locked.traceRead(at: "a", query: nil, in: scope).cause == .locked)
        #expect(Access.open.traceWrite(at: "a", after: .empty, in: scope).cause == .open)
        #expect(Access.open.traceRead(at: "a", query: nil, in: scope).isAllowed)
        #expect(!Access.locked.traceRead(at: "a", query: nil, in: scope).isAllowed)
    }

    @Test func json() throws {
        let access = Access.loaded(try rules(document))
        let trace = access.traceRead(at: "/rooms/r", query: nil, in: scope(ann, root: .empty))
        #expect(
            String(decoding: trace.json, as: UTF8.self)
                == #"{"allowed":true,"method":"read","path":"/rooms/r","cause":"granted","rules":[{"rule":"/rooms/$room","kind":".read","line":4,"column":16,"location":"/rooms/r","outcome":"true","decides":true,"values":[{"expression":"auth.uid","value":"\"ann\""}]}],"omitted":0}"#
        )
    }

    /// A write to many children evaluates their rule once each; only some of the evaluations are kept.
    @Test func manyTrueRulesAreCounted() throws {
        let access = Access.loaded(
            try rules(#"{".write": true, "$k": {".validate": "newData.val() < 1000"}}"#))
        let children = (0..<500).map { "\"k\($0)\":\($0)" }
        let after = try data("{" + children.joined(separator: ",") + "}")
        let trace = access.traceWrite(at: "", after: after, in: scope(ann, root: .empty))
        #expect(trace.isAllowed && trace.steps.count == RuleTrace.trueStepCount && trace.omittedCount == 301)
        let bad = try data("{" + children.joined(separator: ",") + ",\"z\":1000}")
        let denied = access.traceWrite(at: "", after: bad, in: scope(ann, root: .empty))
        #expect(
            denied.cause == .invalid && denied.steps.filter(\.decides).map { "\($0.rule.location)" } == ["/z"]
        )
    }

    @Test func problemsAsJSON() {
        do {
            _ = try load("{\"rules\":{\".read\":\"auth.uid ==\"}}")
            Issue.record("it loads")
        } catch {
            let json = String(decoding: error.json, as: UTF8.self)
            let problem = error.problems[0]
            #expect(json.hasPrefix("[{\"line\":1,\"column\":\(problem.position.column),\"text\":\""))
        }
    }
}
