import PandoBytes
import PandoHTTP
import PandoTree
import Testing

@testable import PandoREST

/// rest §1.1, §1.3.
@Test(
    arguments: [
        ("/.json", .data(Target(.root))),
        ("/a/b.json", .data(Target("a/b"))),
        ("/a/b/.json", .data(Target("a/b"))),
        ("/a//b.json", .data(Target("a/b"))),
        ("//.json", .data(Target(.root))),
        ("/a/b.json?x=/c.json", .data(Target("a/b"))),
        ("/%61%20b+c.json", .data(Target(Path(["a b+c"])))),
        ("/%C3%A9.json", .data(Target(Path(["é"])))),
        ("/é/🐵.json", .data(Target(Path(["é", "🐵"])))),
        ("/a/.priority.json", .data(Target("a", isPriority: true))),
        ("/.priority.json", .data(Target(.root, isPriority: true))),
        ("/a/.priority/.json", .data(Target("a", isPriority: true))),
        ("http://host/a.json", .data(Target("a"))),
        ("/.settings/rules.json?ns=x", .rules),
        ("/.settings/defaultWriteSizeLimit.json", .settings(.defaultWriteSizeLimit)),
        ("/%2Esettings/rules.json", .rules),
        ("/.settings/ruleset_labels.json", .settings(.rulesetLabels)),
        ("/.settings/a/b.json", .settings(nil)),
        ("/.inspect/databases.json?ns=", .inspect(.databases)),
        ("/.inspect/log.json", .inspect(.server(.log))),
        ("/.inspect/coverage.json", .inspect(nil)),
        ("/.inspect/coverage?ns=x", .inspect(nil)),
        ("/.inspect/backup", .inspect(.backup)),
        ("/.inspect/backup.json", .inspect(nil)),
        ("/.inspect/a/databases.json", .inspect(nil)),
    ] as [(String, RESTLocation)])
func pathsNameLocations(target: String, location: RESTLocation) throws {
    #expect(try request("GET", target).location == location)
}

@Test(
    arguments: [
        ("/a", .notREST), ("/", .notREST), ("/a.JSON", .notREST), ("/a.json/", .notREST),
        ("/a.json5", .notREST),
        ("/.settings/rules", .notREST), ("/.inspect/databases", .notREST), ("/.ws", .notREST),
        ("/.lp", .notREST),
        ("/json", .notREST), ("http://host", .notREST),
        ("/100%.json", .invalidPath), ("/a%2.json", .invalidPath), ("/a%zz.json", .invalidPath),
        ("/a%23b.json", .invalidPath), ("/a.b.json", .invalidPath), ("/a/$x.json", .invalidPath),
        ("/a[0].json", .invalidPath), ("/a%2Fb.json", .invalidPath), ("/a%00.json", .invalidPath),
        ("/a%7F.json", .invalidPath), ("/%FF.json", .invalidPath), ("/.info/connected.json", .invalidPath),
        ("/.ws.json", .invalidPath), ("/.settings.json", .invalidPath), ("/.settings/%FF.json", .invalidPath),
        ("/a/.priority/b.json", .invalidPath), ("/a/.value.json", .invalidPath),
        ("/a/.settings/x.json", .invalidPath),
        ("/\(String(repeating: "k", count: 769)).json", .invalidPath),
        ("/\(String(repeating: "a/", count: 33)).json", .pathTooDeep),
        ("/\(String(repeating: "a/", count: 5000)).json", .pathTooDeep),
    ] as [(String, RESTError)])
