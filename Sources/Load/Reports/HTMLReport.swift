import Glibc
import PandoTraffic

/// Results as one page that needs no network: tables, and plots as inline SVG.
enum HTMLReport {
    private static let style = """
        body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
        pre { overflow-x: auto; background: #8881; padding: 1rem; font-size: 13px; }
        figure { margin: 2rem 0; } figcaption { font-weight: 600; }
        svg text { font-size: 12px; fill: currentColor; } .grid { stroke: #8885; stroke-width: 1; }
        .wrong { color: #b91c1c; font-weight: 600; } :root { color-scheme: light dark; }
        """

    static func text(_ outcomes: [Outcome]) -> String {
        guard let first = outcomes.first else { return "" }
        let isClean = outcomes.allSatisfy(\.findings.isClean)
        let verdict =
            isClean
            ? "<p>Every delivery was checked: none missing, none twice, none wrong.</p>"
            : "<p class=\"wrong\">Something was wrong: see the last lines of the table.</p>"
        return """
            <!DOCTYPE html>
            <html lang="en"><head><meta charset="utf-8"><title>pando-load: \(escaped(first.plan.work.name))</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <style>\(style)</style></head><body>
            <h1>\(escaped(first.plan.work.name))</h1>
            \(verdict)
            <pre>\(escaped(TextReport.text(outcomes)))</pre>
            \(percentilePlot(outcomes).svg)
            \(throughputPlot(outcomes).svg)
            \(timePlot(outcomes).svg)
            </body></html>

            """
    }

    /// Latency over the percentile, stretched towards 100 %: each step right is ten times rarer.
    private static func percentilePlot(_ outcomes: [Outcome]) -> Plot {
        let lines = outcomes.flatMap { outcome in
            outcome.series.filter { $0.latencies.totalCount > 0 }.map { name, latencies in
                Plot.Line(
                    name: "\(outcome.plan.target.name): \(name)",
                    points: stride(from: 0.0, through: 5.0, by: 0.05).compactMap { nines in
                        // What fewer values than this cannot show is not drawn.
                        guard pow(10, nines) <= Double(latencies.totalCount) * 2 else { return nil }
                        return (nines, max(1, latencies.microseconds(at: 100 * (1 - pow(10, -nines)))))
                    })
            }
        }
        return Plot(
            title: "Latency by percentile", xName: "percentile", yName: "µs",
            xMarks: [(0, "0"), (1, "90"), (2, "99"), (3, "99.9"), (4, "99.99"), (5, "99.999")],
            isLogarithmic: true, lines: lines)
    }

    private static func throughputPlot(_ outcomes: [Outcome]) -> Plot {
        let lines = outcomes.map { outcome in
            let delivers = outcome.deliveries > 0
            return Plot.Line(
                name: "\(outcome.plan.target.name): \(delivers ? "deliveries" : "operations")/s",
                points: wholeSeconds(outcome).map {
                    (Double($0.second), Double(delivers ? $0.deliveries : $0.operations))
                })
        }
        return Plot(
            title: "Throughput over time, warm-up included", xName: "second", yName: "a second",
            xMarks: secondMarks(outcomes), isLogarithmic: false, lines: lines)
    }

    private static func timePlot(_ outcomes: [Outcome]) -> Plot {
        let lines = outcomes.flatMap { outcome in
            [
                Plot.Line(
                    name: "\(outcome.plan.target.name): p50",
                    points: wholeSeconds(outcome).compactMap { second in
                        second.p50.map { (Double(second.second), $0) }
                    }),
                Plot.Line(
                    name: "\(outcome.plan.target.name): p99",
                    points: wholeSeconds(outcome).compactMap { second in
                        second.p99.map { (Double(second.second), $0) }
                    }),
            ]
        }
        return Plot(
            title: "Latency over time", xName: "second", yName: "µs", xMarks: secondMarks(outcomes),
            isLogarithmic: true, lines: lines)
    }

    /// Without the last one, which is cut short: unless there is no other.
    private static func wholeSeconds(_ outcome: Outcome) -> [Second] {
        outcome.timeline.count > 1 ? outcome.timeline.dropLast() : outcome.timeline
    }

    private static func secondMarks(_ outcomes: [Outcome]) -> [(value: Double, name: String)] {
        let last = outcomes.flatMap(\.timeline).map(\.second).max() ?? 0
        let step = max(1, last / 10)
        return stride(from: 0, through: last, by: step).map { (Double($0), String($0)) }
    }

    /// Text as HTML's text or a quoted attribute.
    static func escaped(_ text: String) -> String {
        var output = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": output += "&amp;"
            case "<": output += "&lt;"
            case ">": output += "&gt;"
            case "\"": output += "&quot;"
            default: output.unicodeScalars.append(scalar)
            }
        }
        return output
    }
}
