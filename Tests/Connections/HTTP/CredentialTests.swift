import PandoBytes
import PandoIdentity
import PandoREST
import PandoRules
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Whose a request is: a token is verified before anything else is looked at (auth §1, rest §9).
@Suite struct CredentialTests {
    @Test(
        arguments: [
            HTTPConversation("no token", [.client(request("GET /a.json"), "GET /a")]),
            HTTPConversation(
                "a token in the query",
                [.client(request("GET /a.json?auth=T"), "verify T"), .accepted(user("ada"), "GET /a as ada")]),
            HTTPConversation(
                "a token in the header",
                [
                    .client(request("GET /a.json", "Authorization: Bearer T"), "verify T"),
                    .accepted(administrator, "GET /a as administrator"),
                ]),
            HTTPConversation(
                "what follows waits for the token, and its body with it",
                [
                    .client(write("PUT /a.json?auth=T", "1") + request("GET /b.json"), "verify T"),
                    .accepted(user("ada"), "PUT /a 1 as ada"),
                    .result(.written(node("1")), "200 1", "GET /b"),
                ]),
            HTTPConversation(
                "a large body is admitted with the token, which is verified once",
                [
                    .client(
                        request("PUT /a.json?auth=T", "Host: localhost", "Content-Length: 70000"), "verify T"),
                    .accepted(user("ada"), "admit PUT /a as ada"),
                    .result(.admitted),
                    .client(
                        "\"" + String(repeating: "v", count: 69_998) + "\"",
                        "read body of 70000 bytes for PUT /a"),
                ]),
            HTTPConversation(
                "a verdict that no request waits for is dropped",
                [
                    .client(request("GET /a.json"), "GET /a"), .accepted(user("ada")),
                    .result(.read(node("1")), "200 1"), .refused(.expired),
                ]),
            HTTPConversation(
                "each request has its own token",
                [
                    .client(request("GET /a.json?auth=T"), "verify T"),
                    .accepted(user("ada"), "GET /a as ada"),
                    .result(.read(node("1")), "200 1"),
                    .client(request("GET /b.json"), "GET /b"),
                ]),
        ] as [HTTPConversation])
    func tokens(conversation: HTTPConversation) { conversation.check() }

    /// What a client learns of a token that is refused (auth §4.1, rest §11).
    @Test(
        arguments: [
            // error                 auth= gives                             Bearer gives
            (.unparsable, "401 Could not parse auth token.", "401 Unauthorized request."),
            (.badSignature, "401 Could not parse auth token.", "401 Unauthorized request."),
            (.revoked, "401 Could not parse auth token.", "401 Unauthorized request."),
            (.wrongAudience, "401 Could not parse auth token.", "401 Unauthorized request."),
            (.expired, "401 Auth token is expired", "401 Auth token is expired"),
            (.tooManyFailures, tooMany, tooMany),
        ] as [(TokenError, String, String)])
    func refusals(error: TokenError, query: String, bearer: String) {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json?auth=T"))
        #expect(driver.event { $0.verified(.refused(error), &$1) } == ["refuse \(query)"])
        driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json", "Authorization: Bearer T"))
        #expect(driver.event { $0.verified(.refused(error), &$1) } == ["refuse \(bearer)"])
        #expect(driver.receive(.refused(.unauthorized)).count == 1)
        #expect(driver.receive(request("GET /b.json")) == ["GET /b"], "the connection goes on")
    }

    private static let tooMany = "429 Too many bad credentials from this address; try again in a minute."

    /// Every reason leads to a refusal, and none to access.
    @Test(arguments: TokenError.allCases)
    func everyReasonRefuses(error: TokenError) {
        var driver = HTTPDriver()
        _ = driver.receive(request("GET /a.json?auth=T"))
        #expect(driver.event { $0.verified(.refused(error), &$1) }.first?.hasPrefix("refuse ") == true)
    }

