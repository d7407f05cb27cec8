import CBytes
import PandoBytes
import Testing

/// Marks are bits of the bytes that are looked for, no more and no fewer, wherever they stand.
@Suite struct MarksTests {
    private static let kinds: [(ByteMask, @Sendable (UInt8) -> Bool)] = [
        (.json, { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }),
        (.path, { $0 < 0x20 || $0 >= 0x7F || utf8("\"\\/#$.[]").contains($0) }),
        (.nonASCII, { $0 >= 0x80 }),
    ]

    private func check(_ bytes: [UInt8], at offset: Int) {
        for (kind, isMeant) in Self.kinds {
            var wanted: UInt32 = 0
            for index in 0..<kind.byteCount where isMeant(bytes[offset + index]) {
                wanted |= 1 << UInt32(index)
            }
            let found = bytes.rawSpan.find(kind, at: offset)
            if found != wanted {
                Issue.record("\(kind): \(bytes[offset...]) gives \(String(found, radix: 2))")
            }
            withCursor(over: bytes.rawSpan) { cursor in
                cursor.advance(offset)
                #expect(cursor.find(kind) == wanted)
            }
        }
    }

    @Test func eachByteInEachPlace() {
        for filler: UInt8 in [UInt8(ascii: "x"), UInt8(ascii: "/"), 0xFF, 0] {
            for place in 0..<32 {
                for byte in UInt8.min...UInt8.max {
                    var bytes = [UInt8](repeating: filler, count: 33)
                    bytes[place + 1] = byte
                    check(bytes, at: 1)
                }
            }
        }
    }

    @Test func anyBytes() {
        var random = SeededGenerator(5)
        for _ in 0..<2000 { check((0..<40).map { _ in UInt8.random(in: 0...255, using: &random) }, at: 3) }
    }

    /// Where fewer bytes are left than one look takes, a cursor looks at none.
    @Test(arguments: 0...40) func theEnd(count: Int) {
        let bytes = [UInt8](repeating: 0xFF, count: count)
        withCursor(over: bytes.rawSpan) { cursor in
            #expect((cursor.find(.json) != nil) == (count >= 32))
            #expect((cursor.find(.nonASCII) != nil) == (count >= 32))
            #expect((cursor.find(.path) != nil) == (count >= 16))
        }
    }

    /// How processors without an instruction for it gather bits.
    @Test func portable() {
        var random = SeededGenerator(6)
        for _ in 0..<2000 {
            let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
            let (one, other) = unsafe bytes.withUnsafeBufferPointer { bytes in
                unsafe (
                    pando_non_ascii_marks(bytes.baseAddress),
                    pando_non_ascii_marks_portable(bytes.baseAddress)
                )
            }
            #expect(one == other)
        }
    }
}
