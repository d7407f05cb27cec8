import CBytes
import PandoBytes
import PandoRandom
import Testing

/// A mask has exactly the bits of the bytes in its class, wherever they are.
@Suite struct ByteMaskTests {
    private static let kinds: [(ByteMask, @Sendable (UInt8) -> Bool)] = [
        (.json, { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }),
        (.path, { $0 < 0x20 || $0 >= 0x7F || utf8("\"\\/#$.[]").contains($0) }),
        (.jsonOrNonASCII, { $0 < 0x20 || $0 >= 0x80 || utf8("\"\\").contains($0) }),
    ]

    private func check(_ bytes: [UInt8], at offset: Int) {
        for (kind, isMeant) in Self.kinds {
            var wanted: UInt32 = 0
            for index in 0..<kind.byteCount where isMeant(bytes[offset + index]) {
                wanted |= 1 << UInt32(index)
            }
            withCursor(over: bytes.rawSpan) { cursor in
                cursor.advance(offset)
                let found = cursor.mask(of: kind)
                if found != wanted {
                    Issue.record("\(kind): \(bytes[offset...]) gives \(String(found ?? 0, radix: 2))")
                }
            }
        }
    }

    @Test func everyByteAtEveryPosition() {
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

    @Test func randomBytes() {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<2000 { check((0..<40).map { _ in UInt8.random(in: 0...255, using: &random) }, at: 3) }
    }

    /// Where fewer bytes are left than a mask covers, a cursor gives none.
    @Test(arguments: 0...40) func tooFewBytesGiveNoMask(count: Int) {
        let bytes = [UInt8](repeating: 0xFF, count: count)
        withCursor(over: bytes.rawSpan) { cursor in
            #expect((cursor.mask(of: .json) != nil) == (count >= 32))
            #expect((cursor.mask(of: .jsonOrNonASCII) != nil) == (count >= 32))
            #expect((cursor.mask(of: .path) != nil) == (count >= 16))
        }
    }

    /// A cursor moves to the next marked byte, wherever it begins and however little is left: as a loop over
    /// the bytes does.
    @Test func advancesToTheNextMarkedByte() {
        var random = SeededGenerator(seed: 7)
        for count in 0...100 {
            for _ in 0..<40 {
                // Mostly unmarked.
                let bytes = (0..<count).map { _ in
                    UInt8.random(in: 0..<40, using: &random) == 0
                        ? UInt8.random(in: 0...255, using: &random) : UInt8(ascii: "x")
                }
                let start = Int.random(in: 0...count, using: &random)
                for (kind, isMeant) in Self.kinds {
                    let wanted = bytes[start...].firstIndex(where: isMeant) ?? count
                    withCursor(over: bytes.rawSpan) { cursor in
                        cursor.advance(start)
                        cursor.advance(to: kind)
                        if cursor.offset != wanted {
                            Issue.record("\(kind) from \(start) of \(bytes): \(cursor.offset), not \(wanted)")
                        }
                    }
                }
            }
        }
    }

    /// The code for processors without an instruction for it.
    @Test func portableMaskIsEqual() {
        var random = SeededGenerator(seed: 6)
        for _ in 0..<2000 {
            let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
            let (one, other) = unsafe bytes.withUnsafeBufferPointer { bytes in
                unsafe (
                    pando_json_or_non_ascii_mask(bytes.baseAddress),
                    pando_json_or_non_ascii_mask_portable(bytes.baseAddress)
                )
            }
            #expect(one == other)
        }
    }
}
