import PandoBytes
import PandoTree
import Testing

@testable import PandoREST

/// rest §2.1, §6, §14: any JSON is a value.
@Test(arguments: [
    (#"{"h":3,"n":null}"#, #"{"h":3}"#), ("null", "null"), ("{}", "null"), ("[]", "null"), (" 1 \n", "1"),
    (#""x""#, #""x""#), ("false", "false"), (#"["a",null,"c"]"#, #"{"0":"a","2":"c"}"#),
    (#"{".value":"v",".priority":1}"#, #"{".value":"v",".priority":1}"#),
    (#"{".value":1,"a":null}"#, "1"), (#"{".value":null,"a":1}"#, #"{"a":1}"#),
])
func putAcceptsAnyJSON(sent: String, stored: String) throws {
    guard case .value(let draft) = try body("PUT", "/a.json", sent) else {
        Issue.record("no value")
        return
    }
    #expect(draft.node == (try node(stored)))
}

@Test func serverValuesBecomePlaceholders() throws {
    let timestamp = Draft.Placeholder(target: Target(.root), value: .timestamp)
    for target in ["/t.json", "/t/.priority.json"] {
        #expect(
            try body("PUT", target, #"{".sv":"timestamp"}"#)
                == .value(Draft(.integer(0), placeholders: [timestamp])))
    }
    guard case .update(let update) = try body("PATCH", "/pub.json", #"{"n":{".sv":{"increment":2}}}"#) else {
        Issue.record("no update")
        return
    }
    #expect(
        update.writes.map(\.draft.placeholders) == [
            [.init(target: Target(.root), value: .increment(.integer(2)))]
        ])
}

/// rest §2, §6, §11.
@Test(arguments: [
    ("PUT", "", "Error: No data supplied."),
    ("POST", " \r\n\t ", "Error: No data supplied."),
    ("PATCH", "", "Error: No data supplied."),
    ("PUT", "{bad", "Invalid data; couldn't parse JSON object, array, or value."),
    ("PUT", "1 2", "Invalid data; couldn't parse JSON object, array, or value."),
    ("POST", "x=1&y=2", "Invalid data; couldn't parse JSON object, array, or value."),
    ("PUT", "{\"a\":\"\u{1}\"}", "Invalid data; couldn't parse JSON object, array, or value."),
    ("PUT", #"{"a.b":1}"#, RESTError.malformedData.text),
    ("PUT", #"{"":1}"#, RESTError.malformedData.text),
    ("PUT", #"{"a":{"b#":1}}"#, RESTError.malformedData.text),
    ("POST", #"{"a/b":1}"#, RESTError.malformedData.text),
    (
        "PATCH", "[1]",
        "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
    ),
    (
        "PATCH", "1",
        "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
    ),
    ("PATCH", #""x""#, RESTError.malformedUpdate.text),
    ("PATCH", "nul", RESTError.malformedUpdate.text),
    ("PATCH", "null 1", RESTError.malformedUpdate.text),
    ("PATCH", "{bad", RESTError.malformedUpdate.text),
    ("PATCH", #"{"a":1,}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"a.b":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"a/$b":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"a":{"b#":1}}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"/":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{".value":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{".sv":"timestamp"}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{".priority/a":1}"#, RESTError.malformedUpdate.text),
    ("PATCH", #"{"a":1,"a/b":2}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a/b":2,"a":1}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a":1,"/a/":2}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a":1,"a/":2,"a":3}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a":1,"a":2,"a/b":3}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a/.priority":1,"a//.priority":2}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a":1,"a/.priority":2}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{"a/b":1,"a-b":3,"a":2}"#, InvalidData.ancestorConflict("pub/a").message),
    ("PATCH", #"{".priority":true}"#, InvalidData.priority.message),
    ("PATCH", #"{"a/.priority":{"b":1}}"#, InvalidData.priority.message),
    ("PUT", #"{".sv":"nonsense"}"#, "unrecognized server value"),
    ("PUT", #"{"a":{".sv":{"increment":"1"}}}"#, "unrecognized server value"),
    ("PUT", #"{".value":1,"a":2}"#, RESTError.valueWithSiblings.text),
    ("PUT", #"{"x":{"a":2,".value":1}}"#, RESTError.valueWithSiblings.text),
    ("PUT", #"{"x":{".sv":"timestamp","a":2}}"#, RESTError.valueWithSiblings.text),
    ("PATCH", #"{"x":{".value":1,"a":2}}"#, RESTError.valueWithSiblings.text),
    (
        "PUT", #"{".sv":{"increment":1},"b":1}"#,
        "Invalid data: .value and .sv may not stand beside other children"
    ),
    ("PUT", #"{".priority":[],"a":2}"#, InvalidData.priority.message),
    ("PUT", "1e400", InvalidData.numberOutOfRange.message),
    ("PUT", #""\ud800""#, InvalidData.loneSurrogate.message),
])
func bodiesThatAreRefused(method: String, sent: String, text: String) throws {
    let refusal = try bodyRefusal(method, "/pub.json", sent)
    #expect(refusal?.text == text)
    #expect(refusal?.status == .badRequest)
}

@Test(arguments: ["true", #"{"a":1}"#, "[1]", #"{".value":1,".priority":2}"#])
func priorityMustBeLeafWithoutPriority(sent: String) throws {
    #expect(try bodyRefusal("PUT", "/a/.priority.json", sent) == .invalidData(.priority))
    for leaf in ["null", "1", #""x""#] { #expect(try bodyRefusal("PUT", "/a/.priority.json", leaf) == nil) }
}

@Test func updatesHaveAbsoluteTargets() throws {
    let sent = #"{"a/h":4,"/b/c/":true,"zz":null,".priority":3,"a/g/.priority":"p"}"#
    #expect(
        try body("PATCH", "/pub/x.json", sent)
            == update([
                (Write(Target("pub/x/a/h"), Draft(.integer(4))), "a/h"),
                (Write(Target("pub/x/b/c"), Draft(.boolean(true))), "/b/c/"),
                (Write(Target("pub/x/zz"), Draft(.empty)), "zz"),
                (Write(Target("pub/x", isPriority: true), Draft(.integer(3))), ".priority"),
                (Write(Target("pub/x/a/g", isPriority: true), Draft(.string("p"))), "a/g/.priority"),
            ]))
    #expect(try body("PATCH", "/pub.json", "{}") == update([]))
    // The official CLI removes a node so.
    #expect(
        try body("PATCH", "/pub.json", " null ") == update([(Write(Target("pub"), Draft(.empty)), "")]))
}

private func update(_ members: [(Write, Text)]) -> RESTBody {
    var update = RESTUpdate()
    for (write, name) in members { update.append(write, name: name) }
    return .update(update)
}

/// Of a name that comes twice the last counts, whichever method (rest §2.3); what it overrules leaves
/// nothing.
@Test(arguments: [
    (#"{"a":1,"b":3,"a":2}"#, #"{"a":2,"b":3}"#, 0),
    (#"{"a":1,"a":null}"#, "null", 0),
    (#"{"a":{"x":1},"a":{"y":1}}"#, #"{"a":{"y":1}}"#, 0),
    (#"{"a":{".sv":"timestamp"},"a":2}"#, #"{"a":2}"#, 0),
    (#"{"a":2,"a":{".sv":"timestamp"}}"#, #"{"a":0}"#, 1),
    (
        #"{"a":{"x":{".sv":"timestamp"},"y":{".sv":"timestamp"}},"a":{"x":{".sv":"timestamp"}}}"#,
        #"{"a":{"x":0}}"#, 1
    ),
    (#"{"b":{".sv":"timestamp"},"a":{"x":{".sv":"timestamp"}},"a":{"x":1}}"#, #"{"a":{"x":1},"b":0}"#, 1),
])
func ofNamesThatComeTwiceTheLastCounts(sent: String, stored: String, placeholderCount: Int) throws {
    guard case .value(let put) = try body("PUT", "/p.json", sent),
        case .update(let patch) = try body("PATCH", "/p.json", sent)
    else {
        Issue.record("no value")
        return
    }
    #expect(put.node == (try node(stored)) && put.placeholders.count == placeholderCount)
    var patched = Node.empty
    for write in patch.writes {
        patched.set(write.draft.node, at: Path(Array(write.target.path.keys.dropFirst())))
    }
    #expect(patched == put.node)
    #expect(patch.writes.reduce(0) { $0 + $1.draft.placeholders.count } == placeholderCount)
    #expect(Set(patch.names).count == patch.names.count)
}

@Test func bodyOfDeleteIsIgnored() throws {
    for sent in ["", "{bad", "1"] { #expect(try body("DELETE", "/a.json", sent) == .value(Draft(.empty))) }
    #expect(try body("POST", "/a.json", "null") == .value(Draft(.empty)))
}

/// 32 levels, whichever way they are split between path, name and data; a pushed child is one of them.
@Test func depthCountsPathAndData() throws {
    func nested(_ depth: Int) -> String {
        String(repeating: #"{"a":"#, count: depth) + "1" + String(repeating: "}", count: depth)
    }
    for pathDepth in [0, 1, 16, 31, 32] {
        let target = "/" + String(repeating: "p/", count: pathDepth) + ".json"
        let left = 32 - pathDepth
        #expect(try bodyRefusal("PUT", target, nested(left)) == nil)
        #expect(try bodyRefusal("PUT", target, nested(left + 1)) == .invalidData(.tooDeep))
        #expect(try bodyRefusal("POST", target, nested(left)) == .invalidData(.tooDeep))
        if left > 0 {
            #expect(try bodyRefusal("POST", target, nested(left - 1)) == nil)
            #expect(try bodyRefusal("PATCH", target, nested(left)) == nil)
        }
        #expect(try bodyRefusal("PATCH", target, nested(left + 1)) == .invalidData(.tooDeep))
        #expect(
            try bodyRefusal("PATCH", target, #"{"\#(String(repeating: "/n", count: left + 1))":1}"#)
                == .invalidData(.tooDeep))
    }
    #expect(try bodyRefusal("PUT", "/a.json", nested(5000)) == .invalidData(.tooDeep))
}

@Test func bodyOverLimitIsRefused() throws {
    let request = try request("PUT", "/a.json")
    let bytes = Array(#""0123456789""#.utf8)
    #expect(throws: RESTError.writeTooLarge) { try readBody(request, bytes, byteLimit: 11) }
    #expect(try readBody(request, bytes, byteLimit: 12) == .value(Draft(.string("0123456789"))))
}

/// Spans do not go through the macros of the testing library; arrays do.
private func readBody(_ request: RESTRequest, _ bytes: [UInt8], byteLimit: Int) throws -> RESTBody {
    try request.readBody(bytes.rawSpan, byteLimit: byteLimit)
}
