import PandoHTTP
import PandoIdentity
import PandoREST
import PandoTree
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Limits of writes, of a user's event streams, and of clients behind a proxy, over REST.
@Suite struct HTTPLimitTests {
    @Test func writesOfOneConnection() {
        var driver = HTTPDriver { $0.limits.rates = WriteRates(writesPerSecond: 1) }
        for _ in 1...10 {
            #expect(driver.receive(write("PUT /a.json", "1")) == ["PUT /a 1"])
            #expect(driver.receive(.written(node("1"))) == ["200 1"])
        }
        for line in ["PUT /a.json", "POST /a.json", "PATCH /a.json", "DELETE /a.json"] {
            #expect(
                driver.receive(write(line, line.hasPrefix("D") ? "" : "{}"))
                    == ["count limit writesPerSecond", "refuse 429 Too many writes per second"])
            let error = RESTError.limitExceeded(.writesPerSecond, retrySeconds: 1)
            #expect(driver.receive(.refused(error)).count == 1)
        }
        #expect(driver.receive(request("GET /a.json")) == ["GET /a"])
        #expect(driver.receive(.read(node("1"))) == ["200 1"])
        driver.base.wait(1.1)
        #expect(driver.receive(write("PUT /a.json", "1")) == ["PUT /a 1"])
    }

    @Test func theResponseSaysWhenToTryAgain() throws {
        let head = "PUT /a.json HTTP/1.1\r\nHost: h\r\n\r\n"
        var reader = RequestHeadReader()
        var offset = 0
        let found = try #require(try reader.read(Array(head.utf8).rawSpan, from: &offset))
        var response = RESTResponse.error(
            .limitExceeded(.bytesPerSecond, retrySeconds: 17), ResponseContext(found))
        let bytes = response.next() ?? []
        #expect(text(bytes).contains("HTTP/1.1 429 ") && text(bytes).contains("\r\nRetry-After: 17\r\n"))
        #expect(text(bytes).contains("Too many bytes of writes per second"))
    }

    @Test func administratorsAndUsers() {
        let rates = WriteRates(writesPerSecond: 1)
        let users = UserLimiter(connectionLimit: 1, rates: rates)
        func put(_ driver: inout HTTPDriver, as identity: Identity) -> Bool {
            #expect(driver.receive(write("PUT /a.json?auth=T", "1")) == ["verify T"])
            let lines = driver.event { $0.verified(.accepted(identity), &$1) }
            _ = driver.receive(.written(node("1")))
            return lines.count == 1
        }
        func driver(isProxy: Bool = false) -> HTTPDriver {
            var driver = HTTPDriver { $0.limits.rates = rates }
            driver.base.context.settings.limits.users = users
            driver.base.socket.isTrustedProxy = isProxy
            return driver
        }
        var (one, other, proxy) = (driver(), driver(), driver(isProxy: true))
        func accepted(_ count: Int, _ driver: inout HTTPDriver, as identity: Identity) -> Int {
            var accepted = 0
            for _ in 0..<count where put(&driver, as: identity) { accepted += 1 }
            return accepted
        }
        #expect(accepted(30, &one, as: administrator) == 30)
        #expect(accepted(8, &one, as: user("ada")) == 8)
        #expect(accepted(8, &other, as: user("ada")) == 2, "the user's ten are used up")
        #expect(accepted(20, &proxy, as: user("bob")) == 10)
        #expect(accepted(1, &proxy, as: user("eve")) == 1, "a proxy's connection is no client's")
    }

    /// A body counts as long as it is when it is inflated.
    @Test(arguments: [(50, false), (5000, true)])
    func compressedBodies(inflatedByteCount: Int, isRefused: Bool) {
        var driver = HTTPDriver { $0.limits.rates = WriteRates(bytesPerSecond: 100) }
        #expect(driver.receive(write("PUT /a.json", "packed", "Content-Encoding: gzip")).count == 1)
        let body = BodyResult(
            session: HTTPDriver.id, content: .data(.value(Draft(node("1")))), byteCount: inflatedByteCount)
        #expect(driver.event { $0.bodyRead(body, &$1) } == ["PUT /a 1"])
        _ = driver.receive(.written(node("1")))
        let lines = driver.receive(write("PUT /a.json", "1"))
        #expect(lines.contains("count limit bytesPerSecond") == isRefused, "\(lines)")
    }

    /// A proxy's connections bring the writes of many: those without a user count for their client's address.
    @Test func writesOfClientsBehindAProxy() {
        let rates = WriteRates(writesPerSecond: 1)
        let users = UserLimiter(connectionLimit: 0, rates: rates)
        func accepted(_ count: Int, from address: String, isProxy: Bool = true) -> Int {
            var accepted = 0
            for _ in 0..<count {
                var driver = HTTPDriver { $0.limits.rates = rates }
                driver.base.context.settings.limits.users = users
                driver.base.socket.isTrustedProxy = isProxy
                driver.base.context.settings.limits.clientNetwork = { field in
                    guard let number = UInt64(String(decoding: field, as: UTF8.self)) else { return nil }
                    return ClientNetwork(family: 4, prefix: number)
                }
                let lines = driver.receive(write("PUT /a.json", "1", "X-Forwarded-For: \(address)"))
                if lines == ["PUT /a 1"] { accepted += 1 }
            }
            return accepted
        }
        #expect(accepted(15, from: "1") == 10)
        #expect(accepted(15, from: "2") == 10)
        #expect(accepted(15, from: "unknown") == 15)
        #expect(accepted(15, from: "1", isProxy: false) == 15, "what a client says itself does not count")
    }

    @Test func eventStreamsOfOneUser() {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates())
        func driver() -> HTTPDriver {
            var driver = HTTPDriver()
            driver.base.context.settings.limits.users = users
            return driver
        }
        func stream(_ driver: inout HTTPDriver) -> [String] {
            _ = driver.receive(request("GET /a.json?auth=T", "Host: localhost", "Accept: text/event-stream"))
            return driver.event { $0.verified(.accepted(user("ada")), &$1) }
        }
        var (first, second, third) = (driver(), driver(), driver())
        #expect(stream(&first) == ["GET /a stream as ada"])
        #expect(
            stream(&second)
                == ["count limit connectionsPerUser", "refuse 429 Too many connections of this user"])
        // One that is denied has no place.
        _ = first.receive(.refused(.permissionDenied))
        #expect(stream(&third) == ["GET /a stream as ada"])
        _ = third.receive(.stream)
        #expect(stream(&first).count == 2)
        _ = third.event { $0.closed(inOrder: true, &$1) }
        _ = second.receive(.refused(.limitExceeded(.connectionsPerUser, retrySeconds: 1)))
        #expect(stream(&second).count == 1)
    }

    /// A request on a proxy's connection is counted for its client while it is in progress.
    @Test func clientsBehindAProxy() {
        final class Place {}
        final class Counter {
            weak var place: Place?
            func admit(_ field: [UInt8]) -> ClientAdmission {
                guard field == Array("1.2.3.4".utf8) else { return .uncounted }
                guard place == nil else { return .refused }
                let made = Place()
                place = made
                return .granted(made)
            }
        }
        let counter = Counter()
        func driver(isProxy: Bool = true) -> HTTPDriver {
            var driver = HTTPDriver()
            driver.base.socket.isTrustedProxy = isProxy
            driver.base.context.settings.limits.admitClient = { counter.admit($0) }
            return driver
        }
        let get = request("GET /a.json", "Host: localhost", "X-Forwarded-For: 1.2.3.4")
        var (first, second, direct) = (driver(), driver(), driver(isProxy: false))
        #expect(first.receive(get) == ["GET /a"] && counter.place != nil)
        #expect(second.receive(get).first?.hasPrefix("429") == true)
        #expect(second.receive(request("GET /b.json")) == ["GET /b"], "the proxy's connection goes on")
        #expect(direct.receive(get) == ["GET /a"], "what a client says itself does not count")
        _ = first.receive(.read(node("1")))
        #expect(counter.place == nil, "the request is over")
        #expect(first.receive(get) == ["GET /a"] && counter.place != nil)
        _ = first.event { $0.closed(inOrder: false, &$1) }
        #expect(counter.place == nil)
        // A body that is not read ends the connection.
        var third = driver()
        #expect(third.receive(get) == ["GET /a"])
        var fourth = driver()
        let put = write("PUT /a.json", "1", "X-Forwarded-For: 1.2.3.4")
        #expect(fourth.receive(put).last == "close after flush")
    }

    @Test(
        arguments: [
            // limit, head,                                              status
            (
                1024, request("GET /a.json", "Host: localhost", "X: " + String(repeating: "x", count: 1100)),
                "431"
            ),
            (1024, request("GET /\(String(repeating: "a", count: 1100)).json"), "414"),
        ] as [(Int, String, String)])
    func headsThatAreTooLarge(limit: Int, head: String, status: String) {
        var driver = HTTPDriver {
            $0.headLimits.headByteLimit = limit
            $0.headLimits.targetByteLimit = limit
        }
        let lines = driver.receive(head)
        #expect(lines.first == "count limit headBytes" && lines.contains { $0.hasPrefix(status) }, "\(lines)")
    }

    /// Whether the client uses TLS is the proxy's to say.
    @Test(
        arguments: [
            // X-Forwarded-Proto, by a trusted proxy, secure for the log, reported
            ("https", true, true, false), ("HTTPS, http", true, true, false), ("wss", true, true, false),
            ("http", true, false, true), ("gopher", true, false, false), ("https", false, false, false),
        ] as [(String, Bool, Bool, Bool)])
    func forwardedProto(value: String, isTrusted: Bool, isSecure: Bool, isReported: Bool) {
        var driver = HTTPDriver { $0.logsAccess = true }
        driver.base.socket.isTrustedProxy = isTrusted
        let lines = driver.receive(request("GET /a.json", "Host: localhost", "X-Forwarded-Proto: \(value)"))
        #expect(lines.contains("report plain client") == isReported)
        #expect(driver.machine.output.logged?.isSecure == isSecure)
    }
}
