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

/// A handshake under way, in libssl's object: about 48 KiB, until it is done.
@safe
final class Handshake {
    private let handshake: OpaquePointer
    private var byteCount = 0
    private var recordCount = 0
    /// nil for a client's handshake.
    private var hellos: ClientHelloLimit?

    /// Bytes that libssl's object takes while it waits for the peer, beside what the peer has sent: measured
    /// with 1000 clients and OpenSSL 3.0, 44 KB behind a part of a ClientHello, 47 KB behind a whole one.
    private static let baseByteCount = 48 << 10
    /// Most bytes of a handshake: two ClientHellos (``ClientHelloLimit/byteLimit``), a chain of client
    /// certificates, and what libssl limits by itself.
    static let byteLimit = 64 << 10
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
        hellos = ClientHelloLimit()
    }

    /// - Returns: nil where there is no memory.
    init?(client context: TLSClientContext, host: String?) {
        guard let handshake = unsafe pando_tls_client_handshake(context.context, host) else { return nil }
        unsafe self.handshake = handshake
    }

    deinit {
        unsafe pando_tls_handshake_free(handshake)
    }

    /// Bytes of memory that it takes, about: libssl keeps a buffer of the size of the largest record.
    var memoryByteCount: Int { Self.baseByteCount + byteCount }

    /// Whether a server has said all that it says before the client's last messages.
    var hasAnswered: Bool { unsafe pando_tls_handshake_has_answered(handshake) != 0 }

    /// Goes on with the peer's bytes: a whole record, or what cannot begin one.
    /// - Returns: Whether the handshake is done.
    /// - Throws: Also ``TLSError/violation(_:)``, of which the peer was not told yet: a ClientHello is too
    ///   long.
    func advance(_ bytes: UnsafeRawBufferPointer) throws(TLSError) -> Bool {
        byteCount += bytes.count
        recordCount += 1
        guard byteCount <= Self.byteLimit, recordCount <= Self.recordLimit else { throw .handshakeTooLong }
        // libssl's alert for a message that is too long.
        guard unsafe admitsHello(bytes) else { throw .violation(.illegalParameter) }
        var reason = [CChar](repeating: 0, count: Int(PANDO_TLS_ERROR_BYTE_COUNT))
        switch unsafe pando_tls_handshake_advance(handshake, bytes.baseAddress, bytes.count, &reason) {
        case PANDO_TLS_IS_DONE: return true
        case PANDO_TLS_WANTS_INPUT: return false
        default: throw .handshake(text(reason))
        }
    }

    /// Whether a record of a client has no ClientHello that is too long.
    private func admitsHello(_ record: UnsafeRawBufferPointer) -> Bool {
        guard let hellos, record.count >= RecordLimits.headerByteCount else { return true }
        let header = unsafe RecordHeader(record)
        // libssl refuses what is no record, or a part of one.
        guard header.isValid, header.type == RecordType.handshake, header.byteCount <= record.count else {
            return true
        }
        if hellos.isFirstMessageRead, unsafe pando_tls_handshake_is_13(handshake) == 0 { return true }
        // In bounds: the record is as long as its header says, at least.
        let payload = unsafe UnsafeRawBufferPointer(
            rebasing: record[RecordLimits.headerByteCount..<header.byteCount])
        return unsafe self.hellos?.admits(payload) ?? true
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
