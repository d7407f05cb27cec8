import PandoBytes
import PandoRandom
import PandoWebSocket
import Testing

@Suite struct ReaderPropertyTests {
    /// Any messages, in any fragments, with any control frames between, in any pieces: the same events.
    @Test(arguments: 0..<150 as Range<UInt64>)
    func anyMessagesCutAnywhere(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let role: Role = Bool.random(using: &random) ? .server : .client
        let (stream, expected) = conversation(role: role, random: &random)
        #expect(decodeNaively(stream, role: role, checksText: stream.count < 4096) == expected)
        for _ in 0..<6 {
            let cuts = randomCuts(of: stream.count, random: &random)
            #expect(read(stream, cuts: cuts, role: role) == expected, "seed \(seed), cuts \(cuts)")
        }
    }

    /// Invalid streams: never a trap, always an end, and the result of the naive decoder, however they are
    /// cut.
    @Test(arguments: 0..<60 as Range<UInt64>)
    func mutatedStreams(seed: UInt64) {
        var random = SeededGenerator(seed: seed &+ 1000)
        for _ in 0..<20 {
            let role: Role = Bool.random(using: &random) ? .server : .client
            var (stream, _) = conversation(role: role, isSmall: true, random: &random)
            for _ in 0..<Int.random(in: 1...4, using: &random) where !stream.isEmpty {
                let index = Int.random(in: 0..<stream.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: stream[index] = UInt8.random(in: 0...255, using: &random)
                case 1: stream[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 2: stream.remove(at: index)
                default: stream.insert(UInt8.random(in: 0...255, using: &random), at: index)
                }
            }
            let expected = decodeNaively(stream, role: role, messageByteLimit: 300)
            for _ in 0..<3 {
                let cuts = randomCuts(of: stream.count, random: &random)
                #expect(
                    read(stream, cuts: cuts, role: role, messageByteLimit: 300) == expected,
                    "seed \(seed), \(role), cuts \(cuts), stream \(stream)")
            }
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func randomBytesNeverTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed &+ 5000)
        for _ in 0..<100 {
            let count = Int.random(in: 0...64, using: &random)
            var stream = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Half of them have a valid first byte.
            if count > 1, Bool.random(using: &random) {
                stream[0] = [0x81, 0x01, 0x82, 0x88, 0x89][count % 5]
            }
            for role in [Role.server, .client] {
                let expected = decodeNaively(stream, role: role, messageByteLimit: 1 << 20)
                let cuts = randomCuts(of: count, random: &random)
                #expect(
                    read(stream, cuts: cuts, role: role, messageByteLimit: 1 << 20) == expected, "\(stream)")
            }
        }
    }

    private func conversation(
        role: Role, isSmall: Bool = false, random: inout SeededGenerator
    ) -> (stream: [UInt8], expected: [Seen]) {
        var stream: [UInt8] = []
        var expected: [Seen] = []
        func send(_ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true) {
            let key = (0..<4).map { _ in UInt8.random(in: 0...255, using: &random) }
            stream +=
                TestFrame(
                    opcode: opcode, payload: payload, isFinal: isFinal, key: role == .server ? key : nil
                ).bytes
        }
        func sendControl() {
            let payload = (0..<Int.random(in: 0...125, using: &random)).map { UInt8($0) }
            if Bool.random(using: &random) {
                send(9, payload)
                expected.append(.ping(payload))
            } else {
                send(10, payload)
                expected.append(.pong(payload))
            }
        }
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            let sizes =
                isSmall ? [0, 1, 9, 50, 125, 126] : [0, 1, 7, 33, 125, 126, 127, 400, 65_535, 65_536]
            let count = sizes.randomElement(using: &random) ?? 0
            let isText = Bool.random(using: &random)
            var payload: [UInt8] = []
            let alphabet: [Character] = ["a", "b", "0", "\"", "é", "～", "😀"]
            let isASCII = Bool.random(using: &random)
            while payload.count < count {
                if isText {
                    payload += isASCII ? [0x61] : Array((alphabet.randomElement(using: &random) ?? "a").utf8)
                } else {
                    payload.append(UInt8.random(in: 0...255, using: &random))
                }
            }
            var opcode: UInt8 = isText ? 1 : 2
            var rest = payload[...]
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let part = rest.prefix(Int.random(in: 0...rest.count, using: &random))
                send(opcode, Array(part), isFinal: false)
                rest = rest.dropFirst(part.count)
                opcode = 0
                if Int.random(in: 0..<3, using: &random) == 0 { sendControl() }
            }
            send(opcode, Array(rest))
            expected.append(isText ? .text(payload) : .binary(payload))
            if Int.random(in: 0..<3, using: &random) == 0 { sendControl() }
        }
        if Bool.random(using: &random) {
            send(8, [0x03, 0xE8, 0x62, 0x79, 0x65])
            expected.append(.close(1000, [0x62, 0x79, 0x65]))
            send(1, [0xFF])
        }
        return (stream, expected)
    }

    private func randomCuts(of count: Int, random: inout SeededGenerator) -> [Int] {
        guard count > 0 else { return [] }
        if count < 2000, Int.random(in: 0..<4, using: &random) == 0 { return cuts(every: 1, of: count) }
        return (0..<Int.random(in: 0...12, using: &random)).map { _ in
            Int.random(in: 0...count, using: &random)
        }.sorted()
    }
}

