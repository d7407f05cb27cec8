import PandoMetrics

/// The metrics of the process.
struct ProcessMetricFamilies {
    typealias Sample = MetricFamily.Sample

    let metrics: ServerMetrics

    var all: [MetricFamily] {
        let machine = metrics.machine
        let (version, durability, status, threads) = (
            metrics.version, metrics.durability, metrics.status, metrics.threads
        )
        let (log, certificates) = (metrics.log, metrics.certificates)
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
