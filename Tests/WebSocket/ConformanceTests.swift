import PandoBytes
import PandoWebSocket
import Testing

// The categories of the Autobahn test suite's fuzzing client, as tables. Each case is read as a whole, byte
// by byte, and in odd pieces, with the same result as the naive decoder's.

private func text(_ string: String, final: Bool = true) -> TestFrame {
    TestFrame(opcode: 1, payload: Array(string.utf8), isFinal: final)
}
private func text(_ bytes: [UInt8], final: Bool = true) -> TestFrame {
    TestFrame(opcode: 1, payload: bytes, isFinal: final)
}
private func more(_ string: String, final: Bool = false) -> TestFrame {
    TestFrame(opcode: 0, payload: Array(string.utf8), isFinal: final)
}
private func more(_ bytes: [UInt8], final: Bool = false) -> TestFrame {
    TestFrame(opcode: 0, payload: bytes, isFinal: final)
}
private func ping(_ string: String = "") -> TestFrame { TestFrame(opcode: 9, payload: Array(string.utf8)) }
private func pong(_ string: String = "") -> TestFrame { TestFrame(opcode: 10, payload: Array(string.utf8)) }
private func close(_ payload: [UInt8] = []) -> TestFrame { TestFrame(opcode: 8, payload: payload) }
private func close(_ code: UInt16, _ reason: [UInt8] = []) -> TestFrame {
    close([UInt8(code >> 8), UInt8(code & 255)] + reason)
}
private func seen(_ string: String) -> Seen { .text(Array(string.utf8)) }

struct Case: Sendable, CustomTestStringConvertible {
    let number: String
    let stream: [UInt8]
    let expected: [Seen]

    init(_ number: String, _ frames: [TestFrame], _ expected: [Seen]) {
        self.number = number
        self.stream = frames.flatMap(\.bytes)
        self.expected = expected
    }

    var testDescription: String { number }

    func check(_ sizes: [Int] = [1, 2, 3, 7]) {
        #expect(read(stream, cuts: []) == expected, "\(number), whole")
        for size in sizes {
            #expect(
                read(stream, cuts: cuts(every: size, of: stream.count)) == expected, "\(number), by \(size)")
        }
        if stream.count < 4096 {
            #expect(decodeNaively(stream, role: .server) == expected, "\(number), naively")
        }
    }
}

extension TestFrame {
    fileprivate func with(reserved: UInt8) -> TestFrame {
        var frame = self
        frame.reserved = reserved
        return frame
    }
}

@Suite struct ConformanceTests {
    /// 1.1, 1.2: text and binary of every size at which the form of the length changes.
    @Test(arguments: [0, 1, 124, 125, 126, 127, 128, 65_535, 65_536, 70_001])
    func echoSizes(count: Int) {
        let payload = [UInt8](repeating: 0x2A, count: count)
        let sizes = count < 1000 ? [1, 2, 3, 7] : [997, 65_536]
        Case("1.1", [TestFrame(opcode: 1, payload: payload)], [.text(payload)]).check(sizes)
        Case("1.2", [TestFrame(opcode: 2, payload: payload)], [.binary(payload)]).check(sizes)
    }

    @Test(
        arguments: [
            Case("2.1 empty ping", [ping()], [.ping([])]),
            Case("2.2 ping with payload", [ping("Hello, world!")], [.ping(Array("Hello, world!".utf8))]),
            Case(
                "2.3 binary ping", [TestFrame(opcode: 9, payload: [0, 0xFF, 0xFE])], [.ping([0, 0xFF, 0xFE])]),
            Case(
                "2.4 ping of 125", [TestFrame(opcode: 9, payload: .init(repeating: 0xFE, count: 125))],
                [.ping(.init(repeating: 0xFE, count: 125))]),
            Case(
                "2.5 ping of 126", [TestFrame(opcode: 9, payload: .init(repeating: 0xFE, count: 126))],
                [.violation(.controlFrameTooLong)]),
            Case("2.7 unsolicited pong", [pong()], [.pong([])]),
            Case("2.8 with payload", [pong("x")], [.pong([0x78])]),
            Case("2.9 pong, then ping", [pong("x"), ping("y")], [.pong([0x78]), .ping([0x79])]),
            Case(
                "2.10 ten pings", (0..<10).map { ping("\($0)") }, (0..<10).map { .ping(Array("\($0)".utf8)) }),
        ] as [Case])
    func pings(test: Case) { test.check() }