func pathsThatNameNothing(target: String, error: RESTError) throws {
    for method in ["GET", "PUT", "BREW"] { #expect(try refusal(method, target) == error) }
}

@Test func longestKeyAndDeepestPathAreAccepted() throws {
    let key = String(repeating: "k", count: 768)
    #expect(try request("GET", "/\(key).json").location == .data(Target(Path([Key(unchecked: Text(key))]))))
    #expect(try refusal("GET", "/\(String(repeating: "a/", count: 32)).json") == nil)
}

@Test func pathThatIsNoUTF8IsRefused() throws {
    let bytes = Array("GET /a".utf8) + [0xFF] + Array("b.json HTTP/1.1\r\nHost: x\r\n\r\n".utf8)
    let head = try head(bytes)
    #expect(throws: RESTError.invalidPath) { try RESTRequest(head) }
}

/// rest §1.2.
@Test(
    arguments: [
        ("/a.json?ns=abc", "abc"), ("/a.json?x=y&ns=abc&ns=d", "abc"), ("/a.json?ns=", nil), ("/a.json", nil),
    ] as [(String, String?)])
func namespaceIsReadBeforePath(target: String, namespace: String?) throws {
    let address = RESTAddress(try head("GET", target))
    #expect(address.namespace?.string == namespace)
}

/// rest §1.4, §2.
@Test(
    arguments: [
        ("POST", "", [], .post),
        ("POST", "", ["X-HTTP-Method-Override: PUT"], .put),
        ("POST", "", ["x-http-method-override: patch"], .patch),
        ("POST", "?x-http-method-override=DELETE", [], .delete),
        ("POST", "?X-HTTP-Method-Override=get", [], .get),
        ("POST", "?x-http-method-override=DELETE", ["X-HTTP-Method-Override: PUT"], .put),
        ("POST", "", ["X-HTTP-Method-Override: POST"], .post),
        ("GET", "", ["X-HTTP-Method-Override: DELETE"], .get),
        ("PUT", "?x-http-method-override=nonsense", [], .put),
        ("OPTIONS", "", [], .options),
        ("HEAD", "", [], .head),
    ] as [(String, String, [String], RESTMethod)])
func onlyAPOSTIsOverridden(method: String, query: String, fields: [String], became: RESTMethod) throws {
    #expect(try request(method, "/a.json\(query)", fields).method == became)
}

/// rest §10: the official CLI posts its triggers.
@Test func triggersMayBePosted() throws {
    #expect(try request("POST", "/.settings/functionTriggers.json").method == .put)
    #expect(try request("PUT", "/.settings/functionTriggers.json").method == .put)
    #expect(try request("GET", "/.settings/functionTriggers.json").method == .get)
}

@Test(
    arguments: [
        ("BREW", "/a.json", [], .methodNotAllowed(allowed: .data)),
        ("get", "/a.json", [], .methodNotAllowed(allowed: .data)),
        ("POST", "/a.json", ["X-HTTP-Method-Override: HEAD"], .unknownMethodOverride),
        ("POST", "/a.json?x-http-method-override", [], .unknownMethodOverride),
        ("POST", "/a/.priority.json", [], .methodNotAllowed(allowed: .priority)),
        ("PATCH", "/a/.priority.json", [], .methodNotAllowed(allowed: .priority)),
        ("DELETE", "/.settings/rules.json", [], .methodNotAllowed(allowed: .settings)),
        ("PATCH", "/.settings/rules.json", [], .methodNotAllowed(allowed: .settings)),
        ("POST", "/.settings/rules.json", [], .methodNotAllowed(allowed: .settings)),
        ("PATCH", "/.settings/functionTriggers.json", [], .methodNotAllowed(allowed: .triggers)),
        ("PUT", "/.inspect/databases.json", [], .methodNotAllowed(allowed: .inspect)),
    ] as [(String, String, [String], RESTError)])
func methodsThatAreRefused(method: String, target: String, fields: [String], error: RESTError) throws {
    #expect(try refusal(method, target, fields) == error)
}

/// auth §1: of several carriers the header counts.
@Test(
    arguments: [
        ("", [], .none),
        ("?auth=t", [], .auth("t")),
        ("?auth=", [], .none),
        ("?access_token=owner&auth=t", [], .accessToken("owner")),
        ("?access_token=", ["Authorization: Basic xyz"], .none),
        ("?access_token=o&auth=t", ["Authorization: Bearer b c"], .bearer("b c")),
        ("", ["authorization: bEARER  owner"], .bearer("owner")),
        ("?auth=t", ["Authorization: Bearer"], .bearer("")),
        ("", ["Authorization: Bearer\tgarbage"], .bearer("garbage")),
        ("", ["Authorization: Bearer \t x"], .bearer("x")),
        // Of two credentials neither counts, and the request is not anonymous.
        ("", ["Authorization: Bearer a", "Authorization: Bearer b"], .bearer("")),
        ("?auth=t", ["Authorization: Basic a", "authorization: Bearer b"], .bearer("")),
        ("?auth=a%2Bb+c", [], .auth("a+b c")),
    ] as [(String, [String], RESTCredential)])
func credentialsHaveOneWinner(query: String, fields: [String], credential: RESTCredential) throws {
    let request = try request("GET", "/a.json\(query)", fields)
    #expect(request.credential == credential)
    switch credential {
    case .none, .auth: #expect(credential.refusal.text == "Could not parse auth token.")
    case .accessToken, .bearer: #expect(credential.refusal.text == "Unauthorized request.")
    }
}

@Test func secretsAreNotPrinted() throws {
    let request = try request(
        "GET", "/a.json?auth=s3cret&access_token=s3cret&ns=x", ["Authorization: Bearer s3cret"])
    var dumped = ""
    dump(request, to: &dumped)
    dump(request.address, to: &dumped)
    dump(request.credential, to: &dumped)
    for text in [dumped, "\(request)", String(reflecting: request), "\(request.credential)"] {
        #expect(!text.contains("s3cret"))
    }
}

@Test func authVariablesAreJSON() throws {
    let target = "/a.json?auth_variable_override="
    #expect(try request("GET", "/a.json").authVariableOverride == nil)
    let override = try request("PUT", target + "%7B%22uid%22%3A%22u1%22%7D").authVariableOverride
    #expect(override?.json == #"{"uid":"u1"}"#)
    #expect(override?.claims == (try node(#"{"uid":"u1"}"#)))
    let signedOut = try request("GET", target + "null").authVariableOverride
    #expect(signedOut?.json == "null" && signedOut?.claims == nil)
    #expect(try request("GET", target + "{}").authVariableOverride?.claims == .some(.empty))
    #expect(try refusal("GET", target + #"{"http://x.y/z":1}"#) == nil)
    for text in ["", "1", "[1]", "{", "{}x", #""x""#, #"{".value":1}"#, #"{".sv":"timestamp"}"#, "nul"] {
        #expect(try refusal("GET", target + text) == .authVariableMalformed, "\(text)")
    }
}

/// rest §4: what each parameter makes of an answer and a request.
@Test func parametersOfReadsAndWrites() throws {
    let read = try request(
        "GET",
        "/a.json?print=pretty&format=export&callback=a.b%5B0%5D&download=x.json&timeout=3s&ac=z&disableTriggers=1"
    )
    #expect(read.form.print == .pretty && read.form.isExport && read.form.callback == "a.b[0]")
    #expect(read.form.downloadName == "x.json" && read.timeout == .seconds(3) && !read.disablesTriggers)
    let write = try request(
        "PUT",
        "/a.json?print=silent&format=export&callback=%3C&download=x&timeout=x&writeSizeLimit=tiny&disableTriggers=true&dryRun=true"
    )
    #expect(write.form.print == .silent && !write.form.isExport && write.form.callback == nil)
    #expect(
        write.form.downloadName == nil && write.writeSizeLimit == .tiny && write.disablesTriggers
            && write.isDryRun)
    #expect(try request("GET", "/.settings/rules.json?format=strict").isStrict)
    #expect(try request("GET", "/a.json?print=loud").form.print == .compact)
}

