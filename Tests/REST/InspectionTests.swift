import PandoBytes
import PandoHTTP
import PandoRandom
import PandoTree
import Testing

@testable import PandoREST

/// Requests for a history and for an evaluation of rules (rest §10.1, §10.2).
@Suite struct InspectionTests {
    static func history(_ query: String) -> Result<HistoryParameters, RESTError> {
        do {
            let request = try request("GET", "/.inspect/history.json?" + query)
            do throws(RESTError) {
                return .success(try HistoryParameters(request, usualLimit: 100, highestLimit: 1000))
            } catch {
                return .failure(error)
            }
        } catch {
            Issue.record("\(error)")
            return .failure(.internalError)
        }
    }

    @Test(
        arguments: [
            ("path=/a/b&at=5", "/a/b", 5, 100, nil), ("path=", "/", nil, 100, nil),
            ("path=a%20b&ns=x", "/a b", nil, 100, nil), ("path=/&limit=1", "/", nil, 1, nil),
            ("path=/&limit=999999999999", "/", nil, 1000, nil),
            ("path=/&before=18&at=0", "/", 0, 100, 18),
            ("path=/&at=9223372036854775807", "/", .max, 100, nil),
        ] as [(String, String, Int64?, Int, UInt64?)])
    func histories(query: String, path: String, time: Int64?, limit: Int, before: UInt64?) throws {
        let found = try Self.history(query).get()
        #expect(found.path.description == path && found.time == time)
        #expect(found.limit == limit && found.before == before)
    }

    @Test func partsOfAHistory() throws {
        #expect(try Self.history("path=/a").get().part == .all)
        #expect(try Self.history("path=/a&part=writes").get().part == .writes)
        let rules = try Self.history("part=rules&limit=5").get()
        #expect(rules.part == .rules && rules.path.description == "/" && rules.limit == 5)
    }

    @Test(
        arguments: [
            ("path=/&part=values", .partMalformed), ("path=/&part=", .partMalformed),
            ("part=writes", .pathMissing),
            ("", .pathMissing), ("path=/a.b", .pathMalformed), ("path=/.priority", .pathMalformed),
            ("path=/\(String(repeating: "a/", count: 40))", .pathMalformed),
            ("path=/&at=", .atMalformed), ("path=/&at=-1", .atMalformed), ("path=/&at=1.5", .atMalformed),
            ("path=/&at=9223372036854775808", .atMalformed), ("path=/&at=now", .atMalformed),
            ("path=/&limit=0", .limitMalformed), ("path=/&limit=x", .limitMalformed),
            ("path=/&limit=%2B1", .limitMalformed),
            ("path=/&before=", .beforeMalformed), ("path=/&before=-3", .beforeMalformed),
        ] as [(String, RESTError.Parameter)])
    func badHistories(query: String, problem: RESTError.Parameter) {
        #expect(Self.history(query) == .failure(.parameter(problem)))
    }

    static func evaluation(_ json: String) -> Result<EvaluationRequest, RESTError> {
        do throws(RESTError) {
            return .success(try EvaluationRequest(reading: Array(json.utf8).rawSpan))
        } catch {
            return .failure(error)
        }
    }

