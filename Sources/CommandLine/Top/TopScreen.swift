import Foundation

/// One screen of `pando top`: what has happened between two readings. It only makes text.
struct TopScreen {
    var url: String
    var previous: TopReading
    var current: TopReading
    var usage: [TopUsage]

    /// Lines above the paths, with the empty one and the names of the columns.
    static let headerLineCount = 10
    private static let labelWidth = 13

    /// - Parameters:
    ///   - pathCount: Rows of paths, at most.
    ///   - width: Columns of the screen; longer lines are cut off. Nil for any width.
    func lines(pathCount: Int, width: Int?) -> [String] {
        var lines = header
        lines.append("")
        lines += paths(usage.prefix(pathCount))
        guard let width else { return lines }
        return lines.map { String($0.prefix(max(0, width))) }
    }

    // MARK: What the server does

    private var header: [String] {
        [
            "pando \(Self.printable(current.version))  \(Self.printable(current.phase))  "
                + "up \(Self.age(now - current.startTime))  \(url)  " + current.time.formatted(.iso8601),
            line(
                "connections",
                [
                    "\(count("pando_connections")) of \(count("pando_connection_limit"))",
                    "websocket \(count("pando_client_sessions", ["transport": "websocket"]))",
                    "http \(count("pando_client_sessions", ["transport": "http"]))",
                    "long polling \(count("pando_client_sessions", ["transport": "long_polling"]))",
                    "listens \(count("pando_listens")), \(count("pando_listens", ["kind": "query"])) with queries",
                ]),
            line(
                "requests",
                [
                    "\(rate("pando_requests_total"))/s", "reads \(reads)/s", "writes \(writes)/s",
                    "listens \(listens)/s", "errors \(rate("pando_request_errors_total"))/s",
                    "denied \(rate("pando_rule_denials_total"))/s",
                ]),
            line(
                "traffic",
                [
                    "pushes \(rate("pando_deliveries_total"))/s",
                    "in \(byteRate("pando_received_bytes_total"))/s",
                    "out \(byteRate("pando_sent_bytes_total"))/s",
                    "unsent \(bytes("pando_outbound_queue_bytes"))",
                    "slow clients disconnected \(rate("pando_slow_client_disconnects_total"))/s",
                ]),
            line(
                "99 % within",
                [
                    "reply \(latency("pando_acknowledgement_seconds"))",
                    "push \(latency("pando_event_delivery_seconds"))",
                    "fsync \(latency("pando_fsync_seconds"))",
                    "loop \(loopLag)", "database \(latency("pando_database_turn_seconds"))",
                ]),
            line(
                "journal",
                [
                    "\(byteRate("pando_journal_written_bytes_total"))/s",
                    "journal \(bytes("pando_journal_size_bytes")) in \(count("pando_journal_files")) files",
                    "since checkpoint \(bytes("pando_journal_uncovered_bytes"))",
                    "checkpoint \(checkpointAge)",
                    disk,
                ]),
            line(
                "memory",
                [
                    "\(bytes("pando_resident_memory_bytes"))",
                    "clients \(bytes("pando_client_memory_bytes")) of \(bytes("pando_client_memory_limit_bytes"))",
                    "processors \(Self.number(perSecond("pando_cpu_seconds_total")))",
                    "descriptors \(count("pando_open_descriptors")) of \(count("pando_descriptor_limit"))",
                ]),
            line("backups", backups),
        ]
    }

    private var reads: String {
        Self.number(
            perSecond("pando_requests_total", ["kind": "get"])
                + perSecond("pando_requests_total", ["kind": "read"]))
    }

    private var writes: String {
        Self.number(
            ["put", "merge", "transaction", "on_disconnect", "write"].reduce(0) {
                $0 + perSecond("pando_requests_total", ["kind": $1])
            })
    }

    private var listens: String {
        Self.number(
            perSecond("pando_requests_total", ["kind": "listen"])
                + perSecond("pando_requests_total", ["kind": "stream"]))
    }

    /// The longest of the threads that serve clients.
    private var loopLag: String {
        let before = previous.histograms("pando_loop_tick_seconds", by: "thread")
        let found = current.histograms("pando_loop_tick_seconds", by: "thread").compactMap {
            thread, buckets in
            thread == "pando-admin" ? nil : buckets.percentile99(since: before[thread])
        }
        return Self.time(found.max())
    }

    private var checkpointAge: String {
        let time = current.sum("pando_checkpoint_timestamp_seconds")
        return time > 0 ? "\(Self.age(now - time)) ago" : "none"
    }

    private var disk: String {
        let size = current.sum("pando_disk_size_bytes")
        guard size > 0 else { return "no disk" }
        if current.sum("pando_disk_full") > 0 { return "disk full" }
        let percent = 100 * current.sum("pando_disk_free_bytes") / size
        return "disk \(Self.integer(percent.rounded(.down))) % free"
    }

