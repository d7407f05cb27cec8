/// Handshake messages after the handshake of TLS 1.3 (RFC 8446 §4.6), which may be cut into several records.
///
/// A server accepts KeyUpdate only. A client also accepts NewSessionTicket, and ignores it.
struct PostHandshakeReader {
    private static let newSessionTicket: UInt8 = 4
    private static let keyUpdate: UInt8 = 24
    private static let headerByteCount = 4

    /// A message that is not complete: at most a header and the one byte of a KeyUpdate.
    private var pending: [UInt8] = []
    /// Bytes of a ticket that are still to come.
    private var ignoredByteCount = 0

    /// Whether a message is not complete: records of other types are not allowed then (RFC 8446 §5.1).
    var isIncomplete: Bool { !pending.isEmpty || ignoredByteCount > 0 }

    /// Reads the data of one record.
    /// - Returns: nil, or for a KeyUpdate whether the peer asks for one in return.
    mutating func read(_ bytes: [UInt8], isServer: Bool) throws(TLSError) -> Bool? {
        var rest = bytes[...]
        while !rest.isEmpty {
            let ignored = min(ignoredByteCount, rest.count)
            ignoredByteCount -= ignored
            rest = rest.dropFirst(ignored)
            guard let byte = rest.popFirst() else { break }
            pending.append(byte)
            guard pending.count >= Self.headerByteCount else { continue }
            let length = Int(pending[1]) << 16 | Int(pending[2]) << 8 | Int(pending[3])
            switch pending[0] {
            case Self.newSessionTicket where !isServer:
                pending = []
                ignoredByteCount = length
            case Self.keyUpdate:
                guard length == 1 else { throw .violation(.decodeError) }
                guard pending.count > Self.headerByteCount else { continue }
                let request = pending[Self.headerByteCount]
                pending = []
                guard request <= 1 else { throw .violation(.illegalParameter) }
                // What follows has new keys, so nothing may follow in this record (RFC 8446 §5.1).
                guard rest.isEmpty else { throw .violation(.unexpectedMessage) }
                return request == 1
            default: throw .violation(.unexpectedMessage)
            }
        }
        return nil
    }

    /// A KeyUpdate that asks for none in return.
    static let update: [UInt8] = [keyUpdate, 0, 0, 1, 0]
}
