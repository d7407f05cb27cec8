import PandoEngine
import PandoRandom
import PandoTime
import Testing

@testable import PandoConnections
@testable import PandoDatabase
@testable import PandoIdentity

/// A session by long polling that moves to a WebSocket (realtime §1.6).
@Suite struct HandoverTests {
    private static func joining() -> WebSocketDriver { WebSocketDriver(joining: WebSocketDriver.polling) }

    private static let upgrade = #"{"t":"c","d":{"t":"a","d":{}}}"#
    private static let end = #"{"t":"c","d":{"t":"n","d":{}}}"#

    private static let offered = Step<WebSocketDriver>("offered", [upgrade]) { driver in
        driver.event { $0.offerMove(&$1) }
    }

    private static let takenOver = Step<WebSocketDriver>("taken over", []) { driver in
        driver.event { $0.takeOver(RealtimeSession(WebSocketDriver.polling), &$1) }
    }

    /// The WebSocket's side.
    @Test(
        arguments: [
            WebSocketConversation(
                "the server offers, the client pings, and says that it sends here from now on", { joining() },
                [
                    offered, .client(control("p"), pong), .client(control("p"), pong),
                    .client(control("a"), "acknowledged to 5"),
                ]),
            WebSocketConversation(
                "what it sends behind that waits until everything before has come by long polling",
                { joining() },
                [
                    offered,
                    .clientSends(.clientText(control("a")) + .clientText(putMessage(1)), "acknowledged to 5"),
                    .client(putMessage(2)),
                    .holds("the socket is not read") { $0.machine.pauses == [.input] },
                    Step("taken over", ["request 1 put /a 1", "request 2 put /a 1"]) { driver in
                        driver.event { $0.takeOver(RealtimeSession(WebSocketDriver.polling), &$1) }
                    },
                    .holds("the socket is read") { $0.machine.pauses == [] },
                ]),
            WebSocketConversation(
                "a request before that is none of this protocol", { joining() },
                [
                    offered,
                    .client(putMessage(1), "close 1008", "close after flush"),
                    .closed("WebSocket is gone, to 5"),
                ]),
            WebSocketConversation(
                "malformed", { joining() }, [.client("{", "close 1007", "close after flush")]),
            WebSocketConversation(
                "the session gives up the move", { joining() },
                [
                    offered,
                    Step("refused", ["close 1000", "close after flush"]) { driver in
                        driver.event { $0.refuseMove(&$1) }
                    },
                ]),
            WebSocketConversation(
                "the WebSocket breaks before the move: the session by long polling lives on", { joining() },
                [offered, .closed("WebSocket is gone, to 5")]),
            WebSocketConversation(
                "it breaks after the move: the session is over, and its last responses are of no use",
                { joining() },
                [
                    offered, .client(control("a"), "acknowledged to 5"), takenOver,
                    .closed("leave former", "closed"),
                ]),
            WebSocketConversation(
                "the last responses by long polling have arrived", { joining() },
                [
                    offered, .client(control("a"), "acknowledged to 5"), takenOver,
                    Step("forget", []) { driver in driver.event { machine, _ in machine.forgetFormer() } },
                    .closed("closed"),
                ]),
            WebSocketConversation(
                "revocations are the session's, which is not here yet", { joining() },
                [offered, .recheck(RevocationState()), .client(control("a"), "acknowledged to 5")]),
            WebSocketConversation(
                "`a` twice", { joining() },
                [offered, .client(control("a"), "acknowledged to 5"), .client(control("a"))]),
        ] as [WebSocketConversation])
    func webSocket(conversation: WebSocketConversation) { conversation.check() }

    private static func join(_ id: UInt64 = 9) -> Step<PollingDriver> {
        .event("a WebSocket joins", []) { $0.join(SessionID(id), &$1) }
    }

    private static func acknowledged(_ expected: String...) -> Step<PollingDriver> {
        .event("acknowledged", expected) { $0.webSocketAcknowledged(SessionID(9), &$1) }
    }

