import PandoBytes
import PandoEngine
import PandoIdentity
import PandoRandom
import PandoTime
import PandoWebSocket
import PandoWire
import Testing

@testable import PandoConnections
@testable import PandoDatabase

private let clientMessages = [
    putMessage(1), ask(2, "q", #"{"p":"/b","h":""}"#), ask(3, "auth", #"{"cred":"T"}"#),
    ask(4, "unauth", "{}"),
    ask(5, "o", #"{"p":"/a","d":1}"#), control("p"), control("a"), control("n"), control("zz"),
    ask(6, "zz", "{}"),
    putMessage(7, "/a", "\"" + String(repeating: "v", count: 70_000) + "\""),
]

private let tokenErrors = TokenError.allCases

/// Whether nothing is posted behind the end of a session.
/// - Parameter hasEnded: Whether its end was posted; kept from call to call.
private func nothingFollowsTheEnd(_ messages: [DatabaseMessage], _ hasEnded: inout Bool) -> Bool {
    for message in messages {
        if hasEnded { return false }
        if case .closed = message { hasEnded = true }
    }
    return true
}

/// Any sequence of events on a WebSocket: nothing traps, what is held is bounded, and everything is given
/// back in the end.
@Suite struct WebSocketRandomTests {
    @Test(arguments: 0..<10 as Range<UInt64>)
    func anyEvents(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = WebSocketDriver(
            joining: seed % 3 == 0 ? WebSocketDriver.polling : nil, readsOutput: false)
        driver.base.socket.takesAll = seed % 2 == 0
        var (marks, encoding): (Int, LargeMessage?) = (0, nil)
        var hasEnded = false
        for _ in 0..<1000 {
            step(&driver, &random, &marks, &encoding)
            let (actions, messages) = driver.base.takeActions()
            #expect(nothingFollowsTheEnd(messages, &hasEnded), "seed \(seed)")
            marks += messages.filter { if case .windowMark = $0 { true } else { false } }.count
            for case .encode(let message) in actions { encoding = message }
            #expect(driver.machine.heldByteCount <= 8 << 20, "seed \(seed): what is held is bounded")
            guard driver.base.socket.end != nil, Int.random(in: 0..<8, using: &random) == 0 else { continue }
            end(&driver, seed)
            driver = WebSocketDriver(
                joining: Bool.random(using: &random) ? WebSocketDriver.polling : nil, readsOutput: false)
            driver.base.socket.takesAll = Bool.random(using: &random)
            (marks, encoding, hasEnded) = (0, nil, false)
        }
        end(&driver, seed)
    }

    private func end(_ driver: inout WebSocketDriver, _ seed: UInt64) {
        _ = driver.event { $0.closed(&$1) }
        #expect(driver.machine.heldByteCount == 0 && !driver.machine.isOpen, "seed \(seed)")
        #expect(driver.base.log.filter { $0 == "closed" }.count <= 1, "seed \(seed): the end is posted once")
    }

    private func step(
        _ driver: inout WebSocketDriver, _ random: inout SeededGenerator, _ marks: inout Int,
        _ encoding: inout LargeMessage?
    ) {
        switch Int.random(in: 0..<21, using: &random) {
        case 20: _ = driver.event { $0.nextTurn(&$1) }
        case 0...5:
            guard driver.machine.pauses.isEmpty, driver.base.socket.end == nil else { return }
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0..<30, using: &random) {
                case 0: bytes += .clientFrame(.ping, "x".utf8)
                case 1: bytes += .clientFrame(.close, [0x03, 0xE8])
                case 2:
                    bytes += .clientText(["{", "3", "0", "999999", ""].randomElement(using: &random) ?? "")
                case 3: bytes += (0..<20).map { _ in UInt8.random(in: 0...255, using: &random) }
                default: bytes += .clientText(clientMessages.randomElement(using: &random) ?? "")
                }
            }
            if random.next() % 6 == 0 { bytes.removeLast(Int.random(in: 0...bytes.count, using: &random)) }
            _ = driver.receive(bytes)
        case 6, 7:
            _ = driver.send(
                "{\"v\":\"" + String(repeating: "v", count: Int.random(in: 0...20_000, using: &random))
                    + "\"}")
        case 8: _ = driver.send(Bool.random(using: &random) ? largeReply(9, 100_000) : largePush(200_000))
        case 9, 10: if let message = encoding.take() { _ = driver.encode(message) }
        case 11: _ = driver.event { $0.verified(.accepted(user("ada", validUntil: 99)), &$1) }
        case 12:
            _ = driver.event {
                $0.verified(.refused(tokenErrors.randomElement(using: &random) ?? .expired), &$1)
            }
        case 13:
            guard marks > 0 else { return }
            marks -= 1
            _ = driver.event { $0.windowMarkReturned(&$1) }
        case 14:
            let result: Result<ClientMessage, MalformedMessage> =
                random.next() % 8 == 0
                ? .failure(.unknownKind) : .success(.request(Request(number: 1, action: .statistics)))
            let parsed = ParsedMessage(session: WebSocketDriver.id, result: result, byteCount: 70_000)
            if driver.machine.session.parsingByteCount > 0 { _ = driver.event { $0.parsed(parsed, &$1) } }
        case 15:
            driver.base.wait(Double.random(in: 0...20, using: &random))
            _ = driver.tick()
        case 16, 17: _ = driver.take(Int.random(in: 0...500_000, using: &random))
        case 18:
            _ = driver.event { machine, _ in
                if Bool.random(using: &random) {
                    machine.pause(.memory)
                } else {
                    machine.resume(after: .memory)
                }
            }
        default:
            switch Int.random(in: 0..<12, using: &random) {
            case 0: _ = driver.event { $0.peerEnded(&$1) }
            case 1: _ = driver.event { $0.giveUpMemory(&$1) }
            case 2: _ = driver.event { $0.expired(&$1) }
            case 3:
                _ = driver.event {
                    $0.close(
                        [.finished, .replaced, .goingAway].randomElement(using: &random) ?? .finished, &$1)
                }
            case 4 where driver.machine.isJoining:
                _ = driver.event { $0.takeOver(RealtimeSession(WebSocketDriver.polling), &$1) }
            case 5: _ = driver.event { machine, _ in machine.forgetFormer() }
            case 6 where driver.machine.isJoining: _ = driver.event { $0.refuseMove(&$1) }
            default: break
            }
        }
    }
}

