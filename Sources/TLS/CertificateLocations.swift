/// Where a server's certificates and keys are.
package struct CertificateLocations: Equatable, Sendable {
    /// PEM files: a certificate with its chain, and its private key. For clients that name no host, or one
    /// that no other certificate is for.
    package var certificate: String?
    package var key: String?
    /// A directory with `NAME/fullchain.pem` and `NAME/privkey.pem` for each host name.
    package var directory: String?
    /// A PEM file: the issuers whose certificates administrators have.
    package var clientIssuers: String?

    package init() {}

    /// Whether the server speaks TLS.
    package var isUsed: Bool { certificate != nil || directory != nil }

    /// Options that contradict each other, in the words of the command line.
    package var problems: [String] {
        var found: [String] = []
        if (certificate == nil) != (key == nil) {
            found.append("--tls-cert and --tls-key: give both, the certificate chain and its private key")
        }
        if clientIssuers != nil, !isUsed {
            found.append("--tls-client-ca: needs --tls-cert and --tls-key, or --tls-dir")
        }
        return found
    }
}
