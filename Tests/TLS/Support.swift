import Testing

@testable import PandoTLS

#if canImport(Glibc)
    import Glibc
#endif

/// A file of `Fixtures`.
func fixture(_ name: String) -> [UInt8] {
    let folder = String(#filePath.dropLast("Support.swift".count)) + "Fixtures/"
    return try! CertificateFile.read(folder + name)
}

func identity(_ name: String, clientIssuers: String? = nil, tickets: TicketKeys? = nil) throws -> TLSIdentity
{
    try TLSIdentity(
        chain: fixture(name + ".pem"), key: fixture(name + ".key"),
        clientIssuers: clientIssuers.map { fixture($0 + ".pem") }, tickets: tickets ?? TicketKeys())
}

func clientContext(
    identity name: String? = nil, issuers: String = "issuer",
    limits: (inout TLSClientContext.Limits) -> Void = { _ in }
) throws -> TLSClientContext {
    var wanted = TLSClientContext.Limits()
    limits(&wanted)
    return try TLSClientContext(
        issuers: fixture(issuers + ".pem"),
        identity: name.map { (fixture($0 + ".pem"), fixture($0 + ".key")) }, limits: wanted)
}

/// Gives bytes to a connection, as one read.
func receive(_ bytes: [UInt8], _ connection: TLSConnection, _ replies: SealedBuffer) -> (
    data: [UInt8], received: TLSConnection.Received
) {
    var buffer = [UInt8](repeating: 0xEE, count: TLSConnection.headroomByteCount) + bytes
    return unsafe buffer.withUnsafeMutableBytes { memory in
        let received = unsafe connection.receive(memory, count: bytes.count, replies: replies)
        return unsafe (Array(memory[received.data]), received)
    }
}

/// Encrypts slices of data.
func seal(_ slices: [[UInt8]], _ connection: TLSConnection, byteLimit: Int = .max) throws -> [UInt8] {
    let output = SealedBuffer(capacity: 1)
    let taken = try unsafe connection.seal(sliceCount: slices.count, byteLimit: byteLimit, to: output) {
        index in
        // Read while `slices` is alive and unchanged: the closure is called during this call only.
        unsafe slices[index].withUnsafeBytes { unsafe $0 }
    }
    #expect(taken == min(byteLimit, slices.reduce(0) { $0 + $1.count }))
    return output.array()
}

/// One side of a connection in memory.
final class Side {
    let tls: TLSConnection
    let output = SealedBuffer()
    var data: [UInt8] = []
    var failure: TLSError?
    var hasEnded = false
    var establishedCount = 0

    init(_ tls: TLSConnection) { self.tls = tls }

    func receive(_ bytes: [UInt8]) {
        let (data, received) = PandoTLSTests.receive(bytes, tls, output)
        self.data += data
        failure = failure ?? received.failure
        hasEnded = hasEnded || received.hasEnded
        if received.didEstablish { establishedCount += 1 }
    }

    func takeOutput() -> [UInt8] {
        defer { output.removeAll() }
        return output.array()
    }

    func send(_ bytes: [UInt8]) throws { output.append(try seal([bytes], tls)) }
    func close() { tls.close(to: output) }
}

extension SealedBuffer {
    func append(_ bytes: [UInt8]) {
        unsafe append(atMost: bytes.count) { target in
            unsafe target.copyMemory(from: bytes, byteCount: bytes.count)
            return bytes.count
        }
    }
}

/// A client and a server in memory.
struct Pair {
    let client: Side
    let server: Side

    init(_ context: TLSServerContext, _ clientContext: TLSClientContext, host: String? = "localhost") throws {
        client = Side(try TLSConnection(client: clientContext, host: host))
        client.tls.begin(to: client.output)
        server = Side(TLSConnection(server: context))
    }

    /// Carries bytes to and fro until there are none.
    /// - Parameter cut: Bytes of one read.
    func exchange(cut: Int = .max) {
        while true {
            let (toServer, toClient) = (client.takeOutput(), server.takeOutput())
            if toServer.isEmpty, toClient.isEmpty { return }
            for piece in pieces(toServer, cut) { server.receive(piece) }
            for piece in pieces(toClient, cut) { client.receive(piece) }
        }
    }
}

func pieces(_ bytes: [UInt8], _ size: Int) -> [[UInt8]] {
    stride(from: 0, to: bytes.count, by: max(1, min(size, bytes.count))).map {
        Array(bytes[$0..<min($0 + min(size, bytes.count), bytes.count)])
    }
}

func pattern(_ count: Int, seed: UInt8 = 0) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 11) &+ seed }
}

/// An established pair.
func establishedPair(
    _ name: String = "localhost", limits: (inout TLSClientContext.Limits) -> Void = { _ in }
) throws -> Pair {
    let pair = try Pair(
        TLSServerContext(standard: try identity(name)), try clientContext(limits: limits))
    pair.exchange()
    try #require(pair.client.tls.isEstablished && pair.server.tls.isEstablished)
    return pair
}

/// The ciphers and versions that are offered.
let suites: [(version: Int32, cipher: String)] = [
    (0x0304, "TLS_AES_128_GCM_SHA256"), (0x0304, "TLS_AES_256_GCM_SHA384"),
    (0x0304, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x0303, "ECDHE-ECDSA-AES128-GCM-SHA256"), (0x0303, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0x0303, "ECDHE-ECDSA-CHACHA20-POLY1305"),
]

func limit(_ limits: inout TLSClientContext.Limits, to suite: (version: Int32, cipher: String)) {
    limits.versions = suite.version...suite.version
    if suite.version == 0x0304 { limits.ciphers13 = suite.cipher } else { limits.ciphers12 = suite.cipher }
}
