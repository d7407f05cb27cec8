/// One certificate with its key.
struct CertificateSource: Hashable {
    /// The host name in ``CertificateLocations/directory``; nil for the certificate of the options.
    let name: String?
    let certificate: String
    let key: String

    /// The certificate of the options first, then by name.
    static func sorted(_ sources: some Collection<CertificateSource>) -> [CertificateSource] {
        sources.sorted { ($0.name ?? "", $0.certificate) < ($1.name ?? "", $1.certificate) }
    }
}

/// The certificate files at one moment, each with inode, size and times (``FileStamp``). Two scans are equal
/// if no file has changed.
struct CertificateScan: Equatable {
    struct Stamps: Equatable {
        let certificate: FileStamp?
        let key: FileStamp?
        /// The files are missing, but may only not be there yet.
        let isAwaited: Bool

        init(_ source: CertificateSource) {
            certificate = FileStamp(source.certificate)
            key = FileStamp(source.key)
            isAwaited = false
        }

        /// Of files that are awaited.
        init() { (certificate, key, isAwaited) = (nil, nil, true) }
    }

    private static let chainName = "fullchain.pem"
    private static let keyName = "privkey.pem"
    /// Most host names of a directory.
    static let nameLimit = 10_000

    private(set) var stamps: [CertificateSource: Stamps] = [:]
    private(set) var clientIssuers: FileStamp?
    /// false where the directory can't be read.
    private(set) var isComplete = true
    /// Host names of the directory beyond ``nameLimit``.
    private(set) var leftOutCount = 0

    /// Nothing was seen.
    init() {}

    /// Looks at the files: some system calls for each certificate.
    init(_ locations: CertificateLocations) {
        var sources: [CertificateSource] = []
        if let certificate = locations.certificate, let key = locations.key {
            sources.append(CertificateSource(name: nil, certificate: certificate, key: key))
        }
        if let directory = locations.directory {
            let names = CertificateFile.names(in: directory)
            isComplete = names != nil
            leftOutCount = max(0, (names?.count ?? 0) - Self.nameLimit)
            for name in (names ?? []).prefix(Self.nameLimit) where !name.hasPrefix(".") {
                let source = CertificateSource(
                    name: name, certificate: "\(directory)/\(name)/\(Self.chainName)",
                    key: "\(directory)/\(name)/\(Self.keyName)")
                // Beside the host names there may be other files, such as Let's Encrypt's README.
                if FileStamp(source.certificate) != nil || FileStamp(source.key) != nil {
                    sources.append(source)
                }
            }
        }
        for source in sources { stamps[source] = Stamps(source) }
        clientIssuers = locations.clientIssuers.flatMap { FileStamp($0) }
    }

    var sources: [CertificateSource] { CertificateSource.sorted(stamps.keys) }

    /// If a source's files are missing, they are awaited: the source does not count as removed.
    mutating func noteAwaited(_ source: CertificateSource) {
        if stamps[source] == nil { stamps[source] = Stamps() }
    }

    /// This scan, but with what has changed since the last scan as it looked in `seen`: a file may be half
    /// written, and one that keeps changing must not keep the others from being read. O(sources).
    func settled(since last: CertificateScan, otherwise seen: CertificateScan) -> CertificateScan {
        guard self != last else { return self }
        var settled = self
        for source in Set(stamps.keys).union(last.stamps.keys).union(seen.stamps.keys)
        where stamps[source] != last.stamps[source] {
            settled.stamps[source] = seen.stamps[source]
        }
        if clientIssuers != last.clientIssuers { settled.clientIssuers = seen.clientIssuers }
        if isComplete != last.isComplete { settled.isComplete = seen.isComplete }
        if leftOutCount != last.leftOutCount { settled.leftOutCount = seen.leftOutCount }
        return settled
    }
}
