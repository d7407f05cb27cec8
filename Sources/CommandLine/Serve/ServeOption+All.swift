import Logging
import PandoHTTP
import PandoIdentity
import PandoREST
import PandoReactor
import PandoSettings
import PandoStorage

extension ServeOption {
    /// Every option of `pando serve` but `--config`, which names the file that has the others.
    static let all: [ServeOption] =
        network + security + storage + backups + limits + timeouts + tokens + [
            choice(
                "log-level", \.logLevel,
                "The least severe messages that are logged: trace, debug, info, notice, warning, error or critical."
            ).reloading,
            choice(
                "log-format", \.logFormat,
                "How messages are written to standard error: as text, or as JSON, one object in each line."),
            flag(
                "access-log", \.logsAccess,
                "Log each HTTP request at info: method, path without the query, status, time, client, X-Request-ID."
            ).reloading,
        ]

    private static let network: [ServeOption] = [
        ServeOption(
            "host", .value(placeholder: "host"), default: Configuration().host, "Address to listen on."
        ) {
            configuration, text throws(Problem) in
            guard !text.isEmpty else { throw .notAllowed("the value is empty") }
            configuration.host = text
        },
        ServeOption(
            "port", .value(placeholder: Unit.port.rawValue), default: String(Configuration().port),
            "Port to listen on; 0 picks a free one."
        ) { configuration, text throws(Problem) in
            let numbers = Numbers(unit: .port, range: 0...Int(UInt16.max), zeroMeaning: nil, reason: nil)
            configuration.port = UInt16(try numbers.read(text))
        },
        ServeOption(
            "listen", .list(placeholder: "address"),
            """
            Where to listen, in place of --host and --port: ADDR:PORT, with an IPv6 address in brackets, or unix:PATH. \
            [::]:PORT serves IPv4, too. Repeatable. Sockets that systemd passes are used besides.
            """
        ) { configuration, text throws(Problem) in
            for name in try list(text) {
                guard let place = ListenPlace(name) else {
                    throw .notAllowed("\"\(name)\" is not ADDR:PORT, [IPV6]:PORT or unix:PATH")
                }
                configuration.listens.append(place)
            }
        },
        ServeOption(
            "trusted-proxy", .list(placeholder: "cidr"),
            """
            A proxy in front of the server, as 10.0.0.0/8, an address, or unix for peers on Unix sockets. Its word about \
            its clients counts: a PROXY header (version 2), X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto. \
            Repeatable.
            """
        ) { configuration, text throws(Problem) in
            for name in try list(text) {
                guard let range = AddressRange(name) else {
                    throw .notAllowed("\"\(name)\" is not an address, ADDRESS/BITS or unix")
                }
                configuration.trustedProxies.ranges.append(range)
            }
        },
        ServeOption(
            "admin-listen", .value(placeholder: "[address:]port"), default: "off",
            """
            The admin port, for monitoring and administrators: /metrics, /livez, /readyz, /varz, /connz, /slowz, /topz. The \
            address is 127.0.0.1 unless given; another than a loopback address needs TLS. Port 0 picks a free one.
            """
        ) { configuration, text throws(Problem) in
            if text == "off" {
                configuration.adminAddress = nil
                return
            }
            guard let address = AdminAddress(text) else {
                throw .wrongType("\"\(text)\" is not PORT, ADDRESS:PORT or [IPV6]:PORT")
            }
            configuration.adminAddress = address
        },
        flag(
            "dev", \.isDevelopment,
            """
            For development: databases without rules are open, namespaces are made on first use, unsigned tokens are \
            accepted. Only on a loopback address, and only for programs and pages of this machine (--allow-origin).
            """),
        ServeOption(
            "allow-origin", .list(placeholder: "origin"),
            """
            A web page on another host that may use a --dev server, as scheme://host[:port]; requests may also \
            address the server by that host. Repeatable.
            """
        ) { configuration, text throws(Problem) in
            // An origin has no comma and no space, so both may separate several.
            let names = text.split { $0 == "," || $0.isWhitespace }
            guard !names.isEmpty else { throw .notAllowed("the value is empty") }
            for name in names {
                guard let origin = WebOrigin(name) else {
                    throw .notAllowed("\"\(name)\" is not scheme://host[:port]")
                }
                configuration.allowedOrigins.append(origin)
            }
        },
        text(
            "public", "dir", default: "the console that came with the program", \.publicDirectory,
            "Directory of the files that are served at / beside the data. SIGHUP reads them again."),
        flag("no-console", \.hasNoConsole, "Serve no files: neither the console nor the documents."),
        flag(
            "no-deflate", \.hasNoDeflate,
            "Do not compress messages of WebSockets (permessage-deflate), whatever clients offer."),
        number(
            "loops", .count, in: 0...64, \.loopCount,
            "Threads for connections; 0 stands for one less than the processors."),
    ]