    /// `auth_variable_override` (rest §4, auth §2.4).
    @Test(
        arguments: [
            // override            token                       message
            (#"{"uid":"bob"}"#, administrator, "GET /a as bob"),
            ("null", administrator, "GET /a"),
            (#"{"uid":"bob"}"#, user("ada"), "refuse 401 Unauthorized request."),
            (#"{"uid":"bob"}"#, nil, "refuse 401 Unauthorized request."),
            ("null", nil, "refuse 401 Unauthorized request."),
        ] as [(String, Identity?, String)])
    func overrides(override: String, identity: Identity?, message: String) {
        var driver = HTTPDriver()
        let text = override.addingPercentEscapes
        let lines = driver.receive(
            request("GET /a.json?auth_variable_override=\(text)" + (identity == nil ? "" : "&auth=T")))
        guard let identity else { return #expect(lines == [message]) }
        #expect(lines == ["verify T"])
        #expect(driver.event { $0.verified(.accepted(identity), &$1) } == [message])
    }

    /// A page of another server can have a browser load a script with the certificate, and sees what it
    /// brings: also an old browser, which says nothing of where the page is from.
    @Test(
        arguments: [
            // fields of the browser                             data   script
            ([], true, false),
            (["Sec-Fetch-Site: same-origin"], true, true),
            (["Sec-Fetch-Site: none"], true, false),
            (["Sec-Fetch-Site: cross-site"], false, false),
            (["Sec-Fetch-Site: same-site"], false, false),
            (["Origin: https://elsewhere.example"], false, false),
            (["Referer: https://elsewhere.example/"], false, false),
        ] as [([String], Bool, Bool)])
    func certificatesOfAdministrators(fields: [String], counts: Bool, countsInScript: Bool) {
        func text(_ line: String) -> String {
            ([line + " HTTP/1.1", "Host: localhost"] + fields + ["", ""]).joined(separator: "\r\n")
        }
        for (line, isAdministrator) in [
            ("GET /a.json", counts), ("GET /a.json?callback=f", countsInScript),
        ] {
            var driver = HTTPDriver()
            driver.base.socket.isAdministrator = true
            let lines = driver.receive(text(line))
            #expect(lines == [isAdministrator ? "GET /a as administrator" : "GET /a"], "\(line)")
        }
        for isAdministrator in [true, false] {
            var driver = HTTPDriver()
            driver.base.socket.isAdministrator = isAdministrator
            let lines = driver.receive(text("GET /.lp?start=t&cb=7"))
            let suffix = isAdministrator && countsInScript ? ", administrator" : ""
            #expect(lines == ["start polling, callback 7, host localhost" + suffix])
        }
    }

    /// Settings and inspection are an administrator's, and no other client learns what is there (rest §10).
    @Test(
        arguments: [
            ("GET /.settings/rules.json", "GET rules  as administrator"),
            ("GET /.settings/defaultWriteSizeLimit.json", "GET defaultWriteSizeLimit  as administrator"),
            ("GET /.inspect/databases.json", "list databases as administrator"),
            ("GET /.inspect/denials.json", "list denials as administrator"),
            ("GET /.inspect/backup", "backup as administrator"),
            ("GET /.inspect/nothing.json", "refuse 400 Invalid path: Invalid token in path"),
            ("GET /.inspect/coverage", "refuse 400 Invalid path: Invalid token in path"),
        ])
    func settings(line: String, message: String) {
        for (identity, expected) in [
            (administrator, message), (user("ada"), "refuse 401 Unauthorized request."),
        ] {
            var driver = HTTPDriver()
            #expect(driver.receive(request(line, "Authorization: Bearer T")) == ["verify T"])
            #expect(driver.event { $0.verified(.accepted(identity), &$1) } == [expected])
        }
        var driver = HTTPDriver()
        #expect(driver.receive(request(line)) == ["refuse 401 Unauthorized request."])
    }

    /// What has no tag cannot be compared with one, whichever thread answers or reads the body (rest §7).
    @Test(
        arguments: [
            ("GET /.settings/rules.json", "if-match", true),
            ("GET /.settings/rules.json", "if-none-match", false),
            ("GET /.inspect/stats.json", "if-match", true),
            ("GET /.inspect/stats.json", "if-none-match", false),
            ("GET /.inspect/log.json", "if-match", true),
        ])
    func conditionsOfWhatHasNoTag(line: String, field: String, isRefused: Bool) {
        var driver = HTTPDriver()
        #expect(driver.receive(request(line, "Authorization: Bearer T", "\(field): t")) == ["verify T"])
        let lines = driver.event { $0.verified(.accepted(administrator), &$1) }
        let refusal = ["refuse 400 \(field) is not supported for this method"]
        #expect(isRefused ? lines == refusal : lines != refusal, "\(lines)")
    }

    @Test(arguments: ["if-match", "if-none-match"])
    func conditionsOfAnEvaluationWhoseBodyIsRead(field: String) throws {
        let json = #"{"method":"read","path":"/a"}"#
        let evaluation = try EvaluationRequest(reading: Array(json.utf8).rawSpan)
        var driver = HTTPDriver()
        let head = write(
            "POST /.inspect/evaluate.json", json, "Authorization: Bearer T", "Content-Encoding: gzip",
            "\(field): t")
        #expect(driver.receive(head) == ["verify T"])
        _ = driver.event { $0.verified(.accepted(administrator), &$1) }
        let body = BodyResult(
            session: HTTPDriver.id, content: .evaluation(evaluation), byteCount: json.utf8.count)
        #expect(
            driver.event { $0.bodyRead(body, &$1) } == [
                "refuse 400 \(field) is not supported for this method"
            ])
    }

    /// A body may take longer than its token is valid (auth §4.1).
    @Test func tokenExpiresWhileTheBodyComes() {
        var driver = HTTPDriver()
        let now = driver.base.context.wallSeconds
        _ = driver.receive(request("PUT /a.json?auth=T", "Host: localhost", "Content-Length: 70000"))
        _ = driver.event { $0.verified(.accepted(user("ada", validUntil: now + 10)), &$1) }
        _ = driver.receive(.admitted)
        driver.base.context.wallSeconds = now + 10
        #expect(
            driver.receive([UInt8](repeating: 0x20, count: 70_000)) == ["refuse 401 Auth token is expired"])
        #expect(driver.machine.unfinishedByteCount == 0)
    }

    /// Of a request that is given up the verdict comes too late.
    @Test func verdictOfRequestThatWasGivenUp() {
        var driver = HTTPDriver()
        #expect(driver.receive(request("GET /a.json?auth=T&timeout=3s")) == ["wake at 3", "verify T"])
        driver.base.wait(3)
        #expect(
            driver.event { $0.deadlinePassed(&$1) } == [
                "cancel wake", #"400 { "error" : "The request took longer than its timeout" }, close"#,
                "close after flush",
            ])
        #expect(driver.event { $0.verified(.accepted(user("ada")), &$1) } == [])
    }
}

/// A connection in the administrators' reserve serves one request, of an administrator (rest §11: 503).
@Suite struct ReserveTests {
    private static let refusal =
        #"503 { "error" : "Too many connections are open: only requests of administrators are answered until some of them close" }, close"#

