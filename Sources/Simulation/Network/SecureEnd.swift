import PandoRandom
import PandoTLS

/// One end of a simulated connection that speaks TLS: a ``TLSConnection`` as it ships, between what a client
/// or the server writes and reads, and the bytes that the network carries.
///
///     data ─▶ waiting ─(the handshake is done)─▶ records ─▶ BytePipe ─▶ the other end ─▶ data
///
/// The bytes of records are random, their lengths are not: the certificate's signatures (Ed25519) and the
/// tickets have one length. So the same seed gives the same run.
final class SecureEnd {
    /// What one read has given.
    struct Input {
        var data: [UInt8] = []
        /// The peer has said that it sends no more (close_notify).
        var hasEnded = false
        var failure: TLSError?
    }

    private let tls: TLSConnection
    private let output = SealedBuffer()
    /// TLS 1.3 only: the records after which it updates its keys (KeyUpdate), in its first
    /// ``writesWithKeyUpdates`` writes: a peer with more than ``TLSConnection/controlRecordLimit`` control
    /// records is disconnected.
    private let recordLimitOfKeys: UInt64
    private var sealedCount: UInt64 = 0
    private static let writesWithKeyUpdates: UInt64 = 10
    /// close_notify of the peer was read.
    private(set) var hasEnded = false
    /// Why the connection cannot go on.
    private(set) var failure: TLSError?

    /// The server's end.
    init() {
        tls = TLSConnection(server: Self.server)
        recordLimitOfKeys = .max
    }

    /// The client's end.
    init(_ choice: SecureChoice) {
        do {
            tls = try TLSConnection(client: Self.clients[choice.client], host: Self.host)
        } catch { preconditionFailure("no handshake: \(error)") }
        recordLimitOfKeys = choice.recordLimitOfKeys ?? .max
        tls.begin(to: output)
    }

    /// The handshake is done, and the connection has neither failed nor been closed.
    var canSend: Bool { tls.isEstablished }
    /// Stays true after the end.
    var isHandshakeDone: Bool { tls.facts != nil }

    /// Takes bytes of the peer. What must be sent to it is in ``takeOutput()``.
    func receive(_ bytes: [UInt8]) -> Input {
        var input = Input()
        var buffer = [UInt8](repeating: 0, count: TLSConnection.headroomByteCount) + bytes
        unsafe buffer.withUnsafeMutableBytes { memory in
            let received = unsafe tls.receive(memory, count: bytes.count, replies: output)
            // In bounds: the connection has put the data there.
            input.data = unsafe Array(memory[received.data])
            input.hasEnded = received.hasEnded
            input.failure = received.failure
        }
        hasEnded = hasEnded || input.hasEnded
        failure = failure ?? input.failure
        return input
    }

    /// Encrypts data, as one write.
    /// - Precondition: ``canSend``.
    func seal(_ data: some Collection<UInt8>) {
        let data = Array(data)
        sealedCount += 1
        tls.recordLimitOfKeys = sealedCount <= Self.writesWithKeyUpdates ? recordLimitOfKeys : .max
        do {
            let taken = try unsafe data.withUnsafeBytes { bytes in
                try unsafe tls.seal(sliceCount: 1, byteLimit: bytes.count, to: output) { _ in unsafe bytes }
            }
            precondition(taken == data.count, "one slice is taken whole")
        } catch { preconditionFailure("libcrypto does not encrypt: \(error)") }
    }

    /// Says that no more data is sent.
    func close() { tls.close(to: output) }

    /// Records that are to be sent.
    func takeOutput() -> [UInt8] {
        defer { output.removeAll() }
        return output.array()
    }

    // MARK: Certificates

    /// What clients offer: each version, with ciphers of either kind.
    static let clientCount = clients.count

    private static let host = "localhost"

    private static let server: TLSServerContext = {
        do {
            return TLSServerContext(
                standard: try TLSIdentity(
                    chain: Array(certificate.utf8), key: Array(key.utf8), tickets: TicketKeys(),
                    sendsTickets: false))
        } catch { preconditionFailure("the certificate of the simulation: \(error)") }
    }()

    private static let clients: [TLSClientContext] = [
        (0x0303, "ECDHE-ECDSA-AES128-GCM-SHA256", nil), (0x0303, "ECDHE-ECDSA-CHACHA20-POLY1305", nil),
        (0x0304, nil, "TLS_AES_256_GCM_SHA384"), (0x0304, nil, "TLS_CHACHA20_POLY1305_SHA256"),
    ].map { (version: Int32, cipher12: String?, cipher13: String?) in
        var limits = TLSClientContext.Limits()
        (limits.versions, limits.ciphers12, limits.ciphers13) = (version...version, cipher12, cipher13)
        do {
            return try TLSClientContext(issuers: Array(certificate.utf8), limits: limits)
        } catch { preconditionFailure("the certificate of the simulation: \(error)") }
    }

    /// For the simulation only: everybody has the key. Ed25519, whose signatures have one length; valid from
    /// 2020 to 2120.
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBATCBtKADAgECAgEBMAUGAytlcDAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcN
        MjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2Fs
        aG9zdDAqMAUGAytlcAMhAAE2p/UbbXijY2mUMJwXWUI816UsKTVCmN1xEE6DMnje
        oykwJzAUBgNVHREEDTALgglsb2NhbGhvc3QwDwYDVR0TAQH/BAUwAwEB/zAFBgMr
        ZXADQQCACI8ULGgxZyV/RUybMydlTRIacHfY+a7fyfrWXXYw15LzrfKZ0CoUxSxp
        RIBOuV9RV3IjXD0eTSflqGIe/dMI
        -----END CERTIFICATE-----
        """
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIOGPeuzFYM1JqOwC4+QAb80mySfNPHTjpk04wRrP558Q
        -----END PRIVATE KEY-----
        """
}

/// What a client with TLS does, as the seed says.
struct SecureChoice {
    /// How it ends its direction.
    enum End: CaseIterable {
        /// close_notify, then FIN.
        case inOrder
        /// close_notify; TCP stays open until the server has ended.
        case noticeOnly
        /// FIN alone.
        case finOnly
        /// Bytes that are not a TLS record; TCP stays open.
        case badRecord
    }

    /// Which of the contexts it has.
    let client: Int
    /// Records after which it goes on to new keys; nil for no such limit.
    let recordLimitOfKeys: UInt64?
    let end: End
    /// It ends its direction also before the handshake is done, so that the server never has what it wrote.
    let interruptsHandshake: Bool
    /// Its writes are cut into records of at most so many bytes.
    let recordByteLimit: Int

    init(_ random: inout SeededGenerator) {
        client = Int.random(in: 0..<SecureEnd.clientCount, using: &random)
        recordLimitOfKeys = random.chance(30) ? UInt64.random(in: 1...5, using: &random) : nil
        end = random.pick(End.allCases)
        interruptsHandshake = random.chance(50)
        recordByteLimit = random.pick([1, 30, 500, .max, .max])
    }
}