    /// 3: each combination of reserved bits, on data and control frames, alone and after a valid frame.
    @Test(arguments: 1...7 as ClosedRange<UInt8>)
    func reservedBits(bits: UInt8) {
        for frame in [text("x"), TestFrame(opcode: 2, payload: [1]), ping(), pong("x"), close(1000)] {
            Case("3", [frame.with(reserved: bits)], [.violation(.reservedBitsSet)]).check()
            Case(
                "3", [text("a"), frame.with(reserved: bits), ping()],
                [seen("a"), .violation(.reservedBitsSet)]
            ).check()
        }
    }

    /// 4: reserved opcodes, with and without payload, alone and after a valid frame.
    @Test(arguments: [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] as [UInt8])
    func reservedOpcodes(opcode: UInt8) {
        for payload in [[], [1, 2, 3]] as [[UInt8]] {
            let frame = TestFrame(opcode: opcode, payload: payload)
            Case("4", [frame], [.violation(.reservedOpcode(opcode))]).check()
            Case("4", [text("a"), frame, ping()], [seen("a"), .violation(.reservedOpcode(opcode))]).check()
        }
    }

    @Test(
        arguments: [
            Case(
                "5.1 ping in two",
                [TestFrame(opcode: 9, payload: [1], isFinal: false), more("b", final: true)],
                [.violation(.fragmentedControlFrame)]),
            Case(
                "5.2 pong in two",
                [TestFrame(opcode: 10, payload: [1], isFinal: false), more("b", final: true)],
                [.violation(.fragmentedControlFrame)]),
            Case("5.3 text in two", [text("ab", final: false), more("cd", final: true)], [seen("abcd")]),
            Case(
                "5.6 ping between", [text("ab", final: false), ping("p"), more("cd", final: true)],
                [.ping([0x70]), seen("abcd")]),
            Case(
                "5.9 continuation of nothing", [more("x", final: true), text("y")],
                [.violation(.unexpectedContinuation)]),
            Case("5.12 not even final", [more("x"), text("y")], [.violation(.unexpectedContinuation)]),
            Case(
                "5.15 after a whole message",
                [
                    text("a", final: false), more("b", final: true), more("c"), text("d", final: false),
                    more("e", final: true),
                ],
                [seen("ab"), .violation(.unexpectedContinuation)]),
            Case(
                "5.16 again and again",
                [more("x"), text("y", final: false), more("z", final: true)],
                [.violation(.unexpectedContinuation)]),
            Case(
                "5.18 text in text", [text("a", final: false), text("b")], [.violation(.unfinishedMessage)]),
            Case(
                "5.18b binary in text", [text("a", final: false), TestFrame(opcode: 2)],
                [.violation(.unfinishedMessage)]),
            Case(
                "5.19 five fragments, pings between",
                [
                    text("1", final: false), more("2"), ping("p"), more("3"), more("4"), ping("q"),
                    more("5", final: true),
                ],
                [.ping([0x70]), .ping([0x71]), seen("12345")]),
            Case(
                "5.x close between", [text("a", final: false), close(1000), more("b", final: true)],
                [.close(1000, [])]),
            Case(
                "5.x empty fragments",
                [text("", final: false), more(""), more("a"), more(""), more("", final: true), text("b")],
                [seen("a"), seen("b")]),
            Case(
                "5.x only the last has bytes", [text("", final: false), more("a", final: true)], [seen("a")]),
            Case("5.x nothing in two", [text("", final: false), more("", final: true)], [seen("")]),
            Case(
                "5.x messages in a row",
                [text("a", final: false), more("b", final: true), text("c"), text("d")],
                [seen("ab"), seen("c"), seen("d")]),
        ] as [Case])
    func fragmentation(test: Case) { test.check() }

