import PandoHTTP
import PandoReactor

//  input    kind (1) │ length of the first part (1) │ bytes

/// What a proxy says of its client: the header of the PROXY protocol, or the fields of a request.
@Sendable func checkProxy(_ input: [UInt8]) throws {
    var reader = InputReader(input)
    let kind = reader.byte()
    if kind % 2 == 0 {
        try checkProxyHeader(reader.remainder())
    } else {
        try checkForwardedFor(reader.bytes(reader.byte()), reader.remainder())
    }
}

/// A header says how much it needs, and is complete once that is there, whatever its pieces are.
private func checkProxyHeader(_ bytes: [UInt8]) throws {
    var count = 0
    while true {
        switch ProxyHeader.read(Array(bytes.prefix(count))) {
        case .invalid: return
        case .incomplete(let needed):
            try require(needed > count && needed <= 4096, "\(needed) bytes are needed after \(count)")
            guard needed <= bytes.count else { return }
            // One more than was there is enough to go on, too.
            if case .complete = ProxyHeader.read(Array(bytes.prefix(needed - 1))) {
                throw FuzzFailure(description: "complete before \(needed) bytes")
            }
            count = needed
        case .complete(let source):
            if let source, !source.isUnknown {
                try require([4, 6].contains(source.family), "a client of family \(source.family)")
                let again = SocketAddress(source.host, port: source.port)
                try require(again == source, "\(source) is not its text")
            }
            return
        }
    }
}

/// The client is an address that the field has, or the proxy; and only the end of the field decides.
private func checkForwardedFor(_ first: [UInt8], _ second: [UInt8]) throws {
    guard let peer = SocketAddress("10.0.0.1", port: 1) else { return }
    let trusted = TrustedProxies(["10.0.0.0/8", "::1", "unix"].compactMap { AddressRange($0) })
    let client = trusted.client(forwardedFor: second, by: peer)
    try require(
        trusted.client(forwardedFor: first + [UInt8(ascii: ",")] + second, by: peer) == client
            || trusted.contains(client), "what stands before counts")
    let named = trusted.namedClient(forwardedFor: second, by: peer)
    try require(named == nil ? trusted.contains(client) : named == client, "\(named as Any), \(client)")
    try require(TrustedProxies().client(forwardedFor: second, by: peer) == peer, "nobody is trusted")
    try checkFields(first, second)
}

/// The same through a request's head: the end of the lines, joined.
private func checkFields(_ first: [UInt8], _ second: [UInt8]) throws {
    func isInValue(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F }
    guard first.allSatisfy(isInValue), second.allSatisfy(isInValue) else { return }
    var bytes = Array("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ".utf8) + first
    bytes += Array("\r\nx-forwarded-for: ".utf8) + second + Array("\r\nX-Forwarded-Host: ".utf8) + second
    bytes += Array("\r\n\r\n".utf8)
    var reader = RequestHeadReader()
    var offset = 0
    guard let head = try? reader.read(bytes.rawSpan, from: &offset) else { return }
    let found = head.forwardedFor
    try require(found.count <= 2048, "\(found.count) bytes are looked at")
    func trimmed(_ bytes: [UInt8]) -> [UInt8] {
        let front = bytes.drop { $0 == 0x20 }
        return Array(front.reversed().drop { $0 == 0x20 }.reversed())
    }
    let all = trimmed(first) + [UInt8(ascii: ",")] + trimmed(second)
    try require(found == Array(all.suffix(found.count)), "not the end of the field")
    if all.count < 2048 { try require(found == all, "not all of the field") }
    let forwarded = RequestHead(forwarded: head)
    guard let host = forwarded.hostBytes else { return }
    try require(!host.isEmpty && forwarded.authorityBytes.starts(with: host), "not the host of the authority")
}
