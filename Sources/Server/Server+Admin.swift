import PandoDatabase
import PandoIdentity
import PandoReactor
import PandoStorage
import PandoTLS

/// What the admin port reports of a server.
struct AdminSources {
    var main: EventLoop
    var ioLoops: [IOLoop]
    var database: DatabaseMetrics
    var storage: StorageMetrics
    var backups: BackupMetrics
    var status: ServerStatus
    var logTail: LogTail
}

extension Server {
    private static func resolve(_ host: String, port: UInt16) throws(StartError) -> SocketAddress {
        do throws(SocketError) {
            if let address = try SocketAddress.resolve(host: host, port: port).first { return address }
        } catch {
            throw .address("--admin-listen: \(error)")
        }
        throw .address("--admin-listen: \(host): no such address")
    }

    /// Where `--admin-listen` says; nil without it.
    private static func adminAddress(
        _ configuration: Configuration, _ certificates: CertificateStore?
    ) throws(StartError) -> SocketAddress? {
        guard let address = configuration.adminAddress else { return nil }
        let resolved = try resolve(address.host, port: address.port)
        // A name that was taken for a loopback address may resolve to another one.
        guard resolved.isLoopback || certificates != nil && !configuration.isDevelopment else {
            throw .address("--admin-listen: \(resolved.host) is not a loopback address")
        }
        return resolved
    }

    /// Makes the admin thread's server, and binds its listener where there is to be one.
    static func makeAdmin(
        _ resources: LoopResources, _ sources: AdminSources
    ) throws -> AdminServer {
        let configuration = resources.configuration
        let address = try adminAddress(configuration, resources.certificates)
        let loop = try AdminServer.makeLoop()
        var threads = sources.ioLoops.map {
            ServerMetrics.Thread(name: "pando-io-\($0.index)", metrics: $0.loop.metrics)
        }
        threads.append(ServerMetrics.Thread(name: "main", metrics: sources.main.metrics))
        threads.append(ServerMetrics.Thread(name: "pando-admin", metrics: loop.metrics))
        let metrics = ServerMetrics(
            threads: threads, sessions: sources.ioLoops.map(\.services.metrics), database: sources.database,
            storage: sources.storage, backups: sources.backups,
            machine: MachineMetrics(dataDirectory: configuration.dataDirectory),
            limiter: resources.limiter, memory: resources.memory, status: sources.status,
            log: resources.log.writer, certificates: resources.certificates,
            version: programVersion,
            durability: configuration.isMemoryOnly ? "memory" : configuration.storage.durability.rawValue)
        return try AdminServer(
            at: address, on: loop, configuration: configuration,
            metrics: metrics, authenticator: resources.authenticator, database: resources.database,
            ioLoops: sources.ioLoops, certificates: resources.certificates, logTail: sources.logTail)
    }
}