/// The same for a session by long polling.
@Suite struct LongPollingRandomTests {
    @Test(arguments: 0..<8 as Range<UInt64>)
    func anyEvents(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var driver = PollingDriver()
        var (marks, serial, numbers): (Int, UInt64, [Int]) = (0, 0, [])
        var (encoding, hasEnded): (LargeMessage?, Bool) = (nil, false)
        for _ in 0..<1000 {
            step(&driver, &random, &marks, &serial, &numbers, &encoding)
            let (actions, messages) = driver.takeActions()
            #expect(nothingFollowsTheEnd(messages, &hasEnded), "seed \(seed)")
            marks += messages.filter { if case .windowMark = $0 { true } else { false } }.count
            for action in actions {
                if case .encode(let message) = action { encoding = message }
                if case .polling(.answer(let answer, _)) = action { numbers += answer.numbers }
            }
            #expect(driver.machine.heldByteCount <= 80 << 20, "seed \(seed): what is held is bounded")
            guard driver.machine.phase == .over, Int.random(in: 0..<8, using: &random) == 0 else { continue }
            end(&driver, seed)
            driver = PollingDriver()
            (marks, serial, numbers) = (0, 0, [])
            (encoding, hasEnded) = (nil, false)
        }
        end(&driver, seed)
    }