    @Test func evaluations() throws {
        let read = try Self.evaluation(#"{"method":"read","path":"/a","auth":null}"#).get()
        #expect(read.method == .read(nil) && read.identity == .anonymous && read.rules == nil)
        let filtered = try Self.evaluation(
            #"{"query":{"orderBy":"$key","limitToFirst":3,"startAt":"k"},"auth":"admin","path":"a/b","method":"read"}"#
        ).get()
        guard case .read(let query?) = filtered.method else {
            Issue.record("no query")
            return
        }
        #expect(query.order == .key && query.limit?.count == 3 && query.start != nil)
        #expect(filtered.identity == .administrator && filtered.target == Target("a/b"))
        let write = try Self.evaluation(
            #"{"method":"write","path":"/a/.priority","value":{".sv":"timestamp"},"auth":{"uid":"x","n":[1,{}]},"rules":"{\"rules\":{}}"}"#
        ).get()
        #expect(write.identity == .user(#"{"uid":"x","n":[1,{}]}"#))
        #expect(write.rules == Array(#"{"rules":{}}"#.utf8) && write.target.isPriority)
        guard case .write(let draft) = write.method else {
            Issue.record("no write")
            return
        }
        #expect(draft.placeholders.count == 1)
        #expect(
            try Self.evaluation(#"{"method":"write","path":"","value":null}"#).get().method
                == .write(Draft(.empty)))
    }

    @Test(
        arguments: [
            ("", .malformedData), ("[]", .malformedData), ("{", .malformedData), ("{}x", .malformedData),
            ("{}", .parameter(.pathMissing)), (#"{"path":"/a"}"#, .parameter(.methodMalformed)),
            (#"{"path":"/a","method":"drop"}"#, .parameter(.methodMalformed)),
            (#"{"path":7,"method":"read"}"#, .parameter(.pathMalformed)),
            (#"{"path":"/a.b","method":"read"}"#, .parameter(.pathMalformed)),
            (#"{"path":"/.priority","method":"read"}"#, .parameter(.pathMalformed)),
            (#"{"path":"/a","method":"write"}"#, .parameter(.valueMissing)),
            (#"{"path":"/a","method":"write","value":{"a.b":1}}"#, .invalidData(.key("a.b"))),
            (#"{"path":"/a","method":"read","auth":7}"#, .parameter(.authMalformed)),
            (#"{"path":"/a","method":"read","auth":"ann"}"#, .parameter(.authMalformed)),
            (#"{"path":"/a","method":"read","rules":{}}"#, .parameter(.rulesMalformed)),
            (#"{"path":"/a","method":"read","query":[]}"#, .parameter(.queryMalformed)),
            (#"{"path":"/a","method":"read","query":{"order":1}}"#, .parameter(.queryMalformed)),
            (#"{"path":"/a","method":"read","query":{"limitToFirst":1}}"#, .orderByMissing),
            (#"{"path":"/a","method":"read","ns":"x"}"#, .parameter(.unknownMember)),
        ] as [(String, RESTError)])
    func badEvaluations(json: String, problem: RESTError) {
        #expect(Self.evaluation(json) == .failure(problem))
    }

    @Test func largeBodiesAreRefused() {
        let json = "{\"rules\":\"" + String(repeating: "x", count: EvaluationRequest.bodyByteLimit) + "\"}"
        #expect(Self.evaluation(json) == .failure(.payloadTooLarge))
    }

    /// Bytes changed or cut anywhere: read or refused, never a trap.
    @Test func damagedBodies() {
        var random = SeededGenerator(seed: 5)
        let body = Array(
            #"{"method":"write","path":"/a","value":{"b":[1,{".sv":"timestamp"}]},"auth":{"uid":"é"},"query":{"orderBy":"x","equalTo":1},"rules":"{}"}"#
                .utf8)
        for count in body.indices { _ = try? EvaluationRequest(reading: Array(body[..<count]).rawSpan) }
        for _ in 0..<20_000 {
            var changed = body
            changed[.random(in: body.indices, using: &random)] = .random(in: 0...255, using: &random)
            _ = try? EvaluationRequest(reading: changed.rawSpan)
        }
    }

    @Test(
        arguments: [
            ("GET", "/.inspect/evaluate.json", .methodNotAllowed(allowed: .evaluate)),
            ("PUT", "/.inspect/evaluate.json", .methodNotAllowed(allowed: .evaluate)),
            ("POST", "/.inspect/evaluate.json", nil),
            ("POST", "/.inspect/history.json", .methodNotAllowed(allowed: .inspect)),
            ("GET", "/.inspect/history.json", nil),
        ] as [(String, String, RESTError?)])
    func methods(method: String, target: String, error: RESTError?) throws {
        #expect(try refusal(method, target) == error)
    }
}
