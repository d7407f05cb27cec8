import PandoDatabase
import PandoEngine
import PandoLoops
import PandoMetrics
import PandoREST
import PandoReactor

/// The metrics of what clients do, and how long they wait.
struct ClientMetricFamilies {
    typealias Sample = MetricFamily.Sample

    let metrics: ServerMetrics

    var all: [MetricFamily] { connections + traffic + requests + latencies }

    // MARK: Connections

    private var connections: [MetricFamily] {
        let (io, sessions, limiter, memory) = (
            Array(metrics.ioThreads), metrics.sessions, metrics.limiter, metrics.memory
        )
        let database = metrics.database
        return [
            MetricFamily(.gauge, "pando_connections", "Connections of clients that are open.") {
                .integer(Int64(limiter.openCount))
            },
            MetricFamily(.gauge, "pando_connection_limit", "Connections of clients that may be open.") {
                .integer(Int64(limiter.ceiling))
            },
            MetricFamily(.counter, "pando_connections_opened_total", "Connections that were accepted.") {
                .unsigned(io.reduce(0) { $0 &+ $1.metrics.accepted.value })
            },
            MetricFamily(.counter, "pando_connections_closed_total", "Connections that ended, by the cause.")
            {
                LoopMetrics.End.allCases.map { end in
                    Sample(
                        .unsigned(io.reduce(0) { $0 &+ $1.metrics.ended.value(of: end) }),
                        labels: [("cause", end.label)])
                }
            },
            MetricFamily(
                .counter, "pando_slow_client_disconnects_total",
                "Clients that were disconnected because they read too slowly, or hold too much memory."
            ) {
                [
                    Sample(
                        .unsigned(io.reduce(0) { $0 &+ $1.metrics.ended.value(of: .outboundLimit) }),
                        labels: [("cause", "outbound_limit")]),
                    Sample(
                        .unsigned(io.reduce(0) { $0 &+ $1.metrics.ended.value(of: .stalled) }),
                        labels: [("cause", "stalled")]),
                    Sample(
                        .unsigned(sessions.reduce(0) { $0 &+ $1.cuts.value(of: .tooSlow) }),
                        labels: [("cause", "too_slow")]),
                    Sample(
                        .unsigned(sessions.reduce(0) { $0 &+ $1.cuts.value(of: .memory) }),
                        labels: [("cause", "memory")]),
                ]
            },
            MetricFamily(
                .gauge, "pando_client_sessions", "Sessions on the I/O threads, by transport."
            ) {
                [
                    Sample(
                        .integer(sessions.reduce(0) { $0 &+ $1.http.value }), labels: [("transport", "http")]),
                    Sample(
                        .integer(sessions.reduce(0) { $0 &+ $1.webSockets.value }),
                        labels: [("transport", "websocket")]),
                    Sample(
                        .integer(sessions.reduce(0) { $0 &+ $1.polling.value }),
                        labels: [("transport", "long_polling")]),
                ]
            },
            MetricFamily(
                .gauge, "pando_database_sessions",
                "Sessions of the databases: realtime clients and event streams."
            ) {
                .integer(database.sessions.value)
            },
            MetricFamily(.gauge, "pando_event_streams", "Event streams (REST) among the sessions.") {
                .integer(database.streams.value)
            },
            MetricFamily(
                .counter, "pando_tls_handshakes_total",
                "TLS handshakes, by how they ended; abandoned ones by the client before it got a reply."
            ) {
                LoopMetrics.Handshake.allCases.map { handshake in
                    Sample(
                        .unsigned(io.reduce(0) { $0 &+ $1.metrics.handshakes.value(of: handshake) }),
                        labels: [("result", handshake.label)])
                }
            },
            MetricFamily(
                .counter, "pando_token_verifications_total", "Tokens that were verified, by the result."
            ) {
                SessionMetrics.Verification.allCases.map { result in
                    Sample(
                        .unsigned(sessions.reduce(0) { $0 &+ $1.verifications.value(of: result) }),
                        labels: [("result", "\(result)")])
                }
            },
            MetricFamily(
                .counter, "pando_limit_exceeded_total",
                "How often clients exceeded a limit, by the limit: connections and requests that were refused or closed."
            ) {
                [
                    Sample(.unsigned(limiter.exceededCount), labels: [("limit", "connections")])
                ]
                    + ClientLimit.allCases.map { limit in
                        Sample(
                            .unsigned(sessions.reduce(0) { $0 &+ $1.limits.value(of: limit) }),
                            labels: [("limit", limit.label)])
                    }
                    + SessionLimit.allCases.map { limit in
                        Sample(
                            .unsigned(database.sessionLimits.value(of: limit)),
                            labels: [("limit", limit.label)])
                    }
            },
            MetricFamily(
                .counter, "pando_delayed_writes_total",
                "Realtime writes that waited because of a limit of their rate, by the limit."
            ) {
                [ClientLimit.writesPerSecond, .bytesPerSecond].map { limit in
                    Sample(
                        .unsigned(sessions.reduce(0) { $0 &+ $1.delays.value(of: limit) }),
                        labels: [("limit", limit.label)])
                }
            },
            MetricFamily(
                .gauge, "pando_client_memory_bytes",
                "Memory that clients make the server hold beside the data, as --memory-limit counts it."
            ) {
                .integer(Int64(memory.byteCount))
            },
            MetricFamily(
                .gauge, "pando_client_memory_limit_bytes", "The limit of that memory (--memory-limit)."
            ) {
                .integer(Int64(memory.byteLimit))
            },
        ]
    }

