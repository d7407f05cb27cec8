/// Takes the frames of a server apart (RFC 6455 §5.2), and puts the chunks of a message together
/// (realtime §2.1).
struct ServerFrames {
    enum Content: Equatable {
        case message([UInt8])
        case ping([UInt8])
        case pong([UInt8])
        /// The bytes of the status code, and the reason.
        case close([UInt8])
    }

    /// Chunks that are still to come of the message in `chunked`.
    private var missingChunkCount = 0
    private var chunked: [UInt8] = []

    /// The next whole frame or message; nil while it is not complete.
    /// - Throws: ``BrokenPromise`` for a frame that a server must not send.
    mutating func read(from input: inout InputBuffer) throws(BrokenPromise) -> Content? {
        while let (opcode, payload) = try readFrame(from: &input) {
            switch opcode {
            case 1:
                if missingChunkCount > 0 {
                    chunked += payload
                    missingChunkCount -= 1
                    if missingChunkCount > 0 { continue }
                    defer { chunked = [] }
                    return .message(chunked)
                }
                // A number announces that many chunks.
                guard payload.first != UInt8(ascii: "{"),
                    let count = Int(String(decoding: payload, as: UTF8.self)), count > 0
                else { return .message(payload) }
                missingChunkCount = count
            case 8: return .close(payload)
            case 9: return .ping(payload)
            case 10: return .pong(payload)
            default: throw BrokenPromise(description: "a frame with opcode \(opcode)")
            }
        }
        return nil
    }

    private func readFrame(from input: inout InputBuffer) throws(BrokenPromise) -> (UInt8, [UInt8])? {
        let bytes = input.rest
        guard bytes.count >= 2 else { return nil }
        let (first, second) = (bytes[bytes.startIndex], bytes[bytes.startIndex + 1])
        guard first & 0xF0 == 0x80, second & 0x80 == 0 else {
            throw BrokenPromise(description: "a frame that begins with \(first), \(second)")
        }
        let lengthCount = second == 127 ? 8 : second == 126 ? 2 : 0
        guard bytes.count >= 2 + lengthCount else { return nil }
        let length =
            lengthCount == 0
            ? Int(second) : bytes.dropFirst(2).prefix(lengthCount).reduce(0) { $0 << 8 | Int($1) }
        guard bytes.count >= 2 + lengthCount + length else { return nil }
        _ = input.removeFirst(2 + lengthCount)
        return (first & 0x0F, Array(input.removeFirst(length)))
    }
}
