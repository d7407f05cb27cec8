import PandoRandom
import Testing

@testable import PandoSimulation

/// What clients make of the bytes of a server, and of their own requests.
@Suite struct ClientTests {
    // MARK: Responses

    @Test(
        arguments: [
            // bytes                                                                       status, body, behind it
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP", 200, "hi", 4),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", 0),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\u{1}", 101, "", 1),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\nX", 200,
                "hi!", 1
            ),
            ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent", 200, "", 5),
        ])
    func responseIsReadAtEveryCut(bytes: String, status: Int, body: String, rest: Int) throws {
        let bytes = Array(bytes.utf8)
        for cut in 0...bytes.count - rest {
            var input = InputBuffer()
            input.append(Array(bytes[..<cut]))
            if let early = try HTTPResponse.read(from: &input) {
                #expect(cut == bytes.count - rest && early.status == status, "cut at \(cut)")
                continue
            }
            input.append(Array(bytes[cut...]))
            let response = try #require(try HTTPResponse.read(from: &input))
            #expect(response.status == status)
            #expect(String(decoding: response.body, as: UTF8.self) == body)
            #expect(input.count == rest)
        }
    }

    @Test(arguments: [
        "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno field\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
    ])
    func whatIsNoResponseIsABrokenPromise(bytes: String) {
        var input = InputBuffer()
        input.append(Array(bytes.utf8))
        #expect(throws: BrokenPromise.self) { try HTTPResponse.read(from: &input) }
    }

    // MARK: Frames

    @Test func chunksAreOneMessageAndControlFramesMayStandBetween() throws {
        var input = InputBuffer()
        input.append([0x81, 1, 0x32, 0x81, 2, 0x61, 0x62, 0x89, 0, 0x81, 1, 0x63, 0x88, 2, 3, 0xE8])
        var frames = ServerFrames()
        #expect(try frames.read(from: &input) == .ping([]))
        #expect(try frames.read(from: &input) == .message([0x61, 0x62, 0x63]))
        #expect(try frames.read(from: &input) == .close([3, 0xE8]))
        #expect(try frames.read(from: &input) == nil)
    }

    @Test(arguments: [[0x81, 0x80, 0, 0, 0, 0], [0x01, 0], [0xC1, 0], [0x82, 0]] as [[UInt8]])
    func frameThatAServerMustNotSendIsReported(bytes: [UInt8]) {
        var input = InputBuffer()
        input.append(bytes)
        var frames = ServerFrames()
        #expect(throws: BrokenPromise.self) { try frames.read(from: &input) }
    }

    @Test(arguments: [1, 125, 126, 16_384, 16_385, 70_000]) func clientFramesAreMaskedAndLongMessagesCut(
        count: Int
    ) {
        var random = SeededGenerator(seed: 3)
        let message = (0..<count).map { UInt8(truncatingIfNeeded: $0 % 90 + 33) }
        for _ in 0..<20 {
            var (text, control) = ([UInt8](), 0)
            var rest = ClientFrames.message(message, &random)[...]
            while !rest.isEmpty {
                let second = rest[rest.startIndex + 1]
                #expect(second & 0x80 != 0, "masked")
                let opcode = rest[rest.startIndex] & 0x0F
                let lengthCount = second & 0x7F == 127 ? 8 : second & 0x7F == 126 ? 2 : 0
                let length =
                    lengthCount == 0
                    ? Int(second & 0x7F)
                    : rest.dropFirst(2).prefix(lengthCount).reduce(0) { $0 << 8 | Int($1) }
                let key = Array(rest.dropFirst(2 + lengthCount).prefix(4))
                let payload = rest.dropFirst(6 + lengthCount).prefix(length).enumerated().map {
                    $1 ^ key[$0 & 3]
                }
                rest = rest.dropFirst(6 + lengthCount + length)
                if opcode > 2 { control += 1 } else { text += payload }
            }
            let announced = count > 16_384 ? Array("\((count + 16_383) / 16_384)".utf8) : []
            #expect(text == announced + message)
            #expect(control <= 5)
        }
    }

    // MARK: What was released

    private static func message(_ text: String) -> DeliveryChecker.Delivery {
        .message(Array(text.utf8), .push)
    }

    private static func decode(_ checker: inout DeliveryChecker, _ text: String) -> String {
        do throws(BrokenPromise) {
            return "state \(try checker.decoded(.message(Array(text.utf8)), on: 4).stateIndex)"
        } catch { return error.description }
    }

    @Test func clientDecodesWhatWasReleasedInItsOrder() {
        var checker = DeliveryChecker()
        for text in ["a", "b"] { checker.released(Self.message(text), on: 4) }
        checker.endBatch(at: 7)
        checker.released(Self.message("c"), on: 4)
        checker.endBatch(at: 9)
        #expect(Self.decode(&checker, "a") == "state 7")
        #expect(Self.decode(&checker, "c").contains("the order is wrong"))
        #expect(Self.decode(&checker, "x").contains("b is next"))
        #expect(Self.decode(&checker, "b") == "state 7")
        #expect(checker.dueCount(on: 4) == 1)
        #expect(Self.decode(&checker, "c") == "state 9")
        #expect(Self.decode(&checker, "c").contains("never released"))
        #expect(checker.dueCount(on: 4) == 0)
    }

    @Test func durabilityReachesAsFarAsWasPromised() {
        var history = StateHistory()
        for index in 1...4 {
            var state = ReferenceState()
            state.namespaces["default", default: .init()].root = .number(Double(index))
            history.append(state)
            if index < 4 { history.released(at: Int64(index) * 100) }
        }
        history.heard(2)
        history.heard(1)
        history.journalTurn(at: 200)
        #expect(history.floor(.nothing) == 2)
        #expect(history.floor(.lastMoment) == 1)
        #expect(history.floor(.sinceStart) == 0)
        #expect(history.releasedIndex == 3)
        history.restart(with: ReferenceState())
        #expect(history.floor(.sinceStart) == 5)
        #expect(history.floor(.nothing) == 5)
    }
}
