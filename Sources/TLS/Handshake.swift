import CTLS

/// What a handshake has agreed on.
package struct TLSFacts: Equatable, Sendable {
    package enum Version: String, Sendable { case tls12 = "TLS 1.2", tls13 = "TLS 1.3" }
    package enum Cipher: Sendable { case aes128GCM, aes256GCM, chaCha20Poly1305 }

    package let version: Version
    package let cipher: Cipher
    /// The keys come from a ticket of an earlier connection.
    package let isResumed: Bool
    /// ALPN (RFC 7301) has agreed on `http/1.1`; false where the client does not use ALPN.
    package let hasProtocol: Bool
    /// The client has a certificate of an issuer whose certificates administrators have.
    package let isAdministrator: Bool

    init(_ raw: pando_tls_facts) {
        version = raw.version == 0x0304 ? .tls13 : .tls12
        cipher =
            switch raw.cipher {
            case PANDO_AES_128_GCM: .aes128GCM
            case PANDO_AES_256_GCM: .aes256GCM
            default: .chaCha20Poly1305
            }
        isResumed = raw.is_resumed != 0
        hasProtocol = raw.has_protocol != 0
        isAdministrator = raw.has_client_certificate != 0
    }
}

/// A handshake under way, in libssl's object: about 30 KiB, until it is done.
@safe
final class Handshake {
    private let handshake: OpaquePointer
    private var byteCount = 0
    private var recordCount = 0

    /// Bytes that a handshake takes while it waits for the peer, about.
    static let memoryByteCount = 32 << 10
    /// Most bytes of a handshake: a chain of client certificates, or a ClientHello with several post-quantum
    /// keys.
    static let byteLimit = 96 << 10
    /// Most records of a handshake: there are six, or some more where the peer sends small ones.
    static let recordLimit = 128

    /// - Returns: nil where there is no memory.
    init?(server context: TLSServerContext) {
        // Not retained: the connection holds the context while there is a handshake.
        let chooser = unsafe Unmanaged.passUnretained(context).toOpaque()
        guard
            let handshake = unsafe pando_tls_server_handshake(
                context.standard.context,
                { chooser, name, count in
                    guard let chooser = unsafe chooser, let name = unsafe name else { return nil }
                    let context = unsafe Unmanaged<TLSServerContext>.fromOpaque(chooser).takeUnretainedValue()
                    // In bounds: libssl's string of `count` bytes.
                    let bytes = unsafe UnsafeRawBufferPointer(start: name, count: count)
                    return unsafe context.identity(for: String(decoding: bytes, as: UTF8.self)).context
                }, chooser)
        else { return nil }
        unsafe self.handshake = handshake
    }

    /// - Returns: nil where there is no memory.
    init?(client context: TLSClientContext, host: String?) {
        guard let handshake = unsafe pando_tls_client_handshake(context.context, host) else { return nil }
        unsafe self.handshake = handshake
    }

    deinit {
        unsafe pando_tls_handshake_free(handshake)
    }

    /// Goes on with the peer's bytes: a whole record, or what cannot begin one.
    /// - Returns: Whether the handshake is done.
    func advance(_ bytes: UnsafeRawBufferPointer) throws(TLSError) -> Bool {
        byteCount += bytes.count
        recordCount += 1
        guard byteCount <= Self.byteLimit, recordCount <= Self.recordLimit else { throw .handshakeTooLong }
        var reason = [CChar](repeating: 0, count: Int(PANDO_TLS_ERROR_BYTE_COUNT))
        switch unsafe pando_tls_handshake_advance(handshake, bytes.baseAddress, bytes.count, &reason) {
        case PANDO_TLS_IS_DONE: return true
        case PANDO_TLS_WANTS_INPUT: return false
        default: throw .handshake(text(reason))
        }
    }

    /// Moves what libssl has to send to `output`.
    func takeOutput(to output: SealedBuffer) {
        let count = unsafe pando_tls_handshake_output_count(handshake)
        guard count > 0 else { return }
        unsafe output.append(atMost: count) { unsafe pando_tls_handshake_take(handshake, $0, count) }
    }

    /// The facts and the keys of a handshake that is done.
    func finish(_ reading: inout RecordKeys?, _ writing: inout RecordKeys?) throws(TLSError) -> TLSFacts {
        var facts = pando_tls_facts()
        var (opening, sealing): (OpaquePointer?, OpaquePointer?)
        guard unsafe pando_tls_handshake_result(handshake, &facts, &opening, &sealing) == 0,
            let opening = unsafe opening, let sealing = unsafe sealing
        else { throw .machine }
        unsafe reading = RecordKeys(adopting: opening)
        unsafe writing = RecordKeys(adopting: sealing)
        return TLSFacts(facts)
    }
}
