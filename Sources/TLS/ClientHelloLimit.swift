//  message  │ type │ length │ body │     RFC 8446 §4, RFC 5246 §7.4. A message may be cut into several records,
//  bytes       1       3     length    and a record may have several messages.

/// Looks at what a client sends before anything is encrypted for a ClientHello that announces more bytes than
/// any honest one has. libssl reserves as many, up to 131 396, as soon as it has seen the length, so that 15
/// bytes of a client would take 128 KiB. Of all other messages of a client libssl has its own, lower limits.
struct ClientHelloLimit {
    /// Most bytes of a ClientHello: those of one full record. Browsers send about 2 KiB with a post-quantum
    /// key share of 1.2 KiB, and a session ticket adds some hundreds. libssl reserves as many for any
    /// message.
    static let byteLimit = RecordLimits.dataByteCount

    private static let headerByteCount = 4
    private static let clientHello: UInt32 = 1

    /// The last bytes of a header that is not complete.
    private var header: UInt32 = 0
    /// How many bytes of a header were read.
    private var headerReadByteCount = 0
    /// Bytes of the current message that are still to come.
    private var missingByteCount = 0
    /// The header of a message was read.
    private var hasMessage = false

    /// Whether the first message, a ClientHello where the client is honest, is complete. In TLS 1.2 there is
    /// no other one, and what follows may be encrypted. In TLS 1.3 a second one follows where the server asks
    /// for another key share, and all other messages are in records of another type.
    var isFirstMessageRead: Bool { hasMessage && missingByteCount == 0 && headerReadByteCount == 0 }

    /// Reads the payload of a record of handshake messages that is not encrypted. O(messages).
    /// - Returns: Whether it has no ClientHello that is too long.
    mutating func admits(_ payload: UnsafeRawBufferPointer) -> Bool {
        var position = 0
        while position < payload.count {
            guard missingByteCount == 0 else {
                let skipped = min(missingByteCount, payload.count - position)
                position += skipped
                missingByteCount -= skipped
                continue
            }
            // In bounds: the loop's condition.
            header = unsafe header << 8 | UInt32(payload[position])
            position += 1
            headerReadByteCount += 1
            guard headerReadByteCount == Self.headerByteCount else { continue }
            headerReadByteCount = 0
            hasMessage = true
            missingByteCount = Int(header & 0xFF_FFFF)
            if header >> 24 == Self.clientHello, missingByteCount > Self.byteLimit { return false }
        }
        return true
    }
}
