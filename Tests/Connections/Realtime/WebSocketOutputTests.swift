import PandoBytes
import PandoRandom
import PandoWebSocket
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

private let kibibyte = 1 << 10

/// Bytes of large texts as the reader shows them.
private func shown(_ byteCount: Int) -> String { "\(byteCount) bytes" }

/// Outputs of the databases on a WebSocket: their order, and clients that do not take them.
@Suite struct WebSocketOutputTests {
    /// A conversation with a large message of its own: cases run side by side, and a message is encoded once.
    private static func withLargeReply(
        _ name: String, _ steps: (LargeMessage) -> [Step<WebSocketDriver>]
    ) -> WebSocketConversation {
        WebSocketConversation(name, steps(largeReply(1)))
    }

    /// What a client reads of ``largeReply(_:_:)``: in chunks, since it has more than 16 384 units
    /// (realtime §2.1).
    private static let firstTexts = ["3", shown(16_384), shown(16_384), shown(40_043 - 2 * 16_384)]

    @Test(
        arguments: [
            WebSocketConversation(
                "pushes and replies leave in the order in which they were given",
                [.server("{1}", "{1}"), .server("{2}", "{2}"), .server("{3}", "{3}")]),
            withLargeReply("what follows a large message waits for its last piece") { first in
                [
                    .server("{1}", "{1}"), .large(first, "encode reply 1"), .server("{2}"), .server("{3}"),
                    Step("encoded", firstTexts + ["{2}", "{3}"]) { $0.encode(first) },
                    .server("{4}", "{4}"),
                ]
            },
            WebSocketConversation(
                "a mark of the window keeps its place among them",
                [
                    .large(largeReply(5), "encode reply 5"), .mark(),
                    .holds("the window is still full") { !$0.machine.outputs.isEmpty },
                ]),
            withLargeReply("the end, where the server has said why before, waits too") { first in
                [
                    .large(first, "encode reply 1"), .server("{2}"), .close(.finished), .server("{3}"),
                    Step("encoded", firstTexts + ["{2}", "close 1000", "close after flush", "closed"]) {
                        $0.encode(first)
                    },
                ]
            },
            withLargeReply("a client that has come back elsewhere, and a server that stops, need no more") {
                first in
                [
                    .large(first, "encode reply 1"), .server("{2}"),
                    .close(.replaced, "close 1000", "close after flush", "closed"), .server("{3}"),
                ]
            },
            WebSocketConversation(
                "the server stops", [.close(.goingAway, "close 1001", "close after flush", "closed")]),
            withLargeReply("the connection ends while a worker encodes") { first in
                [
                    .large(first, "encode reply 1"), .server("{2}"), .closed("abandon jobs", "closed"),
                    .encoded(first),
                ]
            },
            withLargeReply(
                "a pong of the protocol keeps its place, one of a control frame does not (§15.10, RFC 6455 §5.5)"
            ) { first in
                [
                    .large(first, "encode reply 1"), .client(control("p")),
                    .clientSends(.clientFrame(.ping, "x".utf8), "pong x"),
                    Step("encoded", firstTexts + [pong]) { $0.encode(first) },
                ]
            },
        ] as [WebSocketConversation])
    func order(conversation: WebSocketConversation) { conversation.check() }

    /// A message that no client could take (realtime §2.2, §14): the request is answered `too_big`; a listen
    /// cannot be left without its data, so the connection says why and ends.
    @Test func messageThatIsTooLargeForClients() {
        // It has no pieces: as one that is not encodable.
        for (message, isReply) in [(largeReply(9), true), (largePush(), false)] {
            var driver = WebSocketDriver()
            _ = driver.send(message)
            _ = driver.send("{2}")
            let lines = driver.event { $0.encoded(message, &$1) }
            if isReply {
                #expect(lines.first?.contains(#""r":9,"b":{"s":"too_big""#) == true && lines.last == "{2}")
            } else {
                #expect(lines.first?.contains(#"{"t":"c","d":{"t":"e","#) == true)
                #expect(Array(lines.dropFirst()) == ["close 1009", "close after flush", "closed"])
            }
        }
    }

    @Test func messageWithNothingToSend() {
        var driver = WebSocketDriver()
        _ = driver.send(largeReply(1))
        #expect(driver.event { $0.encoded(largeReply(1), &$1) } == [], "not the one that is awaited")
        #expect(!driver.machine.outputs.isReady)
    }