@Test(
    arguments: [
        ("1ms", .milliseconds(1)), ("900000ms", .seconds(900)), ("10s", .seconds(10)),
        ("900s", .seconds(900)),
        ("15min", .seconds(900)), ("0ms", nil), ("-1s", nil), ("901s", nil), ("16min", nil),
        ("900001ms", nil),
        ("10", nil), ("s", nil), ("", nil), ("1.5s", nil), ("1h", nil), ("1 s", nil), ("1S", nil),
        ("٣s", nil),
        ("9223372036854775807min", nil), ("99999999999999999999999s", nil),
    ] as [(String, Duration?)])
func timeouts(text: String, duration: Duration?) throws {
    let target = "/a.json?timeout=\(text)".replacing(" ", with: "+")
    if let duration {
        #expect(try request("GET", target).timeout == duration)
    } else {
        #expect(try refusal("GET", target) == .timeoutMalformed)
    }
}

@Test func otherMalformedParameters() throws {
    for name in ["", "a%28b", "alert%281%29//", "é", String(repeating: "x", count: 129), "a%0Ab", "a-b"] {
        #expect(try refusal("GET", "/a.json?callback=\(name)") == .callbackMalformed)
    }
    #expect(try refusal("GET", "/a.json?callback=\(String(repeating: "x", count: 128))") == nil)
    for limit in WriteSizeLimit.allCases {
        #expect(try request("PATCH", "/a.json?writeSizeLimit=\(limit.rawValue)").writeSizeLimit == limit)
    }
    #expect(try refusal("POST", "/a.json?writeSizeLimit=huge") == .writeSizeLimitMalformed)
    #expect(try refusal("GET", "/a.json?writeSizeLimit=huge") == nil)
}

