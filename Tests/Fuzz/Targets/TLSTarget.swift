import PandoTLS

//  input    mode (1): 0 bytes for a server, 1 for a client, else records between the two; version and cipher
//           │ size of the pieces (1) │ bytes, or changes: record (1) │ offset (2) │ what (1) │ value (1)

/// Bytes of a peer, before, in and behind a handshake: an error and no trap; and of records that were changed
/// on the way no data arrives but what was sent, in order.
@Sendable func checkTLS(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let mode = reader.byte()
    let size = reader.byte()
    switch mode & 3 {
    case 0: try feed(reader.remainder(), size, to: Side(TLSConnection(server: contexts.get().server)))
    case 1:
        let side = Side(try TLSConnection(client: contexts.get().client(mode >> 2), host: "localhost"))
        side.tls.begin(to: side.output)
        try feed(reader.remainder(), size, to: side)
    default: try changeRecords(&reader, mode >> 2, size)
    }
}

private func feed(_ bytes: [UInt8], _ size: Int, to side: Side) throws {
    for piece in pieces(bytes, of: size) where side.failure == nil { side.receive(piece) }
    try require(side.data.isEmpty, "data before a handshake is done")
    try require(side.tls.heldByteCount < 256 << 10, "\(side.tls.heldByteCount) bytes are held")
}

private func changeRecords(_ reader: inout InputReader, _ suite: Int, _ size: Int) throws {
    let client = Side(try TLSConnection(client: contexts.get().client(suite), host: "localhost"))
    let server = Side(TLSConnection(server: try contexts.get().server))
    client.tls.begin(to: client.output)
    while true {
        let (toServer, toClient) = (client.takeOutput(), server.takeOutput())
        if toServer.isEmpty, toClient.isEmpty { break }
        server.receive(toServer)
        client.receive(toClient)
    }
    try require(client.tls.isEstablished && server.tls.isEstablished, "no handshake")
    var sent: [UInt8] = []
    var records: [[UInt8]] = []
    for index in 0..<4 {
        let data = (0..<(1 + index * 700)).map { UInt8(truncatingIfNeeded: $0 &+ index) }
        sent += data
        records.append(try client.seal(data))
    }
    var isChanged = false
    while !reader.isAtEnd {
        let index = reader.byte() % records.count
        let offset = (reader.byte() | reader.byte() << 8) % max(1, records[index].count)
        let (what, value) = (reader.byte(), UInt8(reader.byte()))
        guard !records[index].isEmpty else { continue }
        isChanged = true
        switch what % 5 {
        case 0: records[index][offset] ^= max(1, value)
        case 1: records[index].remove(at: offset)
        case 2: records[index].insert(value, at: offset)
        case 3: records.swapAt(index, Int(value) % records.count)
        default: records[index] = Array(records[index][..<offset])
        }
    }
    for piece in pieces(records.flatMap { $0 }, of: size) where server.failure == nil {
        server.receive(piece)
    }
    try require(sent.starts(with: server.data), "other data than was sent")
    try require(isChanged || server.data == sent && server.failure == nil, "what was sent did not arrive")
}

/// One side of a connection in memory.
private final class Side {
    let tls: TLSConnection
    let output = SealedBuffer()
    var data: [UInt8] = []
    var failure: TLSError?

    init(_ tls: TLSConnection) { self.tls = tls }

    func receive(_ bytes: [UInt8]) {
        // What a read of a socket brings at most.
        for piece in pieces(bytes, of: 64 << 10) where failure == nil { receiveAtOnce(piece) }
    }

    private func receiveAtOnce(_ bytes: [UInt8]) {
        var buffer = [UInt8](repeating: 0xEE, count: TLSConnection.headroomByteCount) + bytes
        unsafe buffer.withUnsafeMutableBytes { memory in
            let received = unsafe tls.receive(memory, count: bytes.count, replies: output)
            unsafe data += memory[received.data]
            failure = received.failure
        }
    }

    func takeOutput() -> [UInt8] {
        defer { output.removeAll() }
        return output.array()
    }

    func seal(_ bytes: [UInt8]) throws -> [UInt8] {
        let sealed = SealedBuffer(capacity: 1)
        _ = try unsafe tls.seal(sliceCount: 1, byteLimit: .max, to: sealed) { _ in
            // Read while `bytes` is alive and unchanged: the closure is called during this call only.
            unsafe bytes.withUnsafeBytes { unsafe $0 }
        }
        return sealed.array()
    }
}

private struct Contexts: Sendable {
    let server: TLSServerContext
    /// For each version and cipher.
    let clients: [TLSClientContext]

    func client(_ number: Int) -> TLSClientContext { clients[number % clients.count] }
}

private let contexts = Result { () throws -> Contexts in
    func file(_ name: String) throws -> [UInt8] {
        let tests = String(#filePath.dropLast("Fuzz/Targets/TLSTarget.swift".count))
        return try CertificateFile.read(tests + "TLS/Fixtures/" + name)
    }
    let suites: [(Int32, String)] = [
        (0x0304, "TLS_AES_128_GCM_SHA256"), (0x0304, "TLS_AES_256_GCM_SHA384"),
        (0x0304, "TLS_CHACHA20_POLY1305_SHA256"), (0x0303, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (0x0303, "ECDHE-ECDSA-AES256-GCM-SHA384"), (0x0303, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ]
    let identity = try TLSIdentity(
        chain: file("localhost.pem"), key: file("localhost.key"), tickets: TicketKeys())
    return Contexts(
        server: TLSServerContext(standard: identity),
        clients: try suites.map { version, cipher in
            var limits = TLSClientContext.Limits()
            limits.versions = version...version
            if version == 0x0304 { limits.ciphers13 = cipher } else { limits.ciphers12 = cipher }
            return try TLSClientContext(issuers: try file("issuer.pem"), limits: limits)
        })
}