    /// Random outputs, encodings, drains and marks: a client reads everything once, in the order in which it
    /// was given.
    @Test(arguments: 0..<8 as Range<UInt64>)
    func outputsArriveInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = WebSocketDriver()
        driver.base.socket.takesAll = false
        var given: [Int] = []
        var encoding: LargeMessage?
        func note(_ driver: WebSocketDriver) {
            for action in driver.base.actions {
                if case .encode(let message) = action { encoding = message }
            }
        }
        for number in 0..<400 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2:
                given.append(number)
                _ = driver.send("{\"n\":\(number)}", isShared: Bool.random(using: &random))
            case 3:
                given.append(number)
                _ = driver.send(largeReply(Int64(number), Int.random(in: 1000...300_000, using: &random)))
            case 4, 5: if let message = encoding.take() { _ = driver.encode(message) }
            default: _ = driver.take(Int.random(in: 0...400_000, using: &random))
            }
            note(driver)
            #expect(driver.base.socket.end == nil, "seed \(seed)")
        }
        for _ in 0..<2000 where !driver.machine.outputs.isEmpty {
            if let message = encoding.take() { _ = driver.encode(message) }
            note(driver)
            _ = driver.take()
            note(driver)
        }
        #expect(received(driver.output.texts) == given, "seed \(seed)")
        #expect(driver.machine.waitingByteCount == 0 && driver.machine.heldByteCount == 0)
    }

    /// The numbers of the messages that the texts are, chunks put together.
    private func received(_ texts: [String]) -> [Int] {
        var numbers: [Int] = []
        var reassembler = Reassembler()
        for text in texts {
            let bytes = Array(text.utf8)
            var message: [UInt8]?
            switch try? reassembler.accept(bytes.rawSpan) {
            case .payload?: message = bytes
            case .assembled(let whole)?: message = whole
            case .nothing?, nil: break
            }
            guard let message else { continue }
            let digits = PandoConnectionsTests.text(message.prefix(60)).split { !$0.isNumber }
            numbers.append(digits.first.flatMap { Int($0) } ?? -1)
        }
        return numbers
    }

    /// From 256 KiB unsent on pushes are coalesced, from 1 MiB on the client is paused; both end when it
    /// has read nearly everything.
    @Test func clientThatDoesNotRead() {
        var driver = WebSocketDriver()
        driver.base.socket.takesAll = false
        let message = "{\"v\":\"" + String(repeating: "v", count: 10 * kibibyte) + "\"}"
        func send(upTo byteCount: Int) -> [String] {
            var lines: [String] = []
            while driver.base.socket.unsentByteCount < byteCount { lines += driver.send(message).dropFirst() }
            return lines
        }
        #expect(send(upTo: 245 * kibibyte) == [])
        #expect(send(upTo: 270 * kibibyte) == ["lagging"])
        #expect(driver.machine.pauses == [])
        #expect(send(upTo: 1040 * kibibyte) == [])
        #expect(driver.machine.pauses == [.unsentOutput])
        #expect(driver.receive(putMessage(1)) == [], "what it has sent meanwhile waits")
        #expect(driver.machine.pauses == [.unsentOutput, .input])
        #expect(driver.take(500 * kibibyte) == [])
        #expect(driver.take() == ["caught up", "request 1 put /a 1"])
        #expect(driver.machine.pauses == [])
    }

    /// The same where outputs wait behind a large message.
    @Test func outputsThatWaitCountToo() {
        var driver = WebSocketDriver { $0.outboundByteLimit = 2 << 20 }
        _ = driver.send(largeReply(1))
        let message = "{\"v\":\"" + String(repeating: "v", count: 10 * kibibyte) + "\"}"
        var lines: [String] = []
        while driver.machine.waitingByteCount < 300 * kibibyte { lines += driver.send(message) }
        #expect(lines == ["lagging"] && driver.machine.pauses == [])
        while driver.machine.waitingByteCount < 1100 * kibibyte { lines += driver.send(message) }
        #expect(driver.machine.pauses == [.unsentOutput])
        while driver.base.socket.end == nil, lines.count < 500 { lines += driver.send(message) + ["sent"] }
        #expect(driver.base.socket.end == "reset", "over the limit it is treated as one that takes nothing")
    }

    /// Each reply that is not encoded yet may hold a snapshot that nothing else holds any more: a client that
    /// has not read the first one is not asked for more than a second one.
    @Test func secondLargeReplyEndsReading() {
        var driver = WebSocketDriver()
        driver.base.socket.takesAll = false
        let replies = (1...3).map { largeReply(Int64($0), 300_000) }
        #expect(driver.send(replies[0]) == ["encode reply 1"])
        #expect(driver.receive(putMessage(1)) == ["request 1 put /a 1"])
        #expect(driver.send(replies[1]) == [])
        #expect(driver.machine.pauses == [.unsentOutput])
        #expect(driver.machine.waitingByteCount > 32 << 10)
        #expect(driver.receive(putMessage(2)) == [], "what it sends waits in its socket")
        _ = driver.send(replies[2])
        // Nor when it has read some of the first one.
        _ = driver.encode(replies[0])
        _ = driver.take()
        #expect(driver.machine.pauses == [.unsentOutput, .input])
        // The last piece, and the second reply.
        for _ in 0..<3 { _ = driver.take() }
        #expect(driver.machine.pauses.contains(.unsentOutput), "the third one waits")
        for reply in replies.dropFirst() {
            _ = driver.encode(reply)
            for _ in 0..<4 { _ = driver.take() }
        }
        #expect(driver.machine.outputs.isEmpty && driver.machine.pauses == [])
        #expect(driver.base.log.filter { $0.hasPrefix("request 2") }.count == 1)
    }

    @Test func manySmallOutputsThatWait() {
        var driver = WebSocketDriver()
        let first = largeReply(1)
        _ = driver.send(first)
        var lines: [String] = []
        for _ in 0...500 { lines += driver.send("{}") }
        #expect(lines == ["lagging"] && driver.machine.pauses == [])
        for _ in 0..<500 { lines += driver.send("{}") }
        #expect(driver.machine.pauses == [.unsentOutput])
        #expect(driver.encode(first).suffix(2) == ["{}", "caught up"])
        #expect(driver.machine.pauses == [])
    }

    /// A client that pings and does not read gets one pong, when it reads.
    @Test(arguments: [false, true])
    func pingsOfAClientThatDoesNotRead(isControl: Bool) {
        var driver = WebSocketDriver()
        driver.base.socket.takesAll = false
        _ = driver.send("{\"v\":\"" + String(repeating: "v", count: 100 * kibibyte) + "\"}")
        for number in 0..<3 {
            let bytes = isControl ? [UInt8].clientFrame(.ping, "\(number)".utf8) : .clientText(control("p"))
            #expect(driver.receive(bytes) == [])
        }
        #expect(driver.take() == [isControl ? "pong 2" : pong])
        #expect(driver.take() == [])
    }
}

