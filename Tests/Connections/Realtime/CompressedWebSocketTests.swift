import PandoBytes
import PandoCompression
import PandoEngine
import PandoTree
import PandoWebSocket
import Testing

@testable import PandoConnections
@testable import PandoDatabase

private func handshake(_ extensions: String...) -> String {
    var lines = [
        "GET /.ws?v=5&ns=demo HTTP/1.1", "Host: localhost:9000", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    lines += extensions.map { "Sec-WebSocket-Extensions: \($0)" }
    return (lines + ["", ""]).joined(separator: "\r\n")
}

/// A compressed message as a client sends it.
private func compressed(_ payload: [UInt8], opcode: Opcode = .text, isFinal: Bool = true) -> [UInt8] {
    var frame: [UInt8] = []
    frame.append(
        frame: opcode, payload: payload.rawSpan, isFinal: isFinal, isCompressed: true,
        maskingKey: 0x1234_5678)
    return frame
}

/// What a client's zlib makes of messages that may refer to each other.
private func deflated(_ messages: String..., takesOver: Bool = false) throws -> [[UInt8]] {
    let deflater = try Deflater(.raw(windowBits: 15))
    return messages.map { message in
        var bytes: [UInt8] = []
        deflater.deflate(Array(message.utf8).rawSpan, flush: .sync, into: &bytes)
        bytes.removeLast(4)
        if !takesOver { deflater.reset() }
        return bytes
    }
}

/// permessage-deflate on a connection of the server (RFC 7692).
@Suite struct CompressedWebSocketTests {
    // MARK: The handshake

    private func agree(_ extensions: [String], compresses: Bool = true) -> (
        response: String?, window: DeflateWindow?
    ) {
        var driver = HTTPDriver()
        if compresses { driver.base.context.compression = SharedCompression() }
        var text = handshake()
        for line in extensions {
            text = text.replacing("\r\n\r\n", with: "\r\nSec-WebSocket-Extensions: \(line)\r\n\r\n")
        }
        _ = driver.receive(text)
        for case .http(.upgrade(let request, _)) in driver.base.actions {
            _ = driver.event { _ = $0.upgrade(request, mayJoin: false, &$1) }
        }
        let line = driver.output.heads.last?.split(separator: "\r\n").first {
            $0.lowercased().hasPrefix("sec-websocket-extensions:")
        }
        return (line.map { String($0.drop { $0 != " " }.dropFirst()) }, driver.machine.window)
    }

    /// Without takeover on either side, whatever the client would like: an idle connection has no state of
    /// zlib.
    @Test(
        arguments: [
            // offer                                            what is said beside no takeover        window
            ("permessage-deflate", "", .large),
            ("permessage-deflate; client_max_window_bits", "; client_max_window_bits=15", .large),
            ("permessage-deflate; client_max_window_bits=9", "; client_max_window_bits=9", .large),
            ("permessage-deflate; server_max_window_bits=15", "; server_max_window_bits=15", .large),
            ("permessage-deflate; server_max_window_bits=14", "; server_max_window_bits=14", .medium),
            ("permessage-deflate; server_max_window_bits=12", "; server_max_window_bits=12", .medium),
            ("permessage-deflate; server_max_window_bits=11", "; server_max_window_bits=11", .small),
            ("permessage-deflate; server_max_window_bits=8", "; server_max_window_bits=8", .small),
            ("permessage-deflate; server_no_context_takeover", "", .large),
            ("permessage-deflate; client_no_context_takeover", "", .large),
            ("x-webkit-deflate-frame, permessage-deflate", "", .large),
        ] as [(String, String, DeflateWindow)])
    func offersAreMet(offer: String, expected: String, window: DeflateWindow) throws {
        let (response, agreed) = agree([offer])
        let parts = try #require(response).split(separator: ";").map { $0.filter { $0 != " " } }
        let rest = Array(expected.split(separator: ";").map { $0.filter { $0 != " " } })
        #expect(
            Set(parts)
                == Set(
                    ["permessage-deflate", "server_no_context_takeover", "client_no_context_takeover"] + rest)
        )
        #expect(agreed == window)
    }

    @Test(
        arguments: [
            "permessage-deflate; server_max_window_bits", "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=7", "permessage-deflate; server_max_window_bits=08",
            "permessage-deflate; client_max_window_bits=16", "permessage-deflate; unknown",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
            "x-webkit-deflate-frame",
        ])
    func invalidOffersAreDeclined(offer: String) {
        let (response, window) = agree([offer])
        #expect(response == nil && window == nil)
    }

    @Test func noOfferNoCompression() {
        #expect(agree([]) == (nil, nil))
        #expect(agree(["permessage-deflate"], compresses: false) == (nil, nil), "--no-deflate")
    }

    // MARK: From the client

    @Test func compressedMessagesAreRequests() throws {
        let put = putMessage(1)
        let payload = try #require(deflated(put).first)
        var plain = WebSocketDriver()
        let expected = plain.receive(put)
        var driver = WebSocketDriver(compressingFor: .large)
        #expect(driver.receive(compressed(payload)) == expected)
        // In fragments of one byte each, and plain ones besides.
        var fragments = compressed([payload[0]], isFinal: false)
        for byte in payload.dropFirst() {
            fragments += .clientFrame(.continuation, [byte], isFinal: false)
        }
        fragments += .clientFrame(.continuation, [], isFinal: true)
        driver = WebSocketDriver(compressingFor: .large)
        #expect(driver.receive(fragments) == expected)
        driver = WebSocketDriver(compressingFor: .large)
        #expect(driver.receive(put) == expected)
    }

    /// A message that is large when it is inflated is left to a worker: however much that is, the loop
    /// inflates no more than what it may parse itself. Requests behind it wait for it.
    @Test(arguments: [65_537, 300_000, 10 << 20])
    func largeMessagesAreInflatedElsewhere(byteCount: Int) throws {
        let frame = putMessage(1, "/a", "\"\"")
        let put = putMessage(
            1, "/a", "\"" + String(repeating: "v", count: byteCount - frame.utf8.count) + "\"")
        #expect(put.utf8.count == byteCount)
        let payload = try #require(deflated(put).first)
        let shared = SharedCompression(deferringBeyond: ConnectionLimits.smallByteCount)
        for isFragmented in [false, true] {
            var driver = WebSocketDriver(compressingFor: .large, shared)
            let before = try shared.sharedInflater().outputByteCount
            let half = payload.count / 2
            let frames =
                isFragmented
                ? compressed(Array(payload[..<half]), isFinal: false)
                    + .clientFrame(.continuation, Array(payload[half...])) : compressed(payload)
            #expect(driver.receive(frames + .clientText(putMessage(2))) == ["inflate \(payload.count) bytes"])
            #expect(
                try shared.sharedInflater().outputByteCount - before <= ConnectionLimits.smallByteCount + 1)
            guard case .inflate(let bytes)? = driver.base.actions.first else { continue }
            let worker = try MessageInflater(.init(takesOver: false, windowBits: 15))
            let message = ParsedMessage(
                inflating: bytes, with: worker, byteLimit: 17 << 20, for: WebSocketDriver.id, nodeLimit: 1000)
            #expect(message.byteCount == byteCount)
            let lines = driver.event { $0.parsed(message, &$1) }.filter { $0 != "window mark" }
            #expect(lines.first?.hasPrefix("request 1 put /a") == true && lines.count == 2)
            #expect(lines.last == "request 2 put /a 1", "in order")
        }
    }

    @Test func messagesUpToTheLimitAreInflatedHere() throws {
        let frame = putMessage(1, "/a", "\"\"")
        let put = putMessage(
            1, "/a", "\"" + String(repeating: "v", count: (64 << 10) - frame.utf8.count) + "\"")
        let payload = try #require(deflated(put).first)
        let shared = SharedCompression(deferringBeyond: ConnectionLimits.smallByteCount)
        var driver = WebSocketDriver(compressingFor: .large, shared)
        #expect(driver.receive(compressed(payload)).first?.hasPrefix("request 1 put /a") == true)
    }

    /// Many short messages take as long as a long one: a loop inflates so many bytes in a tick, and then
    /// leaves all but the smallest to workers. Whatever they are, they keep their order.
    @Test func messagesBeyondWhatALoopInflatesInATickAreInflatedElsewhere() throws {
        let frame = putMessage(1, "/a", "\"\"")
        let put = putMessage(
            1, "/a", "\"" + String(repeating: "v", count: 60_000 - frame.utf8.count) + "\"")
        let long = try #require(deflated(put).first)
        let unknown = #"{"t":"c","d":{"t":"x","d":[\#(String(repeating: "0,", count: 1000))0]}}"#
        let payloads = try deflated(unknown, control("p"))
        let budget = 128 << 10
        let shared = SharedCompression(
            deferringBeyond: ConnectionLimits.smallByteCount, inflationByteCount: budget)
        var driver = WebSocketDriver(compressingFor: .large, shared)
        let input =
            Array(repeating: compressed(long), count: 5).flatMap(\.self) + payloads.flatMap { compressed($0) }
        var lines = driver.receive(input)
        #expect(lines.filter { $0.hasPrefix("request 1 put /a") }.count == 2)
        #expect(lines.contains("inflate \(long.count) bytes"))
        #expect(try shared.sharedInflater().outputByteCount <= budget + 1)

        let worker = try MessageInflater(.init(takesOver: false, windowBits: 15))
        func work() -> [String] {
            guard
                case .inflate(let bytes)? = driver.base.actions.last(where: {
                    $0.summary.hasPrefix("inflate")
                })
            else { return [] }
            let message = ParsedMessage(
                inflating: bytes, with: worker, byteLimit: 17 << 20, for: WebSocketDriver.id, nodeLimit: 1000)
            return driver.event { $0.parsed(message, &$1) }.filter { $0 != "window mark" }
        }
        for _ in 0..<2 {
            lines = work()
            #expect(lines.count { $0.hasPrefix("request 1 put /a") } == 1)
        }
        lines = work()
        #expect(lines.count { $0.hasPrefix("request 1 put /a") } == 1)
        #expect(
            lines.contains("inflate \(payloads[0].count) bytes"), "a control message is left to a worker, too"
        )
        lines = work()
        #expect(
            lines == [pong, "next turn"],
            "it says nothing, and the last message is small enough; others have their turn behind it")
        #expect(
            try shared.sharedInflater().outputByteCount <= budget + 6 * MessageInflater.undeferredByteCount,
            "no more was inflated here")

        shared.refillBudgets()
        #expect(driver.event { $0.nextTurn(&$1) } == [])
        #expect(driver.receive(compressed(long)).first?.hasPrefix("request 1 put /a") == true, "another tick")
    }

    /// Chunks of a message are no messages, so they are not left to workers: each has its turn.
    @Test func chunksBeyondWhatALoopInflatesInATickTakeTurns() throws {
        let message = putMessage(1, "/a", "\"" + String(repeating: "v", count: 40_000) + "\"")
        let bytes = Array(message.utf8)
        let chunks = stride(from: 0, to: bytes.count, by: 16_384).map {
            String(decoding: bytes[$0..<min(bytes.count, $0 + 16_384)], as: UTF8.self)
        }
        #expect(chunks.count == 3)
        let shared = SharedCompression(
            deferringBeyond: ConnectionLimits.smallByteCount, inflationByteCount: 0)
        var driver = WebSocketDriver(compressingFor: .large, shared)
        var input = try deflated("3").flatMap { compressed($0) }
        for chunk in chunks { input += try deflated(chunk).flatMap { compressed($0) } }
        input += try deflated(putMessage(2)).flatMap { compressed($0) }
        #expect(driver.receive(input) == ["next turn"], "the number of chunks is small enough")
        for _ in 0..<2 { #expect(driver.event { $0.nextTurn(&$1) } == ["next turn"]) }
        #expect(driver.machine.pauses == [.input])
        let last = driver.event { $0.nextTurn(&$1) }
        #expect(last.contains("next turn") && last.contains { $0.hasPrefix("request 1 put /a") })
        #expect(driver.event { $0.nextTurn(&$1) } == ["next turn", "request 2 put /a 1"])
        #expect(driver.event { $0.nextTurn(&$1) } == [])
        #expect(driver.machine.pauses == [])
    }

    /// What a worker finds ends the connection as it would here.
    @Test(
        arguments: [
            (10 << 20, 1 << 20, "close 1009", "beyond the limit of a message"),
            (64 << 20, 1 << 30, "close 1009", "a bomb"),
        ])
    func largeMessagesThatAreRefused(byteCount: Int, limit: Int, close: String, because: String) throws {
        let deflater = try Deflater(.raw(windowBits: 15), level: 9)
        var payload: [UInt8] = []
        deflater.deflate([UInt8](repeating: 0x20, count: byteCount).rawSpan, flush: .sync, into: &payload)
        payload.removeLast(4)
        var driver = WebSocketDriver(
            compressingFor: .large, SharedCompression(deferringBeyond: ConnectionLimits.smallByteCount))
        #expect(driver.receive(compressed(payload)) == ["inflate \(payload.count) bytes"])
        let worker = try MessageInflater(.init(takesOver: false, windowBits: 15))
        let message = ParsedMessage(
            inflating: payload, with: worker, byteLimit: limit, for: WebSocketDriver.id, nodeLimit: 1000)
        #expect(
            worker.outputByteCount <= max(limit, 250 * payload.count) + 1,
            "no more work than the limits allow")
        let lines = driver.event { $0.parsed(message, &$1) }
        #expect(lines == ["count limit messageBytes", close, "close after flush", "closed"], "\(because)")
    }

    @Test func largeMessagesThatMayNotBe() throws {
        let text = String(repeating: "v", count: 100_000)
        let payload = try #require(deflated(text).first)
        let shared = SharedCompression(deferringBeyond: ConnectionLimits.smallByteCount)
        var driver = WebSocketDriver(compressingFor: .large, shared)
        #expect(driver.receive(compressed(payload, opcode: .binary)).first == "close 1003")
        driver = WebSocketDriver(compressingFor: .large, shared)
        #expect(
            driver.receive([UInt8].clientText("2") + compressed(payload)).prefix(2)
                == ["count limit messageBytes", "close 1009"], "no chunk is so long")
    }

    /// A bomb: a little input for very much output.
    private static let bomb: [UInt8] = {
        var bytes: [UInt8] = []
        let zeros = [UInt8](repeating: 0x20, count: 2 << 20)
        guard let deflater = try? Deflater(.raw(windowBits: 15), level: 9) else { return [] }
        deflater.deflate(zeros.rawSpan, flush: .sync, into: &bytes)
        return Array(bytes.dropLast(4))
    }()

    @Test(
        arguments: [
            ("block of the reserved type", compressed([0x06]), "close 1007"),
            ("stored block with a wrong length", compressed([0x00, 0x05, 0x00, 0x00, 0x00]), "close 1007"),
            ("distance before the beginning", compressed([0x02, 0x13, 0x00]), "close 1007"),
            ("no data at all", compressed([]), "close 1007"),
            ("cut inside a block", compressed([0xF2, 0x48, 0xCD]), "close 1007"),
            ("bytes behind the last block", compressed([0x03, 0x00, 0xFF, 0xFF]), "close 1007"),
            ("RSV2", [0xA1, 0x80, 0, 0, 0, 0], "close 1002"),
            ("RSV3", [0x91, 0x80, 0, 0, 0, 0], "close 1002"),
            ("RSV1 and RSV2", [0xE1, 0x80, 0, 0, 0, 0], "close 1002"),
            ("compressed ping", compressed([], opcode: .ping), "close 1002"),
            ("compressed close", compressed([], opcode: .close), "close 1002"),
            ("compressed binary", compressed([0x00], opcode: .binary), "close 1003"),
            (
                "compressed continuation",
                .clientFrame(.text, Array("{".utf8), isFinal: false)
                    + compressed([0x00], opcode: .continuation),
                "close 1002"
            ),
            ("bomb", compressed(bomb), "close 1009"),
        ] as [(String, [UInt8], String)])
    func whatIsWrong(name: String, bytes: [UInt8], expected: String) {
        var driver = WebSocketDriver(compressingFor: .large)
        #expect(driver.receive(bytes).first { !$0.hasPrefix("count") } == expected, "\(name)")
    }

    @Test func inflatedMessagesHaveTheMessageLimit() throws {
        let fits = try #require(
            deflated(putMessage(1, "/a", "\"" + String(repeating: "ab", count: 900) + "\"")).first)
        let tooLarge = try #require(
            deflated(putMessage(1, "/a", "\"" + String(repeating: "ab", count: 1100) + "\"")).first)
        var driver = WebSocketDriver(compressingFor: .large) { $0.messageByteLimit = 2000 }
        #expect(!driver.receive(compressed(fits)).contains("close 1009"))
        #expect(driver.receive(compressed(tooLarge)).prefix(2) == ["count limit messageBytes", "close 1009"])
    }

    /// The server has demanded `client_no_context_takeover`.
    @Test func messagesMayNotReferToEarlierOnes() throws {
        let text = putMessage(1, "/a", "\"a text that comes twice\"")
        let messages = try deflated(text, text, takesOver: true)
        var driver = WebSocketDriver(compressingFor: .large)
        #expect(driver.receive(compressed(messages[0])).first?.hasPrefix("close") == false)
        #expect(driver.receive(compressed(messages[1])).first == "close 1007")
    }

    @Test func reservedBitsWithoutNegotiationAreAnError() {
        var driver = WebSocketDriver()
        #expect(driver.receive(compressed([0x00])).first == "close 1002")
    }

    // MARK: To the client

    @Test func repliesBelowTheThresholdArePlain() {
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        context.compression = SharedCompression()
        let small = frames(String(repeating: "a", count: 900))
        let large = frames(String(repeating: "a", count: 1000))
        #expect(context.compressed(small.rawSpan, for: .large) == nil)
        #expect(context.compressed(large.rawSpan, for: nil) == nil)
        #expect((context.compressed(large.rawSpan, for: .large)?.count ?? .max) < 100)
        context.compression = nil
        #expect(context.compressed(large.rawSpan, for: .large) == nil)
    }

    @Test func pushesAreCompressedOnceForAllReceivers() {
        let plain = SharedBytes(frames(String(repeating: "abc", count: 1000)))
        let shared = CompressibleFrames(plain)
        // Two loops.
        let (first, second) = (SharedCompression(), SharedCompression())
        var forms = FramesByForm(shared)
        var otherForms = FramesByForm(shared)
        let large = forms.bytes(for: .deflated(.large), first)
        #expect(large.count < 100)
        #expect(forms.bytes(for: .deflated(.large), first) === large)
        #expect(otherForms.bytes(for: .deflated(.large), second) === large)
        #expect(otherForms.bytes(for: .deflated(.small), second) !== large)
        #expect(forms.bytes(for: .frames, first) === plain)
        #expect(forms.bytes(for: .deflated(.large), nil) === plain)
    }

    /// A loop compresses a bounded number of bytes in a tick; what comes behind is sent as it is.
    @Test func repliesBeyondTheBudgetArePlain() throws {
        let reply = frames(String(repeating: "a", count: 3000))
        let budget = CompressedByteBudget(byteCount: 10_000)
        var context = ConnectionContext(ConnectionSettings(), now: testStart)
        let compression = SharedCompression(budget: budget)
        context.compression = compression
        for _ in 0..<2 {
            for count in 1...3 {
                #expect((context.compressed(reply.rawSpan, for: .large)?.count ?? .max) < 100, "\(count)")
            }
            #expect(context.compressed(reply.rawSpan, for: .large)?.count ?? reply.count == reply.count)
            compression.refillBudgets()
            #expect(compression.budget == budget)
        }
        // Only what is compressed counts: not short messages that are sent together.
        let short = [[UInt8]](repeating: frames(String(repeating: "a", count: 900)), count: 20).flatMap(
            \.self)
        #expect(context.compressed(short.rawSpan, for: .large) == short)
        #expect(compression.budget == budget)
    }

    /// Frames for several receivers count once, on the loop that compresses them. A loop whose budget is used
    /// up sends them as they are, and another one compresses them all the same.
    @Test func pushesBeyondTheBudgetArePlain() {
        let plain = SharedBytes(frames(String(repeating: "abc", count: 1000)))
        let shared = CompressibleFrames(plain)
        let usedUp = SharedCompression(budget: CompressedByteBudget(byteCount: plain.count - 1))
        let ready = SharedCompression(budget: CompressedByteBudget(byteCount: plain.count))
        var forms = FramesByForm(shared)
        var readyForms = FramesByForm(shared)
        #expect(forms.bytes(for: .deflated(.large), usedUp) === plain)
        for _ in 0..<2 { #expect(readyForms.bytes(for: .deflated(.large), ready).count < 100) }
        #expect(ready.budget.byteCount == 0)
        var later = FramesByForm(shared)
        #expect(later.bytes(for: .deflated(.large), usedUp).count < 100, "there already")
        #expect(usedUp.budget.byteCount == plain.count - 1)
    }

    @Test(arguments: [40_000, 700_000])
    func largeMessagesAreCompressedByWorkers(byteCount: Int) throws {
        let message = largePush(byteCount)
        var plain = WebSocketDriver()
        _ = plain.send(message)
        _ = plain.encode(message)
        let expected = plain.output.texts
        let plainByteCount = plain.base.socket.status.writtenByteCount
        let deflater = try #require(SharedCompression().deflater(for: .medium))
        message.compress(with: deflater, for: .medium)
        #expect(message.pieces(for: .deflated(.medium))?.count == message.pieces?.count)
        #expect(
            message.pieces(for: .deflated(.large))?.first === message.pieces?.first, "not compressed for it")
        var driver = WebSocketDriver(compressingFor: .medium)
        _ = driver.send(message)
        _ = driver.encode(message)
        #expect(driver.output.texts == expected)
        #expect(driver.base.socket.status.writtenByteCount < plainByteCount / 10)
    }
}