@Suite struct AfterTheEndTests {
    /// After a violation or a close frame nothing is read any more, wherever the cuts were.
    @Test(
        arguments: [
            ([0x88, 0x83, 0, 0, 0, 0, 0, 0, 0x61], "a bad close code, perhaps from the reader's own memory"),
            ([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8], "a good one"),
            ([0x81, 0x82, 0, 0, 0, 0, 0x61, 0xFF], "bad text"),
            ([0x01, 0x81, 0, 0, 0, 0, 0x61, 0x88, 0x81, 0, 0, 0, 0, 0x61], "a bad close inside a message"),
            ([0x83], "a bad opcode"),
        ] as [([UInt8], String)])
    func nothingIsReadAfterTheEnd(stream: [UInt8], reason: String) {
        for cut in 0...stream.count {
            var reader = MessageReader(role: .server, messageByteLimit: 100, checksText: true)
            var seen: [Seen] = []
            let good: [UInt8] = [0x81, 0x81, 0, 0, 0, 0, 0x61]
            for piece in [stream[..<cut], stream[cut...], good[...], [0x83, 0x00], good[...]] {
                var window = Array(piece)
                read(&window, with: &reader, into: &seen)
            }
            #expect(seen.count == 1, "\(reason): \(seen)")
            #expect(reader.ownedByteCount == 0)
        }
    }
}

@Suite struct MemoryTests {
    @Test func idleReaderIsSmall() {
        #expect(MemoryLayout<MessageReader>.size <= 64)
        #expect(MessageReader(role: .server, messageByteLimit: 1 << 24, checksText: true).ownedByteCount == 0)
    }

    /// Complete frames are given in place, and the reader owns no memory before, during or after.
    @Test func completeFramesAreNotCopied() throws {
        var window = [UInt8](repeating: 0xEE, count: 3)
        var expected: [Range<Int>] = []
        for count in [0, 1, 125, 126, 4096, 65_536] {
            let frame = TestFrame(opcode: 1, payload: .init(repeating: 0x61, count: count)).bytes
            window += frame
            expected.append((window.count - count)..<window.count)
        }
        var reader = MessageReader(role: .server, messageByteLimit: 1 << 20, checksText: true)
        var mutable = window.mutableSpan
        var bytes = unsafe mutable.mutableBytes
        var offset = 3
        for range in expected {
            let event = try reader.next(&bytes, from: &offset)
            #expect(event == .text(Payload(range: range, isInInput: true)))
            #expect(reader.ownedByteCount == 0)
            #expect(offset == range.upperBound, "the reader stops behind the frame")
        }
        #expect(try reader.next(&bytes, from: &offset) == nil)
        #expect(reader.isIdle)
    }

    /// A message that was cut can be moved out; the reader continues without it.
    @Test func ownedMessageIsMovedOut() throws {
        let stream = [
            TestFrame(opcode: 1, payload: .init(repeating: 0x61, count: 5000)),
            TestFrame(opcode: 1, payload: [0x62]),
        ].flatMap(\.bytes)
        var reader = MessageReader(role: .server, messageByteLimit: 1 << 20, checksText: true)
        var taken: [[UInt8]?] = []
        for piece in [stream[..<4000], stream[4000...]] {
            var window = Array(piece)
            var mutable = window.mutableSpan
            var bytes = unsafe mutable.mutableBytes
            var offset = 0
            while let event = try reader.next(&bytes, from: &offset) {
                guard case .text(let payload) = event else { continue }
                taken.append(reader.takeBytes(of: payload))
                #expect(reader.takeBytes(of: payload) == nil)
            }
        }
        #expect(taken == [.init(repeating: 0x61, count: 5000), nil])
        #expect(reader.isIdle && reader.ownedByteCount == 0)
    }

    @Test func memoryGrowsWithReceivedBytesAndIsFreed() {
        var reader = MessageReader(role: .server, messageByteLimit: 1 << 40, checksText: true)
        var seen: [Seen] = []
        // Announces a gibibyte and sends ten bytes of it.
        var announcement: [UInt8] =
            [0x82, 0xFF, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4] + [UInt8](repeating: 0, count: 10)
        read(&announcement, with: &reader, into: &seen)
        #expect(seen.isEmpty)
        #expect(!reader.isIdle)
        #expect((10...256).contains(reader.ownedByteCount))

        reader = MessageReader(role: .server, messageByteLimit: 1 << 20, checksText: true)
        let frame = TestFrame(opcode: 1, payload: .init(repeating: 0x61, count: 5000)).bytes
        for (piece, owns) in [(frame[..<3], false), (frame[3..<4000], true), (frame[4000...], false)] {
            var window = Array(piece)
            read(&window, with: &reader, into: &seen)
            #expect((reader.ownedByteCount > 0) == owns)
        }
        #expect(seen == [.text(.init(repeating: 0x61, count: 5000))])

        // A control frame cut in two, inside a message cut in two: the message stays, the control frame is
        // removed.
        let stream = [
            TestFrame(opcode: 1, payload: [0x61], isFinal: false), TestFrame(opcode: 9, payload: [1, 2, 3]),
            TestFrame(opcode: 0, payload: [0x62]),
        ].flatMap(\.bytes)
        for cut in 0...stream.count {
            seen = []
            for piece in [stream[..<cut], stream[cut...]] {
                var window = Array(piece)
                read(&window, with: &reader, into: &seen)
            }
            #expect(seen == [.ping([1, 2, 3]), .text([0x61, 0x62])])
            #expect(reader.ownedByteCount == 0)
        }
    }
}