/// The request window on a WebSocket: what one client has under way is bounded.
@Suite struct WebSocketWindowTests {
    @Test func readingStopsAtTwoMarksAndGoesOnWithEach() {
        var driver = WebSocketDriver()
        let stream = (1...400).flatMap { [UInt8].clientText(putMessage($0)) }
        func posted(_ lines: [String]) -> (requests: Int, marks: Int) {
            (lines.filter { $0.hasPrefix("request") }.count, lines.filter { $0 == "window mark" }.count)
        }
        #expect(posted(driver.receive(stream)) == (256, 2))
        #expect(driver.machine.pauses == [.input] && driver.machine.hasManyRequests)
        // Marks come back among the outputs of all sessions: what waits is read in a turn of its own.
        #expect(driver.event { $0.windowMarkReturned(&$1) } == ["next turn"])
        #expect(posted(driver.event { $0.nextTurn(&$1) }) == (128, 1))
        #expect(driver.machine.pauses == [.input])
        #expect(driver.event { $0.windowMarkReturned(&$1) } == ["next turn"])
        #expect(driver.event { $0.windowMarkReturned(&$1) } == [], "one turn is enough")
        #expect(posted(driver.event { $0.nextTurn(&$1) }) == (16, 0))
        #expect(driver.machine.pauses == [])
        #expect(!driver.machine.hasManyRequests)
        let numbers = driver.base.log.compactMap { line in
            line.hasPrefix("request") ? Int(line.split(separator: " ")[1]) : nil
        }
        #expect(numbers == Array(1...400), "strictly in order")
    }

    /// Marks that come back at any time: every request is posted once, in order, and a mark follows each 128.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func marksAtAnyTime(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = WebSocketDriver()
        var (sent, underWay, turns) = (0, 0, 0)
        func count(_ lines: [String]) {
            underWay += lines.filter { $0 == "window mark" }.count
            turns += lines.filter { $0 == "next turn" }.count
        }
        while sent < 2000 {
            if underWay > 0, Bool.random(using: &random) {
                underWay -= 1
                count(driver.event { $0.windowMarkReturned(&$1) })
            } else if turns > 0, Bool.random(using: &random) {
                turns -= 1
                count(driver.event { $0.nextTurn(&$1) })
            } else if !driver.machine.pauses.contains(.input) {
                let burst = Int.random(in: 1...300, using: &random)
                count(driver.receive((1...burst).flatMap { [UInt8].clientText(putMessage(sent + $0)) }))
                sent += burst
            }
            #expect(underWay <= 2 && turns <= 1, "seed \(seed)")
        }
        while underWay > 0 || turns > 0 {
            if turns > 0 {
                turns -= 1
                count(driver.event { $0.nextTurn(&$1) })
            } else {
                underWay -= 1
                count(driver.event { $0.windowMarkReturned(&$1) })
            }
        }
        let numbers = driver.base.log.compactMap { line in
            line.hasPrefix("request") ? Int(line.split(separator: " ")[1]) : nil
        }
        #expect(numbers == Array(1...sent), "seed \(seed)")
        #expect(driver.machine.pauses == [])
    }
}