/// rest §8, §3.
@Test func acceptHeaders() throws {
    for (value, wants) in [
        ("text/event-stream", true), ("application/json, Text/Event-Stream;q=0.5", true), ("*/*", false),
        ("text/event", false),
    ] {
        #expect(try request("GET", "/a.json", ["Accept: \(value)"]).wantsStream == wants)
        #expect(try !request("PUT", "/a.json", ["Accept: \(value)"]).wantsStream)
    }
    #expect(try refusal("GET", "/a.json?shallow=true", ["Accept: text/event-stream"]) == .shallowStream)
    #expect(try refusal("GET", "/a/.priority.json", ["Accept: text/event-stream"]) == .priorityStream)
    #expect(try refusal("GET", "/a/.priority.json", ["Accept: */*"]) == nil)
    for (value, accepts) in [
        ("gzip", true), ("deflate, GZIP;q=0.5", true), ("*", true), ("gzip;q=0", false),
        ("gzip; q=0.000", false),
        ("br", false), ("xgzip", false), ("", false), ("x-gzip", true), ("gzip;q=0, *", false),
        ("*;q=0", false),
        ("br, *;q=0.1", true), ("gzip;q=0.5, identity", false), ("identity;q=0.2, gzip;q=0.2", true),
        ("identity", false),
        ("gzip;q=1.001", false), ("gzip;q=x", false), ("gzip;q=", false), ("gzip;q=0.001", true),
        ("gzip ; q=1", true),
        (",,gzip", true), (";q=1", false),
    ] {
        let head = try head("GET", "/a.json", ["Accept-Encoding: \(value)"])
        #expect(ResponseContext(head).acceptsGzip == accepts, "\(value)")
    }
    #expect(
        try ResponseContext(head("GET", "/a.json", ["Accept-Encoding: br", "Accept-Encoding: gzip"]))
            .acceptsGzip)
    #expect(try !ResponseContext(head("GET", "/a.json")).acceptsGzip)
}

