/// What an operator should know about certificates that are used.
enum CertificateWarnings {
    /// Before a certificate ends, for a warning.
    private static let expiryWarningSeconds: Int64 = 7 * 86_400
    /// An RSA key with more bits gets a notice: with 4096, a handshake takes 5.7 ms of a processor.
    private static let rsaBitLimit = 3072

    /// About a private key that is slow.
    static func notices(of source: CertificateSource, _ identity: TLSIdentity) -> [CertificateStore.Message] {
        guard identity.rsaBitCount > rsaBitLimit else { return [] }
        return [
            CertificateStore.Message(
                level: .notice,
                text:
                    "\(source.key): an RSA key of \(identity.rsaBitCount) bits takes several times as much processor time for each handshake as one of 2048 bits, or as an ECDSA key (P-256)"
            )
        ]
    }

    /// About a private key that every user may read, and a certificate that is not valid, or not for long.
    /// One system call.
    /// - Parameter now: Seconds since 1970.
    static func warnings(
        of source: CertificateSource, _ identity: TLSIdentity, at now: Int64
    ) -> [CertificateStore.Message] {
        var texts: [String] = []
        if FileStamp(source.key)?.isReadableByAll == true {
            texts.append("\(source.key): every user of this machine may read the private key; chmod o-r it")
        }
        if let fault = fault(of: identity, at: now) {
            texts.append("\(source.certificate): the certificate \(fault)")
        } else if identity.expirySeconds - now < expiryWarningSeconds {
            let hourCount = (identity.expirySeconds - now) / 3600
            texts.append("\(source.certificate): the certificate expires in \(hourCount) hours")
        }
        return texts.map { CertificateStore.Message(level: .warning, text: $0) }
    }

    /// Why clients refuse a certificate at this time; nil where they don't.
    static func fault(of identity: TLSIdentity, at now: Int64) -> String? {
        if identity.expirySeconds <= now { return "has expired" }
        guard identity.beginSeconds > now else { return nil }
        return "is not valid yet, but in \((identity.beginSeconds - now + 3599) / 3600) hours"
    }

    /// About host names that are left out.
    static func warnings(of scan: CertificateScan, in directory: String?) -> [CertificateStore.Message] {
        guard scan.leftOutCount > 0 else { return [] }
        return [
            CertificateStore.Message(
                level: .warning,
                text:
                    "\(directory ?? ""): has more than \(CertificateScan.nameLimit) names; the last \(scan.leftOutCount) in the order of names are not used"
            )
        ]
    }
}
