import CTLS
import Synchronization

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

/// Reads certificates from files, and again when they change. Any thread.
///
/// A bad new file never replaces a good one. Connections go on with what they began with.
package final class CertificateStore: Sendable {
    /// What an operator should know.
    package struct Message: Equatable, Sendable {
        package enum Level: Sendable { case notice, warning, error }
        package let level: Level
        package let text: String
    }

    /// Between two calls of ``reloadIfChanged(at:)``: a change counts when two calls have seen the same, so
    /// within 4 s.
    package static let checkInterval: Duration = .seconds(2)
    /// Between two ticket keys. A ticket is accepted for two or three of these.
    private static let ticketKeySeconds: Int64 = 8 * 3600
    /// Before a certificate ends, for a warning.
    private static let expiryWarningSeconds: Int64 = 7 * 86_400
    /// Between two warnings of the same.
    private static let warningIntervalSeconds: Int64 = 86_400

    private let locations: CertificateLocations
    private let tickets: TicketKeys
    private let state: Mutex<State>

    /// One certificate with its key.
    private struct Source: Hashable {
        /// The host name in ``CertificateLocations/directory``; nil for the certificate of the options.
        let name: String?
        let certificate: String
        let key: String
    }

    private struct Stamps: Equatable {
        let certificate: FileStamp?
        let key: FileStamp?

        init(_ source: Source) {
            certificate = FileStamp(source.certificate)
            key = FileStamp(source.key)
        }
    }

    private struct Loaded {
        var identity: TLSIdentity
        /// Kept for the case that only the clients' issuers change.
        var chain: [UInt8]
        var key: [UInt8]
    }

    private struct State {
        var context: TLSServerContext
        var loaded: [Source: Loaded]
        var clientIssuers: [UInt8]?
        /// What the last look saw, whether it could be used or not.
        var seen = Look()
        /// What the last look found changed: it counts when the next look sees the same.
        var changing: Look?
        var rotatedSeconds: Int64?
        /// When it was last looked whether there is something to warn of.
        var warnedSeconds: Int64?
    }

    private struct Look: Equatable {
        var stamps: [Source: Stamps] = [:]
        var clientIssuers: FileStamp?
        /// false where the directory can't be read.
        var isComplete = true
        /// Host names of the directory beyond ``nameLimit``.
        var leftOutCount = 0
    }

    /// Everything that is wrong at the start, as texts for an operator.
    package struct Problems: Error, Equatable, Sendable {
        package let texts: [String]
    }

    /// Reads all files.
    /// - Throws: ``Problems``, where any file is bad or there is no certificate.
    package init(_ locations: CertificateLocations) throws(Problems) {
        self.locations = locations
        do throws(TLSError) {
            tickets = try TicketKeys()
        } catch {
            throw Problems(texts: ["no memory or no random numbers for TLS"])
        }
        var problems = locations.problems
        let look = Self.look(locations)
        var loaded: [Source: Loaded] = [:]
        var clientIssuers: [UInt8]?
        do throws(InvalidCertificate) {
            clientIssuers = try locations.clientIssuers.map { path throws(InvalidCertificate) in
                try Self.readIssuers(path)
            }
        } catch {
            problems.append("\(locations.clientIssuers ?? ""): \(error.reason)")
        }
        if !look.isComplete { problems.append("\(locations.directory ?? ""): can't be read") }
        for source in Self.sorted(look.stamps.keys) {
            do throws(InvalidCertificate) {
                loaded[source] = try Self.load(source, clientIssuers: clientIssuers, tickets)
            } catch {
                problems.append(error.reason)
            }
        }
        if problems.isEmpty, loaded.isEmpty {
            problems.append("\(locations.directory ?? ""): has no NAME/fullchain.pem")
        }
        guard problems.isEmpty, let context = Self.context(of: loaded) else {
            throw Problems(texts: problems)
        }
        state = Mutex(
            State(context: context, loaded: loaded, clientIssuers: clientIssuers, seen: look))
    }

    /// What new connections use. One lock.
    package var context: TLSServerContext { state.withLock { $0.context } }

    /// How many certificates there are.
    package var certificateCount: Int { state.withLock { $0.loaded.count } }

    /// When the first of the certificates ends, in seconds since 1970. O(certificates).
    package var earliestExpirySeconds: Int64 {
        state.withLock { state in state.loaded.values.map(\.identity.expirySeconds).min() ?? 0 }
    }

    /// Warnings about what was read: keys that every user may read, certificates that end soon, directories
    /// that are left out. ``reloadIfChanged(at:)`` repeats them each day.
    /// - Parameter now: Seconds since 1970.
    package func warnings(at now: Int64) -> [Message] {
        state.withLock { warnings($0, at: now) }
    }

    private func warnings(_ state: State, at now: Int64) -> [Message] {
        Self.sorted(state.loaded.keys).flatMap { warnings(of: $0, state.loaded[$0], at: now) }
            + warnings(of: state.seen)
    }

    private func warnings(of look: Look) -> [Message] {
        guard look.leftOutCount > 0 else { return [] }
        return [
            Message(
                level: .warning,
                text:
                    "\(locations.directory ?? ""): has more than \(Self.nameLimit) names; the last \(look.leftOutCount) in the order of names are not used"
            )
        ]
    }

    private func warnings(of source: Source, _ loaded: Loaded?, at now: Int64) -> [Message] {
        var found: [Message] = []
        if FileStamp(source.key)?.isReadableByAll == true {
            found.append(
                Message(
                    level: .warning,
                    text: "\(source.key): every user of this machine may read the private key; chmod o-r it"))
        }
        if let expiry = loaded?.identity.expirySeconds, expiry - now < Self.expiryWarningSeconds {
            let when = expiry <= now ? "has expired" : "expires in \((expiry - now) / 3600) hours"
            found.append(Message(level: .warning, text: "\(source.certificate): the certificate \(when)"))
        }
        return found
    }

    // MARK: Reloading

    /// Looks at the files, and reads those that have changed and look the same as at the last call: a file
    /// may be half written. Blocks for the time of some system calls. Also makes new ticket keys when it is
    /// time, and repeats ``warnings(at:)`` each day.
    /// - Parameter now: Seconds since 1970.
    package func reloadIfChanged(at now: Int64) -> [Message] {
        let look = Self.look(locations)
        return state.withLock { state in
            if now - (state.rotatedSeconds ?? now) >= Self.ticketKeySeconds { tickets.rotate() }
            if now - (state.rotatedSeconds ?? 0) >= Self.ticketKeySeconds { state.rotatedSeconds = now }
            let warned = state.warnedSeconds ?? now
            let isDue = now - warned >= Self.warningIntervalSeconds
            state.warnedSeconds = isDue ? now : warned
            // Those of what is read now come with it.
            let repeated = isDue ? warnings(state, at: now) : []
            guard look != state.seen else {
                state.changing = nil
                return repeated
            }
            guard look == state.changing else {
                state.changing = look
                return repeated
            }
            return repeated + reload(look, &state, at: now, all: false)
        }
    }

    /// Reads all files at once, and makes a new ticket key. Blocks for the time of some system calls.
    /// - Parameter now: Seconds since 1970.
    package func reload(at now: Int64) -> [Message] {
        let look = Self.look(locations)
        tickets.rotate()
        return state.withLock { reload(look, &$0, at: now, all: true) }
    }

    private func reload(_ look: Look, _ state: inout State, at now: Int64, all: Bool) -> [Message] {
        var messages: [Message] = []
        let before = state.seen
        state.seen = look
        state.changing = nil
        if !look.isComplete {
            messages.append(
                Message(
                    level: .error,
                    text: "\(locations.directory ?? ""): can't be read; its certificates stay as they were"))
        }
        if look.leftOutCount != before.leftOutCount { messages += warnings(of: look) }
        let issuersChanged = reloadClientIssuers(look, before, &state, &messages, all: all)
        var loaded = state.loaded
        for source in Self.sorted(look.stamps.keys) {
            let old = loaded[source]
            let isChanged = all || look.stamps[source] != before.stamps[source] || old == nil
            guard isChanged || issuersChanged else { continue }
            do throws(InvalidCertificate) {
                let new = try Self.load(source, clientIssuers: state.clientIssuers, tickets)
                loaded[source] = new
                guard new.chain != old?.chain || new.key != old?.key else { continue }
                messages.append(
                    Message(level: .notice, text: "\(source.certificate): the certificate was read again"))
                messages += warnings(of: source, new, at: now)
            } catch {
                guard var old else {
                    messages.append(Message(level: .error, text: "\(error.reason); it is not used"))
                    continue
                }
                messages.append(
                    Message(level: .error, text: "\(error.reason); the certificate stays as it was"))
                if issuersChanged,
                    let identity = try? TLSIdentity(
                        chain: old.chain, key: old.key, clientIssuers: state.clientIssuers, tickets: tickets)
                {
                    old.identity = identity
                    loaded[source] = old
                }
            }
        }
        if look.isComplete {
            for source in Self.sorted(loaded.keys) where look.stamps[source] == nil {
                loaded[source] = nil
                messages.append(
                    Message(
                        level: .notice,
                        text: "\(source.certificate): the certificate was removed and is not used any more"))
            }
        }
        guard let context = Self.context(of: loaded) else {
            messages.append(
                Message(
                    level: .error,
                    text:
                        "no certificate file is left; the previous certificates are used: put the files back before the next start"
                ))
            return messages
        }
        state.loaded = loaded
        state.context = context
        return messages
    }

    /// - Returns: Whether the issuers have changed.
    private func reloadClientIssuers(
        _ look: Look, _ before: Look, _ state: inout State, _ messages: inout [Message], all: Bool
    ) -> Bool {
        guard let path = locations.clientIssuers, all || look.clientIssuers != before.clientIssuers else {
            return false
        }
        do throws(InvalidCertificate) {
            let issuers = try Self.readIssuers(path)
            guard issuers != state.clientIssuers else { return false }
            state.clientIssuers = issuers
            messages.append(
                Message(
                    level: .notice,
                    text: "\(path): the issuers of administrators' certificates were read again"))
            return true
        } catch {
            messages.append(Message(level: .error, text: "\(path): \(error.reason); it stays as it was"))
            return false
        }
    }

    // MARK: Files

    private static let chainName = "fullchain.pem"
    private static let keyName = "privkey.pem"
    /// Most host names of a directory.
    private static let nameLimit = 10_000

    private static func look(_ locations: CertificateLocations) -> Look {
        var look = Look()
        var sources: [Source] = []
        if let certificate = locations.certificate, let key = locations.key {
            sources.append(Source(name: nil, certificate: certificate, key: key))
        }
        if let directory = locations.directory {
            let names = CertificateFile.names(in: directory)
            look.isComplete = names != nil
            look.leftOutCount = max(0, (names?.count ?? 0) - nameLimit)
            for name in (names ?? []).prefix(nameLimit) where !name.hasPrefix(".") {
                let source = Source(
                    name: name, certificate: "\(directory)/\(name)/\(chainName)",
                    key: "\(directory)/\(name)/\(keyName)")
                // Beside the host names there may be other files, such as Let's Encrypt's README.
                if FileStamp(source.certificate) != nil || FileStamp(source.key) != nil {
                    sources.append(source)
                }
            }
        }
        for source in sources { look.stamps[source] = Stamps(source) }
        look.clientIssuers = locations.clientIssuers.flatMap { FileStamp($0) }
        return look
    }

    /// - Throws: A reason that names the files.
    private static func load(_ source: Source, clientIssuers: [UInt8]?, _ tickets: TicketKeys)
        throws(InvalidCertificate) -> Loaded
    {
        let chain = try read(source.certificate)
        let key = try read(source.key)
        do throws(InvalidCertificate) {
            let identity = try TLSIdentity(
                chain: chain, key: key, clientIssuers: clientIssuers, tickets: tickets)
            return Loaded(identity: identity, chain: chain, key: key)
        } catch {
            throw InvalidCertificate(reason: "\(source.certificate) and \(source.key): \(error.reason)")
        }
    }

    private static func readIssuers(_ path: String) throws(InvalidCertificate) -> [UInt8] {
        let issuers = try CertificateFile.read(path)
        // Read by themselves, so that an error is about this file.
        _ = try TLSClientContext(issuers: issuers)
        return issuers
    }

    private static func read(_ path: String) throws(InvalidCertificate) -> [UInt8] {
        do throws(InvalidCertificate) {
            return try CertificateFile.read(path)
        } catch {
            throw InvalidCertificate(reason: "\(path): \(error.reason)")
        }
    }

    /// nil where there is no certificate. The standard one is that of the options, else the first by name.
    private static func context(of loaded: [Source: Loaded]) -> TLSServerContext? {
        let sources = sorted(loaded.keys)
        guard let standard = sources.first.flatMap({ loaded[$0]?.identity }) else { return nil }
        var identities: [(names: [String], identity: TLSIdentity)] = []
        // The directory's name for a certificate counts more than the names in other certificates.
        for source in sources {
            guard let name = source.name, let identity = loaded[source]?.identity else { continue }
            identities.append(([HostName.canonical(name)], identity))
        }
        for source in sources {
            guard let identity = loaded[source]?.identity else { continue }
            identities.append((identity.names, identity))
        }
        return TLSServerContext(standard: standard, identities: identities)
    }

    /// The certificate of the options first, then by name.
    private static func sorted(_ sources: some Collection<Source>) -> [Source] {
        sources.sorted { ($0.name ?? "", $0.certificate) < ($1.name ?? "", $1.certificate) }
    }
}
