import PandoDatabase
import PandoLog
import PandoLoops
import PandoMetrics
import PandoReactor
import PandoSettings
import PandoStorage
import PandoTLS

/// The counters of all parts of the server, from which the metric families (``MetricRegistry/init(of:)``)
/// read.
struct ServerMetrics: Sendable {
    /// A loop and the name of its thread.
    struct Thread: Sendable {
        var name: String
        var metrics: LoopMetrics
    }

    /// The I/O loops first.
    var threads: [Thread]
    /// Of the I/O loops, in their order.
    var sessions: [SessionMetrics]
    var database: DatabaseMetrics
    var storage: StorageMetrics
    var backups: BackupMetrics
    var machine: MachineMetrics
    var limiter: ConnectionLimiter
    var memory: MemoryBudget
    var status: ServerStatus
    var log: LogWriter
    /// nil without TLS.
    var certificates: CertificateStore?
    var version: String
    var durability: String

    /// - Parameter loop: The admin thread's.
    init(_ resources: LoopResources, _ sources: AdminSources, adminLoop loop: EventLoop) {
        let configuration = resources.configuration
        threads = sources.ioLoops.map { Thread(name: "pando-io-\($0.index)", metrics: $0.loop.metrics) }
        threads.append(Thread(name: "main", metrics: sources.main.metrics))
        threads.append(Thread(name: "pando-admin", metrics: loop.metrics))
        sessions = sources.ioLoops.map(\.metrics)
        database = sources.database
        storage = sources.storage
        backups = sources.backups
        machine = MachineMetrics(dataDirectory: configuration.dataDirectory)
        limiter = resources.limiter
        memory = resources.memory
        status = sources.status
        log = resources.log.writer
        certificates = resources.certificates
        version = programVersion
        durability = configuration.isMemoryOnly ? "memory" : configuration.storage.durability.rawValue
    }

    var ioThreads: ArraySlice<Thread> { threads.prefix(sessions.count) }
}
