import CTLS
import Synchronization

/// Reads certificates from files, and again when they change. Any thread.
///
/// A bad new file never replaces a good one. Connections go on with what they began with. A reload may take
/// long, where there are many certificates; what new connections use is replaced at its end, at once.
package final class CertificateStore: Sendable {
    /// What an operator should know.
    package struct Message: Equatable, Sendable {
        package enum Level: Sendable { case notice, warning, error }
        /// The level at which the server logs it.
        package let level: Level
        /// A sentence for the log.
        package let text: String
    }

    /// Between two calls of ``reloadIfChanged(at:while:)``: a change of a file counts when two calls have
    /// seen the same of it, so within 4 s.
    package static let checkInterval: Duration = .seconds(2)
    /// Between two ticket keys. A ticket is accepted for two or three of these.
    private static let ticketKeySeconds: Int64 = 8 * 3600
    /// Between two warnings of the same.
    private static let warningIntervalSeconds: Int64 = 86_400

    private let locations: CertificateLocations
    private let tickets: TicketKeys
    /// Locked for a copy or an exchange only: threads with connections ask for it.
    private let published: Mutex<Published>
    /// Locked for the whole of a reload.
    private let state: Mutex<State>

    /// What a reload leads to.
    private struct Published {
        let context: TLSServerContext
        let certificateCount: Int
        let earliestExpirySeconds: Int64

        /// nil where there is no certificate. O(names of all certificates).
        init?(_ loaded: [CertificateSource: Loaded]) {
            guard let context = CertificateStore.context(of: loaded) else { return nil }
            self.context = context
            certificateCount = loaded.count
            earliestExpirySeconds = loaded.values.map(\.identity.expirySeconds).min() ?? 0
        }
    }

    private struct Loaded {
        var identity: TLSIdentity
        /// What the identity was made of: it is made again where one of them has changed.
        let chain: [UInt8]
        let key: [UInt8]
        var clientIssuers: [UInt8]?
    }

    private struct State {
        var loaded: [CertificateSource: Loaded]
        var clientIssuers: [UInt8]?
        /// What the files that were read last looked like, whether they could be used or not.
        var seen: CertificateScan
        /// The last scan: of a file, what the next one finds changed counts if this one has seen the same.
        var scanned: CertificateScan
        /// When certificates begin that are not used yet, because the former ones are still valid.
        var begins: [CertificateSource: Int64] = [:]
        var rotatedSeconds: Int64?
        /// When it was last looked whether there is something to warn of.
        var warnedSeconds: Int64?
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
        let scan = CertificateScan(locations)
        var loaded: [CertificateSource: Loaded] = [:]
        var clientIssuers: [UInt8]?
        do throws(InvalidCertificate) {
            clientIssuers = try locations.clientIssuers.map { path throws(InvalidCertificate) in
                try Self.readIssuers(path)
            }
        } catch {
            problems.append("\(locations.clientIssuers ?? ""): \(error.reason)")
        }
        if !scan.isComplete { problems.append("\(locations.directory ?? ""): can't be read") }
        for source in scan.sources {
            do throws(InvalidCertificate) {
                loaded[source] = try Self.load(source, nil, clientIssuers: clientIssuers, tickets)
            } catch {
                problems.append(error.reason)
            }
        }
        if problems.isEmpty, loaded.isEmpty {
            problems.append("\(locations.directory ?? ""): has no NAME/fullchain.pem")
        }
        guard problems.isEmpty, let first = Published(loaded) else {
            throw Problems(texts: problems)
        }
        published = Mutex(first)
        state = Mutex(State(loaded: loaded, clientIssuers: clientIssuers, seen: scan, scanned: scan))
    }

    /// What new connections use. One lock, which no reload holds while it reads.
    package var context: TLSServerContext { published.withLock { $0.context } }

    /// How many certificates there are. One lock, as for ``context``.
    package var certificateCount: Int { published.withLock { $0.certificateCount } }

    /// When the first of the certificates ends, in seconds since 1970. One lock, as for ``context``.
    package var earliestExpirySeconds: Int64 { published.withLock { $0.earliestExpirySeconds } }

    /// Warnings about what was read: keys that every user may read, certificates that end soon, directories
    /// that are left out. ``reloadIfChanged(at:while:)`` repeats them each day. And notices of keys that are
    /// slow, which it does not repeat.
    /// - Parameter now: Seconds since 1970.
    package func warnings(at now: Int64) -> [Message] {
        state.withLock { state in
            warnings(state, at: now)
                + CertificateSource.sorted(state.loaded.keys).flatMap { source in
                    state.loaded[source].map { CertificateWarnings.notices(of: source, $0.identity) } ?? []
                }
        }
    }

    private func warnings(_ state: State, at now: Int64) -> [Message] {
        CertificateSource.sorted(state.loaded.keys).flatMap { source in
            state.loaded[source].map { CertificateWarnings.warnings(of: source, $0.identity, at: now) } ?? []
        } + CertificateWarnings.warnings(of: state.seen, in: locations.directory)
    }

    // MARK: Reloading

    /// Looks at the files, and reads those that have changed and look the same as at the last call: a file
    /// may be half written. The others do not wait for one that keeps changing. Also makes new ticket keys
    /// when it is time, and repeats ``warnings(at:)`` each day.
    ///
    /// Blocks for three system calls for each certificate, and about a millisecond for each that is read.
    /// - Parameters:
    ///   - now: Seconds since 1970.
    ///   - goesOn: Called before each certificate; where it says false, nothing is changed.
    package func reloadIfChanged(at now: Int64, while goesOn: () -> Bool = { true }) -> [Message] {
        let scan = CertificateScan(locations)
        return state.withLock { state in
            rotateTicketKeys(&state, at: now)
            let warned = state.warnedSeconds ?? now
            let isDue = now - warned >= Self.warningIntervalSeconds
            state.warnedSeconds = isDue ? now : warned
            // Those of what is read now come with it.
            let repeated = isDue ? warnings(state, at: now) : []
            var settled = scan.settled(since: state.scanned, otherwise: state.seen)
            // While files are copied, those that are missing may be the next. They count as removed when
            // nothing changes any more.
            if scan != state.scanned { for source in state.loaded.keys { settled.noteAwaited(source) } }
            state.scanned = scan
            let hasBegun = state.begins.values.contains { $0 <= now }
            guard settled != state.seen || hasBegun else { return repeated }
            return repeated + reload(settled, &state, at: now, all: false, while: goesOn)
        }
    }

    /// Reads all files at once, also those that look as before. Blocks as ``reloadIfChanged(at:while:)``.
    /// - Parameters: As there.
    package func reload(at now: Int64, while goesOn: () -> Bool = { true }) -> [Message] {
        let scan = CertificateScan(locations)
        return state.withLock { state in
            rotateTicketKeys(&state, at: now)
            return reload(scan, &state, at: now, all: true, while: goesOn)
        }
    }

    /// Makes a new ticket key when it is time, and at no other: each one makes the tickets of the third
    /// before it void. A ticket of a client whose issuers are no longer the same does not count anyway.
    private func rotateTicketKeys(_ state: inout State, at now: Int64) {
        guard let rotated = state.rotatedSeconds else {
            state.rotatedSeconds = now
            return
        }
        guard now - rotated >= Self.ticketKeySeconds else { return }
        tickets.rotate()
        state.rotatedSeconds = now
    }

    private func reload(
        _ scan: CertificateScan, _ state: inout State, at now: Int64, all: Bool, while goesOn: () -> Bool
    ) -> [Message] {
        var messages: [Message] = []
        let before = state.seen
        if !scan.isComplete {
            messages.append(
                Message(
                    level: .error,
                    text: "\(locations.directory ?? ""): can't be read; its certificates stay as they were"))
        }
        if scan.leftOutCount != before.leftOutCount {
            messages += CertificateWarnings.warnings(of: scan, in: locations.directory)
        }
        var clientIssuers = state.clientIssuers
        reloadClientIssuers(scan, before, &clientIssuers, &messages, all: all)
        var (loaded, begins) = (state.loaded, state.begins)
        for source in scan.sources where scan.stamps[source]?.isAwaited == false {
            guard goesOn() else { return [] }
            let old = loaded[source]
            let isChanged = all || scan.stamps[source] != before.stamps[source] || old == nil
            guard isChanged || begins[source].map({ $0 <= now }) == true else { continue }
            begins[source] = nil
            loaded[source] = reload(
                source, old, clientIssuers: clientIssuers, at: now, begins: &begins, &messages)
        }
        // Also of certificates whose files are bad, gone or were not looked for: a former issuer must not be
        // accepted by any of them.
        for source in CertificateSource.sorted(loaded.keys)
        where loaded[source]?.clientIssuers != clientIssuers {
            guard goesOn() else { return [] }
            accept(clientIssuers, for: source, &loaded, &messages)
        }
        let withRemoved = loaded
        state.seen = scan
        state.begins = begins.filter { scan.stamps[$0.key] != nil }
        state.clientIssuers = clientIssuers
        if scan.isComplete {
            for source in CertificateSource.sorted(loaded.keys) where scan.stamps[source] == nil {
                loaded[source] = nil
                messages.append(
                    Message(
                        level: .notice,
                        text: "\(source.certificate): the certificate was removed and is not used any more"))
            }
        }
        if loaded.isEmpty {
            loaded = withRemoved
            messages.append(
                Message(
                    level: .error,
                    text:
                        "no certificate file is left; the previous certificates are used: put the files back before the next start"
                ))
        }
        guard let new = Published(loaded) else { return messages }
        state.loaded = loaded
        // The former one is freed when the lock is released: it may be the last to hold many identities.
        _ = published.withLock { current in
            let former = current
            current = new
            return former
        }
        return messages
    }

    /// Reads one certificate and its key again.
    /// - Returns: What is used from now on: the old one where the files are bad, or where it is valid and the
    ///   new one is not; nil where there is none.
    private func reload(
        _ source: CertificateSource, _ old: Loaded?, clientIssuers: [UInt8]?, at now: Int64,
        begins: inout [CertificateSource: Int64], _ messages: inout [Message]
    ) -> Loaded? {
        do throws(InvalidCertificate) {
            let new = try Self.load(source, old, clientIssuers: clientIssuers, tickets)
            guard new.chain != old?.chain || new.key != old?.key else { return new }
            if let old, CertificateWarnings.fault(of: old.identity, at: now) == nil,
                let fault = CertificateWarnings.fault(of: new.identity, at: now)
            {
                if new.identity.beginSeconds > now { begins[source] = new.identity.beginSeconds }
                messages.append(
                    Message(
                        level: .error,
                        text: "\(source.certificate): the new certificate \(fault); it stays as it was"))
                return old
            }
            messages.append(
                Message(level: .notice, text: "\(source.certificate): the certificate was read again"))
            messages += CertificateWarnings.warnings(of: source, new.identity, at: now)
            messages += CertificateWarnings.notices(of: source, new.identity)
            return new
        } catch {
            guard let old else {
                messages.append(Message(level: .error, text: "\(error.reason); it is not used"))
                return nil
            }
            messages.append(Message(level: .error, text: "\(error.reason); the certificate stays as it was"))
            return old
        }
    }

    /// Makes an identity again, from the chain and the key that it has, for other issuers of clients'
    /// certificates.
    private func accept(
        _ clientIssuers: [UInt8]?, for source: CertificateSource,
        _ loaded: inout [CertificateSource: Loaded], _ messages: inout [Message]
    ) {
        guard var changed = loaded[source] else { return }
        do throws(InvalidCertificate) {
            changed.identity = try TLSIdentity(
                chain: changed.chain, key: changed.key, clientIssuers: clientIssuers, tickets: tickets)
            changed.clientIssuers = clientIssuers
            loaded[source] = changed
        } catch {
            messages.append(
                Message(
                    level: .error,
                    text:
                        "\(source.certificate): \(error.reason); it goes on with the former issuers of administrators' certificates"
                ))
        }
    }

    private func reloadClientIssuers(
        _ scan: CertificateScan, _ before: CertificateScan, _ clientIssuers: inout [UInt8]?,
        _ messages: inout [Message], all: Bool
    ) {
        guard let path = locations.clientIssuers, all || scan.clientIssuers != before.clientIssuers else {
            return
        }
        do throws(InvalidCertificate) {
            let issuers = try Self.readIssuers(path)
            guard issuers != clientIssuers else { return }
            clientIssuers = issuers
            messages.append(
                Message(
                    level: .notice,
                    text: "\(path): the issuers of administrators' certificates were read again"))
        } catch {
            messages.append(Message(level: .error, text: "\(path): \(error.reason); it stays as it was"))
        }
    }

    // MARK: Files

    /// - Parameter old: Returned where the files are the same.
    /// - Throws: A reason that names the files.
    private static func load(
        _ source: CertificateSource, _ old: Loaded?, clientIssuers: [UInt8]?, _ tickets: TicketKeys
    ) throws(InvalidCertificate) -> Loaded {
        let chain = try read(source.certificate)
        let key = try read(source.key)
        if let old, old.chain == chain, old.key == key, old.clientIssuers == clientIssuers { return old }
        do throws(InvalidCertificate) {
            let identity = try TLSIdentity(
                chain: chain, key: key, clientIssuers: clientIssuers, tickets: tickets)
            return Loaded(identity: identity, chain: chain, key: key, clientIssuers: clientIssuers)
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
    private static func context(of loaded: [CertificateSource: Loaded]) -> TLSServerContext? {
        let sources = CertificateSource.sorted(loaded.keys)
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
}