    private static func reserved() -> HTTPDriver { HTTPDriver(isReserved: true) }

    @Test(
        arguments: [
            HTTPConversation(
                "an administrator is served, once", { reserved() },
                [
                    .client(request("GET /a.json", "Authorization: Bearer T"), "verify T"),
                    .accepted(administrator, "keep reserved", "GET /a as administrator"),
                    .result(.read(node("1")), "200 1, close", "close after flush"),
                ]),
            HTTPConversation(
                "a request without a token", { reserved() },
                [.client(request("GET /a.json"), "count refusal", refusal, "close after flush")]),
            HTTPConversation(
                "a token that is no administrator's", { reserved() },
                [
                    .client(request("GET /a.json?auth=T"), "verify T"),
                    .accepted(user("ada"), "count refusal", refusal, "close after flush"),
                ]),
            HTTPConversation(
                "a token that is refused", { reserved() },
                [
                    .client(request("GET /a.json?auth=T&timeout=1s"), "wake at 1", "verify T"),
                    .refused(.badSignature, "count refusal", "cancel wake", refusal, "close after flush"),
                ]),
            HTTPConversation(
                "no body is waited for before it is known to be an administrator's", { reserved() },
                [
                    .client(
                        request("PUT /a.json?auth=T", "Host: localhost", "Content-Length: 3"), "verify T"),
                    .accepted(administrator, "keep reserved", "admit PUT /a as administrator"),
                    .result(.admitted), .client("123", "PUT /a 123 as administrator"),
                ]),
            HTTPConversation(
                "a preflight", { reserved() },
                [
                    .client(
                        request("OPTIONS /a.json", "Access-Control-Request-Method: PUT"), "count refusal",
                        refusal,
                        "close after flush")
                ]),
            HTTPConversation(
                "a poll", { reserved() },
                [.client(request("GET /.lp?start=t"), "count refusal", refusal, "close after flush")]),
            HTTPConversation(
                "a WebSocket", { reserved() },
                [
                    .client(
                        request("GET /.ws?v=5", "Upgrade: websocket"), "count refusal", refusal,
                        "close after flush")
                ]),
        ] as [HTTPConversation])
    func refusals(conversation: HTTPConversation) { conversation.check() }

