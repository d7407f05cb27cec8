import PandoBytes
import PandoWebSocket

//  The last frame that was sent, in memory that the next one overwrites:
//
//      ┌────────┬─────┬─────────┬──────────┐
//      │ header │ key │ payload │ unused … │   RFC 6455 §5.2
//      └────────┴─────┴─────────┴──────────┘
//      └──────────────┘ headerByteCount, the key's 4 included
//
//  A load generator repeats messages: a frame of the same kind and length has the same header, except the
//  key.

/// Masks and frames the messages of the connections of one loop, in one buffer. Confined to that loop.
///
/// The keys are fresh for each frame, as a client's must be (RFC 6455 §5.3), but cheap, not unpredictable:
/// the clients are for measurements only.
@safe
package final class MaskingKeys {
    /// The initial capacity: enough for most messages.
    private static let leastCapacity = 1024
    /// Opcode, 8 bytes of length, key: the longest header.
    private static let headerByteLimit = 14

    private var state: UInt64 = .random(in: 1 ... .max)
    private var frame: UnsafeMutableRawPointer
    private var capacity: Int
    /// The opcode of ``frame``; before the first frame a value that no opcode has.
    private var opcodeBits = UInt8.max
    private var payloadByteCount = 0
    private var headerByteCount = 0

    package init() {
        capacity = Self.leastCapacity
        unsafe frame = .allocate(byteCount: capacity, alignment: 8)
    }

    deinit {
        unsafe frame.deallocate()
    }

    /// Calls `body` with a frame of `payload`, masked with a new key. One copy; allocates only when kind or
    /// length differ from the last frame.
    /// - Parameter body: Must not call this method.
    package func withFrame(_ opcode: Opcode, _ payload: RawSpan, _ body: (RawSpan) -> Void) {
        if opcode.rawValue != opcodeBits || payload.byteCount != payloadByteCount {
            writeHeader(opcode, payloadByteCount: payload.byteCount)
        }
        // xorshift64
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        let key = UInt32(truncatingIfNeeded: state)
        // In bounds, here and below: `writeHeader` has allocated the header and the payload. Exclusive:
        // `payload` is not in this memory, and the frame is valid only until `body` returns.
        unsafe frame.storeBytes(of: key, toByteOffset: headerByteCount - 4, as: UInt32.self)
        let start = unsafe frame + headerByteCount
        unsafe payload.withUnsafeBytes { source in
            guard let address = source.baseAddress else { return }
            unsafe start.copyMemory(from: address, byteCount: source.count)
        }
        var masked = unsafe UnsafeMutableRawBufferPointer(start: start, count: payloadByteCount).mutableBytes
        applyMask(&masked, key: key)
        let count = headerByteCount + payloadByteCount
        body(unsafe UnsafeRawBufferPointer(start: frame, count: count).bytes)
    }

    private func writeHeader(_ opcode: Opcode, payloadByteCount: Int) {
        var header: [UInt8] = []
        header.append(frameHeader: opcode, payloadByteCount: payloadByteCount, maskingKey: 0)
        let needed = Self.headerByteLimit + payloadByteCount
        if needed > capacity {
            unsafe frame.deallocate()
            capacity = max(needed, capacity * 2)
            unsafe frame = .allocate(byteCount: capacity, alignment: 8)
        }
        // In bounds: a header has at most `headerByteLimit` bytes, which `capacity` is never below.
        for (index, byte) in header.enumerated() {
            unsafe frame.storeBytes(of: byte, toByteOffset: index, as: UInt8.self)
        }
        opcodeBits = opcode.rawValue
        self.payloadByteCount = payloadByteCount
        headerByteCount = header.count
    }
}