    /// 6.5…6.23: whole, in one frame and in fragments of one byte.
    @Test(
        arguments: [
            // bytes                                          valid   why
            ([0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xCE, 0xBC, 0xCE, 0xB5], true, "6.2 κόσμε"),
            (
                [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xCE, 0xBC, 0xCE, 0xB5, 0xED, 0xA0, 0x80, 0x65],
                false, "6.3"
            ),
            ([0x00], true, "6.7.1"), ([0xC2, 0x80], true, "6.7.2"), ([0xE0, 0xA0, 0x80], true, "6.7.3"),
            ([0xF0, 0x90, 0x80, 0x80], true, "6.7.4"),
            ([0xF8, 0x88, 0x80, 0x80, 0x80], false, "6.8.1 five bytes"),
            ([0xFC, 0x84, 0x80, 0x80, 0x80, 0x80], false, "6.8.2 six bytes"), ([0x7F], true, "6.9.1"),
            ([0xDF, 0xBF], true, "6.9.2"), ([0xEF, 0xBF, 0xBF], true, "6.9.3"),
            ([0xF4, 0x8F, 0xBF, 0xBF], true, "6.9.4"),
            ([0xFB, 0xBF, 0xBF, 0xBF, 0xBF], false, "6.10.1"), ([0xED, 0x9F, 0xBF], true, "6.11.1"),
            ([0xEE, 0x80, 0x80], true, "6.11.2"), ([0xEF, 0xBF, 0xBD], true, "6.11.3"),
            ([0xF4, 0x90, 0x80, 0x80], false, "6.11.5 above U+10FFFF"),
            ([0x80], false, "6.12.1 lonely continuation"),
            ([0xBF], false, "6.12.2"), ([0x80, 0xBF], false, "6.12.3"),
            ([0x80, 0xBF, 0x80, 0xBF], false, "6.12.5"),
            ([0xC0, 0x20, 0xC1, 0x20], false, "6.13.1"), ([0xE0, 0x20], false, "6.13.2"),
            ([0xF0, 0x20], false, "6.13.3"),
            ([0xF8, 0x20], false, "6.13.4"), ([0xFC, 0x20], false, "6.13.5"),
            ([0xC0], false, "6.14.1 cut short"),
            ([0xE0, 0x80], false, "6.14.2"), ([0xF0, 0x80, 0x80], false, "6.14.3"), ([0xDF], false, "6.14.6"),
            ([0xEF, 0xBF], false, "6.14.7"), ([0xF7, 0xBF, 0xBF], false, "6.14.8"),
            ([0xC0, 0xE0, 0x80, 0xF0, 0x80, 0x80], false, "6.15.1"), ([0xFE], false, "6.16.1"),
            ([0xFF], false, "6.16.2"),
            ([0xC0, 0xAF], false, "6.17.1 overlong"), ([0xE0, 0x80, 0xAF], false, "6.17.2"),
            ([0xF0, 0x80, 0x80, 0xAF], false, "6.17.3"), ([0xC1, 0xBF], false, "6.18.1"),
            ([0xE0, 0x9F, 0xBF], false, "6.18.2"), ([0xF0, 0x8F, 0xBF, 0xBF], false, "6.18.3"),
            ([0xC0, 0x80], false, "6.19.1"),
            ([0xE0, 0x80, 0x80], false, "6.19.2"), ([0xED, 0xA0, 0x80], false, "6.20.1 surrogate"),
            ([0xED, 0xAD, 0xBF], false, "6.20.2"), ([0xED, 0xAE, 0x80], false, "6.20.3"),
            ([0xED, 0xAF, 0xBF], false, "6.20.4"),
            ([0xED, 0xB0, 0x80], false, "6.20.5"), ([0xED, 0xBE, 0x80], false, "6.20.6"),
            ([0xED, 0xBF, 0xBF], false, "6.20.7"),
            ([0xED, 0xA0, 0x80, 0xED, 0xB0, 0x80], false, "6.21.1 CESU"),
            ([0xEF, 0xBF, 0xBE], true, "6.22.1 noncharacter"),
            ([0xF0, 0x9F, 0xBF, 0xBF], true, "6.22"), ([0xF3, 0xBF, 0xBF, 0xBE], true, "6.22"),
            ([0xF4, 0x8F, 0xBF, 0xBE], true, "6.22.33"), ([0xEF, 0xBF, 0xB9], true, "6.23.1"),
        ] as [([UInt8], Bool, String)])
    func utf8(bytes: [UInt8], isValid: Bool, reason: String) {
        let expected: [Seen] = isValid ? [.text(bytes)] : [.violation(.invalidUTF8)]
        Case(reason, [text(bytes)], expected).check()
        let fragments = bytes.enumerated().map { index, byte in
            TestFrame(opcode: index == 0 ? 1 : 0, payload: [byte], isFinal: index == bytes.count - 1)
        }
        Case(reason + ", fragments", fragments, expected).check()
        // Behind ASCII of every length that matters to the wide steps, and before more.
        for count in [1, 7, 8, 31, 32, 33, 100] {
            let padding = [UInt8](repeating: 0x61, count: count)
            let whole = padding + bytes + padding
            Case(
                reason + ", padded", [text(whole)],
                isWholeUTF8(whole) ? [.text(whole)] : [.violation(.invalidUTF8)]
            )
            .check()
        }
        #expect(
            read(text(bytes).bytes, cuts: [], checksText: false) == [.text(bytes)],
            "an endpoint may check itself")
        Case("binary is not text", [TestFrame(opcode: 2, payload: bytes)], [.binary(bytes)]).check()
    }

    /// 6.4: refused at the first byte after which no continuation is valid, in a fragment or in an incomplete
    /// frame.
    @Test func invalidTextFailsAtItsFirstByte() {
        let good = Array("κόσμε".utf8)
        let bad: [UInt8] = [0xF4, 0x90]
        let tail: [UInt8] = [0x80, 0x80] + Array("edited".utf8)
        #expect(
            read(text(good + bad, final: false).bytes, cuts: []) == [.violation(.invalidUTF8)],
            "6.4.1: with the fragment, not with the message")
        #expect(
            read(text(good, final: false).bytes + more(bad).bytes, cuts: [3]) == [.violation(.invalidUTF8)],
            "6.4.2")
        let frame = text(good + bad + tail).bytes
        let headerCount = 6
        for end in headerCount...(frame.count - 1) {
            let isBad = end >= headerCount + good.count + bad.count
            let expected: [Seen] = isBad ? [.violation(.invalidUTF8)] : []
            #expect(read(Array(frame[..<end]), cuts: []) == expected, "6.4.3: \(end) bytes have come")
            #expect(
                read(Array(frame[..<end]), cuts: cuts(every: 1, of: end)) == expected, "6.4.4: one by one")
        }
        #expect(
            read(text([0xCE], final: false).bytes + ping().bytes + more([], final: true).bytes, cuts: [])
                == [.ping([]), .violation(.invalidUTF8)], "a message may not end inside a character")
        #expect(
            read(text([0xCE]).bytes + text("a").bytes, cuts: []) == [.violation(.invalidUTF8)],
            "nor does the next one go on")
    }

    @Test(
        arguments: [
            Case("7.1.1 message, then close", [text("a"), close()], [seen("a"), .close(nil, [])]),
            Case("7.1.2 two closes", [close(), close()], [.close(nil, [])]),
            Case("7.1.3 ping after close", [close(), ping()], [.close(nil, [])]),
            Case("7.1.4 text after close", [close(), text("x")], [.close(nil, [])]),
            Case(
                "7.1.5 close inside a message", [text("a", final: false), close(), more("b", final: true)],
                [.close(nil, [])]),
            Case(
                "7.1.6 even garbage after close", [close(1000), TestFrame(opcode: 15, key: nil)],
                [.close(1000, [])]),
            Case("7.3.2 one byte", [close([3])], [.violation(.truncatedCloseCode)]),
            Case("7.3.3 code", [close(1000)], [.close(1000, [])]),
            Case("7.3.4 and reason", [close(1000, Array("Hello".utf8))], [.close(1000, Array("Hello".utf8))]),
            Case(
                "7.3.5 longest reason", [close(1000, .init(repeating: 0x2A, count: 123))],
                [.close(1000, .init(repeating: 0x2A, count: 123))]),
            Case(
                "7.3.6 too long", [close(1000, .init(repeating: 0x2A, count: 124))],
                [.violation(.controlFrameTooLong)]),
            Case(
                "7.5.1 reason is no UTF-8", [close(1000, [0xCE, 0xBA, 0xED, 0xA0, 0x80])],
                [.violation(.invalidUTF8)]),
            Case("7.5.2 reason is cut", [close(1000, [0xCE])], [.violation(.invalidUTF8)]),
        ] as [Case])
    func closing(test: Case) { test.check() }

    /// 7.7, 7.9, 7.13: every code.
    @Test func closeCodes() {
        for code in UInt16.min...UInt16.max {
            let isGood = [1000...1003, 1007...1014, 3000...4999].contains { $0.contains(code) }
            #expect(
                read(close(code, [0x78]).bytes, cuts: [])
                    == [isGood ? .close(code, [0x78]) : .violation(.invalidCloseCode(code))])
        }
    }

    /// 9, 10: large messages, in one frame and in fragments, in pieces.
    @Test(arguments: [64, 1300, 4096, 65_536, 300_000])
    func bigMessages(fragmentByteCount: Int) {
        let count = 1 << 18
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) & 0x7F }
        var stream: [UInt8] = []
        var start = 0
        while start < count {
            let end = min(count, start + fragmentByteCount)
            stream +=
                TestFrame(
                    opcode: start == 0 ? 1 : 0, payload: Array(payload[start..<end]), isFinal: end == count
                ).bytes
            start = end
        }
        for size in [1024, 65_521, 1 << 19] {
            #expect(read(stream, cuts: cuts(every: size, of: stream.count)) == [.text(payload)])
        }
    }

    @Test(
        arguments: [
            ([0x81, 0xFE, 0, 125, 1, 2, 3, 4], .lengthNotMinimal, "125 in 16 bits"),
            ([0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2, 3, 4], .lengthNotMinimal, "65 535 in 64 bits"),
            ([0x82, 0xFF, 0x80, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4], .lengthTopBitSet, "top bit"),
            (
                [0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4], .lengthTopBitSet,
                "all ones"
            ),
            (
                [0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4],
                .messageTooBig(byteLimit: 1 << 24), "announced, not sent"
            ),
            ([0x81, 0x01], .unmaskedClientFrame, "a client must mask"),
            ([0x89, 0x00], .unmaskedClientFrame, "pings too"),
            ([0x89, 0xFE], .controlFrameTooLong, "before its length has come"),
            ([0x08], .fragmentedControlFrame, "at the first byte"),
        ] as [([UInt8], ProtocolViolation, String)])
    func headers(stream: [UInt8], violation: ProtocolViolation, reason: String) {
        for size in 1...stream.count {
            #expect(
                read(stream, cuts: cuts(every: size, of: stream.count)) == [.violation(violation)],
                "\(reason)")
        }
        #expect(decodeNaively(stream, role: .server) == [.violation(violation)], "\(reason), naively")
    }

    @Test func maskedServerFrameIsRefused() {
        #expect(read([0x81, 0x80, 1, 2, 3, 4], cuts: [], role: .client) == [.violation(.maskedServerFrame)])
        #expect(read([0x81, 0x01, 0x61], cuts: [1, 2], role: .client) == [.text([0x61])])
        #expect(read([0x81, 0x01, 0xFF], cuts: [], role: .client) == [.violation(.invalidUTF8)])
    }

    @Test func limitCountsAllFragments() {
        let ten = [UInt8](repeating: 1, count: 10)
        let fits = [
            TestFrame(opcode: 2, payload: ten, isFinal: false), ping("0123456789"),
            TestFrame(opcode: 0, payload: ten),
        ].flatMap(\.bytes)
        let tooBig = [
            TestFrame(opcode: 2, payload: ten, isFinal: false),
            TestFrame(opcode: 0, payload: ten, isFinal: false),
            TestFrame(opcode: 0, payload: [1]),
        ].flatMap(\.bytes)
        for size in [1, 5, 1000] {
            #expect(
                read(fits, cuts: cuts(every: size, of: fits.count), messageByteLimit: 20)
                    == [.ping(Array("0123456789".utf8)), .binary(ten + ten)])
            #expect(
                read(tooBig, cuts: cuts(every: size, of: tooBig.count), messageByteLimit: 20)
                    == [.violation(.messageTooBig(byteLimit: 20))])
        }
    }

    @Test func closeCodesOfViolations() {
        #expect(ProtocolViolation.invalidUTF8.closeCode.rawValue == 1007)
        #expect(ProtocolViolation.messageTooBig(byteLimit: 1).closeCode.rawValue == 1009)
        #expect(ProtocolViolation.reservedBitsSet.closeCode.rawValue == 1002)
        #expect(ProtocolViolation.invalidCloseCode(999).closeCode.rawValue == 1002)
    }
}
