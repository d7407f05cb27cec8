import PandoBytes
import PandoTraffic
import PandoWebSocket

/// The frames of `count` requests, numbered from 1.
func realtimeBurst(of count: Int, _ append: (inout [UInt8], Int) -> Void) -> SharedBytes {
    var frames: [UInt8] = []
    var text: [UInt8] = []
    for number in 1...max(1, count) {
        text.removeAll(keepingCapacity: true)
        append(&text, number)
        frames.append(clientFrame: text)
    }
    return SharedBytes(frames)
}
