import PandoIdentity
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// Limits of writes and of a user's connections over the realtime protocol (`operating.md`, "Limits of
/// clients").
@Suite struct RealtimeLimitTests {
    /// A client that has used up its ten seconds' worth of one write a second.
    private func busyDriver() -> WebSocketDriver {
        var driver = WebSocketDriver { $0.limits.rates = WriteRates(writesPerSecond: 1) }
        for number in 1...10 {
            #expect(driver.receive(putMessage(number)) == ["request \(number) put /a 1"])
        }
        return driver
    }

    private static func delay(until end: Int) -> [String] {
        ["count delay writesPerSecond", "wake at \(end)"]
    }

    @Test(
        arguments: [
            // action, body, whether it waits
            ("p", #"{"p":"/a","d":1}"#, true), ("p", #"{"p":"/a","d":1,"h":"x"}"#, true),
            ("m", #"{"p":"/a","d":{"b":1}}"#, true), ("o", #"{"p":"/a","d":1}"#, true),
            ("om", #"{"p":"/a","d":{"b":1}}"#, true),
            ("q", #"{"p":"/a","h":""}"#, false), ("n", #"{"p":"/a"}"#, false), ("g", #"{"p":"/a"}"#, false),
            ("oc", #"{"p":"/a"}"#, false), ("s", "{}", false), ("unauth", "{}", false),
        ] as [(String, String, Bool)])
    func onlyWritesWait(action: String, body: String, waits: Bool) {
        var driver = busyDriver()
        let lines = driver.receive(ask(11, action, body))
        #expect((lines == Self.delay(until: 0)) == waits, "\(lines)")
        if waits {
            let made = driver.event { $0.deadlinePassed(&$1) }
            #expect(made.count == 1 && made[0].hasPrefix("request 11 "), "\(made)")
        }
        driver.base.wait(2.1)
        #expect(driver.receive(ask(12, action, body)).contains { $0.hasPrefix("count") } == false)
    }

    /// What an SDK has gathered while it was offline: everything is done, in order, as fast as the rate
    /// allows.
    @Test func requestsAfterAWaitingWriteWaitToo() {
        var driver = busyDriver()
        let messages = [putMessage(11), ask(12, "g", #"{"p":"/a"}"#), putMessage(13), putMessage(14)]
        #expect(driver.receive(messages.flatMap { [UInt8].clientText($0) }) == Self.delay(until: 0))
        #expect(driver.machine.pauses == [.input] && driver.machine.heldByteCount > 0)
        #expect(driver.receive([UInt8].clientText(ask(15, "g", #"{"p":"/b"}"#))) == [], "not read yet")
        #expect(
            driver.event { $0.deadlinePassed(&$1) }
                == Self.delay(until: 1) + ["request 11 put /a 1", "request 12 get /a"])
        driver.base.wait(1)
        #expect(
            driver.event { $0.deadlinePassed(&$1) } == Self.delay(until: 2) + ["request 13 put /a 1"])
        driver.base.wait(1)
        #expect(driver.event { $0.deadlinePassed(&$1) } == ["request 14 put /a 1", "request 15 get /b"])
        #expect(driver.machine.pauses == [] && driver.machine.heldByteCount == 0)
    }

    @Test func aWriteThatWaitsEndsWithItsConnection() {
        var driver = busyDriver()
        #expect(driver.receive(putMessage(11)) == Self.delay(until: 0))
        #expect(driver.event { $0.closed(&$1) }.contains("closed"))
        #expect(driver.machine.heldByteCount == 0)
        #expect(driver.event { $0.deadlinePassed(&$1) } == [])
    }

    /// A delayed write is made with the credential that the connection has when the delay ends.
    @Test func credentialThatIsOverMeanwhile() {
        var driver = WebSocketDriver { $0.limits.rates = WriteRates(writesPerSecond: 1) }
        _ = signIn(&driver, 1, as: user("ada", validUntil: 99))
        for number in 2...11 { #expect(driver.receive(putMessage(number)).count == 1) }
        #expect(driver.receive(putMessage(12)) == Self.delay(until: 0))
        _ = driver.event { $0.expired(&$1) }
        #expect(driver.event { $0.deadlinePassed(&$1) } == ["request 12 put /a 1"])
    }

    /// Beyond half a minute a write is refused, and costs nothing; what only reads is done.
    @Test func bytesOfWrites() {
        var driver = WebSocketDriver { $0.limits.rates = WriteRates(bytesPerSecond: 10) }
        let value = "\"" + String(repeating: "v", count: 500) + "\""
        #expect(driver.receive(putMessage(1, "/a", value)).count == 1, "one of any size")
        for _ in 0..<100 {
            #expect(
                driver.receive(putMessage(2)) == [
                    "count limit bytesPerSecond", "reply 2 Too many bytes of writes per second",
                ])
        }
        #expect(driver.receive(ask(3, "g", #"{"p":"/a"}"#)) == ["request 3 get /a"])
        driver.base.wait(20)
        #expect(driver.receive(putMessage(4)).first == "count delay bytesPerSecond")
    }

    @Test func longPollingWaitsToo() {
        var driver = PollingDriver { $0.limits.rates = WriteRates(writesPerSecond: 1) }
        let writes = (1...12).map { putMessage($0) }
        let lines = driver.poll(1, on: 2, writes + [ask(13, "g", #"{"p":"/a"}"#)])
        #expect(lines.filter { $0.hasPrefix("request ") }.count == 10, "\(lines)")
        #expect(lines.contains("count delay writesPerSecond") && driver.machine.heldByteCount > 0)
        var made = driver.event { $0.deadlinePassed(&$1) }.filter { $0.hasPrefix("request ") }
        #expect(made == ["request 11 put /a 1"])
        driver.context.now = second(1)
        made = driver.event { $0.deadlinePassed(&$1) }.filter { $0.hasPrefix("request ") }
        #expect(made == ["request 12 put /a 1", "request 13 get /a"])
    }

    /// A message that a worker parses counts, too.
    @Test func largeWrites() {
        var driver = WebSocketDriver { $0.limits.rates = WriteRates(bytesPerSecond: 1000) }
        let text = putMessage(1, "/a", "\"" + String(repeating: "v", count: 100_000) + "\"")
        for isRefused in [false, true] {
            #expect(driver.receive(text).count == 1)
            let lines = driver.event { machine, context in
                let message = ParsedMessage(
                    parsing: Array(text.utf8), for: WebSocketDriver.id, nodeLimit: 1000)
                machine.parsed(message, &context)
            }
            #expect(lines.contains { $0.hasPrefix("count limit bytes") } == isRefused, "\(lines)")
        }
    }

    private func signIn(_ driver: inout WebSocketDriver, _ number: Int, as identity: Identity) -> [String] {
        #expect(driver.receive(ask(number, "auth", #"{"cred":"T"}"#)) == ["verify T"])
        return driver.event { $0.verified(.accepted(identity), &$1) }
    }

    @Test func administratorsHaveNoLimit() {
        var driver = busyDriver()
        _ = signIn(&driver, 20, as: administrator)
        for number in 1...100 {
            #expect(driver.receive(putMessage(number)) == ["request \(number) put /a 1 as administrator"])
        }
    }

    /// A user's writes are counted over all connections, and those that wait are made one after the other.
    @Test func writesOfOneUserOverSeveralConnections() {
        let rates = WriteRates(writesPerSecond: 1)
        let users = UserLimiter(connectionLimit: 0, rates: rates)
        var (made, waits): (Int, [String]) = (0, [])
        for _ in 0..<4 {
            var driver = WebSocketDriver { $0.limits.rates = rates }
            driver.base.context.settings.limits.users = users
            _ = signIn(&driver, 20, as: user("ada"))
            for number in 1...5 {
                let lines = driver.receive(putMessage(number))
                made += lines.count { $0.hasPrefix("request ") }
                waits += lines.filter { $0.hasPrefix("wake ") }
            }
        }
        #expect(made == 10 && waits == ["wake at 0", "wake at 1"])
    }

    @Test func connectionsOfOneUser() {
        let users = UserLimiter(connectionLimit: 1, rates: WriteRates())
        func driver() -> WebSocketDriver {
            var driver = WebSocketDriver()
            driver.base.context.settings.limits.users = users
            return driver
        }
        var (first, other) = (driver(), driver())
        let signedIn = ["identity as ada", #"reply 1 authenticated {"uid":"ada"}"#]
        let refused = ["count limit connectionsPerUser", "reply 1 Too many connections of this user"]
        #expect(signIn(&first, 1, as: user("ada")) == signedIn)
        #expect(signIn(&first, 1, as: user("ada")) == signedIn, "it has its place already")
        #expect(signIn(&other, 1, as: user("ada")) == refused)
        #expect(other.receive(putMessage(2)) == ["request 2 put /a 1"], "it is not signed in")
        #expect(signIn(&other, 3, as: user("bob")).count == 2)
        // By signing out, by another user, and by the end of the connection the place is free.
        _ = first.receive(ask(4, "unauth", "{}"))
        #expect(signIn(&other, 1, as: user("ada")) == signedIn)
        #expect(signIn(&first, 1, as: user("ada")) == refused)
        #expect(signIn(&first, 5, as: user("bob")).count == 2, "bob's place is free")
        _ = other.event { $0.closed(&$1) }
        #expect(signIn(&first, 1, as: user("ada")) == signedIn)
    }

    @Test func messagesThatAreTooLargeAreCounted() {
        var driver = WebSocketDriver()
        #expect(driver.receive([UInt8].clientText("7777")).first == "count limit messageBytes")
    }
}
