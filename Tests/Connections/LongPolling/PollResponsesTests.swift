import PandoBytes
import PandoRandom
import PandoTime
import PandoWebSocket
import Testing

@testable import PandoDatabase
@testable import PandoConnections

/// What the official JavaScript client does with answers: it puts responses in order, and ignores those that
/// it has had.
private struct ModelClient {
    var next = 0
    var early: [Int: [Int]] = [:]
    var scripts: [Int: String] = [:]
    var messages: [Int] = []
    var closedBehind: Int?

    mutating func take(_ script: [UInt8]) {
        for line in String(decoding: script, as: UTF8.self).split(separator: "\n") {
            if line.hasPrefix("pLPCommand('close',") {
                closedBehind = Int(line.dropFirst(19).dropLast(2))
                continue
            }
            let parts = line.dropFirst("pRTLPCB(".count).dropLast(3).split(
                separator: ",[", omittingEmptySubsequences: false)
            guard let number = Int(parts[0]) else { continue }
            #expect(
                scripts[number] == nil || scripts[number] == String(line), "response \(number) has changed")
            scripts[number] = String(line)
            if number >= next { early[number] = parts[1].split(separator: ",").compactMap { Int($0) } }
        }
        while let found = early.removeValue(forKey: next) {
            messages += found
            next += 1
        }
    }
}

extension PollResponses {
    fileprivate mutating func say(_ number: Int) {
        append(Array("\(number)".utf8).rawSpan)
        endMessage()
    }
}

extension PollResponse {
    fileprivate var text: String { scripts.map { String(decoding: $0.array, as: UTF8.self) }.joined() }
}

