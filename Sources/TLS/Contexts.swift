import CTLS

/// Keys for session tickets: of this process, so that a restart makes all tickets void. Any thread.
///
/// `@unchecked Sendable`: libcrypto's lock guards the keys.
@safe
package final class TicketKeys: @unchecked Sendable {
    let keys: OpaquePointer

    /// - Throws: ``TLSError/machine``.
    package init() throws(TLSError) {
        guard let keys = unsafe pando_tls_tickets_new() else { throw .machine }
        unsafe self.keys = keys
    }

    deinit {
        unsafe pando_tls_tickets_free(keys)
    }

    /// Makes a new key the current one. Tickets of the two before it are accepted, and replaced.
    package func rotate() {
        // Without randomness the current key stays.
        _ = unsafe pando_tls_tickets_rotate(keys)
    }
}

/// A certificate with its chain and private key, ready for handshakes.
///
/// `@unchecked Sendable`: libssl's context is not changed after `init`, and libssl locks what handshakes
/// share.
@safe
package final class TLSIdentity: @unchecked Sendable {
    let context: OpaquePointer
    private let tickets: TicketKeys
    /// The host names of the certificate, in lower case; a wildcard begins with `*.`.
    package let names: [String]
    /// From when on the certificate is valid, in seconds since 1970.
    package let beginSeconds: Int64
    /// When the certificate ends, in seconds since 1970.
    package let expirySeconds: Int64
    /// Bits of the private key where it is one of RSA, else 0.
    package let rsaBitCount: Int

    /// Longest name that is looked at (RFC 1035 §2.3.4).
    private static let nameByteLimit = 255
    /// Most names of a certificate.
    private static let nameLimit: Int32 = 10_000

    /// - Parameters:
    ///   - chain: PEM: the certificate, then those of its issuers.
    ///   - key: PEM: its private key.
    ///   - clientIssuers: PEM: whose certificates administrators have; nil where none is asked for.
    ///   - tickets: The same for all identities of a server.
    ///   - sendsTickets: Whether clients of TLS 1.3 get a session ticket. The length of a ticket depends on
    ///     random numbers in it.
    /// - Throws: ``InvalidCertificate``.
    package init(
        chain: [UInt8], key: [UInt8], clientIssuers: [UInt8]? = nil, tickets: TicketKeys,
        sendsTickets: Bool = true
    ) throws(InvalidCertificate) {
        guard let context = unsafe pando_tls_server_context(tickets.keys) else {
            throw InvalidCertificate(reason: "no memory for a TLS context")
        }
        if !sendsTickets { unsafe pando_tls_context_set_ticket_count(context, 0) }
        var reason = [CChar](repeating: 0, count: Int(PANDO_TLS_ERROR_BYTE_COUNT))
        var result = unsafe pando_tls_context_use(context, chain, chain.count, key, key.count, &reason)
        if result == 0, let clientIssuers {
            result = unsafe pando_tls_context_ask_clients(
                context, clientIssuers, clientIssuers.count, &reason)
        }
        guard result == 0 else {
            unsafe pando_tls_context_free(context)
            throw InvalidCertificate(reason: text(reason))
        }
        unsafe self.context = context
        self.tickets = tickets
        var names: [String] = []
        let (nameLimit, byteLimit) = (Self.nameLimit, Self.nameByteLimit)
        unsafe withUnsafeMutablePointer(to: &names) { list in
            unsafe pando_tls_context_names(
                context, nameLimit, byteLimit,
                { list, name, count in
                    guard let name = unsafe name, let list = unsafe list else { return }
                    // In bounds: libcrypto's string of `count` bytes.
                    let bytes = unsafe UnsafeRawBufferPointer(start: name, count: count)
                    unsafe list.assumingMemoryBound(to: [String].self).pointee.append(
                        HostName.canonical(String(decoding: bytes, as: UTF8.self)))
                }, list)
        }
        self.names = names
        beginSeconds = unsafe pando_tls_context_begin(context)
        expirySeconds = unsafe pando_tls_context_expiry(context)
        rsaBitCount = unsafe Int(pando_tls_context_rsa_bits(context))
    }

    deinit {
        unsafe pando_tls_context_free(context)
    }
}

