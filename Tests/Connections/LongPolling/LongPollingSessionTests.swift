import PandoBytes
import PandoIdentity
import PandoTime
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// A session by long polling: polls that wait, responses to them, messages of the client (realtime §1.5).
@Suite struct LongPollingSessionTests {
    @Test func firstResponseNamesTheSession() {
        var driver = PollingDriver(isStarted: false)
        #expect(driver.log == ["hold on 1", "poll waits", "wake at 20"])
        #expect(driver.send(#"{"t":"c"}"#) == [])
        #expect(
            driver.endOfTick() == [
                "release 1", #"to 1: pLPCommand('start','5','k2Jd83hf0Q'); pRTLPCB(0,[{"t":"c"}]);"#,
                "no poll waits", "cancel wake",
            ])
        #expect(driver.machine.isPassword(PollingDriver.password))
        #expect(!driver.machine.isPassword(Array("k2Jd83hf0q".utf8)) && !driver.machine.isPassword([]))
    }

    @Test(
        arguments: [
            PollingConversation(
                "a poll waits for messages, and gets all that one tick brings",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .server("{1}"), .server("{2}"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[{1},{2}]);", "no poll waits", "cancel wake"),
                ]),
            PollingConversation(
                "messages wait for a poll",
                [
                    .server("{1}"), .server("{2}"),
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[{1},{2}]);", "no poll waits", "cancel wake"),
                ]),
            PollingConversation(
                "a poll that has waited for 20 s is answered with nothing",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .deadline(after: 20, "release 1", "to 1: pRTLPCB(1,[]);", "no poll waits"),
                ]),
            PollingConversation(
                "a newer poll: the older one is answered at once (§1.5.2)",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"), .wait(3),
                    .poll(2, on: 2, [], "hold on 2", "poll waits"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[]);", "wake at 23"),
                    .server("{1}"),
                    .endOfTick("release 2", "to 2: pRTLPCB(2,[{1}]);", "no poll waits", "cancel wake"),
                ]),
            PollingConversation(
                "responses are numbered without a gap, over all connections (§1.5.2)",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .poll(2, on: 2, [], "hold on 2", "poll waits"),
                    .poll(3, on: 3, [], "hold on 3", "poll waits"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[]);", "release 2", "to 2: pRTLPCB(2,[]);"),
                ]),
            PollingConversation(
                "a poll that is asked again gets the same response, at once",
                [
                    .server("{1}"),
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[{1}]);", "no poll waits", "cancel wake"),
                    .note([1], .lost), .poll(1, on: 2, [], "to 2: pRTLPCB(1,[{1}]);", "no poll waits"),
                ]),
            PollingConversation(
                "a poll that waits and is asked again is answered on both connections",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .poll(1, on: 2, [], "hold on 2", "poll waits"),
                    .endOfTick(
                        "release 1", "to 1: pRTLPCB(1,[]);", "release 2", "to 2: pRTLPCB(1,[]);",
                        "no poll waits",
                        "cancel wake"),
                ]),
            PollingConversation(
                "a response whose connection broke comes again with the next answer (§1.5.2)",
                [
                    .server("{1}"),
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[{1}]);", "no poll waits", "cancel wake"),
                    .poll(2, on: 2, [], "hold on 2", "poll waits", "wake at 20"),
                    .note([1], .lost),
                    .endOfTick(
                        "release 2", "to 2: pRTLPCB(1,[{1}]); pRTLPCB(2,[]);", "no poll waits", "cancel wake"),
                ]),
            PollingConversation(
                "the connection of a poll that waits breaks",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .pollIsLost(on: 1, "release 1", "no poll waits", "cancel wake"), .pollIsLost(on: 1),
                    .server("{1}"),
                ]),
            PollingConversation(
                "a poll behind which something was sent does not wait",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .hurryPoll(on: 2),
                    .hurryPoll(
                        on: 1, "release 1", "to 1: pRTLPCB(1,[]);", "no poll waits", "cancel wake"),
                    .hurryPoll(on: 1),
                ]),
            PollingConversation(
                "a malformed segment (§1.5.2: 400)",
                [
                    Step("poll", ["to 1: malformed seg0"]) { $0.poll(1, on: 1, query: "&seg0=x&ts0=1&d0=") },
                    .holds("the session goes on") { $0.machine.isOpen },
                ]),
            PollingConversation(
                "of a large message no part is answered before the last",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .large(largeReply(9, 200_000), "encode reply 9"), .server("{2}"),
                ]),
        ] as [PollingConversation])
    func polls(conversation: PollingConversation) { conversation.check() }

    @Test(
        arguments: [
            PollingConversation(
                "messages of the client are requests",
                [
                    .poll(
                        1, on: 1, [putMessage(1), putMessage(2)], "hold on 1", "poll waits", "wake at 20",
                        "request 1 put /a 1", "request 2 put /a 1")
                ]),
            PollingConversation(
                "a ping",
                [
                    .poll(1, on: 1, [control("p")], "hold on 1", "poll waits", "wake at 20"),
                    .endOfTick("release 1", "to 1: pRTLPCB(1,[\(pong)]);", "no poll waits", "cancel wake"),
                ]),
            PollingConversation(
                "segments that overtake each other (§1.5.2)",
                [
                    Step("the second", ["hold on 1", "poll waits", "wake at 20"]) {
                        $0.poll(1, on: 1, query: segments([putMessage(2)], from: 1).query)
                    },
                    Step(
                        "the first",
                        [
                            "hold on 2", "poll waits", "request 1 put /a 1",
                            "request 2 put /a 1",
                        ]
                    ) { $0.poll(2, on: 2, query: segments([putMessage(1)]).query) },
                ]),
            PollingConversation(
                "segments that come again are dropped (§1.5.2)",
                [
                    .poll(
                        1, on: 1, [putMessage(1)], "hold on 1", "poll waits", "wake at 20",
                        "request 1 put /a 1"),
                    Step("the same poll", ["hold on 2", "poll waits"]) {
                        $0.poll(1, on: 2, query: segments([putMessage(1)]).query)
                    },
                ]),
            PollingConversation(
                "malformed JSON ends the session",
                [
                    .poll(
                        1, on: 1, ["{"], "hold on 1", "poll waits", "release 1", "to 1: closed", "poll waits",
                        "remove",
                        "closed"), .poll(2, on: 2, [], "to 2: closed"), .server("{1}"),
                ]),
            PollingConversation(
                "a segment that is no Base64 ends the session",
                [
                    Step(
                        "poll",
                        [
                            "hold on 1", "poll waits", "release 1", "to 1: closed", "poll waits", "remove",
                            "closed",
                        ]
                    ) { $0.poll(1, on: 1, query: "&seg0=0&ts0=1&d0=!!") }
                ]),
            PollingConversation(
                "the authentication is finished before the next message (§3.4)",
                [
                    .poll(
                        1, on: 1, [ask(1, "auth", #"{"cred":"T"}"#), putMessage(2)], "hold on 1",
                        "poll waits",
                        "verify T", "wake at 20"),
                    .holds("the message is counted") { $0.machine.unfinishedByteCount > 0 },
                    .event(
                        "accepted",
                        [
                            "identity as ada", #"reply 1 authenticated {"uid":"ada"}"#,
                            "request 2 put /a 1 as ada",
                        ]
                    ) { $0.verified(.accepted(user("ada")), &$1) },
                    .holds("nothing waits") { $0.machine.unfinishedByteCount == 0 },
                ]),
            PollingConversation(
                "the token expires",
                [
                    .poll(
                        1, on: 1, [ask(1, "auth", #"{"cred":"T"}"#)], "hold on 1", "poll waits", "verify T",
                        "wake at 20"),
                    .event(
                        "accepted",
                        ["expire at 99", "identity as ada", #"reply 1 authenticated {"uid":"ada"} until 99"#]
                    ) { $0.verified(.accepted(user("ada", validUntil: 99)), &$1) },
                    .event("expired", ["cancel expiry", "credential 1 ended"]) { $0.expired(&$1) },
                ]),
            PollingConversation(
                "what one client posts is bounded: the rest waits for its marks",
                [
                    Step("256 requests", ["256 requests", "2 marks"]) { driver in
                        for serial in 1...4 {
                            _ = driver.poll(UInt64(serial), on: 1, (1...64).map { putMessage($0) })
                            while driver.log.last == "next turn"
                                || driver.actions.map(\.summary).contains("next turn")
                            {
                                _ = driver.event { $0.nextTurn(&$1) }
                            }
                        }
                        let requests = driver.log.filter { $0.hasPrefix("request") }.count
                        return [
                            "\(requests) requests",
                            "\(driver.log.filter { $0 == "window mark" }.count) marks",
                        ]
                    },
                    Step("more", []) { driver in
                        driver.poll(9, on: 1, [putMessage(300)]).filter { $0.hasPrefix("request") }
                    },
                    .holds("many") { $0.machine.hasManyRequests },
                    .event("a mark", ["next turn"]) { $0.windowMarkReturned(&$1) },
                    .event("its turn", ["request 300 put /a 1"]) { $0.nextTurn(&$1) },
                ]),
        ] as [PollingConversation])
    func messages(conversation: PollingConversation) { conversation.check() }

    /// A burst of messages is read in turns, so that other connections have theirs.
    @Test func burstIsReadInTurns() {
        var driver = PollingDriver()
        let lines = driver.poll(1, on: 1, (1...100).map { putMessage($0) })
        #expect(lines.filter { $0.hasPrefix("request") }.count == 64 && lines.contains("next turn"))
        #expect(driver.event { $0.nextTurn(&$1) }.filter { $0.hasPrefix("request") }.count == 36)
        #expect(driver.machine.unfinishedByteCount == 0)
    }

    /// What several sessions get is escaped once, and each of them holds a reference to it.
    @Test func sharedScriptIsNotCopied() {
        let message = "{\"__proto__\":\"" + String(repeating: "v", count: 30_000) + "\"}"
        let shared = CompressibleFrames(SharedBytes(frames(message)))
        // Two loops.
        var (forms, otherForms) = (FramesByForm(shared), FramesByForm(shared))
        let script = forms.bytes(for: .script, nil)
        #expect(forms.bytes(for: .script, nil) === script)
        #expect(otherForms.bytes(for: .script, nil) === script)
        let isEscaped = text(script.array) == message.replacing("\"__proto__\":", with: "[\"__proto__\"]:")
        #expect(isEscaped)
        for _ in 0..<2 {
            var driver = PollingDriver()
            _ = driver.send(script: script)
            _ = driver.send("{2}")
            #expect(driver.machine.waitingByteCount == 3 && driver.machine.heldByteCount < 3000)
            _ = driver.poll(1, on: 1)
            let answers = driver.endOfTick()
            let isSent = answers.contains("to 1: pRTLPCB(1,[\(text(script.array)),{2}]);")
            #expect(isSent)
        }
    }

    /// A shared script keeps its place behind a large message that is being encoded.
    @Test func sharedScriptWaitsForALargeMessage() {
        var driver = PollingDriver()
        let message = largeReply(9, 40_000)
        _ = driver.poll(1, on: 1)
        _ = driver.send(message)
        _ = driver.send(script: SharedBytes(Array("{2}".utf8)))
        #expect(driver.endOfTick() == [])
        _ = driver.encode(message)
        let isInOrder = driver.endOfTick().contains { $0.hasSuffix("}},{2}]);") }
        #expect(isInOrder)
    }

    /// A large message is sent in one response. A worker has escaped it: nothing is copied.
    @Test func largeMessageIsOneMessage() {
        var driver = PollingDriver()
        let message = largeReply(9, 300_000)
        _ = driver.poll(1, on: 1)
        #expect(driver.send(message) == ["encode reply 9"])
        #expect(driver.send("{2}") == [])
        _ = driver.encode(message)
        #expect(driver.machine.waitingByteCount < 100, "the rest is shared")
        #expect(driver.machine.polls.responses.byteCount > 300_000)
        let answer = driver.endOfTick().first { $0.hasPrefix("to 1: ") } ?? ""
        #expect(answer.hasPrefix(#"to 1: pRTLPCB(1,[{"t":"d","d":{"r":9,"b":{"s":"ok","d":"rrr"#))
        #expect(answer.hasSuffix(#""}}}]);"#) && answer.utf8.count > 300_000)
        _ = driver.poll(2, on: 1)
        #expect(
            driver.endOfTick().contains("to 1: pRTLPCB(2,[{2}]);"), "what follows has a response of its own")
    }

    /// What a client cannot keep until it was received is refused, as in realtime §14.
    @Test func messageThatIsTooLargeForItsClient() {
        var driver = PollingDriver { $0.outboundByteLimit = 100_000 }
        let message = largeReply(9, 60_000)
        _ = driver.poll(1, on: 1)
        _ = driver.send(message)
        _ = driver.encode(message)
        #expect(driver.endOfTick().contains { $0.contains(#""r":9,"b":{"s":"too_big""#) })
        var other = PollingDriver { $0.outboundByteLimit = 100_000 }
        let push = largePush(60_000)
        _ = other.poll(1, on: 1)
        _ = other.send(push)
        #expect(other.encode(push).contains("closed"), "data that a listen waits for cannot be left out")
        #expect(other.endOfTick().contains { $0.hasSuffix("pLPCommand('close',1);") })
    }

    /// A client that does not poll: what it is sent is coalesced, then it is paused, then its session ends.
    @Test func clientThatDoesNotPoll() {
        var driver = PollingDriver { $0.outboundByteLimit = 2 << 20 }
        let message = "{\"v\":\"" + String(repeating: "v", count: 10 << 10) + "\"}"
        var lines: [String] = []
        func send(upTo byteCount: Int) {
            while driver.machine.isOpen, driver.machine.polls.responses.byteCount < byteCount {
                lines += driver.send(message)
            }
        }
        send(upTo: 250 << 10)
        #expect(lines == [])
        send(upTo: 300 << 10)
        #expect(lines == ["lagging"] && driver.machine.pauses == [])
        send(upTo: 1100 << 10)
        #expect(driver.machine.pauses == [.unsentOutput])
        send(upTo: 3 << 20)
        #expect(lines == ["lagging", "poll waits", "remove", "closed"] && driver.machine.heldByteCount == 0)
    }

    /// A client that takes what it was sent is read again.
    @Test func clientThatCatchesUp() {
        var driver = PollingDriver()
        let message = "{\"v\":\"" + String(repeating: "v", count: 10 << 10) + "\"}"
        while driver.machine.polls.responses.byteCount < 1100 << 10 { _ = driver.send(message) }
        var (serial, number) = (1 as UInt64, 1)
        for _ in 0..<20 {
            _ = driver.poll(serial, on: 1, serial == 1 ? [putMessage(1)] : [])
            _ = driver.endOfTick()
            _ = driver.note([number], .received)
            serial += 1
            number += 1
        }
        #expect(driver.log.filter { $0 == "caught up" }.count == 1)
        #expect(driver.log.contains("request 1 put /a 1") && driver.machine.pauses == [])
    }

    /// Two polls are in progress at a time; a client that leaves many responses unconfirmed is no browser.
    @Test func clientThatLeavesResponsesUnconfirmedIsDisconnected() {
        var driver = PollingDriver()
        var serial: UInt64 = 0
        while driver.machine.isOpen, serial < 1000 {
            serial += 1
            _ = driver.poll(serial, on: serial)
            _ = driver.endOfTick()
        }
        #expect((250...260).contains(serial), "\(serial)")
        #expect(
            driver.log.contains("lose deliveries on 1"), "of the oldest connections nothing more is awaited")
        #expect(driver.machine.unconfirmedConnections.isEmpty)
    }

    /// A client that asks the same poll on many connections.
    @Test func copiesOfOnePoll() {
        var driver = PollingDriver()
        for connection in 1...16 as ClosedRange<UInt64> {
            #expect(!driver.poll(1, on: connection).contains { $0.hasPrefix("reset") })
        }
        #expect(driver.poll(1, on: 17).filter { $0.hasSuffix(" 1") } == ["release 1", "reset 1"])
    }
}

/// How a session by long polling ends (realtime §1.5.3).
@Suite struct LongPollingEndTests {
    @Test(
        arguments: [
            PollingConversation(
                "the server has said why: its last messages go out, and behind them the end",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .server("{1}"),
                    .event("finished", ["closed"]) { $0.close(.finished, &$1) },
                    .endOfTick(
                        "release 1", "to 1: pRTLPCB(1,[{1}]); pLPCommand('close',1);", "no poll waits",
                        "wake at 60"),
                    .server("{2}"),
                    .deadline(after: 60, "poll waits", "remove"),
                ]),
            PollingConversation(
                "without a poll they wait for one",
                [
                    .server("{1}"),
                    .event("finished", ["no poll waits", "wake at 60", "closed"]) {
                        $0.close(.finished, &$1)
                    },
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .endOfTick(
                        "release 1", "to 1: pRTLPCB(1,[{1}]); pLPCommand('close',1);", "no poll waits",
                        "wake at 60"),
                ]),
            PollingConversation(
                "a client that came back elsewhere, and a server that stops: at once",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .event(
                        "replaced",
                        ["release 1", "to 1: closed", "poll waits", "remove", "cancel wake", "closed"]
                    ) {
                        $0.close(.replaced, &$1)
                    },
                    .event("again", []) { $0.close(.goingAway, &$1) },
                ]),
            PollingConversation(
                "no poll for 60 s: the client is gone",
                [.tick(after: 60), .tick(after: 1, "poll waits", "remove", "closed"), .tick(after: 1)]),
            PollingConversation(
                "while a poll waits it is not",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"), .tick(after: 100),
                ]),
            PollingConversation(
                "the page was left",
                [
                    .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"),
                    .event(
                        "disconnect",
                        ["release 1", "to 1: closed", "poll waits", "remove", "cancel wake", "closed"]
                    ) {
                        $0.disconnect(&$1)
                    },
                    .poll(2, on: 2, [], "to 2: closed"),
                ]),
            PollingConversation(
                "the page was left: what it had sent is done first",
                [
                    .poll(
                        1, on: 1, [ask(1, "auth", #"{"cred":"T"}"#), putMessage(2)], "hold on 1",
                        "poll waits",
                        "verify T", "wake at 20"),
                    .event("disconnect", ["release 1", "to 1: closed", "no poll waits", "cancel wake"]) {
                        $0.disconnect(&$1)
                    },
                    .server("{1}"), .poll(2, on: 2, [], "to 2: closed"),
                    .event(
                        "accepted",
                        [
                            "poll waits", "remove", "identity as ada",
                            #"reply 1 authenticated {"uid":"ada"}"#,
                            "request 2 put /a 1 as ada", "closed",
                        ]
                    ) { $0.verified(.accepted(user("ada")), &$1) },
                ]),
            PollingConversation(
                "others need its place",
                [
                    .event("cut", ["poll waits", "remove", "closed"]) { $0.cutNow(&$1) },
                    .event("again", []) { $0.cutNow(&$1) },
                ]),
            PollingConversation(
                "the process ends: only one whose end is on its way is ended here",
                [
                    .event("end", []) { $0.endIfIdle(&$1) },
                    .event("finished", ["no poll waits", "wake at 60", "closed"]) {
                        $0.close(.finished, &$1)
                    },
                    .event("end", ["poll waits", "remove", "cancel wake"]) { $0.endIfIdle(&$1) },
                ]),
            PollingConversation(
                "while a message is parsed",
                [
                    Step("large message", ["parse 70051 bytes"]) { driver in
                        let message = putMessage(1, "/a", "\"" + String(repeating: "v", count: 70_000) + "\"")
                        let (query, _) = segments([message], length: 20_000)
                        return driver.poll(1, on: 1, query: query).filter { $0.hasPrefix("parse") }
                    },
                    .event(
                        "cut",
                        [
                            "abandon jobs", "release 1", "to 1: closed", "poll waits", "remove",
                            "cancel wake", "closed",
                        ]
                    ) {
                        $0.cutNow(&$1)
                    },
                ]),
        ] as [PollingConversation])
    func ends(conversation: PollingConversation) { conversation.check() }

    /// A message that comes too slowly ends the session; one whose polls are not answered is not slow.
    @Test func slowMessage() {
        var driver = PollingDriver()
        _ = driver.poll(1, on: 1, query: "&seg0=0&ts0=9&d0=eyJ0")
        var seconds = 0
        while driver.machine.isOpen, seconds < 100 {
            seconds += 1
            driver.context.now = driver.context.now + .seconds(1)
            _ = driver.event { $0.tick(&$1) }
        }
        #expect(seconds == 32, "30 s from the first look on")
    }

    @Test func sessionWithTooManyWaitingBytesEnds() {
        var driver = PollingDriver()
        _ = driver.poll(1, on: 1, [ask(1, "auth", #"{"cred":"T"}"#)])
        var count: UInt64 = 1
        while driver.machine.isOpen, count < 100 {
            count += 1
            _ = driver.poll(count, on: 1, (0..<100).map { putMessage($0) })
        }
        #expect(count == 12, "1024 messages wait, no more")
    }
}
