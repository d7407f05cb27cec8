import PandoMetrics
import Testing

private final class Cells: Sendable {
    let requests = CounterTable<Kind>()
    let open = Gauge()
    let bytes = Counter()
    let times = Histogram(bounds: [1_000_000, 10_000_000], unitsPerBase: 1e9)

    enum Kind: UInt8, CaseIterable, Sendable { case get, put }
}

private func registry(_ cells: Cells, help: String = "Open.") -> MetricRegistry {
    MetricRegistry([
        MetricFamily(.counter, "pando_requests_total", "Requests.") {
            Cells.Kind.allCases.map {
                .init(.unsigned(cells.requests.value(of: $0)), labels: [("kind", "\($0)")])
            }
        },
        MetricFamily(.gauge, "pando_open_connections", help) { .integer(cells.open.value) },
        MetricFamily(.counter, "pando_received_bytes_total", "Bytes.") { .unsigned(cells.bytes.value) },
        MetricFamily(.histogram, "pando_sync_seconds", "Syncs.") { .histogram(cells.times.snapshot) },
        MetricFamily(.info, "pando_build_info", "The build.") {
            [.init(.integer(1), labels: [("version", "1\"\\\n2")])]
        },
    ])
}

private func text(_ registry: MetricRegistry, _ format: ExpositionFormat) -> String {
    String(decoding: registry.text(format), as: UTF8.self)
}

@Suite("exposition of metrics") struct ExpositionTests {
    @Test("Prometheus 0.0.4: sorted, with help, type, escapes, and zeros from the start")
    func prometheus() {
        #expect(
            text(registry(Cells(), help: "A \"q\" \\ and\nline."), .prometheus) == #"""
                # HELP pando_build_info The build.
                # TYPE pando_build_info gauge
                pando_build_info{version="1\"\\\n2"} 1
                # HELP pando_open_connections A "q" \\ and\nline.
                # TYPE pando_open_connections gauge
                pando_open_connections 0
                # HELP pando_received_bytes_total Bytes.
                # TYPE pando_received_bytes_total counter
                pando_received_bytes_total 0
                # HELP pando_requests_total Requests.
                # TYPE pando_requests_total counter
                pando_requests_total{kind="get"} 0
                pando_requests_total{kind="put"} 0
                # HELP pando_sync_seconds Syncs.
                # TYPE pando_sync_seconds histogram
                pando_sync_seconds_bucket{le="0.001"} 0
                pando_sync_seconds_bucket{le="0.01"} 0
                pando_sync_seconds_bucket{le="+Inf"} 0
                pando_sync_seconds_sum 0.0
                pando_sync_seconds_count 0

                """#)
    }

    @Test("OpenMetrics 1.0: families without suffixes, units, and the end mark")
    func openMetrics() {
        let cells = Cells()
        cells.requests.add(.put, 3)
        cells.open.set(5)
        cells.open.add(-7)
        cells.bytes.add(-1)
        cells.bytes.add(10)
        cells.times.observe(1_000_000, count: 2)
        cells.times.observe(1_000_001)
        cells.times.observe(20_000_000)
        cells.times.observe(5, count: 0)
        #expect(
            text(registry(cells, help: "A \"q\"."), .openMetrics) == #"""
                # HELP pando_build The build.
                # TYPE pando_build info
                pando_build_info{version="1\"\\\n2"} 1
                # HELP pando_open_connections A \"q\".
                # TYPE pando_open_connections gauge
                pando_open_connections -2
                # HELP pando_received_bytes Bytes.
                # TYPE pando_received_bytes counter
                # UNIT pando_received_bytes bytes
                pando_received_bytes_total 10
                # HELP pando_requests Requests.
                # TYPE pando_requests counter
                pando_requests_total{kind="get"} 0
                pando_requests_total{kind="put"} 3
                # HELP pando_sync_seconds Syncs.
                # TYPE pando_sync_seconds histogram
                # UNIT pando_sync_seconds seconds
                pando_sync_seconds_bucket{le="0.001"} 2
                pando_sync_seconds_bucket{le="0.01"} 3
                pando_sync_seconds_bucket{le="+Inf"} 4
                pando_sync_seconds_sum 0.023000001
                pando_sync_seconds_count 4
                # EOF

                """#)
    }

    @Test(
        "the format follows Accept",
        arguments: [
            (nil, ExpositionFormat.prometheus), ("", .prometheus), ("*/*", .prometheus),
            ("text/plain", .prometheus), ("application/openmetrics-text", .openMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", .openMetrics),
            ("application/openmetrics-text;version=0.0.1", .prometheus),
            // What Prometheus 2.42 sends.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                    + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", .openMetrics
            ),
            ("text/plain, application/openmetrics-text;q=0.5", .prometheus),
            ("application/openmetrics-text; q=0", .prometheus),
            ("application/openmetrics-text; q=x, */*", .prometheus),
            (",;,; q=1", .prometheus),
        ] as [(String?, ExpositionFormat)])
    func negotiation(_ accept: String?, _ format: ExpositionFormat) {
        #expect(ExpositionFormat(accept: accept) == format)
    }

    @Test("snapshots of several threads are added")
    func sums() {
        let first = Histogram.durations
        let second = Histogram.durations
        first.observe(60_000)
        second.observe(60_000, count: 2)
        second.observe(.max)
        let sum = first.snapshot + second.snapshot
        #expect(sum.cumulativeCounts.first == 0 && sum.cumulativeCounts[1] == 3)
        #expect(sum.cumulativeCounts.last == 4)
    }

    @Test("one thread adds while another reads: no number goes back")
    func concurrentReads() async {
        let cells = Cells()
        let rounds: UInt64 = 20_000
        let writer = Task.detached {
            for _ in 0..<rounds {
                cells.bytes.add(3)
                cells.times.observe(2)
            }
        }
        var last: UInt64 = 0
        for _ in 0..<1000 {
            let value = cells.bytes.value
            #expect(value >= last && value % 3 == 0)
            last = value
        }
        await writer.value
        #expect(cells.bytes.value == 3 * rounds)
        #expect(cells.times.snapshot.cumulativeCounts.last == rounds)
    }
}
