import PandoBytes
import PandoRandom
import Testing

@testable import PandoTraffic

/// Stamps as receivers read them, whole or damaged.
@Suite struct StampTests {
    private func stamp(_ sequence: Int, time: Int? = nil, _ byteCount: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        Stamp.append(sequence, time: time, byteCount: byteCount, to: &bytes)
        return bytes
    }

    @Test(arguments: [0, 1, 42, 999_999_999_999_999, Stamp.numberLimit - 1])
    func writtenStampIsRead(sequence: Int) {
        for byteCount in [Stamp.shortestTimedByteCount, 40, 41, 100, 200] {
            var hint = 0
            let text = Array("{\"d\":\"".utf8) + stamp(sequence, time: 7, byteCount) + Array("\"}".utf8)
            let read = Stamp.readTimed(text.rawSpan, byteCount: byteCount, hint: &hint)
            #expect(read?.sequence == sequence && read?.time == 7, "\(byteCount)")
            #expect(hint == 6)
        }
    }

    @Test func damagedStampIsRefused() {
        let whole = stamp(5, time: 6, 60)
        // The neighbours of the digits, and digits with one bit changed.
        for wrong in [0x21, 0x2F, 0x3A, 0x3F, 0xB0, 0x70, 0x00, 0xFF] as [UInt8] {
            for index in whole.indices {
                var bytes = whole
                bytes[index] = wrong
                var hint = 0
                let read = Stamp.readTimed(bytes.rawSpan, byteCount: 60, hint: &hint)
                #expect(read == nil, "byte \(index) is \(wrong)")
            }
        }
        for byteCount in [59, 61] {
            var hint = 0
            let read = Stamp.readTimed(whole.rawSpan, byteCount: byteCount, hint: &hint)
            #expect(read == nil, "\(byteCount) wanted")
        }
    }

    /// Cut anywhere, it is not a stamp.
    @Test func truncatedStampIsRefused() {
        let whole = stamp(5, time: 6, Stamp.shortestTimedByteCount)
        for count in whole.indices {
            var hint = 0
            let beginning = Array(whole.prefix(count))
            let read = Stamp.readTimed(beginning.rawSpan, byteCount: whole.count, hint: &hint)
            #expect(read == nil, "\(count) bytes")
        }
    }

    @Test(arguments: [
        (0, 0), (1, 2), (42, Stamp.numberLimit - 1), (Stamp.numberLimit - 1, 10), (12_345_678, 99_999_999),
    ])
    func rewrittenStampEqualsAnAppendedOne(sequence: Int, time: Int) {
        var message = Array("before".utf8) + stamp(7, time: 8, 50) + Array("behind".utf8)
        var whole = message.mutableSpan
        var span = unsafe whole.mutableBytes
        Stamp.rewrite(sequence, time: time, at: 6, in: &span)
        #expect(message == Array("before".utf8) + stamp(sequence, time: time, 50) + Array("behind".utf8))
    }

    @Test func eightDigitsOfANumber() {
        var generator = SeededGenerator(seed: 8)
        let edges: [UInt64] = [0, 1, 9, 10, 99, 100, 9_999, 10_000, 10_001, 99_990_000, 99_999_999]
        let others = (0..<2_000).map { _ in UInt64.random(in: 0..<Digits.limit, using: &generator) }
        for number in edges + others {
            let text = String(number)
            let digits = Array((String(repeating: "0", count: 8 - text.count) + text).utf8)
            let word = digits.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            #expect(Digits.word(of: number) == word && Digits.number(in: word) == number, "\(number)")
        }
    }

    @Test func figures() {
        #expect(Figures.grouped(1_234_567) == "1 234 567")
        #expect(Figures.decimal(12.345, places: 2) == "12.35")
        #expect(Figures.quoted("a\"b\\\n") == "\"a\\\"b\\\\ \"")
        #expect(Figures.table([["a", "10"], ["bcd", "5"]]) == "a    10\nbcd   5")
    }
}