/// The table of rest §7.
@Test(
    arguments: [
        // method  query            fields                       refusal
        ("GET", "", ["X-Firebase-ETag: true"], nil),
        ("GET", "", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("GET", "", ["if-none-match: t"], nil),
        ("HEAD", "", ["if-none-match: t"], nil),
        ("PUT", "", ["X-Firebase-ETag: true", "if-match: t"], nil),
        ("PUT", "", ["if-none-match: t"], .unsupportedCondition(.ifNoneMatch)),
        ("POST", "", ["X-Firebase-ETag: true"], nil),
        ("POST", "", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("POST", "", ["if-none-match: t"], .unsupportedCondition(.ifNoneMatch)),
        ("PATCH", "", ["X-Firebase-ETag: true"], .unsupportedCondition(.etag)),
        ("PATCH", "", ["if-match: x"], .unsupportedCondition(.ifMatch)),
        ("PATCH", "", ["if-none-match: x"], .unsupportedCondition(.ifNoneMatch)),
        ("DELETE", "", ["X-Firebase-ETag: true"], nil),
        ("DELETE", "", ["if-match: x"], nil),
        ("DELETE", "", ["if-none-match: x"], .unsupportedCondition(.ifNoneMatch)),
        ("PUT", "?print=silent", ["if-match: x"], .mixedCondition),
        ("PUT", "?print=silent", ["X-Firebase-ETag: true"], nil),
        ("DELETE", "?shallow=true", ["if-match: x"], .mixedCondition),
        ("PUT", "?orderBy=\"a\"", ["if-match: x"], .mixedCondition),
        ("GET", "?shallow=true", ["if-none-match: x"], .mixedCondition),
        ("GET", "?orderBy=\"a\"&limitToFirst=1", ["if-none-match: x"], .mixedCondition),
        ("GET", "?print=silent", ["if-none-match: x"], .mixedCondition),
        ("GET", "?print=pretty", ["if-none-match: x"], nil),
        ("GET", "?shallow=true", ["X-Firebase-ETag: true"], .mixedShallowAndETag),
        ("GET", "?shallow=true", ["X-Firebase-ETag: false"], nil),
    ] as [(String, String, [String], RESTError?)])
func conditions(method: String, query: String, fields: [String], error: RESTError?) throws {
    #expect(try refusal(method, "/a.json\(query)", fields) == error)
}

/// What has no tag cannot be compared with one, and no condition is left out in silence.
@Test(
    arguments: [
        // method  target                    fields                 refusal
        ("PUT", "/.settings/rules.json", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("PUT", "/.settings/rules.json", ["if-none-match: *"], .unsupportedCondition(.ifNoneMatch)),
        ("PUT", "/.settings/strictTriggerValidation.json", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("GET", "/.settings/rules.json", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("GET", "/.settings/rules.json", ["if-none-match: t"], nil),
        ("PUT", "/.settings/rules.json", [], nil),
        ("POST", "/.inspect/evaluate.json", ["if-match: t"], .unsupportedCondition(.ifMatch)),
        ("GET", "/.inspect/databases.json", ["if-none-match: t"], nil),
        ("PUT", "/a.json", ["if-match: t", "if-match: u"], .repeatedCondition(.ifMatch)),
        ("PUT", "/a.json", ["if-match: t", "if-match: t"], .repeatedCondition(.ifMatch)),
        ("GET", "/a.json", ["if-none-match: t", "if-none-match: u"], .repeatedCondition(.ifNoneMatch)),
        (
            "POST", "/a.json", ["X-HTTP-Method-Override: PUT", "X-HTTP-Method-Override: DELETE"],
            .unknownMethodOverride
        ),
    ] as [(String, String, [String], RESTError?)])
func conditionsThatCannotHold(method: String, target: String, fields: [String], error: RESTError?) throws {
    #expect(try refusal(method, target, fields) == error)
}

@Test func tagsRoundTrip() throws {
    #expect(try !request("PUT", "/a.json").returnsETag)
    #expect(try request("PUT", "/a.json", ["if-match: t"]).returnsETag)
    #expect(try request("GET", "/a.json", ["if-none-match: t"]).returnsETag)
    #expect(try request("GET", "/a.json", ["X-FIREBASE-ETAG: TRUE"]).returnsETag)
    #expect(try !request("GET", "/a.json?orderBy=\"$key\"", ["X-Firebase-ETag: true"]).returnsETag)
    #expect(try request("PUT", "/a.json").expectedHash == nil)
    #expect(try request("PUT", "/a.json", ["if-match: null_etag"]).expectedHash == "")
    #expect(
        try request("PUT", "/a.json", ["if-match: ViJFJowpbyRvgGNPzPJdGeN+mCY="]).expectedHash
            == "ViJFJowpbyRvgGNPzPJdGeN+mCY=")
    // An empty tag is not that of nothing.
    #expect(try request("PUT", "/a.json", ["if-match:"]).expectedHash != "")
}