    @Test func refusalNamesATimeToComeBack() {
        var driver = Self.reserved()
        _ = driver.receive(request("GET /a.json"))
        #expect(driver.output.heads[0].contains("Retry-After: "))
    }
}

@Suite struct PendingRequestTests {
    private func pending(_ line: String, _ fields: String...) throws -> PendingRequest {
        let head = try head([line + " HTTP/1.1", "Host: a"] + fields)
        return PendingRequest(ResponseContext(head), try RESTRequest(head), namespace: nil, began: testStart)
    }

    @Test func requestThatWasNotUnderstoodHasNoCall() throws {
        let response = ResponseContext(try head("GET /a HTTP/1.1", "Host: a"))
        let pending = PendingRequest(response, began: testStart)
        try pending.identify(nil)
        #expect(pending.credential == .anonymous)
        try pending.checkPlace()
        #expect(throws: RESTError.internalError) { try pending.call([]) }
        #expect(throws: RESTError.internalError) { try pending.write(.value(Draft(.empty))) }
    }

    /// The end of a token counts to the second.
    @Test(arguments: [(nil, false), (999, true), (1000, true), (1001, false)] as [(Int64?, Bool)])
    func expiry(validUntil: Int64?, isOver: Bool) throws {
        let pending = try pending("GET /a.json")
        try pending.identify(.accepted(user("ada", validUntil: validUntil)))
        #expect(pending.credential.uid == "ada")
        do {
            try pending.checkExpiry(1000)
            #expect(!isOver)
        } catch {
            #expect(error == .tokenExpired && isOver)
        }
    }

    @Test func updatesOfAPatchAreKeptForItsResponse() throws {
        let pending = try pending("PATCH /a.json")
        var update = RESTUpdate()
        update.append(Write(Target("a/b"), Draft(node("1"))), name: "b")
        _ = try pending.write(.update(update))
        #expect(pending.update == update)
    }
}

extension String {
    /// As a client writes it in a query.
    var addingPercentEscapes: String {
        utf8.map { byte in
            let character = Character(Unicode.Scalar(byte))
            if character.isLetter || character.isNumber { return String(character) }
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.count == 1 ? "0" : "") + digits
        }.joined()
    }
}
