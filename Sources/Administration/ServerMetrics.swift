import PandoDatabase
import PandoLog
import PandoLoops
import PandoMetrics
import PandoReactor
import PandoSettings
import PandoStorage
import PandoTLS

/// All metrics of a server, by the names under which monitoring reads them. `public/docs/operating.md` has
/// the table.
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

    var registry: MetricRegistry {
        MetricRegistry(
            process + connections + traffic + requests + latencies + databases + disk + recovery
                + scheduledBackups + archive)
    }

    typealias Sample = MetricFamily.Sample

    var ioThreads: ArraySlice<Thread> { threads.prefix(sessions.count) }

    // MARK: The process

    var process: [MetricFamily] {
        let machine = machine
        let (version, durability, status, threads) = (version, durability, status, threads)
        let (log, certificates) = (log, certificates)
        return [
            MetricFamily(.info, "pando_build_info", "The version of the program, as labels.") {
                [
                    Sample(.integer(1), labels: [("version", version), ("durability", durability)])
                ]
            },
            MetricFamily(.gauge, "pando_start_time_seconds", "When the process started, since 1970.") {
                .integer(machine.startTime)
            },
            MetricFamily(
                .gauge, "pando_ready",
                "1 while clients are served; 0 during recovery and while the server stops."
            ) {
                .integer(status.phase == .ready ? 1 : 0)
            },
            MetricFamily(
                .counter, "pando_cpu_seconds_total", "Processor time of the process, user and system."
            ) {
                .number(Double(machine.cpuMicroseconds.value) / 1e6)
            },
            MetricFamily(.gauge, "pando_resident_memory_bytes", "Memory that the process has in RAM.") {
                .integer(machine.residentBytes.value)
            },
            MetricFamily(
                .gauge, "pando_heap_free_bytes", "Memory that was freed and that the allocator keeps."
            ) {
                .integer(machine.freeHeapBytes.value)
            },
            MetricFamily(.gauge, "pando_open_descriptors", "Descriptors that the process has open.") {
                .integer(machine.openDescriptors.value)
            },
            MetricFamily(.gauge, "pando_descriptor_limit", "Descriptors that the process may have open.") {
                .integer(machine.descriptorLimit.value)
            },
            MetricFamily(
                .counter, "pando_log_lines_dropped_total",
                "Lines of the log that were dropped because standard error is read more slowly than lines are written."
            ) {
                .unsigned(log.droppedLineCount)
            },
            MetricFamily(
                .gauge, "pando_tls_certificate_expiry_timestamp_seconds",
                "When the first of the certificates of TLS ends, since 1970; 0 without TLS."
            ) {
                .integer(certificates?.earliestExpirySeconds ?? 0)
            },
            MetricFamily(
                .histogram, "pando_loop_tick_seconds",
                "How long the ticks of a thread's loop take: an event may wait for as long as one tick."
            ) {
                threads.map {
                    Sample(.histogram($0.metrics.ticks.snapshot), labels: [("thread", $0.name)])
                }
            },
        ]
    }
}
