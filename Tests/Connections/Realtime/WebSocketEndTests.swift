import PandoWebSocket
import Testing

@testable import PandoConnections
@testable import PandoDatabase

/// How a WebSocket ends (realtime §3.4, RFC 6455 §7), and time: silence and slowness.
@Suite struct WebSocketEndTests {
    private static let close = [UInt8].clientFrame(.close, [0x03, 0xE8])

    @Test(
        arguments: [
            WebSocketConversation(
                "the client closes: its code is repeated, and the server ends the connection (RFC 6455 §5.5.1, §7.1.1)",
                [
                    .clientSends(close, "close 1000", "close after flush", "closed"), .server("{1}"),
                    .client(putMessage(1)), .closed(),
                ]),
            WebSocketConversation(
                "the client closes without a code",
                [.clientSends(.clientFrame(.close, []), "close without code", "close after flush", "closed")]),
            WebSocketConversation(
                "requests before the close frame count, those behind it do not",
                [
                    .clientSends(
                        .clientText(putMessage(1)) + close + .clientText(putMessage(2)), "close 1000",
                        "close after flush", "request 1 put /a 1", "closed")
                ]),
            WebSocketConversation(
                "the server closes first; the client's close frame changes nothing",
                [
                    .close(.finished, "close 1000", "close after flush", "closed"), .clientSends(close),
                    .close(.goingAway), .closed(),
                ]),
            WebSocketConversation(
                "a client that closes its side without a word: its session is over",
                [.peerEnded("close after flush", "closed"), .server("{1}"), .closed()]),
            WebSocketConversation("the connection breaks", [.closed("closed"), .server("{1}"), .closed()]),
            WebSocketConversation(
                "memory is short: a client whose message is not complete is told so",
                [
                    .clientSends(Array([UInt8].clientText(putMessage(1)).dropLast())),
                    .giveUpMemory("close 1013", "close after flush", "closed"),
                    .holds("nothing is held") { $0.machine.heldByteCount == 0 },
                ]),
            WebSocketConversation(
                "memory is short: unsent output is dropped with the connection",
                [.clientStopsReading, .server("{1}", "{1}"), .giveUpMemory("reset")]),
        ] as [WebSocketConversation])
    func ends(conversation: WebSocketConversation) { conversation.check() }

    /// A client gets a close frame and may answer it late: until then, nothing is held for it.
    @Test func answersThatWaitAreDroppedWhereMemoryIsShort() {
        var driver = WebSocketDriver()
        #expect(driver.send(largeReply(1)) == ["encode reply 1"])
        for number in 2...9 { _ = driver.send(largeReply(Int64(number))) }
        #expect(driver.machine.heldByteCount > 8 * 32 << 10)
        let lines = driver.event { $0.giveUpMemory(&$1) }
        #expect(lines == ["close 1013", "close after flush", "abandon jobs", "closed"])
        #expect(driver.machine.heldByteCount == 0 && driver.machine.waitingByteCount == 0)
        #expect(driver.encode(largeReply(1)) == [])
        _ = driver.event { $0.giveUpMemory(&$1) }
    }

    @Test(
        arguments: [
            WebSocketConversation(
                "silence for 75 s: a ping; another half without an answer: the end (§2.3)",
                [
                    .tick(after: 75), .tick(after: 1, "ping"), .tick(after: 1), .tick(after: 37),
                    .tick(after: 2, "close"),
                ]),
            WebSocketConversation(
                "an answer is a sign of life",
                [
                    .tick(after: 76, "ping"), .clientSends(.clientFrame(.pong, [])), .tick(after: 75),
                    .tick(after: 1, "ping"),
                ]),
            WebSocketConversation(
                "so is the keep-alive of a client (§2.3)",
                [.tick(after: 45), .client("0"), .tick(after: 75), .tick(after: 1, "ping")]),
            WebSocketConversation(
                "a paused client cannot be called silent",
                [
                    Step("paused", []) { driver in driver.event { machine, _ in machine.pause(.congestion) }
                    },
                    .tick(after: 76), .tick(after: 76), .tick(after: 76),
                    Step("resumed", []) { driver in
                        driver.event { machine, _ in machine.resume(after: .congestion) }
                    },
                    .tick(after: 75), .tick(after: 1, "ping"),
                ]),
            WebSocketConversation(
                "a client that takes nothing for 30 s is disconnected",
                [
                    .clientStopsReading, .server("{1}", "{1}"), .tick(after: 1), .tick(after: 30),
                    .tick(after: 1, "reset"),
                ]),
            WebSocketConversation(
                "one that has taken everything begins anew",
                [
                    .clientStopsReading, .server("{1}", "{1}"), .tick(after: 1), .tick(after: 29),
                    .clientTakes(),
                    .tick(after: 1), .server("{2}", "{2}"), .tick(after: 20), .tick(after: 20),
                    .tick(after: 11, "reset"),
                ]),
            WebSocketConversation(
                "a message that comes too slowly",
                [
                    .clientSends(Array([UInt8].clientText(putMessage(1)).dropLast())), .tick(after: 1),
                    .tick(after: 30), .tick(after: 1, "close 1008", "close after flush", "closed"),
                ]),
            WebSocketConversation(
                "a chunked message that comes too slowly",
                [
                    .clientSends(.clientText("3") + .clientText("{")), .tick(after: 1), .tick(after: 30),
                    .tick(after: 1, "close 1008", "close after flush", "closed"),
                ]),
            WebSocketConversation(
                "a large message on a slow link",
                [
                    .clientSends(
                        Array(
                            [UInt8].clientFrame(.text, [UInt8](repeating: 0x20, count: 100_000)).prefix(100)))
                ]
                    + (0..<30).flatMap { _ in
                        [
                            .tick(after: 1), .tick(after: 1),
                            .clientSends((0..<1200).map { 0x20 ^ [0x78, 0x56, 0x34, 0x12][$0 % 4] }),
                        ] as [Step<WebSocketDriver>]
                    } + [.holds("it is open") { $0.machine.isOpen }]),
        ] as [WebSocketConversation])
    func time(conversation: WebSocketConversation) { conversation.check() }

    /// A client that fails at pings gets none, and stays as long as its system acknowledges what it is sent.
    @Test func clientWithoutPings() {
        var driver = WebSocketDriver(answersPings: false)
        // Bytes of the handshake, perhaps.
        _ = driver.tick()
        for _ in 1...10 {
            driver.base.wait(89)
            #expect(driver.send(pong) == [pong])
            #expect(driver.tick() == [])
        }
        driver.base.wait(112)
        #expect(driver.tick() == [])
        driver.base.wait(1)
        #expect(driver.tick() == ["close"])
    }

    /// A tick asks for what the client's system has acknowledged only while a ping is on its way.
    @Test func acknowledgedBytesAreNeededForAPing() {
        var driver = WebSocketDriver()
        #expect(!driver.machine.needsAcknowledgedByteCount)
        driver.base.wait(76)
        _ = driver.tick()
        #expect(driver.machine.needsAcknowledgedByteCount)
        _ = driver.receive("0")
        #expect(!driver.machine.needsAcknowledgedByteCount)
    }
}