    /// The values of a list, which line feeds and commas separate.
    private static func list(_ text: String) throws(Problem) -> [String] {
        let names = text.split { $0 == "," || $0.isNewline }.map { name in
            String(name.drop { $0 == " " })
        }
        guard !names.isEmpty else { throw .notAllowed("the value is empty") }
        return names
    }

    private static let security: [ServeOption] = [
        text(
            "tls-cert", "file", \.certificates.certificate,
            """
            Certificate with its chain (PEM): the port speaks TLS. Changed files are read again within 5 s, or at once \
            on SIGHUP.
            """),
        text("tls-key", "file", \.certificates.key, "Private key of --tls-cert (PEM, without a password)."),
        text(
            "tls-dir", "dir", \.certificates.directory,
            """
            Directory with NAME/fullchain.pem and NAME/privkey.pem for each host name; a client's name (SNI) chooses. \
            Others get --tls-cert, or the first by name.
            """),
        text(
            "tls-client-ca", "file", \.certificates.clientIssuers,
            "Issuers (PEM) whose client certificates make their holders administrators; others need none."),
        ServeOption(
            "http-redirect-port", .value(placeholder: Unit.port.rawValue),
            "Port without TLS that redirects every request to the port with TLS."
        ) { configuration, text throws(Problem) in
            let numbers = Numbers(unit: .port, range: 0...Int(UInt16.max), zeroMeaning: nil, reason: nil)
            configuration.redirectPort = UInt16(try numbers.read(text))
        },
    ]

    /// A file of the journal that were smaller would be mostly the work of making it.
    private static let fileByteRange = 64 << 10...1 << 40

    private static let storage: [ServeOption] = [
        ServeOption("data", .value(placeholder: "dir"), "Directory for all data; made when it is missing.") {
            $0.dataDirectory = $1
        },
        flag("memory", \.isMemoryOnly, "Store nothing: all data is lost when the server stops."),
        text(
            "rules", "file or dir", \.rulesPath,
            """
            Security rules: a file for the database "default", or a directory with a NAMESPACE.json for each \
            database. They take precedence over stored rules; SIGHUP reads them again.
            """),
        choice(
            "durability", \.storage.durability,
            """
            When an acknowledged write is on disk. always: before its acknowledgement (survives power loss). \
            interval: within 100 ms. none: about once a second. All survive kill -9.
            """),
        number(
            "segment-bytes", .bytes, in: fileByteRange, \.storage.segmentByteLimit,
            "Size of one file of the journal."),
        number(
            "checkpoint-bytes", .bytes, in: fileByteRange, \.storage.checkpointByteLimit,
            "Bytes of journal after which a checkpoint is written; a start reads about as much of it."),
        seconds(
            "checkpoint-interval", in: 0...365 * 86_400, \.storage.checkpointInterval,
            "Time after which a checkpoint is written if there was any write; 0 for never."),
        number(
            "keep-checkpoints", .count, in: 2...1000,
            because: "the second replaces the first when that is damaged", \.storage.keptCheckpointCount,
            "Checkpoints to keep, with the journal since the oldest; at least 2."),
    ]