    private var backups: [String] {
        var parts: [String] = []
        let newest = current.sum("pando_scheduled_backup_timestamp_seconds")
        if current.sum("pando_scheduled_backup_interval_seconds") > 0 {
            parts.append(newest > 0 ? "newest \(Self.age(now - newest)) ago" : "none yet")
            parts.append("failed \(count("pando_scheduled_backups_total", ["result": "failed"]))")
        } else {
            parts.append("not scheduled")
        }
        let archived = current.sum("pando_archive_timestamp_seconds")
        if current.sum("pando_archive_enabled") > 0 {
            parts.append(
                archived > 0 ? "archive \(Self.age(max(0, now - archived))) behind" : "nothing archived yet")
        } else {
            parts.append("no archive")
        }
        return parts
    }

    private func line(_ label: String, _ parts: [String]) -> String {
        label.padding(toLength: Self.labelWidth, withPad: " ", startingAt: 0) + parts.joined(separator: "  ")
    }

    // MARK: Paths

    private static let columns = [
        "READS/S", "WRITES/S", "LISTENS/S", "UNINDEXED/S", "LISTENERS", "IN/S", "OUT/S", "BUSY %",
    ]

    private func paths(_ usage: some Collection<TopUsage>) -> [String] {
        let rows = usage.map { entry in
            [
                Self.number(entry.reads_per_second), Self.number(entry.writes_per_second),
                Self.number(entry.listens_per_second), Self.number(entry.unindexed_queries_per_second),
                String(entry.listeners), Self.bytes(entry.received_bytes_per_second),
                Self.bytes(entry.sent_bytes_per_second), Self.number(100 * entry.busy_share),
            ]
        }
        let widths = Self.columns.indices.map { column in
            max(Self.columns[column].count, rows.map { $0[column].count }.max() ?? 0)
        }
        func join(_ cells: [String], _ name: String) -> String {
            zip(cells, widths).map { cell, width in
                String(repeating: " ", count: max(0, width - cell.count)) + cell
            }.joined(separator: "  ") + "  " + name
        }
        return [join(Self.columns, "PATH")]
            + zip(rows, usage).map { join($0, "\(Self.printable($1.database)):\(Self.printable($1.path))") }
    }

    /// A client chooses keys, and another program may answer at the address: nothing in a text may change
    /// what the terminal does.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { $0.properties.generalCategory.isShown ? $0 : "\u{FFFD}" }))
    }

    // MARK: Numbers

    private var now: Double { current.time.timeIntervalSince1970 }

    private func perSecond(_ name: String, _ labels: [String: String] = [:]) -> Double {
        let seconds = current.time.timeIntervalSince(previous.time)
        guard seconds > 0 else { return 0 }
        // A server that was started again counts from 0.
        let before = current.startTime == previous.startTime ? previous.sum(name, labels) : 0
        return max(0, current.sum(name, labels) - before) / seconds
    }

    private func rate(_ name: String) -> String { Self.number(perSecond(name)) }

    private func byteRate(_ name: String) -> String { Self.bytes(perSecond(name)) }

    private func bytes(_ name: String) -> String { Self.bytes(current.sum(name)) }

    private func count(_ name: String, _ labels: [String: String] = [:]) -> String {
        String(Self.integer(current.sum(name, labels)))
    }

    private func latency(_ name: String) -> String {
        let before = current.startTime == previous.startTime ? previous.histograms(name)[""] : nil
        return Self.time(current.histograms(name)[""]?.percentile99(since: before))
    }

    /// The nearest integer, up to 10^18, which is shown for all that is greater; 0 for what is no number.
    static func integer(_ value: Double) -> Int {
        value.isNaN ? 0 : Int(min(max(value, -1e18), 1e18).rounded())
    }

    /// Three digits: `0`, `0.25`, `12`, `1234`.
    static func number(_ value: Double) -> String {
        if value == 0 { return "0" }
        if value < 0.01 { return "<0.01" }
        if value < 10 {
            let text = String(format: "%.2f", value)
            return text.hasSuffix(".00") ? String(text.dropLast(3)) : text
        }
        return String(format: "%.0f", value)
    }

    /// `512 B`, `1.2 kB`, `30 MB`.
    static func bytes(_ value: Double) -> String {
        var (value, unit) = (value, 0)
        let units = ["B", "kB", "MB", "GB", "TB"]
        while value >= 999.5, unit + 1 < units.count {
            value /= 1000
            unit += 1
        }
        let text = unit > 0 && value < 9.95 ? String(format: "%.1f", value) : String(format: "%.0f", value)
        return "\(text) \(units[unit])"
    }

    /// `0.25 ms`, `1 s`; `-` where nothing was measured.
    static func time(_ seconds: Double?) -> String {
        guard let seconds else { return "-" }
        if seconds == .infinity { return "> 10 s" }
        return seconds < 1 ? "\(number(seconds * 1000)) ms" : "\(number(seconds)) s"
    }

    /// `12 s`, `5 min`, `3 h`, `2 d`.
    static func age(_ seconds: Double) -> String {
        let seconds = seconds.isNaN ? 0 : max(0, seconds.rounded())
        switch seconds {
        case ..<120: return "\(Int(seconds)) s"
        case ..<7200: return "\(Int(seconds / 60)) min"
        case ..<172_800: return "\(Int(seconds / 3600)) h"
        default: return "\(Int(min(seconds / 86_400, 1e9))) d"
        }
    }
}

extension Unicode.GeneralCategory {
    /// Whether a terminal shows the character, and does nothing else.
    fileprivate var isShown: Bool {
        switch self {
        case .control, .format, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