@Suite struct PollResponsesTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000)

    /// One conversation a row: what happens, and what the answer to the last poll is.
    private enum Step {
        case say(Int)
        /// A new poll, this many seconds after the start, and its answer; one that brings data.
        case poll(UInt64, at: Int, answer: String)
        case data(UInt64, at: Int, answer: String)
        /// A poll that is asked again.
        case again(UInt64, at: Int, answer: String)
        case note([Int], PollDelivery)
    }

    @Test(
        arguments: [
            (
                "numbers go on, also of empty answers",
                [
                    .poll(1, at: 0, answer: "pRTLPCB(0,[]);\n"), .note([0], .received),
                    .say(7), .say(8), .poll(2, at: 1, answer: "pRTLPCB(1,[7,8]);\n"),
                ]
            ),
            (
                "what was lost comes first",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .lost), .say(2),
                    .poll(2, at: 1, answer: "pRTLPCB(0,[1]);\npRTLPCB(1,[2]);\n"),
                ]
            ),
            (
                "what is under way is not sent again",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .say(2),
                    .poll(2, at: 1, answer: "pRTLPCB(1,[2]);\n"),
                ]
            ),
            (
                "the same poll gets the same answer",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .say(2),
                    .again(1, at: 1, answer: "pRTLPCB(0,[1]);\n"),
                ]
            ),
            (
                "what was acknowledged may still be lost",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .acknowledged),
                    .poll(2, at: 1, answer: "pRTLPCB(1,[]);\n"), .note([0], .lost),
                    .poll(3, at: 2, answer: "pRTLPCB(0,[1]);\npRTLPCB(2,[]);\n"),
                ]
            ),
            (
                "a late copy of an earlier poll does not show that a response has arrived",
                [
                    .poll(1, at: 0, answer: "pRTLPCB(0,[]);\n"), .note([0], .received), .say(7),
                    .poll(2, at: 1, answer: "pRTLPCB(1,[7]);\n"), .note([1], .received),
                    .again(1, at: 2, answer: "pRTLPCB(0,[]);\n"),
                    .again(2, at: 2, answer: "pRTLPCB(1,[7]);\n"), .say(8),
                    .poll(3, at: 3, answer: "pRTLPCB(2,[8]);\n"),
                ]
            ),
            (
                "polls go on in the client's other slot while a proxy has lost a response",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received), .say(2),
                    .data(2, at: 1, answer: "pRTLPCB(1,[2]);\n"), .note([1], .received), .say(3),
                    .data(3, at: 1, answer: "pRTLPCB(2,[3]);\n"), .note([2], .received),
                    .again(1, at: 2, answer: "pRTLPCB(0,[1]);\n"),
                ]
            ),
            (
                "the client gives up the poll whose response a proxy has lost",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received), .say(2),
                    .data(2, at: 2, answer: "pRTLPCB(1,[2]);\n"), .note([1], .received), .say(3),
                    .data(3, at: 2, answer: "pRTLPCB(2,[3]);\n"), .note([2], .received),
                    .poll(4, at: 25, answer: "pRTLPCB(0,[1]);\npRTLPCB(3,[]);\n"),
                ]
            ),
            (
                "what was received is not sent again",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received),
                    .poll(2, at: 1, answer: "pRTLPCB(1,[]);\n"), .note([0], .lost),
                    .poll(3, at: 2, answer: "pRTLPCB(2,[]);\n"),
                ]
            ),
            (
                "a client that comes back so late may have given up waiting",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received),
                    .poll(2, at: 24, answer: "pRTLPCB(0,[1]);\npRTLPCB(1,[]);\n"), .note([0, 1], .received),
                    .poll(3, at: 25, answer: "pRTLPCB(2,[]);\n"),
                ]
            ),
            (
                "a client that always comes so late gets each response twice, and no more",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .acknowledged),
                    .poll(2, at: 25, answer: "pRTLPCB(0,[1]);\npRTLPCB(1,[]);\n"), .note([0, 1], .received),
                    .poll(3, at: 50, answer: "pRTLPCB(1,[]);\npRTLPCB(2,[]);\n"), .note([1, 2], .received),
                    .poll(4, at: 75, answer: "pRTLPCB(2,[]);\npRTLPCB(3,[]);\n"),
                ]
            ),
            (
                "what is transferred for long is not sent again meanwhile, and once when it has arrived",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"),
                    .poll(2, at: 25, answer: "pRTLPCB(1,[]);\n"), .note([1], .received),
                    .poll(3, at: 30, answer: "pRTLPCB(2,[]);\n"), .note([0, 2], .received),
                    .poll(4, at: 35, answer: "pRTLPCB(0,[1]);\npRTLPCB(3,[]);\n"), .note([3], .received),
                    .poll(5, at: 60, answer: "pRTLPCB(3,[]);\npRTLPCB(4,[]);\n"),
                    .note([0, 3, 4], .received),
                    .poll(6, at: 61, answer: "pRTLPCB(5,[]);\n"),
                ]
            ),
            (
                "what was sent again, and then lost, is sent once more",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received),
                    .poll(2, at: 25, answer: "pRTLPCB(0,[1]);\npRTLPCB(1,[]);\n"), .note([1], .received),
                    .note([0], .lost),
                    .poll(3, at: 26, answer: "pRTLPCB(0,[1]);\npRTLPCB(2,[]);\n"),
                    .again(2, at: 27, answer: "pRTLPCB(0,[1]);\npRTLPCB(1,[]);\n"),
                ]
            ),
            (
                "a poll that is asked again has the time of its last copy",
                [
                    .say(1), .poll(1, at: 0, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received),
                    .again(1, at: 20, answer: "pRTLPCB(0,[1]);\n"), .note([0], .received),
                    .poll(2, at: 26, answer: "pRTLPCB(1,[]);\n"),
                ]
            ),
        ] as [(String, [Step])])
    private func conversations(because: String, steps: [Step]) {
        var answers = PollResponses()
        /// The last copies of responses, by number.
        var copies: [Int: Int] = [:]
        func noteCopies(of answer: PollResponse?) {
            for number in answer?.numbers ?? [] { copies[number] = answer?.copy }
        }
        for step in steps {
            switch step {
            case .say(let number): answers.say(number)
            case .note(let numbers, let delivery):
                for number in numbers {
                    answers.note(SentResponses(numbers: [number], copy: copies[number] ?? 0), delivery)
                }
            case .poll(let serial, let second, let expected), .data(let serial, let second, let expected):
                let now = start + .seconds(second)
                let bringsData = if case .data = step { true } else { false }
                let isNew = answers.receivedPoll(serial, bringsData: bringsData, at: now) == nil
                #expect(isNew, "\(because)")
                let answer = answers.answer(serial: serial, asked: now)
                noteCopies(of: answer)
                #expect(answer.text == expected, "\(because)")
            case .again(let serial, let second, let expected):
                let now = start + .seconds(second)
                let again = answers.receivedPoll(serial, bringsData: false, at: now)
                noteCopies(of: again)
                #expect(again?.text == expected, "\(because)")
            }
        }
    }

    /// A proxy closes the connection of an earlier copy in order after the last copy was lost.
    @Test(arguments: [PollDelivery.acknowledged, .received])
    func lateReportOfAnEarlierCopyDoesNotHideTheLossOfTheLast(report: PollDelivery) {
        var answers = PollResponses()
        answers.say(1)
        let first = answers.answer(serial: 1, asked: start)
        guard let second = answers.receivedPoll(1, bringsData: false, at: start) else {
            return #expect(Bool(false), "the poll is asked again: its response is sent again")
        }
        #expect(second.text == first.text && second.copy != first.copy)
        answers.note(second.sent, .lost)
        answers.note(first.sent, report)
        #expect(answers.isUrgent)
        _ = answers.receivedPoll(2, bringsData: false, at: start)
        answers.say(2)
        #expect(
            answers.answer(serial: 2, asked: start).text == "pRTLPCB(0,[1]);\npRTLPCB(1,[2]);\n")
    }

    /// Nor does the late loss of an earlier copy send again what has arrived since.
    @Test func lateLossOfAnEarlierCopyChangesNothing() {
        var answers = PollResponses()
        let first = answers.answer(serial: 1, asked: start)
        guard let second = answers.receivedPoll(1, bringsData: false, at: start) else {
            return #expect(Bool(false), "the poll is asked again: its response is sent again")
        }
        answers.note(first.sent, .lost)
        #expect(!answers.isUrgent)
        answers.note(second.sent, .received)
        answers.note(first.sent, .lost)
        #expect(!answers.isUrgent)
    }

    @Test func endOfTheSessionFollowsTheLastMessage() {
        var answers = PollResponses()
        let large = [UInt8](repeating: UInt8(ascii: "1"), count: PollResponses.responseByteLimit)
        for _ in 0..<2 {
            answers.append(large.rawSpan)
            answers.endMessage()
        }
        let first = answers.answer(serial: 1, asked: start, closes: true)
        #expect(answers.hasMessages && !first.text.contains("close"))
        #expect(
            answers.answer(serial: 2, asked: start, closes: true).text.hasSuffix(
                "]);\npLPCommand('close',1);\n"))
    }

    /// A script that others get, too, and a large one in parts: they are not copied, keep their places among
    /// other messages, and what others hold counts little.
    @Test func scriptsAreNotCopied() {
        var answers = PollResponses()
        let shared = SharedBytes([UInt8](repeating: UInt8(ascii: "5"), count: 64_000))
        let parts = [SharedBytes(Array("6".utf8)), SharedBytes(Array("7".utf8))]
        answers.say(1)
        answers.append(script: shared, endsMessage: true, isShared: true)
        answers.append(script: shared, endsMessage: true, isShared: true)
        answers.say(2)
        answers.say(3)
        for (index, part) in parts.enumerated() {
            answers.append(script: part, endsMessage: index == 1, isShared: false)
        }
        #expect(answers.pendingByteCount == 4 && answers.byteCount == 128_006)
        #expect(answers.heldByteCount == 4 + 128_000 / OutputSequence.sharedWeight + 2)
        let answer = answers.answer(serial: 1, asked: start)
        #expect(answer.scripts.filter { $0 === shared }.count == 2)
        #expect(answer.scripts.contains { $0 === parts[0] } && answer.scripts.contains { $0 === parts[1] })
        let fives = String(repeating: "5", count: 64_000)
        let isExpected = answer.text == "pRTLPCB(0,[1,\(fives),\(fives),2,3,67]);\n"
        #expect(isExpected)
        #expect(answers.byteCount == answer.text.utf8.count && answers.heldByteCount < 8_100)
    }

    /// A message of which a part is missing is not answered.
    @Test func partsWaitForTheLast() {
        var answers = PollResponses()
        answers.append(script: SharedBytes(Array("{1".utf8)), endsMessage: false, isShared: false)
        #expect(!answers.hasMessages && answers.byteCount == 2 && answers.heldByteCount == 2)
        answers.append(script: SharedBytes(Array("}".utf8)), endsMessage: true, isShared: false)
        #expect(answers.answer(serial: 1, asked: start).text == "pRTLPCB(0,[{1}]);\n")
    }

    @Test func heldBytesAreCountedUntilTheyAreReleased() {
        var answers = PollResponses()
        #expect(answers.byteCount == 0)
        answers.say(12)
        #expect(answers.byteCount == 2)
        let first = answers.answer(serial: 1, asked: start)
        let byteCount = first.text.utf8.count
        #expect(answers.byteCount == byteCount && answers.pendingByteCount == 0)
        answers.note(first.sent, .acknowledged)
        #expect(answers.byteCount == byteCount)
        _ = answers.receivedPoll(2, bringsData: false, at: start)
        #expect(answers.byteCount == 0 && answers.heldByteCount == byteCount, "another poll came")
        answers.note(first.sent, .received)
        #expect(answers.heldByteCount == byteCount, "its poll may be asked again")
        for serial in 2..<100 as Range<UInt64> {
            let answer = answers.answer(serial: serial, asked: start)
            answers.note(answer.sent, .acknowledged)
            _ = answers.receivedPoll(serial + 1, bringsData: false, at: start)
        }
        #expect(answers.sentCount == PollResponses.keptLimit && answers.byteCount == 0)
    }

    /// A copy of a poll whose response was forgotten, and a poll that another has overtaken.
    @Test func lateCopyTakesNoNumber() {
        var answers = PollResponses()
        for serial in 1...20 as ClosedRange<UInt64> where serial != 19 {
            _ = answers.receivedPoll(serial, bringsData: false, at: start)
            let answer = answers.answer(serial: serial, asked: start)
            answers.note(answer.sent, .received)
        }
        #expect(answers.receivedPoll(1, bringsData: false, at: start)?.text == "", "a late copy")
        let isNew = answers.receivedPoll(19, bringsData: true, at: start) == nil
        #expect(isNew, "20 has overtaken it")
        #expect(answers.answer(serial: 19, asked: start).numbers == [19])
    }

    /// Responses that would take too much memory are kept for a client's two polls, until a poll without data
    /// shows that it has loaded them.
    @Test func largeResponsesAreKeptUntilTheyAreLoaded() {
        var answers = PollResponses()
        let large = [UInt8](repeating: UInt8(ascii: "1"), count: PollResponses.keptByteLimit + 1)
        for serial in 1...3 as ClosedRange<UInt64> {
            _ = answers.receivedPoll(serial, bringsData: true, at: start)
            answers.append(large.rawSpan)
            answers.endMessage()
            let answer = answers.answer(serial: serial, asked: start)
            answers.note(answer.sent, .received)
        }
        _ = answers.receivedPoll(4, bringsData: true, at: start)
        #expect(answers.sentCount == 2 && answers.byteCount == 0)
        #expect(answers.receivedPoll(1, bringsData: false, at: start)?.text == "")
        _ = answers.receivedPoll(5, bringsData: false, at: start)
        #expect(answers.sentCount == 0 && answers.heldByteCount == 0)
    }

    /// Polls that break before or behind their answer, that are asked again, at once or when others were
    /// answered meanwhile, or are given up: the client has every message once, in order.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func everyMessageArrivesOnceAndInOrder(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var answers = PollResponses()
        var client = ModelClient()
        var now = start
        var (said, serial) = (0, 0 as UInt64)
        /// Polls that wait with the server, and answers on their way to the client.
        var held: [UInt64] = []
        var flying: [(serial: UInt64, answer: PollResponse)] = []
        /// Polls whose response a proxy has received, and lost.
        var lost: [UInt64] = []

        func poll(_ serial: UInt64, bringsData: Bool) {
            guard !held.contains(serial) else { return }
            if let again = answers.receivedPoll(serial, bringsData: bringsData, at: now) {
                flying.append((serial, again))
            } else {
                held.append(serial)
            }
        }
        func answerOne() {
            guard !held.isEmpty else { return }
            let serial = held.removeFirst()
            flying.append((serial, answers.answer(serial: serial, asked: now)))
        }
        for step in 0..<400 {
            now = now + .milliseconds(Int.random(in: 0...(step % 50 == 0 ? 30_000 : 100), using: &random))
            if let again = lost.first, serial - again > 8 || Int.random(in: 0..<20, using: &random) == 0 {
                lost.removeFirst()
                poll(again, bringsData: true)
            }
            switch Int.random(in: 0..<11, using: &random) {
            case 0, 1:
                answers.say(said)
                said += 1
            case 2, 3:
                let inProgress = held.count + flying.count + lost.count
                guard inProgress < 2 else { break }
                serial += 1
                poll(serial, bringsData: inProgress > 0)
            case 4 where !held.isEmpty:
                // Its connection breaks, and perhaps it is asked again.
                let broken = held.removeFirst()
                if Bool.random(using: &random) { poll(broken, bringsData: true) }
            case 5 where !flying.isEmpty:
                let (broken, answer) = flying.removeFirst()
                // The client's system may have had it all the same.
                if Bool.random(using: &random) { answers.note(answer.sent, .acknowledged) }
                answers.note(answer.sent, .lost)
                if Bool.random(using: &random) { poll(broken, bringsData: true) }
            case 6, 7:
                guard !flying.isEmpty else { break }
                let (_, answer) = flying.remove(at: Int.random(in: flying.indices, using: &random))
                for script in answer.scripts { client.take(script.array) }
                answers.note(answer.sent, Bool.random(using: &random) ? .received : .acknowledged)
            case 8 where !flying.isEmpty:
                let (serial, answer) = flying.removeFirst()
                answers.note(answer.sent, .received)
                lost.append(serial)
            default: if answers.isUrgent || held.count > 1 { answerOne() }
            }
            #expect(answers.byteCount >= 0 && answers.heldByteCount >= answers.byteCount)
        }
        // Nothing breaks any more.
        for serial in lost { poll(serial, bringsData: true) }
        for _ in 0..<1000 where client.messages.count < said {
            if held.isEmpty, flying.isEmpty {
                serial += 1
                poll(serial, bringsData: false)
            }
            answerOne()
            for (_, answer) in flying {
                for script in answer.scripts { client.take(script.array) }
                answers.note(answer.sent, .received)
            }
            flying = []
        }
        #expect(client.messages == Array(0..<said), "seed \(seed)")
    }
}