    private static let backups: [ServeOption] = [
        duration(
            "backup-every", in: BackupOptions.secondsRange, zero: "off", default: "off", \.backups.interval,
            """
            Time between two backups to --backup-to, such as 1h, 30m or 1s. A failed one is logged and counted, and tried \
            again at the next time; while the directory is missing, each minute.
            """),
        text(
            "backup-to", "dir", \.backups.directory,
            """
            Directory of the scheduled backups, best on another disk. It is made when it is missing, unless the data \
            directory has used it before: then its disk is not mounted.
            """),
        ServeOption(
            "backup-keep", .value(placeholder: "hours,days,weeks"),
            default: "\(Configuration().backups.retention)",
            """
            Of how many hours, days and weeks the newest scheduled backup is kept; the others are removed. What the newest \
            backup that has passed a restore test keeps stays, too.
            """
        ) { configuration, text throws(Problem) in
            guard let retention = BackupRetention(text) else {
                throw .wrongType(
                    "\"\(text)\" is not three numbers of hours, days and weeks, such as 24,7,4, each up to \(BackupRetention.highestCount)"
                )
            }
            configuration.backups.retention = retention
        }.reloading,
        number(
            "backup-verify", .count, in: 0...BackupOptions.highestTestInterval, \.backups.testInterval,
            """
            After so many scheduled backups there is a restore test of the newest, and of the archive behind the one before \
            it; 0 for never. A process of its own needs the memory of the data once more, and in --backup-to the space of \
            one more backup.
            """),
        text(
            "archive-to", "dir", \.backups.archiveDirectory,
            """
            Directory, best on another disk, to which the journal is copied each second. With a backup it restores every \
            later moment. It is made when it is missing, unless the data directory has used it before.
            """),
        duration(
            "archive-keep", in: BackupOptions.secondsRange, zero: "all", default: "7d",
            \.backups.archiveKeepTime,
            """
            How far back the archive reaches: scheduled backups remove segments that lie before the newest backup of \
            that age. Without --backup-every all are kept.
            """),
    ]

    private static let limits: [ServeOption] = [
        number(
            "outbound-limit", .bytes, in: 1 << 20...1 << 40,
            because: "with less, one large value could not be sent", \.outboundByteLimit,
            "Bytes that may be unsent to a client before it is disconnected."),
        number(
            "in-flight-limit", .bytes, in: 1 << 20...1 << 40,
            because: "with less, one large write could not be accepted", \.inFlightByteLimit,
            "Bytes of requests that may wait for the disk before reading from sockets pauses."),
        number(
            "memory-limit", .bytes, in: Configuration.memoryByteMinimum...1 << 40,
            zero: "an eighth of the memory", default: "an eighth of the machine's or container's memory",
            \.memoryByteLimit,
            """
            Bytes that all clients together may make the server hold beside the data: unsent output, \
            requests that wait. Above 3/4 of it, the server stops reading from the clients that hold most; above \
            it, it disconnects them.
            """),
        number(
            "index-memory", .bytes, in: 0...1 << 40, zero: "none", \.indexByteLimit,
            """
            Bytes of all databases together for indexes that no rule declares, built for orders that clients query by; those \
            not used for the longest time are dropped.
            """),
        number(
            "max-connections-per-address", .count, in: 0...1 << 23, zero: "no limit",
            \.addressConnectionLimit,
            """
            Connections of one address, or of one IPv6 network of 64 bits; 0 for no limit. Clients behind one router \
            share its address.
            """
        ).reloading,
        number(
            "max-connections", .count, in: 1...DescriptorBudget.connectionMaximum,
            zero: "as many as the descriptors allow", \.connectionLimit,
            "Connections of clients in all, where that is less than the descriptors allow; 0 for no other limit."
        ).reloading,
        number(
            "max-connections-per-user", .count, in: 0...1 << 23, zero: "no limit", \.userConnectionLimit,
            "Realtime sessions and event streams of one user; 0 for no limit. Administrators have none."
        ).reloading,
        number(
            "max-writes-per-second", .count, in: 0...1 << 30, zero: "no limit", \.writesPerSecond,
            """
            Writes in a second, on average over 10 s, of one connection, and of one user over all connections; 0 for no \
            limit. Administrators have none. Realtime writes beyond it wait, those by REST are answered 429.
            """
        ).reloading,
        number(
            "max-bytes-per-second", .bytes, in: 0...1 << 40, zero: "no limit", \.bytesPerSecond,
            "Bytes of these writes in a second, inflated, in the same way; 0 for no limit."
        ).reloading,
        number(
            "max-head-bytes", .bytes, in: 1 << 10...1 << 20, \.headByteLimit,
            "Size of the head of an HTTP request."
        ).reloading,
        number(
            "max-listens", .count, in: 1...Configuration.largestListenLimit, \.listenLimit,
            "Listens of one connection."),
        number(
            "max-listen-bytes", .bytes, in: 64 << 10...Configuration.largestListenByteLimit,
            \.listenByteLimit,
            "Bytes of memory that the listens of one connection may take."),
        number(
            "max-on-disconnect", .count, in: 1...Configuration.largestDisconnectLimit, \.disconnectLimit,
            "Locations with onDisconnect writes of one connection."),
        number(
            "chunk-limit", .count, in: 1...9999, \.chunkCountLimit,
            "Chunks of 16 KiB that one message of a client may have."),
        number(
            "max-read-bytes", .bytes, in: 1...1 << 40, \.readByteLimit, "Size of one REST response."
        ).reloading,
        number(
            "max-write-bytes", .bytes, in: 1...RESTLimits.writeByteCount,
            because: "an entry of the journal holds no more", \.writeByteLimit, "Size of one REST write."),
    ]