    private func end(_ driver: inout PollingDriver, _ seed: UInt64) {
        _ = driver.event { $0.cutNow(&$1) }
        #expect(driver.machine.phase == .over && driver.machine.heldByteCount == 0, "seed \(seed)")
        #expect(driver.log.filter { $0 == "closed" }.count <= 1, "seed \(seed): the end is posted once")
        #expect(driver.log.filter { $0 == "remove" || $0 == "forget former" }.count == 1, "seed \(seed)")
        var held: [String: Int] = [:]
        for line in driver.log {
            if line.hasPrefix("hold on ") { held[String(line.dropFirst(8)), default: 0] += 1 }
            if line.hasPrefix("release ") { held[String(line.dropFirst(8)), default: 0] -= 1 }
        }
        #expect(held.values.allSatisfy { $0 == 0 }, "seed \(seed): each poll is released once")
    }

    private func step(
        _ driver: inout PollingDriver, _ random: inout SeededGenerator, _ marks: inout Int,
        _ serial: inout UInt64,
        _ numbers: inout [Int], _ encoding: inout LargeMessage?
    ) {
        let connection = UInt64.random(in: 1...6, using: &random)
        switch Int.random(in: 0..<24, using: &random) {
        case 0...5:
            serial += 1
            let messages = (0..<Int.random(in: 0...4, using: &random)).map { _ in
                clientMessages[Int.random(in: 0..<(random.next() % 20 == 0 ? 10 : 6), using: &random)]
            }
            _ = driver.poll(serial, on: connection, messages)
        case 6: _ = driver.poll(UInt64.random(in: 0...serial, using: &random), on: connection)
        case 7:
            if random.next() % 20 == 0 {
                _ = driver.poll(serial, on: connection, query: "&seg0=9&ts0=2&d0=!!")
            }
        case 8...11:
            _ = driver.send(
                "{\"v\":\"" + String(repeating: "v", count: Int.random(in: 0...20_000, using: &random))
                    + "\"}")
        case 12: _ = driver.send(Bool.random(using: &random) ? largeReply(9, 100_000) : largePush(200_000))
        case 13, 14: if let message = encoding.take() { _ = driver.encode(message) }
        case 15, 16: _ = driver.endOfTick()
        case 17, 18:
            guard let number = numbers.randomElement(using: &random) else { return }
            let delivery =
                [PollDelivery.acknowledged, .received, .lost].randomElement(using: &random) ?? .lost
            _ = driver.note([number], on: connection, delivery, isLast: Bool.random(using: &random))
        case 19:
            driver.context.now = driver.context.now + .seconds(Int.random(in: 0...20, using: &random))
            _ =
                Bool.random(using: &random)
                ? driver.event { $0.tick(&$1) } : driver.event { $0.deadlinePassed(&$1) }
        case 20:
            guard marks > 0 else { return }
            marks -= 1
            _ = driver.event { $0.windowMarkReturned(&$1) }
        case 21: _ = driver.event { $0.nextTurn(&$1) }
        case 22: _ = driver.event { $0.verified(.accepted(user("ada")), &$1) }
        default:
            switch Int.random(in: 0..<20, using: &random) {
            case 0: _ = driver.event { $0.disconnect(&$1) }
            case 1: _ = driver.event { $0.close(.finished, &$1) }
            case 2: _ = driver.event { $0.close(.replaced, &$1) }
            case 3...5: _ = driver.event { $0.join(SessionID(9), &$1) }
            case 6, 7: _ = driver.event { $0.webSocketAcknowledged(SessionID(9), &$1) }
            case 8: _ = driver.event { $0.webSocketIsGone(SessionID(9), &$1) }
            case 9: _ = driver.event { $0.leaveFormer(&$1) }
            case 10...12: _ = driver.event { $0.pollIsLost(on: SessionID(connection), &$1) }
            case 13: _ = driver.event { machine, _ in machine.pause(.memory) }
            case 14: _ = driver.event { $0.resume(after: .memory, &$1) }
            case 15: _ = driver.event { $0.expired(&$1) }
            default: break
            }
        }
    }
}
