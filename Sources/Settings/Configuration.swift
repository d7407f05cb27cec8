import Logging
import PandoConnections
import PandoDatabase
import PandoHTTP
import PandoIdentity
import PandoJournal
import PandoREST
import PandoReactor
import PandoStorage
import PandoTLS
import PandoTree
import PandoWire

/// The version of the program, as `pando --version` and `pando_build_info` say it.
package let programVersion = "0.1.0"

/// All options of `pando serve`.
package struct Configuration: Sendable {
    package var host = "127.0.0.1"
    /// 0 picks a free one.
    package var port: UInt16 = 9000
    /// Where to listen, in place of ``host`` and ``port`` (`--listen`).
    package var listens: [ListenPlace] = []
    /// Listening sockets that the service manager has passed (sd_listen_fds(3)). With them ``host`` and
    /// ``port`` are not used.
    package var passedSockets = PassedSockets.firstDescriptor..<PassedSockets.firstDescriptor
    /// Is notified of how far the process is.
    package var serviceManager = ServiceManager([:])
    /// The proxies whose word about their clients counts.
    package var trustedProxies = TrustedProxies()
    /// The certificates of TLS; none are used without TLS.
    package var certificates = CertificateLocations()
    /// A port without TLS that redirects to ``port``; nil for none.
    package var redirectPort: UInt16?
    /// Where monitoring and administrators connect; nil for nowhere.
    package var adminAddress: AdminAddress?
    /// Nil keeps everything in memory.
    package var dataDirectory: String?
    package var isMemoryOnly = false
    /// A rules file for `default`, or a directory of NAMESPACE.json; nil leaves databases to their stored
    /// rules.
    package var rulesPath: String?
    /// Open rules while none are loaded, namespaces on first use, unsigned tokens; loopback only.
    package var isDevelopment = false
    /// Pages from elsewhere that may use a server under ``isDevelopment``.
    package var allowedOrigins: [WebOrigin] = []
    /// The directory of the files that are served beside the data; nil for the console that came with the
    /// program.
    package var publicDirectory: String?
    /// No files are served.
    package var hasNoConsole = false
    /// Whose tokens are taken; those of `--dev` besides when ``isDevelopment`` is set.
    package var identity = IdentityConfiguration()
    /// When an acknowledged write is on disk, and how the data directory is written.
    package var storage = StorageOptions()
    /// What is copied elsewhere meanwhile.
    package var backups = BackupOptions()
    /// Space of the journal that writes of clients leave to the ends of sessions, which cannot be refused.
    package var sessionEndReserveByteCount = DatabaseOptions().sessionEndReserveByteCount
    /// I/O loops; 0 stands for one less than the processors, and at least one.
    package var loopCount = 0
    /// Bytes that may be unsent to one client before it is disconnected.
    package var outboundByteLimit = 64 << 20
    /// Bytes of requests that may wait for the database and the disk before clients are paused.
    package var inFlightByteLimit = 64 << 20
    /// Bytes that clients may make the server hold beside the data (`MemoryBudget`); 0 stands for a share
    /// of the machine's memory, or of what its container may have.
    package var memoryByteLimit = 0
    /// Bytes that the indexes which no rule declares may take together; 0 for no such index.
    package var indexByteLimit = DatabaseOptions().indexByteLimit
    /// Silence after which a connection is pinged (realtime §2.3: clients speak every 45
    /// s).
    package var idleTimeout: Duration = .seconds(75)
    /// After how long, at most, a client that vanished without closing its connection is known to be gone;
    /// nil for what follows from ``idleTimeout``.
    package var presenceTimeout: Duration?
    /// A request's head must be there by then (slow-loris), and its body too, or be coming fast enough.
    package var requestTimeout: Duration = .seconds(30)
    /// Chunks a client may announce for one message: 16 MiB and slack (realtime §14).
    package var chunkCountLimit = 1100

    /// Bytes of one REST answer, and of one REST write (rest §13).
    package var readByteLimit = RESTLimits.readByteCount
    package var writeByteLimit = RESTLimits.writeByteCount

    /// Connections of one address (IPv6: of one network of 64 bits); 0 for no limit: many clients may share
    /// one.
    package var addressConnectionLimit = 0
    /// Connections in all, where that is less than the descriptors allow; 0 for no other limit.
    package var connectionLimit = 0
    /// Connections of one user: realtime sessions and event streams; 0 for no limit.
    package var userConnectionLimit = 0
    /// Writes, and bytes of writes, in a second: of one connection, and of one user; 0 for no limit.
    package var writesPerSecond = 0
    package var bytesPerSecond = 0
    /// Bytes of a request's head.
    package var headByteLimit = HeadLimits.headByteLimit
    /// Listens, and paths with onDisconnect writes, of one connection.
    package var listenLimit = DatabaseOptions().listenLimit
    package var disconnectLimit = DatabaseOptions().disconnectLimit
    /// Bytes of memory that the listens of one connection may take.
    package var listenByteLimit = DatabaseOptions().listenByteLimit
    /// The largest values of these three.
    package static let largestListenLimit = DatabaseOptions().listenLimit
    package static let largestDisconnectLimit = DatabaseOptions().disconnectLimit
    package static let largestListenByteLimit = DatabaseOptions().listenByteLimit
    /// Over how long sessions are ended when the process stops; 0 for all at once.
    package var drainTime: Duration = .zero

    /// Messages of 1 kB and more are compressed for clients that ask for it (RFC 7692).
    package var compressesMessages: Bool { !hasNoDeflate }
    package var hasNoDeflate = false

    /// The least of what is said on stderr.
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text
    /// Each HTTP request is logged at `info`.
    package var logsAccess = false

    /// How messages are written to stderr.
    package enum LogFormat: String, CaseIterable, Sendable { case text, json }

    package init() {}

    /// What ``presenceTimeout`` may be, in seconds. A phone that changes its network is silent for a few.
    package static let presenceSecondsRange = 10...3600

    /// The smallest ``memoryByteLimit`` but 0: the least that a server can work with, some of the largest
    /// messages.
    package static let memoryByteMinimum = 64 << 20
    /// The part of the machine's memory, or of what its container may have, that is the limit unless another
    /// is given: the data itself needs most.
    private static let memoryShare = 8

    /// Where to listen, beside ``passedSockets``.
    package var places: [ListenPlace] {
        if !listens.isEmpty { return listens }
        return passedSockets.isEmpty ? [.network(host: host, port: port)] : []
    }

    /// The part of these settings that the databases need.
    package var databaseOptions: DatabaseOptions {
        var options = DatabaseOptions()
        options.createsNamespaces = isDevelopment
        options.sessionEndReserveByteCount = sessionEndReserveByteCount
        options.indexByteLimit = indexByteLimit
        options.listenLimit = listenLimit
        options.disconnectLimit = disconnectLimit
        options.listenByteLimit = listenByteLimit
        return options
    }

    /// Most nodes of one write.
    package var writeNodeLimit: Int { Limits.nodeCount(writeByteLimit: writeByteLimit) }

    /// The limits of a request's head.
    package var headLimits: HeadLimits {
        var limits = HeadLimits()
        limits.headByteLimit = headByteLimit
        limits.targetByteLimit = min(limits.targetByteLimit, headByteLimit)
        return limits
    }

    /// Connections that may be open.
    /// - Parameter ceiling: As many as the descriptors allow.
    package func connectionCeiling(_ ceiling: Int) -> Int {
        connectionLimit > 0 ? min(connectionLimit, ceiling) : ceiling
    }

    /// nil where the connections of one address are not limited.
    package func makeAddressLimiter() -> AddressLimiter? {
        addressConnectionLimit > 0 ? AddressLimiter(limit: addressConnectionLimit) : nil
    }

    /// nil where users have no limits.
    package func makeUserLimiter() -> UserLimiter? {
        guard userConnectionLimit > 0 || writeRates != WriteRates() else { return nil }
        return UserLimiter(connectionLimit: userConnectionLimit, rates: writeRates)
    }

    package var writeRates: WriteRates {
        WriteRates(writesPerSecond: writesPerSecond, bytesPerSecond: bytesPerSecond)
    }

    /// ``memoryByteLimit``, or what it stands for.
    package var effectiveMemoryByteLimit: Int {
        if memoryByteLimit > 0 { return memoryByteLimit }
        return max(Self.memoryByteMinimum, usableMemoryByteCount() / Self.memoryShare)
    }

    /// Bytes of one message of a client.
    package var messageByteLimit: Int { chunkCountLimit * Segmenter.chunkUnitLimit }

    /// How many loops to run: one processor is left to the database thread.
    package var effectiveLoopCount: Int {
        loopCount > 0 ? loopCount : max(1, usableProcessorCount() - 1)
    }

    /// Options that contradict each other, as far as that shows without opening a file or a socket. The range
    /// of each single option is checked where it is read.
    package var problems: [String] {
        var found: [String] = []
        switch (dataDirectory, isMemoryOnly) {
        case (nil, false): found.append("--data: missing; give a directory, or --memory to keep nothing")
        case (_?, true): found.append("--memory: keeps nothing, so it can't go with --data")
        case (""?, false): found.append("--data: empty; give a directory")
        default: break
        }
        found += identity.problems
        found += certificates.problems
        found += backups.problems(dataDirectory: dataDirectory)
        if redirectPort != nil, !certificates.isUsed {
            found.append("--http-redirect-port: needs TLS, which is --tls-cert and --tls-key, or --tls-dir")
        }
        if let redirectPort, redirectPort != 0, places.contains(where: { $0.port == redirectPort }) {
            found.append("--http-redirect-port: must be another port than --port")
        }
        if let adminAddress, !adminAddress.isLoopback {
            if isDevelopment {
                found.append(
                    "--admin-listen: with --dev it must be a loopback address, not \(adminAddress.host)")
            } else if !certificates.isUsed {
                found.append(
                    "--admin-listen: \(adminAddress.host) is not a loopback address, so it needs TLS, which is --tls-cert and --tls-key, or --tls-dir"
                )
            }
        }
        if redirectPort != nil, passedSockets.isEmpty, !places.contains(where: { $0.port != nil }) {
            found.append("--http-redirect-port: needs an address to listen on, and --listen names none")
        }
        for (index, place) in listens.enumerated() {
            if listens[..<index].contains(place), place.port != 0 {
                found.append("--listen: \(place) is there twice")
            }
            if isDevelopment, !place.isLoopback {
                found.append(
                    "--dev: gives every client full access, so --listen must be a loopback address, not \(place)"
                )
            }
        }
        if isDevelopment, listens.isEmpty, passedSockets.isEmpty, host != "localhost",
            SocketAddress(host, port: port)?.isLoopback != true
        {
            found.append(
                "--dev: gives every client full access, so --host must be a loopback address, not \(host)")
        }
        if publicDirectory != nil, hasNoConsole {
            found.append("--no-console: serves no files, so it can't go with --public")
        }
        if !isDevelopment, !allowedOrigins.isEmpty {
            found.append(
                "--allow-origin: has an effect only with --dev; without --dev every origin is served and the rules decide"
            )
        }
        return found
    }
}