    private static let timeouts: [ServeOption] = [
        seconds(
            "idle-timeout", in: 60...1 << 40, because: "Firebase clients send a message every 45 s",
            \.idleTimeout, "Silence after which a client is pinged."),
        ServeOption(
            "presence-timeout", .value(placeholder: Unit.seconds.rawValue),
            default: "about two minutes, from --idle-timeout",
            """
            Time after which a client that disappeared without closing its connection counts as disconnected, and \
            its onDisconnect writes run, 10 to 3600.
            """
        ) { configuration, text throws(Problem) in
            let numbers = Numbers(
                unit: .seconds, range: Configuration.presenceSecondsRange, zeroMeaning: nil,
                reason: "with less, clients on slow networks would be disconnected")
            configuration.presenceTimeout = .seconds(try numbers.read(text))
        },
        seconds(
            "drain-time", in: 0...3600, \.drainTime,
            """
            At SIGTERM, the time over which the connections of clients are closed, so that not all connect again at once; \
            0 closes all at once.
            """
        ).reloading,
        seconds(
            "request-timeout", in: 1...1 << 40, \.requestTimeout,
            "Time for an HTTP request to arrive; a body may take longer while it arrives fast enough."),
    ]

    private static let tokens: [ServeOption] = [
        ServeOption(
            "auth-secret-file", .list(placeholder: "file"),
            """
            File with a secret of 32 random bytes or more, as hex, Base64 or raw, that signs tokens (HS256). \
            Repeatable.
            """
        ) { configuration, text throws(Problem) in
            guard !text.isEmpty else { throw .notAllowed("the value is empty") }
            configuration.identity.secrets += text.split(separator: "\n").map { .init(.file(String($0))) }
        },
        flag(
            "allow-secret-as-admin", \.identity.allowsSecretAsAdmin,
            "Accept the secret itself as an administrator's credential, as database secrets are."),
        text(
            "jwks-file", "file", \.identity.shorthand.keyFile,
            "Public keys that sign tokens, a JWK set or PEM."),
        text(
            "jwks-issuer", "text", \.identity.shorthand.keyIssuer,
            "The iss claim of tokens that the keys of --jwks-file sign."),
        text(
            "jwks-audience", "text", \.identity.shorthand.keyAudience, "The aud claim of those tokens."),
        text(
            "oidc-issuer", "url", \.identity.shorthand.oidcIssuer,
            "OpenID Connect issuer whose tokens are accepted; the server fetches its keys."),
        text(
            "oidc-audience", "text", \.identity.shorthand.oidcAudience,
            "The aud claim of the tokens of --oidc-issuer."),
        text(
            "firebase-project", "id", \.identity.shorthand.firebaseProject,
            "Firebase project whose ID tokens are accepted."),
        ServeOption(
            "auth-clock-skew", .value(placeholder: Unit.seconds.rawValue),
            default: String(Configuration().identity.clockSkew),
            "How far a token's times may differ from the server's clock, 0 to 60."
        ) { configuration, text throws(Problem) in
            let most = Int(IdentityConfiguration.clockSkewMaximum)
            let numbers = Numbers(unit: .seconds, range: 0...most, zeroMeaning: nil, reason: nil)
            configuration.identity.clockSkew = Int64(try numbers.read(text))
        },
    ]
}