    /// The side of long polling.
    @Test(
        arguments: [
            PollingConversation(
                "`a`, then `n`: the session moves, and its last response is `n` and the end",
                [
                    join(), .poll(1, on: 1, [], "hold on 1", "poll waits", "wake at 20"), acknowledged(),
                    .poll(
                        2, on: 2, [putMessage(1), control("n"), putMessage(2)], "hold on 2", "poll waits",
                        "poll waits", "move to 9", "request 1 put /a 1"),
                    .endOfTick(
                        "release 1", "to 1: pRTLPCB(1,[\(end)]);", "release 2",
                        "to 2: pRTLPCB(2,[]); pLPCommand('close',2);", "no poll waits", "wake at 60"),
                    .holds("it is not open") { !$0.machine.isOpen && !$0.machine.mayBeJoined },
                    .deadline(after: 60, "forget former"),
                ]),
            PollingConversation(
                "`n`, then `a`",
                [
                    join(), .poll(1, on: 1, [control("n")], "hold on 1", "poll waits", "wake at 20"),
                    acknowledged("poll waits", "move to 9"),
                ]),
            PollingConversation(
                "a large message is sent by long polling first",
                [
                    join(), acknowledged(), .large(largeReply(9), "encode reply 9"),
                    .poll(1, on: 1, [control("n")], "hold on 1", "poll waits", "wake at 20"),
                    .holds("it has not moved") { $0.machine.isOpen },
                ]),
            PollingConversation(
                "`n` without a WebSocket: the client can send by neither, and begins anew (issue 494)",
                [
                    .poll(
                        1, on: 1, [control("n")], "hold on 1", "poll waits", "release 1", "to 1: closed",
                        "poll waits",
                        "remove", "closed")
                ]),
            PollingConversation(
                "the WebSocket breaks before `n`: long polling goes on",
                [
                    join(), .event("gone", []) { $0.webSocketIsGone(SessionID(9), &$1) },
                    .poll(
                        1, on: 1, [putMessage(1)], "hold on 1", "poll waits", "wake at 20",
                        "request 1 put /a 1"),
                ]),
            PollingConversation(
                "the WebSocket breaks behind `n`",
                [
                    join(), .poll(1, on: 1, [control("n")], "hold on 1", "poll waits", "wake at 20"),
                    .event(
                        "gone",
                        ["release 1", "to 1: closed", "poll waits", "remove", "cancel wake", "closed"]
                    ) {
                        $0.webSocketIsGone(SessionID(9), &$1)
                    },
                ]),
            PollingConversation(
                "a second WebSocket: the first is given up",
                [
                    join(), .event("another", ["refuse 9"]) { $0.join(SessionID(10), &$1) },
                    .event("the first", []) { $0.webSocketAcknowledged(SessionID(9), &$1) },
                    .event("the first", []) { $0.webSocketIsGone(SessionID(9), &$1) },
                ]),
            PollingConversation(
                "the session ends",
                [
                    join(),
                    .event("replaced", ["refuse 9", "poll waits", "remove", "closed"]) {
                        $0.close(.replaced, &$1)
                    },
                ]),
            PollingConversation(
                "the page says that polling ends: the session lives on (§1.5.3)",
                [
                    join(), .poll(1, on: 1, [control("n")], "hold on 1", "poll waits", "wake at 20"),
                    .event("moved", ["poll waits", "move to 9"]) {
                        $0.webSocketAcknowledged(SessionID(9), &$1)
                    },
                    .event("disconnect", ["release 1", "to 1: closed", "forget former", "cancel wake"]) {
                        $0.disconnect(&$1)
                    },
                ]),
        ] as [PollingConversation])
    func longPolling(conversation: PollingConversation) { conversation.check() }

    /// A browser that moves at any time, while both sides send: everything arrives once and in order, over
    /// both transports together.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func movesAtAnyTime(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = PollingWorld()
        var browser = PollingBrowser()
        browser.start(&world)
        var pushed = 0
        var (hasPinged, hasAcknowledged) = (false, false)
        let moveStep = Int.random(in: 10..<100, using: &random)
        /// Sent on the WebSocket behind the `a`.
        var sentThere = 0
        for step in 0..<300 {
            world.now = world.now + .milliseconds(10)
            if Int.random(in: 0..<3, using: &random) == 0 {
                world.push("{\"n\":\(pushed)}")
                pushed += 1
            }
            if step == moveStep { world.openWebSocket() }
            if step > moveStep, !hasAcknowledged, world.webSocketTexts.contains(Self.upgrade) {
                if !hasPinged {
                    hasPinged = true
                    world.sendOnWebSocket([control("p"), control("p")])
                } else if Bool.random(using: &random) {
                    hasAcknowledged = true
                    // The order of the two on their ways is open.
                    let isFirst = Bool.random(using: &random)
                    if isFirst { world.sendOnWebSocket([control("a")]) }
                    browser.end(&world)
                    if !isFirst { world.sendOnWebSocket([control("a")]) }
                }
            }
            if hasAcknowledged, Int.random(in: 0..<4, using: &random) == 0 {
                world.sendOnWebSocket([putMessage(browser.sentCount + sentThere)])
                sentThere += 1
            }
            for id in world.openConnections { world.take(on: id) }
            world.endOfTick()
            browser.read(world)
            if step > 3, !browser.isClosed, browser.underWay.count < 2 {
                browser.poll(hasAcknowledged ? 0 : Int.random(in: 0...2, using: &random), &world)
            }
        }
        world.endOfTick()
        browser.read(world)
        #expect(world.hasMoved && hasAcknowledged, "seed \(seed)")
        let there = world.webSocketTexts.compactMap { text in
            text.hasPrefix("{\"n\":") ? Int(text.dropFirst(5).dropLast()) : nil
        }
        #expect(browser.received + there == Array(0..<pushed), "seed \(seed): what the server has sent")
        #expect(world.posted == (0..<(browser.sentCount + sentThere)).map { Int64($0) }, "seed \(seed)")
        #expect(!there.isEmpty && browser.isClosed && !world.isClosed, "seed \(seed)")
    }
}
