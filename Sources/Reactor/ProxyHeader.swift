import COperatingSystem

//  The header that a proxy sends before the client's bytes (HAProxy's "The PROXY protocol", version 2):
//
//  ┌───────────┬─────────────────┬───────────────────┬──────────┬─────────────────────────────────────────┐
//  │ signature │ version│command │ family │ transport│ length   │ addresses, then what is not looked at     │
//  │    12     │   4    │   4    │   4    │    4     │ 2 (BE)   │ length                                    │
//  └───────────┴─────────────────┴───────────────────┴──────────┴─────────────────────────────────────────┘
//  version 2. Commands: 0 LOCAL (the proxy itself speaks), 1 PROXY.
//  Addresses: 0x11 TCP over IPv4: source 4, destination 4, source port 2, destination port 2 (BE)
//             0x21 TCP over IPv6: source 16, destination 16, source port 2, destination port 2
//             0x31 Unix stream: two paths of 108; 0x00 unspecified: a client whose address is not known

/// The header of the PROXY protocol, version 2.
package enum ProxyHeader {
    /// What the bytes so far are.
    package enum Outcome: Equatable, Sendable {
        /// The header has so many bytes at least.
        case incomplete(byteCount: Int)
        /// The header is complete. The client's address, ``SocketAddress/unknown`` where the header has none;
        /// nil where the proxy speaks for itself.
        case complete(source: SocketAddress?)
        /// Not a header of version 2 that a stream may have.
        case invalid
    }

    /// With which every header begins.
    package static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    /// Bytes up to the addresses.
    static let fixedByteCount = 16
    /// Most bytes of the whole header: proxies should keep to 536, and add certificates' names at times.
    static let byteLimit = 4096

    /// Reads a header. O(1).
    /// - Parameter bytes: What was received so far, and nothing behind the header.
    package static func read(_ bytes: [UInt8]) -> Outcome {
        guard bytes.count >= fixedByteCount else {
            return signature.starts(with: bytes.prefix(signature.count))
                ? .incomplete(byteCount: fixedByteCount) : .invalid
        }
        guard bytes.starts(with: signature), bytes[12] >> 4 == 2 else { return .invalid }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        guard fixedByteCount + length <= byteLimit else { return .invalid }
        guard bytes.count >= fixedByteCount + length else {
            return .incomplete(byteCount: fixedByteCount + length)
        }
        let addresses = bytes[fixedByteCount...]
        switch (bytes[12] & 0x0F, bytes[13]) {
        case (0, _): return .complete(source: nil)
        // UNSPEC; and datagrams, which no connection carries: there is no address to be read from either.
        case (1, 0x00), (1, 0x12), (1, 0x22), (1, 0x32): return .complete(source: SocketAddress.unknown)
        case (1, 0x11): return source(addresses, family: 4, byteCount: 4)
        case (1, 0x21): return source(addresses, family: 6, byteCount: 16)
        // A client on the proxy's own machine: a Unix socket has no address that limits could count.
        case (1, 0x31): return length >= 216 ? .complete(source: SocketAddress.unknown) : .invalid
        default: return .invalid
        }
    }

    private static func source(_ bytes: ArraySlice<UInt8>, family: UInt8, byteCount: Int) -> Outcome {
        guard bytes.count >= 2 * byteCount + 4 else { return .invalid }
        let port = bytes.dropFirst(2 * byteCount).prefix(2).reduce(0) { $0 << 8 | UInt16($1) }
        return .complete(
            source: SocketAddress(octets: Array(bytes.prefix(byteCount)), family: family, port: port))
    }
}

/// Reads the header of a connection from a trusted proxy, and nothing behind it.
///
/// `@unchecked Sendable`: confined to the loop of its connection; one that moves takes it along.
final class ProxyStage: @unchecked Sendable {
    enum Outcome: Equatable {
        /// More is needed.
        case waiting
        /// What follows is the client's, or it was from the beginning.
        case done
        case ended
        case failed(Int32)
    }

    private var bytes: [UInt8] = []
    private(set) var isDone = false
    /// Some of the header is here, and not all of it.
    var isIncomplete: Bool { !isDone && !bytes.isEmpty }
    /// The client's address; nil before the header is complete, and where the peer speaks for itself.
    private(set) var source: SocketAddress?

    /// Line ends that were taken for the beginning of a signature: they mean nothing before a request
    /// (RFC 9112 §2.2), and a TLS connection cannot begin with them.
    private static let harmlessCount = 4

    /// Reads what there is of the header.
    func read(_ descriptor: Int32) -> Outcome {
        while true {
            let isInSignature = bytes.count < ProxyHeader.signature.count
            let needed: Int
            switch ProxyHeader.read(bytes) {
            case .complete(let source):
                self.source = source
                return finish()
            case .invalid: return .failed(PANDO_EPROTO)
            case .incomplete(let byteCount): needed = isInSignature ? ProxyHeader.signature.count : byteCount
            }
            var piece = [UInt8](repeating: 0, count: needed - bytes.count)
            // What is no header must stay in the socket.
            let count = unsafe piece.withUnsafeMutableBytes { buffer in
                unsafe isInSignature
                    ? pando_peek(descriptor, buffer.baseAddress, buffer.count)
                    : pando_receive(descriptor, buffer.baseAddress, buffer.count)
            }
            if count == 0 { return bytes.isEmpty ? finish() : .ended }
            if count < 0 {
                return count == -Int64(PANDO_EAGAIN) ? .waiting : .failed(Int32(truncatingIfNeeded: -count))
            }
            piece.removeLast(piece.count - Int(count))
            if isInSignature {
                guard ProxyHeader.signature[bytes.count...].starts(with: piece) else {
                    return bytes.count <= Self.harmlessCount ? finish() : .failed(PANDO_EPROTO)
                }
                unsafe piece.withUnsafeMutableBytes { buffer in
                    // The same bytes again: this thread alone reads the socket.
                    _ = unsafe pando_receive(descriptor, buffer.baseAddress, buffer.count)
                }
            }
            bytes += piece
        }
    }

    private func finish() -> Outcome {
        isDone = true
        bytes = []
        return .done
    }
}