/// Why a certificate or key cannot be used.
package struct InvalidCertificate: Error, Equatable, Sendable {
    package let reason: String
}

/// What a server offers to clients: identities by host name. Does not change; a reload makes another one.
package final class TLSServerContext: Sendable {
    /// For clients that name no host, or an unknown one.
    package let standard: TLSIdentity
    private let byName: [String: TLSIdentity]

    /// - Parameter identities: The names that each is for, as ``HostName`` writes them. The first of several
    ///   for one name counts.
    package init(standard: TLSIdentity, identities: [(names: [String], identity: TLSIdentity)] = []) {
        self.standard = standard
        var byName: [String: TLSIdentity] = [:]
        for (names, identity) in identities {
            for name in names where byName[name] == nil { byName[name] = identity }
        }
        self.byName = byName
    }

    /// The identity for a host that a client names (SNI): of that name, else of the wildcard for it, else the
    /// standard one. O(1).
    package func identity(for host: String) -> TLSIdentity {
        let name = HostName.canonical(host)
        return byName[name] ?? HostName.wildcard(for: name).flatMap { byName[$0] } ?? standard
    }
}

/// Host names as certificates and clients spell them.
enum HostName {
    /// In lower case and without the dot that may end it.
    static func canonical(_ name: String) -> String {
        let lower = name.lowercased()
        return lower.hasSuffix(".") ? String(lower.dropLast()) : lower
    }

    /// `*.example.com` for `www.example.com`: a wildcard stands for one label (RFC 9525 §6.3).
    static func wildcard(for name: String) -> String? {
        name.firstIndex(of: ".").map { "*" + name[$0...] }
    }
}

/// Whom a client trusts.
///
/// `@unchecked Sendable`: as ``TLSIdentity``.
@safe
package final class TLSClientContext: @unchecked Sendable {
    let context: OpaquePointer

    /// Limits of what is offered, for tests.
    package struct Limits: Sendable {
        package var versions: ClosedRange<Int32> = 0x0303...0x0304
        /// OpenSSL's names of TLS 1.2 and of TLS 1.3; nil for all that are good.
        package var ciphers12: String?
        package var ciphers13: String?
        package init() {}
    }

    /// - Parameters:
    ///   - issuers: PEM: who may have issued the server's certificate; nil for the system's list.
    ///   - identity: The client's own certificate chain and key, as PEM.
    /// - Throws: ``InvalidCertificate``.
    package init(
        issuers: [UInt8]? = nil, identity: (chain: [UInt8], key: [UInt8])? = nil, limits: Limits = Limits()
    ) throws(InvalidCertificate) {
        guard let context = unsafe pando_tls_client_context() else {
            throw InvalidCertificate(reason: "no memory for a TLS context")
        }
        var reason = [CChar](repeating: 0, count: Int(PANDO_TLS_ERROR_BYTE_COUNT))
        var result: Int32
        if let issuers {
            result = unsafe pando_tls_context_trust(context, issuers, issuers.count, &reason)
        } else {
            result = unsafe pando_tls_context_trust_system(context)
        }
        if result == 0, let (chain, key) = identity {
            result = unsafe pando_tls_context_use(context, chain, chain.count, key, key.count, &reason)
        }
        if result == 0 {
            result = unsafe pando_tls_context_limit(
                context, limits.versions.lowerBound, limits.versions.upperBound, limits.ciphers12,
                limits.ciphers13)
        }
        guard result == 0 else {
            unsafe pando_tls_context_free(context)
            throw InvalidCertificate(reason: text(reason))
        }
        unsafe self.context = context
    }

    deinit {
        unsafe pando_tls_context_free(context)
    }
}
