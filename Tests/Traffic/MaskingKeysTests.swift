import PandoBytes
import PandoTraffic
import PandoWebSocket
import Testing

/// Frames in a reused buffer equal frames that were made alone.
@Suite struct MaskingKeysTests {
    /// Where the masking key stands in a frame, as its length says (RFC 6455 §5.2).
    private func keyOffset(_ payloadByteCount: Int) -> Int {
        payloadByteCount < 126 ? 2 : payloadByteCount <= 0xFFFF ? 4 : 10
    }

    @Test func everyFrameHasItsPayloadAndANewKey() {
        let maskingKeys = MaskingKeys()
        // Around the limits of the three headers; longer and shorter by turns, and the same again.
        let counts = [
            5, 5, 0, 125, 126, 125, 127, 127, 1_100, 5, 65_535, 65_536, 65_535, 0, 100_000, 126, 126,
        ]
        var keys: Set<UInt32> = []
        for (index, count) in counts.enumerated() {
            for opcode in [Opcode.text, .ping, .text] where opcode == .text || count < 126 {
                let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ index) }
                var frame: [UInt8] = []
                maskingKeys.withFrame(opcode, payload.rawSpan) { frame.append($0) }

                let offset = keyOffset(count)
                #expect(frame.count == offset + 4 + count)
                let key = frame[offset..<min(frame.count, offset + 4)].reversed().reduce(UInt32(0)) {
                    $0 << 8 | UInt32($1)
                }
                var expected: [UInt8] = []
                expected.append(frame: opcode, payload: payload.rawSpan, maskingKey: key)
                #expect(frame == expected, "\(count) bytes")
                #expect(keys.insert(key).inserted, "a key was used twice")
            }
        }
    }
}
