import PandoBytes
import Testing

@testable import PandoTraffic

/// What a receiver makes of a stamp, whole or damaged.
@Suite struct StampTests {
    private func stamp(_ sequence: Int, time: Int? = nil, _ byteCount: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        Stamp.append(sequence, time: time, byteCount: byteCount, to: &bytes)
        return bytes
    }

    @Test(arguments: [0, 1, 42, 999_999_999_999_999, Stamp.numberLimit - 1])
    func whatIsWrittenIsRead(sequence: Int) {
        for byteCount in [Stamp.shortestTimedByteCount, 40, 41, 100, 200] {
            var hint = 0
            let text = Array("{\"d\":\"".utf8) + stamp(sequence, time: 7, byteCount) + Array("\"}".utf8)
            let read = Stamp.readTimed(text.rawSpan, byteCount: byteCount, hint: &hint)
            #expect(read?.sequence == sequence && read?.time == 7, "\(byteCount)")
            #expect(hint == 6)
        }
    }

    @Test func damageIsSeen() {
        let whole = stamp(5, time: 6, 60)
        for index in whole.indices {
            var bytes = whole
            bytes[index] = UInt8(ascii: "!")
            var hint = 0
            let read = Stamp.readTimed(bytes.rawSpan, byteCount: 60, hint: &hint)
            #expect(read == nil, "byte \(index)")
        }
        for byteCount in [59, 61] {
            var hint = 0
            let read = Stamp.readTimed(whole.rawSpan, byteCount: byteCount, hint: &hint)
            #expect(read == nil, "\(byteCount) wanted")
        }
    }

    @Test func figures() {
        #expect(Figures.grouped(1_234_567) == "1 234 567")
        #expect(Figures.decimal(12.345, places: 2) == "12.35")
        #expect(Figures.quoted("a\"b\\\n") == "\"a\\\"b\\\\ \"")
        #expect(Figures.table([["a", "10"], ["bcd", "5"]]) == "a    10\nbcd   5")
    }
}
