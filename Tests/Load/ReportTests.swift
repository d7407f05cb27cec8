import Foundation
import PandoReactor
import Testing

@testable import PandoLoad
@testable import PandoTraffic

/// Reports of an outcome that was made up.
@Suite struct ReportTests {
    private func outcome(_ name: String, rate: Int = 500, findings: Findings = Findings()) throws -> Outcome {
        let address = try #require(SocketAddress("127.0.0.1", port: 9000))
        let target = LoadTarget(
            name: name, wireProtocol: .realtime, address: address, host: "127.0.0.1:9000")
        var plan = Plan(.fanOut(topics: 1), at: target, root: "pando-load/test")
        plan.connections = 10
        plan.threads = 2
        plan.pattern = .even(perSecond: 50)
        plan.inFlight = 4
        plan.warmUp = 1_000_000_000
        plan.duration = 3_000_000_000
        var latencies = makeLatencies()
        for value in 1...1000 { _ = latencies.record(UInt64(value) * 100_000) }
        let timeline = (0..<4).map {
            Second(
                second: $0, operations: 50, deliveries: rate, errors: 0, p50: $0 == 2 ? nil : 120, p99: 900)
        }
        return Outcome(
            plan: plan, seconds: 3, operations: 150, deliveries: rate * 3, totalOperations: 200,
            totalDeliveries: rate * 4, retries: 0, unsent: 0,
            series: [("acknowledged", latencies), ("delivered", latencies)], lag: makeLatencies(),
            timeline: timeline, findings: findings, ownLoad: 0.25, serverLoad: 0.5, serverMemory: nil,
            wasInterrupted: false, leftBehind: nil)
    }

    private func damaged() -> Findings {
        var findings = Findings()
        findings.add(\.missing, 2, "connection 3: 2 values <missing>")
        return findings
    }

    @Test func tableOfACleanRun() throws {
        let text = TextReport.text([try outcome("pando", rate: 500), try outcome("echo", rate: 400)])
        #expect(text.contains("none missing, none twice, none wrong"))
        #expect(text.contains("pando / echo") && text.contains("1.25"))
        // 1 to 100 ms evenly: the percentiles are the values, to three digits.
        #expect(text.contains("50 0") && text.contains("99 0"))
    }

    @Test func requestsOfLongPollingAreCountedPerMessage() throws {
        var polled = try outcome("pando lp")
        polled = Outcome(
            plan: polling(polled.plan), seconds: 3, operations: 100, deliveries: 900, httpRequests: 1250,
            totalOperations: 100, totalDeliveries: 900, retries: 0, unsent: 0, series: polled.series,
            lag: makeLatencies(), timeline: polled.timeline, findings: Findings(), ownLoad: 0.25,
            serverLoad: nil,
            serverMemory: nil, wasInterrupted: false, leftBehind: nil)
        let text = TextReport.text([polled, try outcome("pando ws")])
        #expect(text.contains("1.25 for each operation and delivery") && text.contains("pando lp / pando ws"))
        let json = JSONReport.text([polled])
        #expect(json.contains(#""httpRequests":1250"#) && json.contains(#""httpRequestsPerMessage":1.25"#))
        #expect(!JSONReport.text([try outcome("pando")]).contains("httpRequests"))
    }

    private func polling(_ plan: Plan) -> Plan {
        var plan = plan
        plan.target.transport = .longPolling
        return plan
    }

    @Test func tableOfARunWithFindings() throws {
        let text = TextReport.text([try outcome("pando", findings: damaged())])
        #expect(text.contains("WRONG: 2 missing") && text.contains("connection 3"))
        #expect(!text.contains("none missing"))
    }

    @Test func jsonHasItsShape() throws {
        let text = JSONReport.text([
            try outcome("pando", findings: damaged()), try outcome("redis", rate: 250),
        ])
        let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        #expect(object["scenario"] as? String == "fan-out")
        #expect(object["ratios"] as? [String: Double] == ["redis": 2])
        let runs = try #require(object["runs"] as? [[String: Any]])
        #expect(runs.map { $0["target"] as? String } == ["pando", "redis"])
        #expect(runs[0]["deliveriesPerSecond"] as? Double == 500)
        #expect((runs[0]["errors"] as? [String: Int])?["missing"] == 2)
        #expect(runs[0]["examples"] as? [String] == ["connection 3: 2 values <missing>"])
        let latencies = try #require((runs[0]["latencies"] as? [String: [String: Double]])?["delivered"])
        #expect(Set(latencies.keys) == ["count", "p50", "p90", "p99", "p99.9", "p99.99", "max"])
        #expect(latencies["count"] == 1000 && abs((latencies["p50"] ?? 0) - 50_000) < 100)
        let timeline = try #require(runs[0]["timeline"] as? [[String: Any]])
        #expect(timeline.count == 4 && timeline[2]["p50"] is NSNull)
    }

    @Test func pageIsCompleteAndLoadsNothing() throws {
        let page = HTMLReport.text([try outcome("pando", findings: damaged()), try outcome("<b>&")])
        #expect(page.hasPrefix("<!DOCTYPE html>") && page.contains("</html>"))
        #expect(page.components(separatedBy: "<svg").count == 4)
        #expect(page.components(separatedBy: "<polyline").count == 1 + 4 + 2 + 4)
        #expect(!page.contains("http") && !page.contains("<script") && !page.contains("src="))
        #expect(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>") && page.contains("&lt;missing&gt;"))
        #expect(page.contains("Something was wrong"))
        #expect(!page.contains("nan") && !page.contains("inf"))
    }

    /// An empty run has reports too.
    @Test func reportsOfAnEmptyRun() throws {
        var nothing = try outcome("pando")
        nothing = Outcome(
            plan: nothing.plan, seconds: 0, operations: 0, deliveries: 0, totalOperations: 0,
            totalDeliveries: 0,
            retries: 0, unsent: 0, series: [("acknowledged", makeLatencies())], lag: makeLatencies(),
            timeline: [],
            findings: Findings(), ownLoad: 0, serverLoad: nil, serverMemory: nil, wasInterrupted: true,
            leftBehind: "/pando-load/x")
        #expect(TextReport.text([nothing]).contains("interrupted"))
        #expect(HTMLReport.text([nothing]).contains("nothing was measured"))
        #expect(
            try JSONSerialization.jsonObject(with: Data(JSONReport.text([nothing]).utf8)) is [String: Any])
    }
}
