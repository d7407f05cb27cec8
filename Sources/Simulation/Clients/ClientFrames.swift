import PandoRandom

/// The frames of a client (RFC 6455 §5.2, §5.3): masked, and cut as clients and proxies may cut them.
enum ClientFrames {
    /// Characters of one chunk (realtime §2.1).
    private static let chunkCount = 16_384

    /// A message of the realtime protocol: in chunks behind their number where it is long, and now and then
    /// in fragments.
    static func message(_ message: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        guard message.count > chunkCount else { return text(message, &random) }
        let starts = Array(stride(from: 0, to: message.count, by: chunkCount))
        var frames = frame(1, Array("\(starts.count)".utf8)[...], &random)
        for start in starts {
            frames += text(Array(message[start..<min(start + chunkCount, message.count)]), &random)
        }
        return frames
    }

    static func pong(_ payload: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        frame(10, payload[...], &random)
    }

    static func ping(_ payload: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        frame(9, payload[...], &random)
    }

    /// - Parameter payload: The status code and the reason.
    static func close(_ payload: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        frame(8, payload[...], &random)
    }

    private static func text(_ message: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        guard message.count > 1, random.chance(4) else { return frame(1, message[...], &random) }
        let cut = Int.random(in: 1..<message.count, using: &random)
        // A control frame may stand between two fragments.
        return frame(1, message[..<cut], isFinal: false, &random)
            + (random.chance(50) ? ping([], &random) : []) + frame(0, message[cut...], &random)
    }

    private static func frame(
        _ opcode: UInt8, _ payload: ArraySlice<UInt8>, isFinal: Bool = true, _ random: inout SeededGenerator
    ) -> [UInt8] {
        var frame = [opcode | (isFinal ? 0x80 : 0)]
        frame.reserveCapacity(payload.count + 14)
        switch payload.count {
        case ..<126: frame.append(0x80 | UInt8(payload.count))
        case ..<65536:
            frame.append(0x80 | 126)
            frame += [UInt8(payload.count >> 8), UInt8(truncatingIfNeeded: payload.count)]
        default:
            frame.append(0x80 | 127)
            for shift in stride(from: 56, through: 0, by: -8) {
                frame.append(UInt8(truncatingIfNeeded: payload.count >> shift))
            }
        }
        let key = UInt32(truncatingIfNeeded: random.next())
        for shift in stride(from: 0, to: 32, by: 8) { frame.append(UInt8(truncatingIfNeeded: key >> shift)) }
        var shift: UInt32 = 0
        for byte in payload {
            frame.append(byte ^ UInt8(truncatingIfNeeded: key >> shift))
            shift = (shift + 8) & 31
        }
        return frame
    }
}
