import Testing

@testable import PandoReactor

private func header(
    _ versionAndCommand: UInt8, _ family: UInt8, _ addresses: [UInt8], length: Int? = nil
) -> [UInt8] {
    let length = length ?? addresses.count
    return ProxyHeader.signature
        + [
            versionAndCommand, family, UInt8(truncatingIfNeeded: length >> 8),
            UInt8(truncatingIfNeeded: length),
        ]
        + addresses
}

private let v4: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34, 0, 80]
private let v6: [UInt8] =
    [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [7]
    + [UInt8](repeating: 0, count: 16) + [0x12, 0x34, 0, 80]

@Suite struct ProxyHeaderTests {
    @Test(
        arguments: [
            ("TCP over IPv4", header(0x21, 0x11, v4), "1.2.3.4:4660"),
            ("TCP over IPv6", header(0x21, 0x21, v6), "[2001:db8::7]:4660"),
            ("with what is not looked at", header(0x21, 0x11, v4 + [3, 0, 1, 9]), "1.2.3.4:4660"),
            ("LOCAL", header(0x20, 0x00, []), nil),
            ("LOCAL with addresses", header(0x20, 0x11, v4), nil),
            ("unspecified", header(0x21, 0x00, [1, 2, 3]), "unknown"),
            ("UDP over IPv4", header(0x21, 0x12, v4), "unknown"),
            ("UDP over IPv6", header(0x21, 0x22, v6), "unknown"),
            ("Unix datagrams", header(0x21, 0x32, []), "unknown"),
            ("Unix", header(0x21, 0x31, [UInt8](repeating: 0, count: 216)), "unknown"),
        ] as [(String, [UInt8], String?)])
    func complete(name: String, bytes: [UInt8], source: String?) {
        guard case .complete(let found) = ProxyHeader.read(bytes) else {
            Issue.record("\(name): \(ProxyHeader.read(bytes))")
            return
        }
        #expect(found?.description == source, "\(name)")
        // However it is cut.
        for count in 0..<bytes.count {
            let needed = count < 16 ? 16 : bytes.count
            #expect(
                ProxyHeader.read(Array(bytes[..<count])) == .incomplete(byteCount: needed),
                "\(name), \(count)")
        }
    }

    @Test func unknownAddressHasNoPrivilege() throws {
        let unknown = SocketAddress.unknown
        #expect(unknown.isUnknown && !unknown.isLoopback && !unknown.isUnix && !unknown.isUnspecified)
        #expect(unknown.host == "unknown")
        for range in ["0.0.0.0/0", "::/0", "unix"] {
            let range = try #require(AddressRange(range))
            #expect(!range.contains(unknown), "\(range)")
        }
        let limiter = AddressLimiter(limit: 1)
        let grant = try #require(limiter.admit(unknown))
        #expect(limiter.admit(unknown) == nil, "all such clients are one")
        withExtendedLifetime(grant) {}
    }

    @Test(
        arguments: [
            ("version 1", header(0x11, 0x11, v4)), ("version 3", header(0x31, 0x11, v4)),
            ("unknown command", header(0x22, 0x11, v4)), ("unknown family", header(0x21, 0x41, v4)),
            ("too short for IPv4", header(0x21, 0x11, Array(v4.dropLast()))),
            ("too short for IPv6", header(0x21, 0x21, v4)),
            ("too short for Unix", header(0x21, 0x31, v6)), ("nothing for IPv4", header(0x21, 0x11, [])),
            ("larger than any", header(0x21, 0x11, [], length: 4081)),
            ("largest length", header(0x21, 0x11, v4, length: 65_535)),
            ("HTTP", Array("GET / HTTP/1.1\r\n".utf8)), ("version 1 text", Array("PROXY TCP4 1.2.3.4".utf8)),
            ("one byte wrong", Array(ProxyHeader.signature.dropLast()) + [0x0B]),
        ] as [(String, [UInt8])])
    func invalid(name: String, bytes: [UInt8]) {
        #expect(ProxyHeader.read(bytes) == .invalid, "\(name)")
    }
}