extension BackupOptions {
    /// Options that contradict each other.
    fileprivate func problems(dataDirectory: String?) -> [String] {
        var found: [String] = []
        if interval > .zero, directory == nil {
            found.append("--backup-every: needs a directory for the backups: --backup-to")
        }
        if interval == .zero, directory != nil {
            found.append("--backup-to: needs the time between two backups: --backup-every")
        }
        if interval == .zero, testInterval > 0 {
            found.append("--backup-verify: needs scheduled backups: --backup-every and --backup-to")
        }
        if archiveDirectory != nil, dataDirectory == nil {
            found.append("--archive-to: there is no journal to copy without --data")
        }
        if let directory, directory == dataDirectory {
            found.append("--backup-to: must be another directory than --data")
        }
        if let archiveDirectory, archiveDirectory == dataDirectory || archiveDirectory == directory {
            found.append("--archive-to: must be another directory than --data and --backup-to")
        }
        return found
    }
}

// How long a client that vanished counts as present:
//
//     WebSocket      last word ──pingSilence──▶ ping ──half of that──▶ closed
//     long polling   poll ──pollHoldTime──▶ answer, which does not arrive ──pollGap──▶ over
//
// Each step is noticed at the next look of the loop, at most two ``presenceStep`` later: with a presence
// timeout T, T/2 and T/4 and two looks of T/8 each are T.

extension Configuration {
    /// Silence on a WebSocket after which the client is pinged; after half of that without an
    /// answer it is gone.
    package var pingSilence: Duration { presenceTimeout.map { $0 / 2 } ?? idleTimeout }

    /// How long a poll waits for something to say: less than the 25 s after which clients give one up
    /// (realtime §1.5.2).
    package var pollHoldTime: Duration { min(.seconds(20), presenceTimeout.map { $0 / 4 } ?? .seconds(20)) }

    /// Time without a poll after which a client of long polling is gone (§1.5.3).
    package var pollGap: Duration { min(.seconds(60), presenceTimeout.map { $0 / 2 } ?? .seconds(60)) }

    /// A client that takes nothing of what waits for it for that long is disconnected, and so is one that
    /// takes less than ``ConnectionLimits/slowestBytesPerSecond`` over any such time.
    package var stallTimeout: Duration { min(.seconds(30), presenceTimeout.map { $0 / 2 } ?? .seconds(30)) }

    /// A sweep over all sessions takes at most so long, and the next begins as much later.
    package var presenceStep: Duration {
        (presenceTimeout ?? .seconds(Self.presenceSecondsRange.upperBound)) / 16
    }
}
