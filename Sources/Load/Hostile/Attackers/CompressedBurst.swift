import PandoBytes
import PandoTraffic
import PandoWebSocket

/// The frames of a burst with each complete text message compressed (RFC 7692) that is long enough. What is
/// no complete frame, or a fragment, stays as it is.
///
/// - Parameter burst: Frames of a client with the masking key 0.
func compressing(_ burst: SharedBytes) -> SharedBytes {
    guard let deflater = try? MessageDeflater(.init(takesOver: false, windowBits: 15)) else { return burst }
    let bytes = burst.array
    var output: [UInt8] = []
    var start = 0
    while let payload = payloadRange(of: bytes, at: start) {
        // A final frame of text.
        if bytes[start] == 0x81 {
            deflater.append(
                message: .text, payload: bytes.rawSpan.extracting(payload), to: &output, maskingKey: 0)
        } else {
            output += bytes[start..<payload.upperBound]
        }
        start = payload.upperBound
    }
    return SharedBytes(output + bytes[start...])
}

/// Where the payload of the frame at `start` is; nil where the frame is not complete (RFC 6455 §5.2).
private func payloadRange(of bytes: [UInt8], at start: Int) -> Range<Int>? {
    guard bytes.count - start >= 2 else { return nil }
    let short = Int(bytes[start + 1] & 0x7F)
    let lengthCount = short == 126 ? 2 : short == 127 ? 8 : 0
    let key = start + 2 + lengthCount
    guard key + 4 <= bytes.count else { return nil }
    let length =
        lengthCount == 0 ? short : bytes[(start + 2)..<key].reduce(0) { ($0 & (1 << 40 - 1)) << 8 | Int($1) }
    let begin = key + 4
    guard length <= bytes.count - begin else { return nil }
    return begin..<(begin + length)
}