    // MARK: Traffic

    private var traffic: [MetricFamily] {
        let (io, sessions) = (Array(metrics.ioThreads), metrics.sessions)
        return [
            MetricFamily(.counter, "pando_received_bytes_total", "Bytes that clients sent, without TLS.") {
                .unsigned(io.reduce(0) { $0 &+ $1.metrics.receivedBytes.value })
            },
            MetricFamily(.counter, "pando_sent_bytes_total", "Bytes that clients were sent, without TLS.") {
                .unsigned(io.reduce(0) { $0 &+ $1.metrics.sentBytes.value })
            },
            MetricFamily(
                .gauge, "pando_outbound_queue_bytes",
                "Bytes for clients that the kernel has not accepted yet."
            ) {
                .integer(io.reduce(0) { $0 &+ $1.metrics.unsentByteCount })
            },
            MetricFamily(
                .counter, "pando_replies_total", "Replies and responses of the databases to clients."
            ) {
                .unsigned(sessions.reduce(0) { $0 &+ $1.replies.value })
            },
            MetricFamily(
                .counter, "pando_deliveries_total",
                "Pushes and events, counted once for each client that gets one."
            ) {
                .unsigned(sessions.reduce(0) { $0 &+ $1.pushes.value })
            },
        ]
    }

    // MARK: Requests

    private var requests: [MetricFamily] {
        let database = metrics.database
        return [
            MetricFamily(.counter, "pando_requests_total", "Requests to the databases, by protocol and kind.")
            {
                RequestKind.allCases.map {
                    Sample(
                        .unsigned(database.requests.value(of: $0)),
                        labels: [("protocol", $0.protocolLabel), ("kind", $0.kindLabel)])
                }
            },
            MetricFamily(.counter, "pando_request_errors_total", "Requests that failed, by the reason.") {
                DatabaseMetrics.Failure.allCases.map {
                    Sample(.unsigned(database.failures.value(of: $0)), labels: [("error", $0.label)])
                }
            },
            MetricFamily(.counter, "pando_rule_evaluations_total", "Requests for which rules were evaluated.")
            {
                .unsigned(database.evaluations.value)
            },
            MetricFamily(.counter, "pando_rule_denials_total", "Requests that rules denied.") {
                .unsigned(database.denials.value)
            },
            MetricFamily(.counter, "pando_commits_total", "Writes that changed data.") {
                .unsigned(database.commits.value)
            },
            MetricFamily(
                .counter, "pando_pushes_total",
                "Distinct pushes that writes and listens caused; each may have many recipients."
            ) {
                .unsigned(database.pushes.value)
            },
        ]
    }

    private var latencies: [MetricFamily] {
        let (sessions, database, storage) = (metrics.sessions, metrics.database, metrics.storage)
        let none = Histogram.durations.snapshot
        return [
            MetricFamily(
                .histogram, "pando_acknowledgement_seconds",
                "Time from the reading of a request until its reply was given to the kernel."
            ) {
                .histogram(sessions.reduce(none) { $0 + $1.acknowledgements.snapshot })
            },
            MetricFamily(
                .histogram, "pando_event_delivery_seconds",
                "Time from the reading of a write until the pushes to listeners were given to the kernel."
            ) {
                .histogram(sessions.reduce(none) { $0 + $1.deliveries.snapshot })
            },
            MetricFamily(
                .histogram, "pando_database_turn_seconds",
                "How long one turn of the thread that runs the databases takes."
            ) {
                .histogram(database.turns.snapshot)
            },
            MetricFamily(
                .histogram, "pando_fsync_seconds", "How long a sync of the journal takes (fdatasync)."
            ) {
                .histogram(storage.syncs.snapshot)
            },
            MetricFamily(
                .histogram, "pando_journal_write_bytes",
                "Bytes of one write to the journal: all that waited during the previous sync."
            ) {
                .histogram(storage.writtenBatchBytes.snapshot)
            },
            MetricFamily(
                .histogram, "pando_journal_batches",
                "Batches of the databases that the journal thread writes at once."
            ) {
                .histogram(storage.batches.snapshot)
            },
        ]
    }
}
